//! Values: smooth fields and others, and single values that rounding finds hard.

use quire_codec::stages::small_float::{BFloat16, Binary16};
use quire_codec::{Layout, Scalar};

use crate::common::Random;
use crate::common::checks::Number;

/// One of a few.
pub(crate) fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// Any bits of a type.
pub(crate) fn bits_of(random: &mut Random, scalar: Scalar) -> u64 {
    random.next() >> (64 - 8 * scalar.size())
}

/// Least and greatest integer of a type.
pub(crate) fn ends(scalar: Scalar) -> (i128, i128) {
    let bits = 8 * scalar.size();
    match scalar {
        Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => (0, (1 << bits) - 1),
        _ => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// Bits of the integer that is nearest in the type.
fn integer(scalar: Scalar, value: i128) -> u64 {
    let (least, greatest) = ends(scalar);
    value.clamp(least, greatest) as u64 & (u64::MAX >> (64 - 8 * scalar.size()))
}

/// Bits of the number that is nearest in the type. Finite numbers stay finite.
fn number(scalar: Scalar, value: f64) -> u64 {
    let value = if value.is_finite() { value.clamp(-greatest(scalar), greatest(scalar)) } else { value };
    match scalar.of_values() {
        Scalar::F32 => u64::from((value as f32).to_bits()),
        Scalar::F64 => value.to_bits(),
        Scalar::F16 => u64::from(Binary16::from_f64(value).to_bits()),
        Scalar::BF16 => u64::from(BFloat16::from_f64(value).to_bits()),
        _ => integer(scalar, value as i128),
    }
}

/// The greatest finite value of a type.
fn greatest(scalar: Scalar) -> f64 {
    match scalar.of_values() {
        Scalar::F16 => 65_504.0,
        Scalar::BF16 => Number::from_bits(scalar, 0x7f7f).value,
        Scalar::F32 => f64::from(f32::MAX),
        Scalar::F64 => f64::MAX,
        _ => ends(scalar).1 as f64,
    }
}

/// Where values lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) offset: f64,
    /// How far values lie from the offset.
    pub(crate) size: f64,
    /// The greatest value of the type.
    pub(crate) greatest: f64,
}

impl Scale {
    pub(crate) fn any(random: &mut Random, scalar: Scalar) -> Self {
        let greatest = greatest(scalar);
        let size = if scalar.is_float() {
            let least = match scalar.of_values() {
                Scalar::F16 => 2f64.powi(-24),
                Scalar::F64 => f64::from_bits(1),
                _ => f64::from(f32::from_bits(1)),
            };
            match random.below(10) {
                0 => greatest * random.share(),
                1 => least * 2f64.powf(30.0 * random.share()),
                2 => 10f64.powf(least.log10() + (greatest.log10() - least.log10()) * random.share()),
                _ => 10f64.powf(-2.0 + 5.0 * random.share()),
            }
        } else {
            match random.below(4) {
                0 => greatest * random.share(),
                1 => 1.0 + random.below(100) as f64,
                _ => greatest.powf(random.share()),
            }
        };
        let offset = match random.below(8) {
            0 => size * 100.0 * random.unit(),
            1 | 2 => size * random.unit(),
            // Values at the ends of the type.
            3 => {
                let end = if scalar.is_float() { -greatest } else { ends(scalar).0 as f64 };
                pick(random, &[end + size, greatest - size])
            }
            _ => 0.0,
        };
        Self { offset, size, greatest }
    }
}

/// What values look like.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A sum of sines with a share of noise.
    Smooth(f64),
    Noise,
    /// Multiples of a number, such as integers or eighths.
    Lattice(f64),
    /// Whole numbers over a divisor.
    Decimal(f64),
    /// Few numbers in stretches.
    Stretches,
    MostlyZero,
    /// Magnitudes of many orders.
    Wide,
    Constant,
    Bits,
}

/// A field of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    scalar: Scalar,
    scale: Scale,
    form: Form,
    extents: [u64; 4],
    /// For each sine: its waves along each axis in radians a value, and its phase.
    sines: [[f64; 5]; 3],
}

