//! Finds far values (FORMAT.md §11.2): the few different values far below or far above all others, such as a fill value that HDF5 does not know, or a hot
//! pixel.
//!
//! ```text
//! others                                              far values
//! |---|---------------------- gap -----------------------|--|
//! range                                                  v: far if gap > 64 ranges, or if gap > 8 ranges and v occurs 16 times or more
//! ```
//!
//! So the others take at most a ninth of the whole range. A search for high far values ends as soon as it has seen 17 different values above the lowest quarter
//! of the range: in most chunks, among the first hundred values.

use super::values::{Groups, VALUES_PER_GROUP};
use crate::config::Config;
use crate::layout::Layout;
use crate::number::dispatch::with_element;
use crate::number::element::Element;
use crate::quantize::fills::Span;
use crate::simd::widely_vectorized;

/// Most different far values above the others, and most below them.
const MOST_FAR: usize = 16;
/// Least number of different other values.
const LEAST_OTHERS: usize = 8;
/// A value is far if its distance from the others is more than this number of ranges of the others.
const FAR_RANGES: f64 = 64.0;
/// See [`FAR_RANGES`], for a value that occurs [`OFTEN`] times or more.
const FAR_RANGES_OFTEN: f64 = 8.0;
/// Fill values occur as often as this; single large values do not.
const OFTEN: u64 = 16;

/// The values of a chunk that are not far, under a bound that depends on the chunk.
#[must_use]
pub fn span_of(chunk: &[u8], layout: &Layout, config: &Config) -> Span {
    with_element!(layout.scalar, V => {
        let groups_in = |span| Groups::<V>::new(chunk, layout.byte_order, &Config { span, ..*config });
        let Some(mut ends) = groups_in(Span::ALL).ends() else { return Span::ALL };
        let (whole, mut left) = (ends, [MOST_FAR; 2]);
        loop {
            let before = ends;
            let groups = groups_in(ends);
            if let Some((greatest, count)) = next_below_gap(&groups, ends, 1.0, left[0]) {
                (ends.greatest, left[0]) = (greatest, left[0] - count);
            }
            let groups = groups_in(ends);
            if let Some((least, count)) = next_below_gap(&groups, ends, -1.0, left[1]) {
                (ends.least, left[1]) = (least, left[1] - count);
            }
            if ends == before {
                break;
            }
        }
        if ends == whole || has_few_values(&groups_in(ends)) { Span::ALL } else { ends }
    })
}

/// Different values above a threshold, and how often each of them occurs.
struct Different {
    values: [(f64, u64); MOST_FAR],
    len: usize,
}

impl Different {
    const NONE: Self = Self { values: [(f64::NAN, 0); MOST_FAR], len: 0 };

    /// Counts a value. False if the value is one too many.
    fn add(&mut self, value: f64, most: usize) -> bool {
        if let Some((_, count)) = self.values[..self.len].iter_mut().find(|(known, _)| *known == value) {
            *count += 1;
        } else if self.len < most {
            self.values[self.len] = (value, 1);
            self.len += 1;
        } else {
            return false;
        }
        true
    }
}

/// Searches for far values above the others; below the others if `sign` is -1. Returns the value on the near side of the gap, and the number of different far
/// values, at most `most`. `None` if no value is far.
fn next_below_gap<V: Element>(groups: &Groups<'_, V>, ends: Span, sign: f64, most: usize) -> Option<(f64, usize)> {
    let (least, mut greatest) = if sign > 0.0 { (ends.least, ends.greatest) } else { (-ends.greatest, -ends.least) };
    let mut different = Different::NONE;
    // Each round adds to the candidates the values above the lowest quarter of the range that is left. `next` is the greatest value that is no candidate.
    while least < greatest {
        let width = greatest - least;
        let quarter = if width.is_finite() { width / 4.0 } else { greatest / 4.0 - least / 4.0 };
        let threshold = least + quarter;
        if threshold >= greatest {
            return None;
        }
        let next = add_above(groups, sign, threshold, greatest, &mut different, most)?;
        let candidates = &mut different.values[..different.len];
        candidates.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
        for count in 1..=candidates.len() {
            let (value, occurs) = candidates[count - 1];
            let below = candidates.get(count).map_or(next, |&(value, _)| value);
            let (gap, range) = (value - below, below - least);
            if range > 0.0 && (gap > FAR_RANGES * range || gap > FAR_RANGES_OFTEN * range && occurs >= OFTEN) {
                return Some((sign * below, count));
            }
        }
        greatest = next;
    }
    None
}

