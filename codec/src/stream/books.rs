//! Codebooks and token counts of streams. The encoder of a later chunk may take the books again. Users' dictionaries are made from the counts.

use crate::entropy::adaptive::AdaptiveDictionary;
use crate::entropy::alphabet::{CodeLengths, Histogram, SYMBOLS};
use crate::entropy::book_choice::Choice;
use crate::entropy::tokens::{Tokens, tokenize};
use crate::error::{Error, Result};
use crate::memory::resize;
use crate::stream::inspect;
use crate::stream::plane::{PlaneHeader, PlaneWorkspace};
use crate::stream::verified::Verified;

impl AdaptiveDictionary {
    /// Learns from a stream that the encoder has just made: a custom book of its first plane moves to the front of the history. The book stays as it is.
    /// More codes, for symbols that its chunk lacks, would make streams longer.
    pub fn learn(&mut self, stream: &[u8]) {
        if let Some(book) = custom_book(stream) {
            self.learn_book(&book);
        }
    }
}

/// The custom book of a stream's first plane. `None` if the plane has none, or if the stream is damaged.
#[must_use]
pub fn custom_book(stream: &[u8]) -> Option<CodeLengths> {
    let stream = Verified::read(stream).ok()?;
    let (_, mut planes) = inspect::planes(stream.body(), stream.header()).ok()??;
    match PlaneHeader::read(&mut planes).ok()?.choice {
        Some(Choice::Custom(lengths)) => Some(lengths),
        _ => None,
    }
}

