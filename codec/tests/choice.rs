//! The choice of a predictor is the same whether the host measures what it needs, or a device hands over the counts of all tiles.

mod common;

use common::{CONTENTS, Random, SHAPES, chunk_of, layout};
use quire_codec::stages::choice::PredictorChoice;
use quire_codec::stages::grid::Grid;
use quire_codec::stages::predictor::{InterpolationKind, Predictor};
use quire_codec::{ByteOrder, CodingPolicy, Layout, PredictorPolicy, Scalar, SettledBound, SettledConfig, Workspace};

/// The choice of a chunk, after it was compared with the one that follows from all counts.
fn check(workspace: &mut Workspace, chunk: &[u8], layout: &Layout, config: &SettledConfig) -> Predictor {
    let (grid, alone) = workspace.choose(chunk, layout, config).unwrap();
    let choice = PredictorChoice::of_chunk(chunk, layout, config);
    assert_eq!(choice.is_some(), PredictorChoice::is_open(layout.scalar, config));
    if let Some(choice) = choice {
        let counts = choice.count(chunk, layout).unwrap();
        assert_eq!(choice.decide(&counts), (grid, alone), "{layout:?} {config:?}");
        let Grid::Linear(quantizer) = grid else { panic!("an absolute bound's grid") };
        assert!(quantizer.masks_zeros() || choice.quantizer == quantizer);
    }
    alone
}

#[test]
fn counts_lead_to_the_choice() {
    let mut workspace = Workspace::default();
    for dims in SHAPES.into_iter().chain([&[16, 32, 64][..], &[200, 131], &[70_001], &[5, 9, 24, 40]]) {
        for content in CONTENTS {
            for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16] {
                let layout = layout(scalar, ByteOrder::Big, dims);
                let original = chunk_of(content, &layout, 9);
                for bound in [1e-12, 1e-3, 0.5, 1e30] {
                    let config = SettledConfig::of(SettledBound::Absolute(bound));
                    for config in [config, SettledConfig { coding: CodingPolicy::Bitshuffle, ..config }] {
                        check(&mut workspace, &original, &layout, &config);
                    }
                }
            }
        }
    }
}

/// Tiles are out of the fine grid's reach in some chunks. Values that were interpolated before are between steps.
#[test]
fn counts_lead_to_the_choice_where_some_tiles_are_out_of_reach() {
    const EDGES: [usize; 3] = [24, 40, 48];
    let mut workspace = Workspace::default();
    let layout = layout(Scalar::F32, ByteOrder::Little, &EDGES.map(|edge| edge as u64));
    let config = SettledConfig::of(SettledBound::Absolute(0.01));
    let mut random = Random(5);
    let mut chosen = [0; 2];
    for round in 0..300 {
        let mut field = vec![0.0_f32; EDGES.iter().product()];
        let waves: [f32; 3] = std::array::from_fn(|_| 0.05 + random.below(100) as f32 * 0.004);
        let noise = [0.0, 0.01, 0.05][round % 3];
        // A box of values that the fine grid does not reach.
        let low = EDGES.map(|edge| random.below(edge as u64) as usize);
        let high: [usize; 3] = std::array::from_fn(|axis| low[axis] + random.below(EDGES[axis] as u64) as usize);
        for (index, value) in field.iter_mut().enumerate() {
            let at = [index / EDGES[2] / EDGES[1], index / EDGES[2] % EDGES[1], index % EDGES[2]];
            let wave: f32 = at.iter().zip(waves).map(|(&at, wave)| (at as f32 * wave).sin()).sum();
            *value = wave + noise * (random.below(1000) as f32 / 500.0 - 1.0);
            if round % 4 != 0 && (0..3).all(|axis| (low[axis]..high[axis]).contains(&at[axis])) {
                *value += 1e5;
            }
        }
        let mut bytes: Vec<u8> = field.iter().flat_map(|value| value.to_le_bytes()).collect();
        if round % 2 == 0 {
            let mut stream = Vec::new();
            let interpolated = SettledConfig { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..config };
            workspace.compress_settled(&bytes, &layout, &interpolated, &mut stream).unwrap();
            workspace.decompress(&stream, &mut bytes).unwrap();
        }
        chosen[usize::from(check(&mut workspace, &bytes, &layout, &config).is_interpolation())] += 1;
    }
    assert!(chosen.into_iter().all(|times| times > 30), "{chosen:?}");
}

#[test]
fn fixed_predictors_and_other_grids_are_not_chosen() {
    let config = SettledConfig::of(SettledBound::Absolute(1.0));
    assert!(PredictorChoice::is_open(Scalar::F32, &config));
    assert!(PredictorChoice::is_open(Scalar::F64, &SettledConfig { predictor: PredictorPolicy::Differences, ..config }));
    assert!(!PredictorChoice::is_open(Scalar::I32, &config), "integers");
    assert!(!PredictorChoice::is_open(Scalar::F32, &SettledConfig::of(SettledBound::Lossless)), "exact bits");
    for predictor in
        [PredictorPolicy::Lorenzo, PredictorPolicy::Interpolation(InterpolationKind::CUBIC), PredictorPolicy::Axes(1)]
    {
        assert!(!PredictorChoice::is_open(Scalar::F32, &SettledConfig { predictor, ..config }), "{predictor:?}");
    }
}