/// Multiplies all values by `sign`. Adds those above `threshold`, up to `greatest`, to `different`. Returns the greatest value up to `threshold`. `None` as
/// soon as there are more than `most` different values.
fn add_above<V: Element>(
    groups: &Groups<'_, V>,
    sign: f64,
    threshold: f64,
    greatest: f64,
    different: &mut Different,
    most: usize,
) -> Option<f64> {
    let mut next = f64::NEG_INFINITY;
    let mut add = |values: &[f64; VALUES_PER_GROUP]| {
        for value in values.iter().map(|value| sign * value) {
            if value > threshold && value <= greatest && !different.add(value, most) {
                return false;
            }
        }
        true
    };
    let is_complete = widely_vectorized(
        #[inline(always)]
        || {
            groups.all(
                #[inline(always)]
                |values| {
                    // For each lane of a vector: the greatest value up to the threshold, and whether a value is above the threshold.
                    let (mut below, mut is_above) = ([f64::NEG_INFINITY; 8], [false; 8]);
                    for eight in values.as_chunks::<8>().0 {
                        for i in 0..8 {
                            let value = sign * eight[i];
                            is_above[i] |= value > threshold;
                            below[i] = if value <= threshold && value > below[i] { value } else { below[i] };
                        }
                    }
                    next = below.into_iter().fold(next, f64::max);
                    is_above == [false; 8] || add(values)
                },
            )
        },
    );
    is_complete.then_some(next)
}

