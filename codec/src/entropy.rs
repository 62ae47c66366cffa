//! Stages 3 to 5 (FORMAT.md §7 to §9): residuals → tokens → code words in lanes, or bit planes, and back.

pub mod adaptive;
pub mod alphabet;
pub mod bitshuffle;
pub mod book_choice;
pub mod book_lengths;
pub mod codebook;
pub(crate) mod decode_tables;
pub mod dictionary;
pub mod lanes;
pub mod tokens;
