use super::*;
use crate::keep::Keep;
use crate::layout::{ByteOrder, Scalar};
use crate::number::integer::Integer as _;
use crate::quantize::fills::{Fills, Span};

fn layout(dims: &[u64]) -> Layout {
    Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape: Shape::new(dims).unwrap() }
}

fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    values.flat_map(f32::to_le_bytes).collect()
}

/// Integers from -512 to 511 that look random.
fn noise(i: usize) -> f32 {
    ((i as u32).wrapping_mul(0x9e37_79b9).wrapping_mul(i as u32 | 1) >> 22) as f32 - 512.0
}

#[test]
fn axes_are_those_along_which_codes_are_constant() {
    // The first values along an axis count, so that an axis too many costs bits. Of sets with equal estimates, the first one is taken.
    for (nx, ny) in [(33, 31), (300, 301)] {
        let layout = layout(&[ny, nx]);
        let nx = nx as usize;
        let n = layout.shape.elements() as usize;
        for (value, axes) in [
            (&(|i| noise(i / nx)) as &dyn Fn(usize) -> f32, 0b01),
            (&|i| noise(i % nx), 0b10),
            (&|i| noise(i / nx) + noise(i % nx), 0b11),
            (&noise, 0b00),
        ] {
            let chunk = bytes((0..n).map(value));
            let mut lanes = SampleLanes::default();
            let mut choose = |policy| lanes.choose_axes(&chunk, &layout, policy, |value: f32| value as i64).unwrap();
            assert_eq!(choose(PredictorPolicy::Auto).0.to_byte(), axes, "{n} values");
            assert_eq!(choose(PredictorPolicy::Lorenzo).0.to_byte(), 0b11);
            assert_eq!(choose(PredictorPolicy::Axes(0b10)).0.to_byte(), 0b10);
            for other in 0..4 {
                assert!(choose(PredictorPolicy::Auto).1 <= choose(PredictorPolicy::Axes(other)).1, "{n} values");
            }
        }
    }
}

/// Makes a choice and compares it with that of the plain definition.
fn choice_is_plain<V: Value>(dims: &[u64], bound: f64, fill: Option<V>, values: &[f64]) -> (u8, bool) {
    let shape = Shape::new(dims).unwrap();
    let values: Vec<V> = values.iter().map(|&value| V::round_from(value)).collect();
    let mut chunk = vec![0; values.len() * V::SIZE];
    values.iter().enumerate().for_each(|(i, value)| value.write(&mut chunk, i, ByteOrder::Little));
    let scalar = if V::SIZE == 4 { Scalar::F32 } else { Scalar::F64 };
    let layout = Layout { scalar, byte_order: ByteOrder::Little, shape };
    let quantizer = Quantizer::for_chunk::<V>(&chunk, ByteOrder::Little, bound, Fills::new(fill, Span::ALL), Keep::default());
    let mut plain = plain::Plain { layout, quantizer: &quantizer, values, is_interpolation_open: true };
    let mut lanes = SampleLanes::default();
    let mut choose = |config: &SettledConfig| {
        let (grid, chosen) = lanes.choose::<V>(&chunk, &layout, &quantizer, config).unwrap();
        (chosen.to_byte(), grid != Grid::Linear(quantizer))
    };
    let config = SettledConfig::of(SettledBound::Absolute(bound));
    let mut last = (0, false);
    for for_less_noise in [true, false] {
        last = plain.predictor(for_less_noise);
        assert_eq!(choose(&SettledConfig { for_less_noise, ..config }), last, "{dims:?}, bound {bound}, {for_less_noise}");
    }
    plain.is_interpolation_open = false;
    let expected = plain.predictor(false);
    assert_eq!(choose(&SettledConfig { predictor: PredictorPolicy::Differences, ..config }), expected, "{dims:?}, bound {bound}");
    last
}

