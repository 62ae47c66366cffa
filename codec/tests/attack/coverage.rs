//! What the cases have made the encoder do, so that a case generator that no longer reaches a part of it fails.

use std::collections::BTreeMap;
use std::fmt;

use quire_codec::stages::inspect::{Description, PlaneCoding, Prediction};
use quire_codec::{Coding, CodingPolicy, Config, PredictorPolicy, Result, Scalar};

/// Coding, predictor, and code of a stream.
pub(crate) type Row = (&'static str, &'static str, &'static str);

/// Whether a type occurs in a row.
type Occurs = fn(Scalar) -> bool;

/// Numbers of streams.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// For each value type.
    streams: BTreeMap<Row, [u64; Scalar::ALL.len()]>,
    /// Of chunks of f32 and f64 whose grid the bound gives: those that were interpolated because the encoder chose so, and those where it had the choice.
    pub(crate) chosen: (u64, u64),
    /// All streams that are interpolated, and all streams.
    pub(crate) interpolated: (u64, u64),
}

impl Coverage {
    /// Counts a stream, and says what it is.
    pub(crate) fn count(&mut self, stream: &[u8], config: &Config) -> Result<Row> {
        let found = Description::of(stream)?;
        let coding = match found.header.coding {
            Coding::Stored => "stored",
            Coding::Constant => "constant",
            Coding::Quantized => "quantized",
            Coding::Exact => "exact",
            Coding::Steps => "steps",
            Coding::Logarithmic => "logarithmic",
            Coding::Decimal => "decimal",
        };
        let plane = found.planes.first();
        let row = (
            coding,
            plane.map_or("-", |plane| match plane.prediction {
                Prediction::Differences(0) => "no differences",
                Prediction::Differences(_) => "differences",
                Prediction::Interpolation(_) => "interpolation",
            }),
            plane.map_or("-", |plane| if plane.coding == PlaneCoding::BitPlanes { "bit planes" } else { "Huffman" }),
        );
        self.streams.entry(row).or_default()[index(found.header.layout.scalar)] += 1;
        let is_interpolated = u64::from(row.1 == "interpolation");
        self.interpolated.0 += is_interpolated;
        self.interpolated.1 += 1;
        let has_fine_grid = matches!(found.header.layout.scalar.of_values(), Scalar::F32 | Scalar::F64) && coding == "quantized";
        if has_fine_grid && config.predictor == PredictorPolicy::Auto && config.coding != CodingPolicy::Bitshuffle {
            self.chosen.0 += is_interpolated;
            self.chosen.1 += 1;
        }
        Ok(row)
    }

    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        for (&row, counts) in &other.streams {
            self.streams.entry(row).or_default().iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        self.chosen = (self.chosen.0 + other.chosen.0, self.chosen.1 + other.chosen.1);
        self.interpolated = (self.interpolated.0 + other.interpolated.0, self.interpolated.1 + other.interpolated.1);
    }

    /// The rows and types that should have streams and have none.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut rows: Vec<(Row, Occurs)> = vec![(("stored", "-", "-"), |_| true), (("constant", "-", "-"), |_| true)];
        for code in ["Huffman", "bit planes"] {
            for differences in ["differences", "no differences"] {
                rows.push((("quantized", differences, code), Scalar::is_float));
                rows.push((("exact", differences, code), |_| true));
                rows.push((("steps", differences, code), |scalar| !scalar.is_float()));
                rows.push((("logarithmic", differences, code), Scalar::is_float));
            }
            rows.push((("decimal", "differences", code), Scalar::is_float));
            rows.push((("quantized", "interpolation", code), |scalar| matches!(scalar.of_values(), Scalar::F32 | Scalar::F64)));
        }
        let count = |row: Row, scalar: Scalar| self.streams.get(&row).map_or(0, |counts| counts[index(scalar)]);
        let empty = |(row, occurs): (Row, Occurs)| {
            let missing = Scalar::ALL.into_iter().filter(move |&scalar| occurs(scalar) && count(row, scalar) == 0);
            missing.map(move |scalar| format!("{row:?} {scalar:?}"))
        };
        rows.into_iter().flat_map(empty).collect()
    }
}

fn index(scalar: Scalar) -> usize {
    Scalar::ALL.iter().position(|&other| other == scalar).unwrap_or(0)
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<40}", "streams by coding, predictor, code")?;
        Scalar::ALL.iter().try_for_each(|scalar| write!(f, "{:>8}", format!("{scalar:?}")))?;
        for ((coding, predictor, code), counts) in &self.streams {
            write!(f, "\n{:<40}", format!("{coding}, {predictor}, {code}"))?;
            counts.iter().try_for_each(|count| write!(f, "{count:>8}"))?;
        }
        Ok(())
    }
}
