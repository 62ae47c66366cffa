//! Makes the dictionary of precomputed codebooks: probability densities → token frequencies → code lengths. The books are then made again for the token
//! frequencies in chunks of generated fields. Also reports what each choice gains and loses.

pub mod adaptive;
pub mod criteria;
pub mod density;
pub mod learned;
pub mod lengths;
pub mod model;
pub mod plain;
pub mod planes;
pub mod report;
pub mod sample;
pub mod selection;
pub mod table;
pub mod training;
pub mod user_books;
pub mod zeros;

use density::Density;
use learned::learned_books;
use quire_codec::stages::dictionary::{Dictionary, Entry};
use selection::select;
use training::Target;

/// Number of books of the dictionary.
pub const BOOKS: usize = 75;

/// Chooses `count` densities of a pool whose books fit the targets best, and makes their books again for the targets that they fit.
#[must_use]
pub fn trained_books(targets: &[Target], pool: &[Density], count: usize) -> Vec<Entry> {
    let start: Vec<Entry> = select(targets, pool, count).iter().map(Density::book).collect();
    learned_books(&start, targets)
}

/// The dictionary that the codec embeds.
#[must_use]
pub fn dictionary() -> Dictionary {
    Dictionary { entries: trained_books(&training::targets(), &Density::all().collect::<Vec<_>>(), BOOKS) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn embedded_dictionary_is_what_the_trainer_makes() {
        assert_eq!(&super::dictionary(), quire_codec::stages::dictionary::built_in());
    }
}