#[test]
fn choices_are_those_of_the_plain_definition() {
    let mut chosen = std::collections::BTreeSet::new();
    for dims in [
        &[3][..],
        &[700],
        &[30_000],
        &[20, 31],
        &[100, 130],
        &[9, 14, 21],
        &[17, 40, 33],
        &[3, 11, 5, 9],
        &[4, 30, 20, 18],
        &[120, 1, 140, 1],
    ] {
        let shape = Shape::new(dims).unwrap();
        let [nx, ny, nz, _] = shape.extents();
        let at = |i: usize| [i % nx, i / nx % ny, i / nx / ny % nz, i / nx / ny / nz].map(|at| at as f64);
        let waves = |i: usize| at(i).iter().zip([0.31, 0.17, 0.23, 0.4]).map(|(at, rate)| 40.0 * (at * rate).sin()).sum();
        let fields: [&dyn Fn(usize) -> f64; 8] = [
            &waves,
            &|i| (at(i)[0] * 0.2).sin() * 30.0 + f64::from(noise(i / nx)),
            &|i| f64::from(noise(i)) * 0.01,
            &|i| f64::from(noise(i)) * 3.0,
            &|i| if i % 41 == 7 { f64::NAN } else { (at(i)[0] * 0.1).sin() * 9.0 + at(i)[1].cos() },
            &|i| if i % 1000 < 950 { 0.0 } else { (i % 1000) as f64 * 0.37 },
            // Values on positions of the fine grid, and fill values.
            &|i| if i % 31 > 28 { -999.0 } else { ((at(i)[0] * 0.3).sin() * 50.0).round() * 0.2 / 8.0 * (1020.0 / 1021.0) },
            // Zeros here and there.
            &|i| if i % 37 == 5 { 0.0 } else { waves(i) + 300.0 },
        ];
        for (number, field) in fields.iter().enumerate() {
            let values: Vec<f64> = (0..shape.elements() as usize).map(field).collect();
            for bound in [0.1, 0.01] {
                chosen.insert(choice_is_plain::<f32>(dims, bound, (number == 6).then_some(-999.0), &values));
            }
            chosen.insert(choice_is_plain::<f64>(dims, 0.1, (number == 6).then_some(-999.0), &values));
        }
    }
    assert!(chosen.len() > 8 && chosen.iter().any(|chosen| chosen.1), "predictors that were chosen, zeros masked: {chosen:?}");
}

/// Chooses axes for codes and compares them and the estimate with the plain definition.
fn axes_are_plain<V: Element>(dims: &[u64], codes: impl Fn(usize) -> i64) -> Axes {
    let shape = Shape::new(dims).unwrap();
    let values: Vec<V> = (0..shape.elements() as usize).map(|i| V::from_code(V::Code::from_i64(codes(i)))).collect();
    let mut chunk = vec![0; values.len() * V::SIZE];
    values.iter().enumerate().for_each(|(i, value)| value.write(&mut chunk, i, ByteOrder::Little));
    // The type is not looked at.
    let layout = Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape };
    let mut lanes = SampleLanes::default();
    let mut of_grid = |code: &dyn Fn(V) -> i64| {
        let of_values: Vec<i64> = values.iter().map(|&value| code(value)).collect();
        let (best, estimates) = plain::axes_of_codes(&of_values, 8 * size_of::<V::Code>() as u32, &shape);
        let policies = [(PredictorPolicy::Auto, best), (PredictorPolicy::Differences, best)];
        let forced = plain::sets(shape.extents()).map(|set| (PredictorPolicy::Axes(set as u8), set));
        for (policy, set) in policies.into_iter().chain(forced) {
            let (axes, bits) = lanes.choose_axes::<V>(&chunk, &layout, policy, code).unwrap();
            assert_eq!(
                (usize::from(axes.to_byte()), bits),
                (set, estimates[set].bits),
                "{dims:?} of {} bytes, {policy:?}",
                V::SIZE
            );
        }
        axes_of(best, &shape)
    };
    // The second grid's codes may be wider than those of the type, as those of infinities on a lattice are.
    of_grid(&|value| value.to_code().to_i64().wrapping_mul(0x7fff_ffff_1234_5679));
    of_grid(&|value| value.to_code().to_i64())
}

#[test]
fn axes_are_those_of_the_plain_definition() {
    use crate::number::small_float::{BFloat16, Binary16};
    let mut chosen = std::collections::BTreeSet::new();
    for dims in [
        &[1][..],
        &[3],
        &[700],
        &[9000],
        &[20, 31],
        &[90, 70],
        &[1, 8, 1, 9],
        &[9, 14, 21],
        &[17, 30, 33],
        &[3, 11, 5, 9],
        &[4, 12, 20, 18],
    ] {
        let shape = Shape::new(dims).unwrap();
        let [nx, ny, ..] = shape.extents();
        let wide = |i: usize| i64::from(noise(i) as i32).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
        let fields: [&dyn Fn(usize) -> i64; 7] = [
            &|i| (i % nx * 3 + i / nx % ny * 5 + i / nx / ny * 7) as i64,
            &|i| noise(i / nx) as i64,
            &|i| noise(i % nx) as i64 + i64::from(i % 97 == 3),
            &|i| i64::from(i % 41 == 7),
            &wide,
            &|i| [i64::MIN, i64::MAX, 0, -1, i64::from(i32::MIN), i64::from(i32::MAX)][i * i % 6],
            &|_| -5,
        ];
        for field in fields {
            chosen.extend(
                [
                    axes_are_plain::<f32>(dims, field),
                    axes_are_plain::<f64>(dims, field),
                    axes_are_plain::<Binary16>(dims, field),
                    axes_are_plain::<BFloat16>(dims, field),
                    axes_are_plain::<i8>(dims, field),
                    axes_are_plain::<u8>(dims, field),
                    axes_are_plain::<i16>(dims, field),
                    axes_are_plain::<u16>(dims, field),
                    axes_are_plain::<i32>(dims, field),
                    axes_are_plain::<u32>(dims, field),
                    axes_are_plain::<i64>(dims, field),
                    axes_are_plain::<u64>(dims, field),
                ]
                .map(|axes| axes.to_byte()),
            );
        }
    }
    assert!(chosen.len() > 8, "sets that were chosen: {chosen:?}");
}

