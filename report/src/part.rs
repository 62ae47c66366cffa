//! What is found in one unit of a box: sums that can be added to those of other units.

use crate::Field;
use crate::numbers::read_row;
use crate::similarity::{Planes, dssim};
use crate::spectrum::{Powers, Transform};
use crate::windows::{Unit, Window};

/// Sums that are made side by side, so that additions do not wait for each other.
const LANES: usize = 8;
/// Bins on either side of the histogram's middle.
pub(crate) const BINS: usize = 64;
/// Most rows and columns of a picture.
pub(crate) const PICTURE_SIDE: usize = 240;

/// Mean, and sum of squared differences from it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) squares: f64,
}

impl Spread {
    /// Joins the spreads of `counts[0]` and `counts[1]` values (Chan, Golub and LeVeque's rule).
    fn add(&mut self, other: Self, counts: [u64; 2]) {
        let [own, others] = counts.map(|count| count as f64);
        let (shift, share) = (other.mean - self.mean, others / (own + others));
        self.mean += shift * share;
        self.squares += other.squares + shift * shift * own * share;
    }
}

/// Counts of errors in bins of one width, which doubles when an error has no bin.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    pub(crate) width: f64,
    pub(crate) counts: [u64; 2 * BINS],
}

impl Histogram {
    /// With a bound, the bins reach twice the bound to either side at first. Without one, widths are powers of two.
    pub(crate) fn new(bound: Option<f64>) -> Self {
        let width = bound.filter(|bound| *bound > 0.0).map_or(f64::MIN_POSITIVE, |bound| 2.0 * bound / BINS as f64);
        Self { width, counts: [0; 2 * BINS] }
    }

    fn count(&mut self, errors: &[f64], greatest: f64) {
        self.widen(greatest);
        for error in errors.iter().filter(|error| !error.is_nan()) {
            self.counts[((error / self.width).floor() as isize + BINS as isize) as usize] += 1;
        }
    }

    /// Doubles the width until an error has a bin.
    fn widen(&mut self, error: f64) {
        let is_empty = self.counts == [0; 2 * BINS];
        while error >= self.width * BINS as f64 && self.width.is_finite() {
            self.width *= 2.0;
            if is_empty {
                continue;
            }
            let mut counts = [0; 2 * BINS];
            self.counts.iter().enumerate().for_each(|(bin, count)| counts[(bin + BINS) / 2] += count);
            self.counts = counts;
        }
    }

    fn add(&mut self, mut other: Self) {
        self.widen(other.width * (BINS as f64 - 0.5));
        other.widen(self.width * (BINS as f64 - 0.5));
        self.counts.iter_mut().zip(other.counts).for_each(|(sum, count)| *sum += count);
    }
}

/// Differences of neighbours along one axis.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slopes {
    pub(crate) pairs: u64,
    pub(crate) inverted: u64,
    /// Sums of squares of the original's differences, and of their errors.
    pub(crate) squares: [f64; 2],
    /// The largest difference of the original, and the largest error.
    pub(crate) greatest: [f64; 2],
}

impl Slopes {
    /// Adds the differences of two rows, or of a row and the same row one value further.
    #[inline(always)]
    fn add_rows(&mut self, before: [&[f64]; 2], after: [&[f64]; 2]) {
        let sums = lanes(before[0].len(), |x| {
            let (slope, other) = (before[1][x] - before[0][x], after[1][x] - after[0][x]);
            let error = other - slope;
            let (counts, is_inverted) = (!error.is_nan(), (slope < 0.0) & (other > 0.0) | (slope > 0.0) & (other < 0.0));
            let [slope, error] = [slope, error].map(|value| if counts { value } else { 0.0 });
            (
                [f64::from(u8::from(counts)), f64::from(u8::from(is_inverted)), slope * slope, error * error],
                [slope.abs(), error.abs()],
            )
        });
        let ([pairs, inverted, slopes, errors], [slope, error]) = sums;
        self.add(&Self { pairs: pairs as u64, inverted: inverted as u64, squares: [slopes, errors], greatest: [slope, error] });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.pairs += other.pairs;
        self.inverted += other.inverted;
        for number in 0..2 {
            self.squares[number] += other.squares[number];
            self.greatest[number] = self.greatest[number].max(other.greatest[number]);
        }
    }
}