/// Whether fewer than [`LEAST_OTHERS`] different values count.
fn has_few_values<V: Element>(groups: &Groups<'_, V>) -> bool {
    let mut different = Different::NONE;
    groups.all(|values| values.iter().all(|&value| value.is_nan() || different.add(value, LEAST_OTHERS - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{ByteOrder, Scalar, Shape};
    use crate::number::small_float::Binary16;
    use crate::random::Random;

    /// FORMAT.md §11.2 word for word: the span of values.
    fn plain(values: &[f64]) -> Span {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).map(|value| value + 0.0).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let occurs = |value: f64| sorted.iter().filter(|&&other| other == value).count();
        let mut different = sorted.clone();
        different.dedup();
        let (mut first, mut last) = (0, different.len().saturating_sub(1));
        loop {
            let before = (first, last);
            let is_far = |value: f64, next: f64, other_end: f64| {
                let (gap, range) = ((value - next).abs(), (next - other_end).abs());
                range > 0.0 && (gap > 64.0 * range || gap > 8.0 * range && occurs(value) >= 16)
            };
            let least_kept = different.len().saturating_sub(17);
            if let Some(end) =
                (least_kept.max(first)..last).rev().find(|&at| is_far(different[at + 1], different[at], different[first]))
            {
                last = end;
            }
            if let Some(start) = (first + 1..=last.min(16)).find(|&at| is_far(different[at - 1], different[at], different[last]))
            {
                first = start;
            }
            if (first, last) == before {
                break;
            }
        }
        let has_far = (first, last) != (0, different.len().saturating_sub(1));
        if !has_far || last - first < 7 { Span::ALL } else { Span { least: different[first], greatest: different[last] } }
    }

    fn span<V: Element>(scalar: Scalar, values: &[V], order: ByteOrder, fill: Option<u64>) -> Span {
        let mut chunk = vec![0; values.len() * V::SIZE];
        V::write_all(values, |value| value, order, &mut chunk);
        let layout = Layout { scalar, byte_order: order, shape: Shape::new(&[values.len() as u64]).unwrap() };
        span_of(&chunk, &layout, &Config { fill_value: fill, ..Config::absolute(1.0).unwrap() })
    }

    fn check(values: &[f64], what: &str) -> Span {
        let expected = plain(values);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            assert_eq!(span(Scalar::F64, values, order, None), expected, "{what}, {} values", values.len());
        }
        expected
    }

    fn smooth(count: usize) -> Vec<f64> {
        (0..count).map(|index| 280.0 + 10.0 * (index as f64 / 37.0).sin()).collect()
    }

    #[test]
    fn usual_fill_values_are_far() {
        for count in [20, 64, 100, 1000, 5000] {
            for fill in [1e20, 9.969_209_968_386_869e36, 1e35, -1e34, -9999.0, -32_768.0, 65_535.0, f64::MAX, f64::MIN, 0.0] {
                for stride in [1000, 50, 2] {
                    let mut values = smooth(count);
                    values.iter_mut().skip(count.min(stride) - 1).step_by(stride).for_each(|value| *value = fill);
                    let is_single = count / stride <= 1;
                    let span = check(&values, "a fill value");
                    let is_found = count > 50 && (fill.abs() > 2000.0 || !is_single && fill != 0.0 && count / stride >= 16);
                    assert!(!is_found || span.greatest - span.least <= 20.0 && !(span.least..=span.greatest).contains(&fill));
                }
            }
        }
        let mut both = smooth(5000);
        (both[7], both[70], both[700]) = (1e20, -9999.0, 1e35);
        let found = check(&both, "far values on both sides");
        assert!(found.least > 269.0 && found.greatest < 291.0);
        let pixels: Vec<f64> =
            (0..4096).map(|index| if index % 256 == 9 { 1e6 * index as f64 } else { both[index + 900] }).collect();
        assert!(check(&pixels, "different hot pixels").greatest < 291.0);
        let few = Span { least: 1.0, greatest: 8.0 };
        let numbers: Vec<i16> = (1..=8).chain([-32_768; 3]).collect();
        assert_eq!(span(Scalar::I16, &numbers, ByteOrder::Big, None), few);
        let halves: Vec<Binary16> = numbers.iter().map(|&number| Binary16::from_f64(number.into())).collect();
        assert_eq!(span(Scalar::F16, &halves, ByteOrder::Little, None), few);
        assert_eq!(span(Scalar::I16, &numbers, ByteOrder::Little, Some(0x8000)), Span::ALL, "a declared fill value has no part");
        assert_eq!(span(Scalar::I16, &numbers[1..], ByteOrder::Little, None), Span::ALL, "seven values are too few");
    }

    #[test]
    fn honest_data_have_no_far_values() {
        let mut random = Random(3);
        let mut sparse = vec![0.0; 4096];
        for (what, values) in [
            ("a constant", vec![7.0; 100]),
            ("a field", smooth(4096)),
            ("nine decades", (0..32_768).map(|index| 10f64.powf(4.5 * (index as f64 / 500.0).sin())).collect()),
            ("a source in an empty plane", {
                sparse[777] = 5.0;
                sparse.clone()
            }),
            ("a few values among zeros", {
                sparse.iter_mut().step_by(200).for_each(|value| *value = random.share());
                sparse.clone()
            }),
            ("a cloud in a clear sky", (0..4096).map(|index| (-(index as f64 - 2000.0).powi(2) / 500.0).exp() * 1e-3).collect()),
            ("no finite value", vec![f64::NAN, f64::INFINITY]),
            ("nothing but infinite ends", vec![f64::MAX, f64::MIN, 0.0]),
        ] {
            assert_eq!(check(&values, what), Span::ALL, "{what}");
        }
    }

    /// Random clusters at random distances, of few and of many values, some of them repeated.
    #[test]
    fn spans_are_those_of_the_plain_definition() {
        let mut random = Random(11);
        let mut found = 0;
        for case in 0..3000 {
            let mut values = Vec::new();
            for _ in 0..1 + random.next() % 5 {
                let (centre, width) =
                    ((random.share() - 0.5) * 10f64.powf(random.share() * 40.0 - 10.0), 10f64.powf(random.share() * 12.0 - 9.0));
                let (different, repeats) =
                    (1 + random.next() % [1, 5, 17, 60][case % 4], 1 + random.next() % [1, 15, 18, 40][case / 4 % 4]);
                for _ in 0..different {
                    let value = centre + width * random.share();
                    values.extend(std::iter::repeat_n(value, repeats as usize));
                }
            }
            for index in (1..values.len()).rev() {
                values.swap(index, (random.next() % (index as u64 + 1)) as usize);
            }
            if case % 7 == 0 {
                values.extend([f64::NAN, f64::INFINITY, -0.0, 0.0]);
            }
            found += usize::from(check(&values, "clusters") != Span::ALL);
        }
        assert!(found > 200, "{found} of 3000 chunks have far values");
    }
}
