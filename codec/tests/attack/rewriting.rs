//! Parts of a chunk that are written again and again, as HDF5 does it without a chunk cache: it decodes the chunk, overwrites a part, and encodes the whole.

use quire_codec::{CodingPolicy, Layout, Workspace};

use crate::cases::{Case, plant_fill, predictor, write};
use crate::common::Random;
use crate::common::checks::{Breach, Number, numbers};
use crate::coverage::{Coverage, Row};
use crate::fields::pick;

/// Most rounds, and most values that all rounds together encode.
const MOST_ROUNDS: u64 = 200;
const MOST_VALUES: u64 = 200_000;

/// What must hold of a value: as it was written, as it was before a round, and as that round's stream gives it back. The answer is what is wrong.
pub(crate) type Rule<'a> = dyn Fn(&Number, &Number, &Number) -> Option<&'static str> + 'a;

/// The rule of bounds that do not depend on the chunk: a value keeps its bound for good, and a value that was rounded once keeps its bits.
pub(crate) fn never_twice<'a>(
    breach: impl Fn(&Number, &Number) -> Option<&'static str> + 'a,
) -> impl Fn(&Number, &Number, &Number) -> Option<&'static str> + 'a {
    move |written, before, after| {
        let is_moved_again = before.bits != written.bits && after.bits != before.bits;
        breach(written, after).or(is_moved_again.then_some("rounded value moved again"))
    }
}

/// Overwrites parts of a chunk, round after round, and checks every value in every round. `decoded` is what the chunk's first stream gave back, and `row`
/// becomes what the last stream is. Returns the number of rounds.
pub(crate) fn rewrite(
    case: &mut Case,
    decoded: &[u8],
    rule: &Rule,
    workspace: &mut Workspace,
    coverage: &mut Coverage,
    row: &mut Row,
) -> Result<u64, Breach> {
    let layout = case.layout;
    let mut random = Random(case.random.next());
    let rounds = (5 + random.below(MOST_ROUNDS - 4)).min(5.max(MOST_VALUES / layout.shape.elements()));
    let policies_change = random.below(2) == 0;
    // The range of what is written grows, shrinks, or stays.
    let growth: f64 = pick(&mut random, &[1.0, 1.1, 0.9]);
    let mut config = case.config;
    let mut written = std::mem::take(&mut case.values);
    let mut current: Vec<u64> = numbers(decoded, &layout).iter().map(|value| value.bits).collect();
    let (mut chunk, mut stream) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let mut others = case.field.values(&mut random, growth.powi(round as i32));
        case.planter.plant(&mut random, &mut others);
        if let Some(fill) = case.config.fill_value
            && random.below(2) == 0
        {
            plant_fill(&mut random, fill, &mut others);
        }
        let part = Part::any(&mut random, &layout);
        for index in (0..others.len()).filter(|&index| part.has(index as u64, &mut random)) {
            (written[index], current[index]) = (others[index], others[index]);
        }
        if policies_change {
            config.predictor = predictor(&mut random);
            config.coding = pick(&mut random, &[CodingPolicy::Auto, CodingPolicy::Huffman, CodingPolicy::Bitshuffle]);
        }
        chunk.clear();
        current.iter().for_each(|&bits| write(bits, &layout, &mut chunk));
        let failed = |error| Breach { kind: "error while rewriting", detail: format!("round {round}: {error}") };
        workspace.compress(&chunk, &layout, &config, &mut stream).map_err(failed)?;
        *row = coverage.count(&stream, &config).map_err(failed)?;
        workspace.decompress(&stream, &mut chunk).map_err(failed)?;
        let number = |bits| Number::from_bits(layout.scalar, bits);
        for (index, after) in numbers(&chunk, &layout).into_iter().enumerate() {
            let (written, before) = (number(written[index]), number(current[index]));
            if let Some(kind) = rule(&written, &before, &after) {
                let with = if policies_change { "other policies" } else { "its own policies" };
                let detail = format!(
                    "round {round} of {rounds}, {part:?}, {with}: value {index}, written as {written:?}, was {before:?} and became {after:?}, {:?} {:?}",
                    config.predictor, config.coding
                );
                return Err(Breach { kind, detail });
            }
            current[index] = after.bits;
        }
    }
    Ok(rounds)
}

/// Which values a round writes.
#[derive(Debug)]
enum Part {
    Nothing,
    /// One of this number of values.
    Points(u64),
    /// First and end along each axis, with the extents.
    Box(Vec<(u64, u64, u64)>),
}

impl Part {
    fn any(random: &mut Random, layout: &Layout) -> Self {
        let rows_only = match random.below(8) {
            0 => return Self::Nothing,
            1..3 => return Self::Points(pick(random, &[1, 2, 10, 100])),
            3..5 => true,
            _ => false,
        };
        let span = |(axis, &extent): (usize, &u64)| {
            if rows_only && axis > 0 {
                return (0, extent, extent);
            }
            let first = random.below(extent);
            (first, first + 1 + random.below(extent - first), extent)
        };
        Self::Box(layout.shape.dims().iter().enumerate().map(span).collect())
    }

    fn has(&self, index: u64, random: &mut Random) -> bool {
        match self {
            Self::Nothing => false,
            Self::Points(rare) => random.below(*rare) == 0,
            Self::Box(spans) => {
                let mut rest = index;
                spans.iter().rev().all(|&(first, end, extent)| {
                    let at = rest % extent;
                    rest /= extent;
                    (first..end).contains(&at)
                })
            }
        }
    }
}