impl Field {
    pub(crate) fn any(random: &mut Random, scale: Scale, layout: &Layout) -> Self {
        let form = match random.below(16) {
            0..9 => Form::Smooth(pick(random, &[0.0, 0.0, 1e-5, 1e-3, 0.1])),
            9 => Form::Noise,
            10 => Form::Lattice(pick(random, &[1.0, 0.125, 2f64.powi(-4), 3.0, 10.0, 0.01])),
            11 => Form::Decimal(pick(random, &[10.0, 20.0, 100.0, 1e3, 1e4, 1e7])),
            12 => Form::Stretches,
            13 => Form::MostlyZero,
            14 => Form::Wide,
            _ => pick(random, &[Form::Constant, Form::Bits]),
        };
        // Of 16 bits, only small values of one digit are told from chance (FORMAT.md §11.1).
        let (form, scale) = match (form, layout.scalar) {
            (Form::Decimal(_), Scalar::F16) => (Form::Decimal(10.0), Scale { offset: 0.0, size: 6.0, ..scale }),
            (Form::Decimal(_), Scalar::BF16) => (Form::Decimal(10.0), Scale { offset: 0.0, size: 0.7, ..scale }),
            other => (other.0, scale),
        };
        let longest = pick(random, &[0.03, 0.1, 0.1, 0.3, 1.0]);
        let mut extents = [1; 4];
        let dims = layout.shape.dims();
        extents[4 - dims.len()..].copy_from_slice(dims);
        let sines = [(); 3].map(|()| [(); 5].map(|()| longest * random.unit()));
        Self { scalar: layout.scalar, scale, form, extents, sines }
    }

    /// Whether values are whole numbers over a divisor.
    pub(crate) fn is_of_decimals(&self) -> bool {
        matches!(self.form, Form::Decimal(_))
    }

    /// Bits of values, with another size.
    pub(crate) fn values(&self, random: &mut Random, size: f64) -> Vec<u64> {
        let phase = 6.0 * random.unit();
        let mut last = 0.0;
        let count = self.extents.iter().product::<u64>();
        (0..count)
            .map(|index| {
                let share = match self.form {
                    Form::Smooth(noise) => self.smooth(index, phase) + noise * random.unit(),
                    Form::Noise => random.unit(),
                    Form::Lattice(_) | Form::Decimal(_) => self.smooth(index, phase) + 0.1 * random.unit(),
                    Form::Stretches => {
                        if random.below(20) == 0 {
                            last = random.unit();
                        }
                        last
                    }
                    Form::MostlyZero if random.below(30) > 0 => return number(self.scalar, 0.0),
                    Form::MostlyZero => random.unit(),
                    Form::Wide => random.unit() * 10f64.powf(-40.0 * random.share()),
                    Form::Constant => 0.3,
                    Form::Bits => return bits_of(random, self.scalar),
                };
                let Scale { offset, size: of_scale, .. } = self.scale;
                if self.scalar.is_float() {
                    let value = offset + share * (of_scale * size);
                    let on_grid = match self.form {
                        Form::Lattice(spacing) => (value / spacing).round() * spacing,
                        Form::Decimal(divisor) => (value * divisor).round() / divisor,
                        _ => value,
                    };
                    number(self.scalar, if on_grid.is_finite() { on_grid } else { value })
                } else {
                    // The low bits count as well where the values are wide.
                    let low = if of_scale > 1e15 { i128::from(random.next() as u32) } else { 0 };
                    let value = offset as i128 + (share * (of_scale * size)) as i128 + low;
                    let spacing = if let Form::Lattice(spacing) = self.form { spacing.max(1.0) as i128 } else { 1 };
                    integer(self.scalar, value / spacing * spacing)
                }
            })
            .collect()
    }

    /// In about `[-1, 1]`.
    fn smooth(&self, index: u64, phase: f64) -> f64 {
        let mut rest = index;
        let mut at = [0.0; 4];
        for (at, extent) in at.iter_mut().zip(self.extents).rev() {
            *at = (rest % extent) as f64;
            rest /= extent;
        }
        let sine = |waves: &[f64; 5]| {
            let radians = waves.iter().zip(at).map(|(wave, at)| wave * at).sum::<f64>();
            (radians + 6.0 * waves[4] + phase).sin() / 3.0
        };
        self.sines.iter().map(sine).sum()
    }
}

/// Single values that are hard to round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hard {
    /// Half a step between two points of the grid.
    Tie,
    BesideTie,
    /// On the fine grid of interpolation.
    Fine,
    BesideFine,
    OnGrid,
    FarTie,
    Special,
    Bits,
}

/// Plants hard values in a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planter {
    pub(crate) scalar: Scalar,
    /// The step of the grid.
    step: f64,
    kinds: [Option<Hard>; 3],
    /// One of this number of values is planted, 0 for none.
    rare: u64,
}

impl Planter {
    pub(crate) fn any(random: &mut Random, scalar: Scalar, step: f64) -> Self {
        const HARD: [Hard; 8] =
            [Hard::Tie, Hard::BesideTie, Hard::Fine, Hard::BesideFine, Hard::OnGrid, Hard::FarTie, Hard::Special, Hard::Bits];
        let kinds = [(); 3].map(|()| (random.below(2) == 0).then(|| pick(random, &HARD)));
        Self { scalar, step, kinds, rare: pick(random, &[0, 1, 3, 10, 100, 1000, 1000]) }
    }

