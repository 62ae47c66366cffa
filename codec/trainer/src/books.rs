//! The densities of the dictionary's books, as `quire-trainer select` printed them. They stand here because the choice hangs on the last
//! bits of the generator's sines, which differ between machines, and the dictionary must not.

use crate::density::Density;

/// A book's density.
const fn of(family: u8, spread: u8, scale: i8) -> Density {
    Density { family, spread, scale }
}

/// In the dictionary's order: by family, spread and scale.
#[rustfmt::skip]
pub const BOOKS: [Density; 75] = [
    of(0, 0, -3), of(0, 0, 23),
    of(0, 1, -20), of(0, 1, -14), of(0, 1, -7), of(0, 1, 2),
    of(0, 2, -27),
    of(0, 3, -26), of(0, 3, -21), of(0, 3, -16), of(0, 3, -14), of(0, 3, 4),
    of(0, 4, -30), of(0, 4, 11),
    of(0, 5, -30), of(0, 5, -25), of(0, 5, -18), of(0, 5, -12), of(0, 5, -5), of(0, 5, 1),
    of(1, 0, -13), of(1, 0, -5), of(1, 0, -4), of(1, 0, -2), of(1, 0, -1), of(1, 0, 3),
    of(1, 1, -9), of(1, 1, -8), of(1, 1, -7), of(1, 1, -6), of(1, 1, 0), of(1, 1, 2), of(1, 1, 5), of(1, 1, 9), of(1, 1, 12), of(1, 1, 19),
    of(1, 2, -13), of(1, 2, -11), of(1, 2, 16),
    of(1, 3, -12), of(1, 3, -1), of(1, 3, 9),
    of(1, 4, -9), of(1, 4, 2),
    of(2, 0, -5), of(2, 0, -2), of(2, 0, 0), of(2, 0, 1), of(2, 0, 2), of(2, 0, 3), of(2, 0, 5), of(2, 0, 6), of(2, 0, 9), of(2, 0, 13), of(2, 0, 19),
    of(2, 1, 1), of(2, 1, 7), of(2, 1, 9), of(2, 1, 11), of(2, 1, 13), of(2, 1, 15), of(2, 1, 17), of(2, 1, 22),
    of(2, 2, -8), of(2, 2, -5), of(2, 2, -4), of(2, 2, 8), of(2, 2, 14),
    of(2, 3, -13), of(2, 3, -4), of(2, 3, 20),
    of(2, 4, 23),
    of(2, 5, -4), of(2, 5, 7), of(2, 5, 18),
];
