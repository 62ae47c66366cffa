//! The choice of a predictor is the same whether one thread makes it or two.

mod common;

use common::{CONTENTS, Random, SHAPES, chunk, layout, values};
use quire_codec::stages::choice::is_chosen_on_tiles;
use quire_codec::stages::predictor::Predictor;
use quire_codec::{ByteOrder, Config, Layout, PredictorPolicy, Scalar, Workspace};

/// The choices by one thread, by two, and by one that does the second half first. The halves are done where there are tiles, and once.
fn check(workspace: &mut Workspace, chunk: &[u8], layout: &Layout, config: &Config) -> Predictor {
    let (_, alone) = workspace.choose(chunk, layout, config).unwrap();
    let mut calls = 0;
    let (_, beside) = workspace
        .choose_with(
            chunk,
            layout,
            config,
            Some(&mut |first, second| {
                calls += 1;
                std::thread::scope(|scope| {
                    scope.spawn(first);
                    scope.spawn(second);
                });
            }),
        )
        .unwrap();
    let (_, backwards) = workspace
        .choose_with(
            chunk,
            layout,
            config,
            Some(&mut |first, second| {
                second();
                first();
            }),
        )
        .unwrap();
    assert_eq!((alone, alone), (beside, backwards), "{layout:?} {config:?}");
    assert_eq!(calls, usize::from(is_chosen_on_tiles(&layout.shape)));
    alone
}

#[test]
fn halves_agree_with_the_whole() {
    let mut workspace = Workspace::default();
    let mut on_tiles = 0;
    for dims in SHAPES.into_iter().chain([&[16, 32, 64][..], &[200, 131], &[70_001], &[5, 9, 24, 40]]) {
        for content in CONTENTS {
            for scalar in [Scalar::F32, Scalar::F64, Scalar::F16] {
                let layout = layout(scalar, ByteOrder::Big, dims);
                let original = chunk(&values(content, layout.shape.elements() as usize, 9), &layout, 9);
                for bound in [1e-12, 1e-3, 0.5, 1e30] {
                    check(&mut workspace, &original, &layout, &Config::absolute(bound).unwrap());
                    on_tiles += usize::from(is_chosen_on_tiles(&layout.shape));
                }
            }
        }
    }
    assert!(on_tiles >= 4 * CONTENTS.len() * 3 * 4);
}

/// Where the tiles of one half are out of the fine grid's reach, the other half has looked at its own in vain. Values that were interpolated before
/// stand between steps.
#[test]
fn halves_agree_where_some_tiles_are_out_of_reach() {
    const EDGES: [usize; 3] = [24, 40, 48];
    let mut workspace = Workspace::default();
    let layout = layout(Scalar::F32, ByteOrder::Little, &EDGES.map(|edge| edge as u64));
    let config = Config::absolute(0.01).unwrap();
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
            let interpolated = Config { predictor: PredictorPolicy::Interpolation, ..config };
            workspace.compress(&bytes, &layout, &interpolated, &mut stream).unwrap();
            workspace.decompress(&stream, &mut bytes).unwrap();
        }
        chosen[usize::from(check(&mut workspace, &bytes, &layout, &config) == Predictor::Interpolation)] += 1;
    }
    assert!(chosen.into_iter().all(|times| times > 30), "{chosen:?}");
}
