//! The kinds of grid by which a chunk's values become integers.

use crate::layout::ByteOrder;
use crate::number::integer::Integer;
use crate::number::value::Value;
use crate::quantize::decimal::{self, Decimal};
use crate::quantize::integer_steps::Steps;
use crate::quantize::linear;
use crate::quantize::logarithm::Logarithm;
use crate::quantize::quantizer::Quantizer;

/// A chunk's grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Grid {
    /// Multiples of a step, for an absolute bound (FORMAT.md §5.1) or a lattice.
    Linear(Quantizer),
    /// No grid: integers that encode the values exactly (FORMAT.md §5.3).
    Exact,
    /// Multiples of an odd whole number, for a bound of integers (FORMAT.md §5.4).
    Steps(Steps),
    /// Equal steps of the logarithm, for a point-wise relative bound (FORMAT.md §5.5).
    Logarithmic(Logarithm),
    /// Whole numbers over a divisor, for the exact bits of decimals (FORMAT.md §5.6).
    Decimal(Decimal),
}

/// A grid whose codes are decoded as integers of any width: most codes of f64 fit 32 bits.
pub(crate) trait Restore {
    /// Restores the values of a chunk from their codes. Exceptions are overwritten afterwards.
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]);
}

impl Restore for Quantizer {
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]) {
        linear::restore::<V, C>(codes, self, order, chunk);
    }
}

impl Restore for Decimal {
    fn restore<V: Value, C: Integer>(&self, codes: &[C], order: ByteOrder, chunk: &mut [u8]) {
        decimal::restore::<V, C>(codes, self, order, chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::element::Element;
    use crate::quantize::bitmap::Bitmap;
    use crate::quantize::fills::Fills;
    use crate::quantize::{chunk_of, integer_steps, logarithm};

    /// Quantizes values, restores them, and quantizes the restored values. Returns the codes of the first and of the second time.
    fn twice<V: Element>(
        values: &[V],
        quantize: impl Fn(&[u8], &mut [V::Code], &mut Bitmap),
        restore: impl Fn(&[V::Code], &mut [u8]),
    ) -> [Vec<V::Code>; 2] {
        let mut chunk = chunk_of(values, ByteOrder::Little);
        [0, 1].map(|_| {
            let (mut codes, mut exceptions) = (vec![V::Code::default(); values.len()], Bitmap::of(values.len(), []));
            quantize(&chunk, &mut codes, &mut exceptions);
            assert_eq!(exceptions.count(), 0);
            restore(&codes, &mut chunk);
            codes
        })
    }

    /// HDF5 decodes chunks and encodes them again. On every grid the codes must stay the same.
    #[test]
    fn codes_stay_when_decoded_values_are_encoded_again() {
        let little = ByteOrder::Little;
        let floats: Vec<f64> = (1..1000).map(|index| f64::from(index * index) * 0.013 - 2000.0).collect();
        let whole: Vec<i32> = (0..1000).map(|index| index * 77_777 - 30_000_000).collect();
        let integers = Steps::new::<i32>(1000, Fills::NONE);
        let logarithmic = Logarithm::for_chunk::<f64>(&chunk_of(&floats, little), little, 1e-3, None);
        let tenths: Vec<f64> = (0..1000).map(|index| f64::from(index * 77_777 - 30_000_000) / 10.0).collect();
        let grids = [
            Grid::Linear(Quantizer::new(0.05)),
            Grid::Exact,
            Grid::Steps(integers),
            Grid::Logarithmic(logarithmic),
            Grid::Decimal(Decimal::new(10).unwrap()),
        ];
        for grid in grids {
            let same = match grid {
                Grid::Linear(quantizer) => {
                    let [first, second] = twice::<f64>(
                        &floats,
                        |chunk, codes, exceptions| linear::quantize::<f64>(chunk, little, &quantizer, codes, exceptions),
                        |codes, chunk| linear::restore::<f64, _>(codes, &quantizer, little, chunk),
                    );
                    first == second && first[0] == -20_000
                }
                Grid::Exact => floats.iter().all(|&value| f64::from_code(value.to_code()).to_bits() == value.to_bits()),
                Grid::Steps(steps) => {
                    let [first, second] = twice::<i32>(
                        &whole,
                        |chunk, codes, exceptions| integer_steps::quantize::<i32>(chunk, little, &steps, codes, exceptions),
                        |codes, chunk| integer_steps::restore::<i32>(codes, &steps, little, chunk),
                    );
                    first == second && first[0] == -14_993
                }
                Grid::Logarithmic(grid) => {
                    let [first, second] = twice::<f64>(
                        &floats,
                        |chunk, codes, exceptions| logarithm::quantize::<f64>(chunk, little, &grid, codes, exceptions),
                        |codes, chunk| logarithm::restore::<f64>(codes, &grid, little, chunk),
                    );
                    first == second && first[0] < 0 && first[998] > 0
                }
                Grid::Decimal(grid) => {
                    let [first, second] = twice::<f64>(
                        &tenths,
                        |chunk, codes, exceptions| decimal::quantize::<f64>(chunk, little, &grid, codes, exceptions),
                        |codes, chunk| decimal::restore::<f64, _>(codes, &grid, little, chunk),
                    );
                    first == second && first[0] == -30_000_000
                }
            };
            assert!(same, "{grid:?}");
        }
    }
}