    /// Plants values here and there.
    pub(crate) fn plant(&self, random: &mut Random, values: &mut [u64]) {
        if self.rare == 0 {
            return;
        }
        for value in values {
            if random.below(self.rare) == 0
                && let Some(hard) = pick(random, &self.kinds)
            {
                *value = self.hard(random, hard, *value);
            }
        }
    }

    /// A hard value near another one.
    fn hard(&self, random: &mut Random, hard: Hard, near: u64) -> u64 {
        match hard {
            Hard::Tie => self.tie(random, near),
            Hard::BesideTie => self.beside(self.tie(random, near), random),
            Hard::Fine => self.on_fine_grid(random, near),
            Hard::BesideFine => self.beside(self.on_fine_grid(random, near), random),
            Hard::OnGrid => self.steps(near, 0.0),
            Hard::FarTie => self.far_tie(random),
            Hard::Special => self.special(random),
            Hard::Bits => bits_of(random, self.scalar),
        }
    }

    /// The nearest number of steps to a value, and a rest.
    fn steps(&self, near: u64, rest: f64) -> u64 {
        let near = Number::from_bits(self.scalar, near);
        match near.whole {
            None => number(self.scalar, ((near.value / self.step).round() + rest) * self.step),
            Some(whole) => {
                // The step of integers is odd, and two of their codes meet between `bound` and `bound + 1`.
                let step = self.step.clamp(1.0, 1e20) as i128;
                let multiple = whole.div_euclid(step) * step;
                integer(self.scalar, multiple + if rest == 0.0 { 0 } else { step / 2 + i128::from(rest > 0.0) })
            }
        }
    }

    /// Half a step beside the grid.
    pub(crate) fn tie(&self, random: &mut Random, near: u64) -> u64 {
        self.steps(near, pick(random, &[0.5, -0.5]))
    }

    /// Half a step beside the grid, where its codes are few or many.
    pub(crate) fn far_tie(&self, random: &mut Random) -> u64 {
        let steps = pick(random, &[0.0, 8.0, 1024.0, 2048.0, 4096.0, 32_768.0, 2f64.powi(22), 2f64.powi(31), 2f64.powi(51)]);
        let steps = steps + (random.unit() * 9.0).round() + pick(random, &[0.5, 0.5, 0.0]);
        let value = pick(random, &[1.0, -1.0]) * steps * self.step;
        if self.scalar.is_float() { number(self.scalar, value) } else { integer(self.scalar, value as i128) }
    }

    /// One unit in the last place up or down.
    pub(crate) fn beside(&self, bits: u64, random: &mut Random) -> u64 {
        let mask = u64::MAX >> (64 - 8 * self.scalar.size());
        pick(random, &[bits.wrapping_add(1), bits.wrapping_sub(1)]) & mask
    }

    /// An index of the fine grid near a value, as FORMAT.md, section 5.2, has it.
    pub(crate) fn on_fine_grid(&self, random: &mut Random, near: u64) -> u64 {
        let near_value = Number::from_bits(self.scalar, near).value;
        if !self.scalar.is_float() {
            return self.tie(random, near);
        }
        let index = (near_value / self.step * 8.0).round() + (random.unit() * 4.0).round();
        let steps = ((index + 4.0) / 8.0).floor();
        let rest = index - 8.0 * steps;
        let spacing = self.step * f64::from_bits(0x3fbf_f7f9_fb7c_9d76);
        number(self.scalar, steps * self.step + rest * spacing)
    }

    /// NaN with any payload, infinities, zeros, subnormal numbers, and the ends of the type.
    pub(crate) fn special(&self, random: &mut Random) -> u64 {
        let bits = 8 * self.scalar.size();
        let sign = random.below(2) << (bits - 1);
        if !self.scalar.is_float() {
            let (least, greatest) = ends(self.scalar);
            return integer(self.scalar, pick(random, &[least, greatest, 0, 1, -1, least + 1, greatest - 1]));
        }
        let infinity = number(self.scalar, f64::INFINITY);
        let payload = random.next() & (u64::MAX >> (64 - bits)) & !infinity & !(1 << (bits - 1));
        sign | match random.below(8) {
            0 | 1 => infinity | payload,
            2 => infinity,
            3 | 4 => 0,
            5 => payload >> random.below(50).min(payload.checked_ilog2().unwrap_or(0).into()),
            6 => infinity - 1,
            // The least normal number.
            _ => infinity & infinity.wrapping_neg(),
        }
    }
}