/// Sums of `S` terms and largest ones of `M`, in lanes: additions then need not wait for each other.
#[inline(always)]
fn lanes<const S: usize, const M: usize>(count: usize, term: impl Fn(usize) -> ([f64; S], [f64; M])) -> ([f64; S], [f64; M]) {
    let (mut sums, mut most) = ([[0.0; LANES]; S], [[f64::NEG_INFINITY; LANES]; M]);
    let whole = count / LANES * LANES;
    for x in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            let (add, compare) = term(x + lane);
            (0..S).for_each(|number| sums[number][lane] += add[number]);
            (0..M).for_each(|number| most[number][lane] = larger(most[number][lane], compare[number]));
        }
    }
    for x in whole..count {
        let (add, compare) = term(x);
        (0..S).for_each(|number| sums[number][0] += add[number]);
        (0..M).for_each(|number| most[number][0] = larger(most[number][0], compare[number]));
    }
    (sums.map(|lanes| lanes.iter().sum()), most.map(|lanes| lanes.into_iter().fold(f64::NEG_INFINITY, larger)))
}

/// The larger number, where the second may be NaN: unlike `f64::max`, one instruction.
#[inline(always)]
fn larger(most: f64, value: f64) -> f64 {
    if value > most { value } else { most }
}

/// The dSSIM of planes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Similarities {
    pub(crate) planes: u64,
    pub(crate) sum: f64,
    pub(crate) least: f64,
    /// The number of the plane that has it.
    pub(crate) least_at: usize,
}

impl Similarities {
    fn add(&mut self, other: &Self) {
        self.planes += other.planes;
        self.sum += other.sum;
        if other.least < self.least {
            (self.least, self.least_at) = (other.least, other.least_at);
        }
    }
}

/// What is found in some units.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Values that count.
    pub(crate) values: u64,
    /// Values that do not count in the original.
    pub(crate) missing: u64,
    /// Values that count in one array alone.
    pub(crate) changed: u64,
    /// Of the original, of the copy, and of the errors.
    pub(crate) spreads: [Spread; 3],
    pub(crate) least: [f64; 2],
    pub(crate) most: [f64; 2],
    pub(crate) greatest_error: f64,
    /// The index of its value in C order, and the part of a pair.
    pub(crate) greatest_at: (usize, usize),
    pub(crate) crossed: u64,
    pub(crate) histogram: Histogram,
    /// Along x, y and z.
    pub(crate) slopes: [Slopes; 3],
    pub(crate) similarities: Similarities,
    pub(crate) powers: Powers,
    /// Pixels of the picture: their number, original and copy.
    pub(crate) pixels: Vec<(usize, [f64; 2])>,
}