/// Histogram of the tokens of a stream's first plane. All counts are 0 for a stream without planes.
///
/// # Errors
/// `InvalidArgument` for a stream of bit planes, otherwise as [`Workspace::decompress`](crate::Workspace::decompress).
pub fn token_counts(stream: &[u8]) -> Result<Histogram> {
    let stream = Verified::read(stream)?;
    let header = stream.header();
    let Some((_, mut planes)) = inspect::planes(stream.body(), header)? else { return Ok([0; SYMBOLS]) };
    if PlaneHeader::read(&mut &*planes)?.choice.is_none() {
        return Err(Error::invalid("a stream of bit planes has no tokens: compress with Huffman codes"));
    }
    let mut differences: Vec<i64> = Vec::new();
    resize(&mut differences, header.layout.shape.elements() as usize)?;
    PlaneWorkspace::default().decode_differences(&mut planes, &mut differences)?;
    let mut tokens = Tokens::default();
    tokenize(&differences, &mut tokens)?;
    Ok(tokens.count().1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::adaptive::HISTORY;
    use crate::entropy::book_choice::choose as choose_book;
    use crate::entropy::{codebook, dictionary};
    use crate::random::Random;
    use crate::{ByteOrder, CodebookPolicy, CodingPolicy, Config, Layout, Scalar, Shape, Workspace};

    /// A book in which the length of a symbol's code depends on a number.
    fn book(number: u64) -> CodeLengths {
        codebook::optimal_lengths(&std::array::from_fn(|symbol| 1 + (symbol as u64 * 2_654_435_761 + number) % 97))
    }

    /// A chunk whose differences have few values, all equally often. No density is like that.
    fn odd_chunk(steps: u64) -> (Vec<u8>, Layout) {
        let shape = Shape::new(&[30_000]).unwrap();
        let mut random = Random(1);
        let chunk = (0..shape.elements()).flat_map(|_| (0.37 * (random.below(5) * steps) as f32).to_le_bytes());
        (chunk.collect(), Layout { scalar: Scalar::F32, byte_order: ByteOrder::Little, shape })
    }

    fn compress(steps: u64, config: &Config) -> Vec<u8> {
        let (chunk, layout) = odd_chunk(steps);
        let mut stream = Vec::new();
        Workspace::default().compress(&chunk, &layout, config, &mut stream).unwrap();
        stream
    }

    #[test]
    fn a_book_that_one_chunk_built_codes_the_next() {
        let config = Config::absolute(0.01).unwrap();
        let mut books = AdaptiveDictionary::new(&[book(1)]).unwrap();
        let first = compress(1, &config);
        let built = custom_book(&first).expect("a book of its own");
        books.learn(&first);
        assert_eq!(books.books(), [book(1), built]);

        // A chunk of the same kind takes the book again, so that there is nothing to learn.
        let second = compress(1, &Config { books: books.books(), ..config });
        assert_eq!(custom_book(&second), Some(built));
        books.learn(&second);
        assert_eq!(books.books(), [book(1), built]);

        // A chunk of another kind gets another book, which comes first. A book that is used again comes first again.
        let other = compress(7, &Config { books: books.books(), ..config });
        let other_built = custom_book(&other).expect("a book of its own");
        books.learn(&other);
        assert_eq!(books.books(), [book(1), other_built, built]);
        books.learn(&second);
        assert_eq!(books.books(), [book(1), built, other_built]);

        // The history has at most `HISTORY` books. The user's books stay.
        (10..100).for_each(|number| books.learn_book(&book(number)));
        assert_eq!(books.books().len(), 1 + HISTORY);
        assert_eq!(books.books()[..2], [book(1), book(99)]);
    }

    #[test]
    fn a_book_pays_for_its_bytes_and_needs_all_codes() {
        let config = Config::absolute(0.01).unwrap();
        let histogram = token_counts(&compress(1, &config)).unwrap();
        let best = codebook::optimal_lengths(&histogram);
        let choose = |books: &[CodeLengths]| choose_book(&histogram, CodebookPolicy::Auto, books);
        assert_eq!(choose(&[book(3), best]), Choice::Custom(best));
        // A book of the dictionary costs no bytes, so that an equal custom book is not taken.
        let (number, _) = dictionary::cheapest(&dictionary::books()[7].map(|length| 1 << (12 - length)));
        let typical = dictionary::books()[usize::from(number)].map(|length| 1 << (12 - length));
        let same = [dictionary::books()[usize::from(number)]];
        assert_eq!(choose_book(&typical, CodebookPolicy::Auto, &same), Choice::Dictionary(number));
        // A book that lacks the code of a symbol that occurs cannot be taken.
        let rarest = (0..SYMBOLS).filter(|&symbol| histogram[symbol] > 0).min_by_key(|&symbol| histogram[symbol]).unwrap();
        let mut others = histogram;
        others[rarest] = 0;
        assert_ne!(choose(&[codebook::optimal_lengths(&others)]), Choice::Custom(codebook::optimal_lengths(&others)));
    }

    #[test]
    fn tokens_of_a_stream_are_counted() {
        let config = Config::absolute(0.01).unwrap();
        let counts = token_counts(&compress(1, &config)).unwrap();
        assert!(counts.iter().sum::<u64>() > 10_000);
        assert!(token_counts(&compress(1, &Config { coding: CodingPolicy::Bitshuffle, ..config })).is_err());
        assert_eq!(token_counts(&compress(0, &config)), Ok([0; SYMBOLS]));
        assert!(token_counts(&compress(1, &config)[..90]).is_err());
    }

    #[test]
    fn only_a_whole_streams_own_complete_book_is_learned() {
        let config = Config::absolute(0.01).unwrap();
        let mut books = AdaptiveDictionary::new(&[]).unwrap();
        let with_book = compress(1, &config);
        for (stream, why) in [
            (compress(1, &Config { codebook: CodebookPolicy::Dictionary, ..config }), "a book of the dictionary"),
            (compress(1, &Config { coding: CodingPolicy::Bitshuffle, ..config }), "no book"),
            (compress(0, &config), "a constant chunk"),
            (with_book[..with_book.len() - 1].to_vec(), "a stream that ends too early"),
            (with_book[1..].to_vec(), "no stream"),
            (Vec::new(), "nothing"),
        ] {
            books.learn(&stream);
            assert_eq!(books.books(), [[0; SYMBOLS]; 0], "{why}");
        }
        for steps in 1..9 {
            books.learn(&compress(steps, &config));
            for book in books.books() {
                codebook::fill_decode_table(book, &codebook::ENTRIES, &mut [0; 4096]).unwrap();
            }
        }
        assert!(books.books().len() > 3, "{} books", books.books().len());
    }
}
