//! Makes the dictionary of built-in codebooks: probability densities → frequencies of tokens → code lengths. Then the books are made again for the tokens of
//! generated fields. The crate also reports what each choice gains and loses.

pub mod adaptive;
pub mod bins;
pub mod criteria;
pub mod density;
pub mod learned;
pub mod lengths;
pub mod model;
pub mod planes;
pub mod report;
pub mod sample;
pub mod selection;
pub mod table;
pub mod targets;
pub mod user_books;
pub mod zeros;

use density::Density;
use learned::learned_books;
use quire_codec::stages::dictionary::{Dictionary, Entry};
use selection::select;
use targets::Target;

/// Number of books of the dictionary.
pub const BOOKS: usize = 75;

/// Chooses `count` densities of a pool, and makes their books again for the targets. The books of the densities are those that fit the targets best.
#[must_use]
pub fn trained_books(targets: &[Target], pool: &[Density], count: usize) -> Vec<Entry> {
    let start: Vec<Entry> = select(targets, pool, count).iter().map(Density::book).collect();
    learned_books(&start, targets)
}

/// The dictionary that the codec embeds.
#[must_use]
pub fn dictionary() -> Dictionary {
    Dictionary { entries: trained_books(&targets::targets(), &Density::all().collect::<Vec<_>>(), BOOKS) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn embedded_dictionary_is_what_the_trainer_makes() {
        assert_eq!(&super::dictionary(), quire_codec::stages::dictionary::built_in());
    }
}