impl Part {
    pub(crate) fn new(field: &Field) -> Self {
        Self {
            values: 0,
            missing: 0,
            changed: 0,
            spreads: [Spread::default(); 3],
            least: [f64::INFINITY; 2],
            most: [f64::NEG_INFINITY; 2],
            greatest_error: 0.0,
            greatest_at: (0, 0),
            crossed: 0,
            histogram: Histogram::new(field.bound),
            slopes: [Slopes::default(); 3],
            similarities: Similarities { planes: 0, sum: 0.0, least: f64::INFINITY, least_at: 0 },
            powers: Powers::new(field.shape.last().copied().unwrap_or(1)),
            pixels: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        if other.values > 0 {
            for (spread, others) in self.spreads.iter_mut().zip(other.spreads) {
                spread.add(others, [self.values, other.values]);
            }
        }
        self.values += other.values;
        self.missing += other.missing;
        self.changed += other.changed;
        for array in 0..2 {
            self.least[array] = self.least[array].min(other.least[array]);
            self.most[array] = self.most[array].max(other.most[array]);
        }
        if other.greatest_error > self.greatest_error {
            (self.greatest_error, self.greatest_at) = (other.greatest_error, other.greatest_at);
        }
        self.crossed += other.crossed;
        self.histogram.add(other.histogram);
        self.slopes.iter_mut().zip(&other.slopes).for_each(|(slopes, others)| slopes.add(others));
        self.similarities.add(&other.similarities);
        self.powers.add(&other.powers);
        self.pixels.extend(other.pixels);
    }

    /// Adds a row of both arrays, whose first value has this index in C order.
    #[inline(always)]
    fn add_row(&mut self, before: &[f64], after: &[f64], errors: &mut [f64], first: (usize, usize)) {
        for (error, (before, after)) in errors.iter_mut().zip(before.iter().zip(after)) {
            *error = after - before;
        }
        let errors = &errors[..before.len()];
        let counts = |x: usize| !errors[x].is_nan();
        let or_zero = |x: usize, value: f64| if counts(x) { value } else { 0.0 };
        let (sums, most) = lanes(before.len(), |x| {
            let (was, is) = (before[x], after[x]);
            let crossed = (was >= 0.0) & (is < 0.0) | (was <= 0.0) & (is > 0.0);
            let flags = [counts(x), crossed, was.is_nan(), is.is_nan() != was.is_nan()];
            let [count, crossed, missing, changed] = flags.map(|is_so| f64::from(u8::from(is_so)));
            let sums = [count, or_zero(x, was), or_zero(x, is), or_zero(x, errors[x]), crossed, missing, changed];
            // A value is no extreme if it does not count in the other array.
            (sums, [errors[x].abs(), was - 0.0 * is, is - 0.0 * was, 0.0 * is - was, 0.0 * was - is])
        });
        let [count, before_sum, after_sum, error_sum, crossed, missing, changed] = sums;
        self.missing += missing as u64;
        self.changed += changed as u64;
        self.crossed += crossed as u64;
        if count == 0.0 {
            return;
        }
        let means = [before_sum, after_sum, error_sum].map(|sum| sum / count);
        let (squares, []) = lanes(before.len(), |x| {
            let differences = [before[x] - means[0], after[x] - means[1], errors[x] - means[2]];
            (differences.map(|difference| or_zero(x, difference * difference)), [])
        });
        for (number, spread) in self.spreads.iter_mut().enumerate() {
            spread.add(Spread { mean: means[number], squares: squares[number] }, [self.values, count as u64]);
        }
        self.values += count as u64;
        let [greatest, before_most, after_most, before_least, after_least] = most;
        self.most = [larger(self.most[0], before_most), larger(self.most[1], after_most)];
        self.least = [-larger(-self.least[0], before_least), -larger(-self.least[1], after_least)];
        if greatest > self.greatest_error {
            self.greatest_error = greatest;
            let at = errors.iter().position(|error| error.abs() == greatest).unwrap_or(0);
            self.greatest_at = (first.0 + at, first.1);
        }
        self.histogram.count(errors, greatest);
    }
}

/// A window with the bytes of both arrays.
#[derive(Clone, Copy)]
pub(crate) struct Filled<'a> {
    pub(crate) field: &'a Field,
    pub(crate) window: &'a Window,
    pub(crate) arrays: [&'a [u8]; 2],
    /// The plane before the first one, if it is one of the same box.
    pub(crate) previous: Option<[&'a [u8]; 2]>,
    /// The plane of the picture, and the extents of all planes.
    pub(crate) picture: usize,
    pub(crate) plane: (usize, usize),
}

/// A plane of a unit in f64, with the row and the column before it if there are any.
struct Plane {
    values: [Vec<f64>; 2],
    columns: usize,
}

impl Plane {
    fn row(&self, y: usize) -> [&[f64]; 2] {
        self.values.each_ref().map(|values| &values[y * self.columns..(y + 1) * self.columns])
    }
}

/// A walk over the planes of a unit.
struct Walk<'a> {
    filled: Filled<'a>,
    unit: &'a Unit,
    /// Rows and columns before the unit, which are there for differences alone.
    lead: (usize, usize),
    part: Part,
    transform: Transform,
    errors: Vec<f64>,
}

impl Filled<'_> {
    /// What is found in a unit.
    pub(crate) fn part(self, unit: &Unit) -> Part {
        let part = Part::new(self.field);
        let transform = Transform::new(&part.powers);
        let lead = (usize::from(unit.rows.start > 0), usize::from(unit.columns.start > 0));
        let mut walk = Walk { filled: self, unit, lead, part, transform, errors: vec![0.0; unit.columns.len()] };
        (0..=usize::from(self.field.scalar.is_pair())).for_each(|half| walk.go(half));
        walk.transform.flush(&mut walk.part.powers);
        walk.part
    }

    /// The bytes of a plane of the window.
    fn layer(&self, number: usize) -> [&[u8]; 2] {
        self.arrays.map(|bytes| {
            let each = bytes.len() / self.window.layers;
            &bytes[number * each..(number + 1) * each]
        })
    }
}