#[test]
fn smooth_chunks_are_interpolated_and_rough_ones_are_not() {
    for dims in [&[12, 13, 14][..], &[60, 70, 80], &[3000], &[100_000]] {
        let layout = layout(dims);
        let n = layout.shape.elements() as usize;
        let row = layout.shape.row();
        let ny = layout.shape.extents()[1];
        let wave = |i: usize| {
            ((i % row) as f32 * 0.3).sin() * ((i / row % ny) as f32 * 0.25).cos() * ((i / row / ny) as f32 * 0.2).cos()
        };
        let smooth = bytes((0..n).map(|i| 40.0 * wave(i)));
        let rough = bytes((0..n).map(noise));
        let quantizer = Quantizer::new(0.1);
        let is_interpolated = |chunk: &[u8], predictor| {
            let config = SettledConfig { predictor, ..SettledConfig::of(SettledBound::Absolute(0.1)) };
            SampleLanes::default().choose::<f32>(chunk, &layout, &quantizer, &config).unwrap().1.is_interpolation()
        };
        assert!(!is_interpolated(&rough, PredictorPolicy::Auto), "{dims:?}: values are out of the fine grid's reach");
        assert!(is_interpolated(&smooth, PredictorPolicy::Auto), "{dims:?}");
        assert!(is_interpolated(&smooth, PredictorPolicy::Interpolation(InterpolationKind::CUBIC)));
        assert!(!is_interpolated(&smooth, PredictorPolicy::Differences));
        assert!(!is_interpolated(&smooth, PredictorPolicy::Lorenzo));
    }
}

#[test]
fn estimates_are_compared_by_value() {
    let of = |bits, values| Estimate { bits, values };
    assert!(of(100, 10).is_below(16, 0, &of(1010, 100)) && !of(100, 10).is_below(16, 0, &of(1000, 100)));
    assert!(of(100, 10).is_below(17, 0, &of(1000, 100)) && !of(u64::MAX, 1).is_below(16, 0, &of(u64::MAX - 1, 1)));
    assert!(of(100, 10).is_below(16, 5, &of(1510, 100)) && !of(100, 10).is_below(16, 5, &of(1500, 100)));
}

/// The kinds that are tried where one kind is the best, in their order.
fn tried(dims: &[u64], best: InterpolationKind, cubic_lengths: u32) -> (Vec<InterpolationKind>, Predictor) {
    let shape = Shape::new(dims).unwrap();
    let choice = PredictorChoice::new::<f32>(&shape, &Quantizer::new(0.5), &SettledConfig::of(SettledBound::Absolute(0.5)));
    let of = |lengths| Counts { values: 1000, lengths, ..Counts::default() };
    let known = SampleCounts {
        differences: [of(9000); SETS],
        interpolations: [Counts::default(); KINDS],
        out_of_reach: 0,
        zero_edges: 0,
    };
    let mut tried = Vec::new();
    let Ok((_, chosen)) = choice.decide_by(&known, |kind| {
        assert!(choice.candidates().any(|candidate| candidate == kind));
        tried.push(kind);
        let away = u32::from(kind.rough() != best.rough()) + u32::from(kind.is_linear() != best.is_linear());
        Ok::<_, Infallible>(of(cubic_lengths + 100 * away))
    });
    (tried, chosen)
}

#[test]
fn each_axis_is_tried_as_a_rough_one() {
    for (best, is_linear) in [(0b0000, false), (0b1000, true), (0b0010, false), (0b0000, true)] {
        // Axis 2 is flat.
        let best = InterpolationKind::new(best, is_linear);
        let (tried, chosen) = tried(&[3, 1, 4, 5], best, 5000);
        let last: &[(u8, bool)] = if best.rough() == 0 { &[] } else { &[(best.rough(), !is_linear)] };
        let first = [(0, false), (0, true), (0b0001, is_linear), (0b0010, is_linear), (0b1000, is_linear)];
        let expected: Vec<_> =
            first.iter().chain(last).map(|&(rough, is_linear)| InterpolationKind::new(rough, is_linear)).collect();
        assert_eq!((tried, chosen), (expected, Predictor::Interpolation(best)));
    }
    let of_line = tried(&[7], InterpolationKind::CUBIC, 5000).0;
    assert_eq!(of_line, [InterpolationKind::CUBIC, InterpolationKind::new(0, true)], "a line has no rough axis");
    assert_eq!(
        tried(&[7, 7], InterpolationKind::CUBIC, 12_000).0,
        [InterpolationKind::CUBIC],
        "no other is tried if the first is far worse"
    );
}
