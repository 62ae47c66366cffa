//! Makes the dictionary of precomputed codebooks: probability densities → token frequencies → code lengths. And reports what was gained
//! and lost by each choice, on chunks of the generator's fields.

pub mod books;
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
pub mod zeros;

use quire_codec::dictionary::Dictionary;

/// The dictionary that the codec embeds.
#[must_use]
pub fn dictionary() -> Dictionary {
    Dictionary { entries: books::BOOKS.iter().map(density::Density::book).collect() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn embedded_dictionary_is_what_the_trainer_makes() {
        assert_eq!(&super::dictionary(), quire_codec::dictionary::built_in());
    }
}
