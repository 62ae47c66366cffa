//! Tables (e) to (g) and (i): what the codes and their layout cost.

use super::{BOUNDS, columns, field_names, of_field, ratio_cells};
use crate::lengths::{UNLIMITED, code_bits, limited_lengths};
use crate::sample::Sample;
use crate::table::{Table, geomean, percent, ratio};
use crate::zeros::ZEROS;

/// Table (e): ratio by the longest code allowed.
#[must_use]
pub fn length_limits(samples: &[Sample]) -> String {
    let with_limit = |sample: &Sample, limit| {
        let lengths = limited_lengths(&sample.histogram, limit);
        sample.ratio(code_bits(&sample.histogram, &lengths) + sample.extra_bits)
    };
    let mut table = columns("bits", &["all", "mean loss", "worst", "decode table"]);
    for limit in [10, 11, 12, 13, 14, 16] {
        let mut cells = ratio_cells(samples, |sample| with_limit(sample, limit), |sample| with_limit(sample, UNLIMITED));
        cells.push(format!("{} KiB", (4 << limit) >> 10));
        table.row(&limit.to_string(), cells);
    }
    table.row("unlimited", ratio_cells(samples, |sample| with_limit(sample, UNLIMITED), |sample| with_limit(sample, UNLIMITED)));
    table.to_text(
        "(e) Ratio by the longest code allowed, a custom book for each chunk with its lengths for nothing; loss against no limit",
    )
}

/// Name of a pipeline and the ratio that it gives.
type Column = (&'static str, fn(&Sample) -> f64);

/// The pipelines that table (f) compares.
const PIPELINES: [Column; 3] = [
    ("neither", |sample| sample.ratio(sample.bits_in_bins)),
    ("classes", |sample| sample.ratio(sample.classes_only_bits)),
    ("both", Sample::written_ratio),
];

/// Table (f): the pipeline without run tokens, and without run tokens and classes.
#[must_use]
pub fn without_tokens(samples: &[Sample]) -> String {
    let bounds = &BOUNDS[1..];
    let names = bounds.iter().flat_map(|bound| PIPELINES.map(|(name, _)| format!("{bound:e} {name}")));
    let mut table = Table::new("field", names);
    let fields = field_names(samples);
    for field in &fields {
        let cells = bounds.iter().flat_map(|&bound| PIPELINES.map(|(_, value)| ratio(of_field(samples, field, bound, value))));
        table.row(field, cells);
    }
    let means = bounds.iter().flat_map(|&bound| {
        PIPELINES.map(|(_, value)| geomean(fields.iter().map(|field| of_field(samples, field, bound, value))))
    });
    table.row("geometric mean of fields", means.map(ratio));
    table.to_text(
        "(f) Ratio without run tokens and classes: 1023 bins, 8 bytes an outlier, codes of at most 16 bits, book for nothing; with classes
    alone, book for nothing; and with both as the codec writes it, lanes, index and book included. All three quantize alike, on a
    lattice where the data lie on one (detector_counts, thermal_eighths)",
    )
}

/// Table (g): the bytes that lanes, block index and headers take besides the bits of codes.
#[must_use]
pub fn layout_overhead(samples: &[Sample]) -> String {
    let names = BOUNDS.iter().flat_map(|bound| ["bits", "lanes", "all"].map(|name| format!("{bound:e} {name}")));
    let mut table = Table::new("field", names);
    for field in field_names(samples) {
        let cells = BOUNDS.iter().flat_map(|&bound| {
            let sum = |value: fn(&Sample) -> u64| {
                samples.iter().filter(|sample| sample.field == field && sample.bound == bound).map(value).sum::<u64>() as f64
            };
            let exact = sum(|sample| sample.written_bits) / 8.0;
            let share = |bytes: f64| percent(bytes / exact - 1.0);
            let bits = format!("{:.2}", 8.0 * exact / sum(|sample| sample.values));
            [bits, share(sum(|sample| sample.payload_bytes)), share(sum(Sample::written_bytes))]
        });
        table.row(field, cells);
    }
    table.to_text(
        "(g) Code and extra bits a value, and what is added to them by lanes and index, and by these, headers and custom books together",
    )
}

/// Table (i): ways to code stretches of zeros.
#[must_use]
pub fn ways_to_code_zeros(samples: &[Sample]) -> String {
    let mut table = columns("zeros", &["all", "mean loss", "worst"]);
    for (index, way) in ZEROS.iter().enumerate() {
        let with = |sample: &Sample| sample.ratio(sample.zeros_bits[index]);
        table.row(&way.name(), ratio_cells(samples, with, |sample| sample.ratio(sample.zeros_bits[0])));
    }
    table.to_text("(i) Ratio by the way to code zeros that stand together, a custom book for each chunk with its lengths for nothing; loss against\n    run tokens, negative where they lose")
}