impl Walk<'_> {
    /// Adds all planes. Of pairs, one half is looked at.
    fn go(&mut self, half: usize) {
        let (Filled { window, previous: before_window, .. }, unit) = (self.filled, self.unit);
        let columns = unit.columns.len() + self.lead.1;
        let values = vec![0.0; columns * (unit.rows.len() + self.lead.0)];
        let mut planes = [(); 2].map(|()| Plane { values: [values.clone(), values.clone()], columns });
        for layer in unit.layers.clone() {
            let [plane, previous] = &mut planes;
            std::mem::swap(plane, previous);
            let has_previous = (window.first_z + layer) % window.nz > 0;
            if has_previous && layer == unit.layers.start {
                let before = layer.checked_sub(1).map(|before| self.filled.layer(before)).or(before_window);
                before.into_iter().for_each(|bytes| self.read(bytes, half, previous));
            }
            self.read(self.filled.layer(layer), half, plane);
            self.add_plane(plane, has_previous.then_some(&*previous), (window.first_layer + layer, half));
        }
    }

    fn read(&self, bytes: [&[u8]; 2], half: usize, plane: &mut Plane) {
        let (Filled { field, window, .. }, unit) = (self.filled, self.unit);
        let (_, read_columns) = window.read_plane();
        let each = field.scalar.element_size();
        let first_row = unit.rows.start - self.lead.0 - window.rows.start.saturating_sub(1);
        let first_column = unit.columns.start - self.lead.1 - window.columns.start.saturating_sub(1);
        for (bytes, values) in bytes.into_iter().zip(&mut plane.values) {
            for (y, row) in values.chunks_exact_mut(plane.columns).enumerate() {
                let start = ((first_row + y) * read_columns + first_column) * each;
                read_row(field, &bytes[start..start + row.len() * each], half, row);
            }
        }
    }

    fn add_plane(&mut self, plane: &Plane, previous: Option<&Plane>, (layer, half): (usize, usize)) {
        let (unit, lead, (height, width)) = (self.unit, self.lead, self.filled.plane);
        let all_gaps = |part: &Part| part.missing + part.changed;
        let (gaps, least, most) = (all_gaps(&self.part), self.part.least, self.part.most);
        (self.part.least, self.part.most) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
        for y in 0..unit.rows.len() {
            let [before, after] = counted(plane, lead, y + lead.0);
            let first = (layer * height + unit.rows.start + y) * width + unit.columns.start;
            let gaps = all_gaps(&self.part);
            let (part, errors) = (&mut self.part, &mut self.errors);
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    part.add_row(before, after, errors, (first, half));
                    let [along_before, along_after] = plane.row(y + lead.0).map(neighbours);
                    part.slopes[0].add_rows(along_before, along_after);
                    let above = (y + lead.0).checked_sub(1).map(|above| counted(plane, lead, above));
                    let behind = previous.map(|previous| counted(previous, lead, y + lead.0));
                    for (axis, other) in [(1, above), (2, behind)] {
                        if let Some([other_before, other_after]) = other {
                            part.slopes[axis].add_rows([other_before, before], [other_after, after]);
                        }
                    }
                },
            );
            if all_gaps(&self.part) == gaps {
                self.transform.add_row(before, after, &mut self.part.powers);
            }
            if (layer, half) == (self.filled.picture, 0) {
                self.add_pixels(y, [before, after]);
            }
        }
        let Part { least: plane_least, most: plane_most, .. } = self.part;
        let planes = Planes {
            rows: &|y| counted(plane, lead, y + lead.0),
            height: unit.rows.len(),
            width: unit.columns.len(),
            range: [plane_least[0].min(plane_least[1]), plane_most[0].max(plane_most[1])],
            has_gaps: all_gaps(&self.part) > gaps,
        };
        if let Some(dssim) = dssim(&planes) {
            self.part.similarities.add(&Similarities { planes: 1, sum: dssim, least: dssim, least_at: layer });
        }
        for array in 0..2 {
            self.part.least[array] = plane_least[array].min(least[array]);
            self.part.most[array] = plane_most[array].max(most[array]);
        }
    }

    /// Adds the values of a row that are pixels of the picture.
    fn add_pixels(&mut self, y: usize, [before, after]: [&[f64]; 2]) {
        let (unit, (height, width)) = (self.unit, self.filled.plane);
        let (rows, columns) = picture_size(self.filled.plane);
        // The row of the picture that shows this row of the plane, if one does.
        let row = ((unit.rows.start + y) * rows).div_ceil(height);
        if row >= rows || row * height / rows != unit.rows.start + y {
            return;
        }
        for column in 0..columns {
            let x = column * width / columns;
            if unit.columns.contains(&x) {
                let x = x - unit.columns.start;
                self.part.pixels.push((row * columns + column, [before[x], after[x]]));
            }
        }
    }
}

/// The values of a row that belong to the unit.
#[inline(always)]
fn counted(plane: &Plane, lead: (usize, usize), y: usize) -> [&[f64]; 2] {
    plane.row(y).map(|row| &row[lead.1..])
}

/// The values of a row, and those one further.
#[inline(always)]
fn neighbours(row: &[f64]) -> [&[f64]; 2] {
    [&row[..row.len() - 1], &row[1..]]
}

/// Rows and columns of a picture of a plane.
pub(crate) fn picture_size((height, width): (usize, usize)) -> (usize, usize) {
    (height.min(PICTURE_SIDE), width.min(PICTURE_SIDE))
}
