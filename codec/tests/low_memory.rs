//! Memory that is refused is an error, whichever allocation it is: no abort, no panic, no other bytes, and the next call works.
//!
//! Each call is done again and again from a new state, with its first allocation refused, its second, and so on until it needs no more; then the same with
//! all allocations behind that one refused too.

mod common;
#[path = "common/refusing.rs"]
mod refusing;

use std::fmt::Debug;

use common::{Content, books, chunk, layout, values};
use quire_codec::stages::adaptive::{AdaptiveDictionary, MAX_USER_BOOKS, UserDictionary};
use quire_codec::stages::header::{HEADER_MIN_LEN, seal};
use quire_codec::stages::inspect::Description;
use quire_codec::stages::predictor::InterpolationKind;
use quire_codec::{
    Brick, ByteOrder, CodebookPolicy, CodingPolicy, Config, Error, ErrorBound, Layout, PredictorPolicy, Result, Scalar, Shape,
    Workspace, options,
};
use refusing::{Refusals, Refusing, refuse};

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

/// Calls `body` with each of its allocations refused in turn, and behind each refusal once more without one. Returns how many allocations it makes.
fn refuse_each<S, R: PartialEq + Debug>(
    what: &dyn Debug,
    prepare: impl Fn() -> S,
    body: impl Fn(&mut S) -> Result<()>,
    result: impl Fn(&S) -> R,
) -> u64 {
    let undisturbed = |state: &mut S| {
        body(state).unwrap();
        result(state)
    };
    let expected = undisturbed(&mut prepare());
    let mut allocations = 0;
    for refusals in [Refusals::One, Refusals::AllBehind] {
        for call in 0.. {
            let mut state = prepare();
            let (outcome, refused) = refuse(call, refusals, || body(&mut state));
            match outcome {
                Ok(()) => assert_eq!(result(&state), expected, "{what:?}: allocation {call}, {refusals:?}"),
                Err(Error::OutOfMemory { .. }) => assert!(refused > 0, "{what:?}: no allocation was refused"),
                Err(error) => panic!("{what:?}: {error:?} where allocation {call} was refused, {refusals:?}"),
            }
            assert_eq!(undisturbed(&mut state), expected, "{what:?}: the call behind allocation {call}, {refusals:?}");
            if refused == 0 {
                allocations = call;
                break;
            }
        }
    }
    allocations
}

/// Refuses each allocation of compressing a chunk, and of decompressing it.
fn check(original: &[u8], layout: &Layout, config: &Config) -> Vec<u8> {
    let what = (layout, config.bound, config.coding, config.codebook, config.predictor);
    let cold = |room: &[u8]| (Workspace::default(), room.to_vec());
    let bytes = |(_, bytes): &(Workspace, Vec<u8>)| bytes.clone();
    let allocations =
        refuse_each(&what, || cold(&[]), |(workspace, stream)| workspace.compress(original, layout, config, stream), bytes);
    assert!(allocations > 0, "{what:?}: compressing allocates nothing");
    let mut stream = Vec::new();
    Workspace::default().compress(original, layout, config, &mut stream).unwrap();
    let room = vec![0xa5; original.len()];
    refuse_each(&what, || cold(&room), |(workspace, chunk)| workspace.decompress(&stream, chunk), bytes);
    refuse_each(&what, || None, |found| Description::of(&stream).map(|new| *found = Some(new)), Option::clone);
    stream
}

/// A chunk of some content, as short as its stages allow.
fn example(content: Content, scalar: Scalar, dims: &[u64]) -> (Vec<u8>, Layout) {
    let layout = layout(scalar, ByteOrder::Little, dims);
    (chunk(&values(content, layout.shape.elements() as usize, 7), &layout, 3), layout)
}

fn with(bound: ErrorBound) -> Config<'static> {
    Config::new(bound).unwrap()
}

#[test]
fn every_type_under_every_grid() {
    for scalar in Scalar::ALL {
        let (chunk, layout) = example(Content::Smooth, scalar, &[14, 15, 16]);
        let bound = if scalar.is_float() { 0.01 } else { 2.0 };
        for bound in [ErrorBound::Absolute(bound), ErrorBound::PointwiseRelative(0.01), ErrorBound::Lossless] {
            if scalar.is_float() || !matches!(bound, ErrorBound::PointwiseRelative(_)) {
                for coding in [CodingPolicy::Huffman, CodingPolicy::Bitshuffle] {
                    check(&chunk, &layout, &Config { coding, ..with(bound) });
                }
            }
        }
    }
}

#[test]
fn bounds_that_follow_the_chunk() {
    for scalar in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::BF16, Scalar::I16] {
        // The ends of two axes are padding.
        let (mut chunk, layout) = example(Content::Smooth, scalar, &[16, 10, 12]);
        let slab = chunk.len() / 16;
        chunk[14 * slab..].fill(0);
        for bound in [
            ErrorBound::Relative(0.01),
            ErrorBound::Psnr(50.0),
            ErrorBound::Ratio { ratio: 6.0, ceiling: None },
            ErrorBound::Ratio { ratio: 6.0, ceiling: Some(3.0) },
        ] {
            check(&chunk, &layout, &with(bound));
        }
    }
    // So long that a sample of it is tried first.
    let (chunk, layout) = example(Content::Noise, Scalar::F32, &[64, 1030]);
    check(&chunk, &layout, &with(ErrorBound::Ratio { ratio: 9.0, ceiling: None }));
}

#[test]
fn every_predictor_and_content() {
    let contents = [
        Content::Smooth,
        Content::Noise,
        Content::Lattice,
        Content::LandMask,
        Content::Gaps,
        Content::Specials,
        Content::Bits,
        Content::Constant,
        Content::Outliers,
    ];
    for (scalar, content) in [Scalar::F32, Scalar::F64].into_iter().flat_map(|scalar| contents.map(|content| (scalar, content))) {
        for predictor in
            [PredictorPolicy::Auto, PredictorPolicy::Interpolation(InterpolationKind::CUBIC), PredictorPolicy::Axes(1)]
        {
            for coding in [CodingPolicy::Huffman, CodingPolicy::Bitshuffle] {
                let (chunk, layout) = example(content, scalar, &[9, 21, 22]);
                check(&chunk, &layout, &Config { predictor, coding, ..Config::absolute(1e-3).unwrap() });
            }
        }
    }
}

#[test]
fn every_shape_of_an_interpolation() {
    // Lines, sheets, stacks and stacks of these; small grids alone, and larger ones.
    for dims in [&[1][..], &[50], &[5000], &[70, 80], &[20, 30, 40], &[2, 3, 4, 5], &[3, 11, 12, 13]] {
        let (chunk, layout) = example(Content::Outliers, Scalar::F32, dims);
        check(
            &chunk,
            &layout,
            &Config { predictor: PredictorPolicy::Interpolation(InterpolationKind::CUBIC), ..Config::absolute(0.01).unwrap() },
        );
    }
}

#[test]
fn a_choice_on_tiles() {
    let (chunk, layout) = example(Content::Smooth, Scalar::F32, &[32, 64, 64]);
    check(&chunk, &layout, &Config::absolute(0.01).unwrap());
}

#[test]
fn every_policy_of_codebooks() {
    let (chunk, layout) = example(Content::Noise, Scalar::F32, &[4000]);
    for codebook in [CodebookPolicy::Auto, CodebookPolicy::Dictionary, CodebookPolicy::Custom] {
        for books in [&[][..], books()] {
            check(&chunk, &layout, &Config { codebook, books, ..Config::absolute(0.1).unwrap() });
        }
    }
}

#[test]
fn a_users_dictionary_and_a_history() {
    let file = UserDictionary { origin: "made by hand".to_owned(), books: books()[..3].to_vec() }.to_bytes().unwrap();
    let read = || UserDictionary::from_bytes(&file);
    let allocations = refuse_each(&"dictionary", || None, |found| read().map(|new| *found = Some(new)), Option::clone);
    assert_eq!(allocations, 3, "a table to check books with, the origin, the books");

    let user = read().unwrap();
    let (chunk, layout) = example(Content::Noise, Scalar::F32, &[4000]);
    let config = Config { codebook: CodebookPolicy::Custom, ..Config::absolute(0.1).unwrap() };
    let stream = check(&chunk, &layout, &config);
    let learn = |history: &mut Option<AdaptiveDictionary>| {
        let mut begun = AdaptiveDictionary::new(&user.books)?;
        begun.learn(&stream);
        *history = Some(begun);
        Ok(())
    };
    let allocations = refuse_each(&"history", || None, learn, Option::clone);
    assert_eq!(allocations, 1, "room for all books that it will ever have");
    // With a full history to choose from.
    let mut history = AdaptiveDictionary::new(&user.books[..MAX_USER_BOOKS.min(2)]).unwrap();
    books().iter().for_each(|book| history.learn_book(book));
    check(&chunk, &layout, &Config { books: history.books(), ..Config::absolute(0.1).unwrap() });
}

#[test]
fn texts_of_errors() {
    // What is refused for another reason still is when there is no memory to say so, if only for the lack of memory.
    let mut damaged = a_stream();
    *damaged.last_mut().unwrap() ^= 1;
    let (run, extra_bits) = (a_damaged_block("values behind the block"), a_damaged_block("extra bits, it has"));
    let decode_block = |stream: &[u8]| Workspace::default().decompress(stream, &mut [0; 4 * BLOCK_VALUES]);
    let refusals: [(&str, &dyn Fn() -> Result<()>); 8] = [
        ("options", &|| options::parse("abs=1,coding=best").map(|_| ())),
        ("brick", &|| Brick::parse("8x0").map(|_| ())),
        ("rows", &|| Shape::fold(&[9])?.in_bricks(Some(Brick::parse("8")?)).map(|_| ())),
        ("shape", &|| Shape::fold(&[0, 3]).map(|_| ())),
        ("bound", &|| Config::absolute(-1.0).map(|_| ())),
        ("stream", &|| Workspace::default().decompress(&damaged, &mut [0; 4]).map(|_| ())),
        ("run", &|| decode_block(&run)),
        ("extra bits", &|| decode_block(&extra_bits)),
    ];
    for (what, body) in refusals {
        let expected = body().unwrap_err();
        assert!(!matches!(expected, Error::OutOfMemory { .. }), "{what}: {expected}");
        for call in 0.. {
            let (outcome, refused) = refuse(call, Refusals::AllBehind, body);
            match outcome.unwrap_err() {
                Error::OutOfMemory { .. } => assert!(refused > 0, "{what}"),
                error => assert_eq!((error, refused), (expected.clone(), 0), "{what}"),
            }
            if refused == 0 {
                assert!(call > 0, "{what}: its text takes no memory");
                break;
            }
        }
    }
}

/// Values of a stream that [`a_damaged_block`] returns.
const BLOCK_VALUES: usize = 300;

/// A stream with a right checksum whose only block is damaged, so that its error has this text.
fn a_damaged_block(text: &str) -> Vec<u8> {
    let (chunk, layout) = example(Content::MostlyZero, Scalar::F32, &[BLOCK_VALUES as u64]);
    let mut stream = Vec::new();
    Workspace::default().compress(&chunk, &layout, &Config::absolute(1e-3).unwrap(), &mut stream).unwrap();
    let damaged = (8 * HEADER_MIN_LEN..8 * stream.len()).map(|bit| {
        let mut damaged = stream.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        seal(&mut damaged);
        damaged
    });
    let has_text = |stream: &Vec<u8>| {
        Workspace::default().decompress(stream, &mut [0; 4 * BLOCK_VALUES]).is_err_and(|error| error.to_string().contains(text))
    };
    damaged.into_iter().find(has_text).unwrap()
}

fn a_stream() -> Vec<u8> {
    let (chunk, layout) = example(Content::Constant, Scalar::F32, &[40]);
    let mut stream = Vec::new();
    Workspace::default().compress(&chunk, &layout, &Config::absolute(0.1).unwrap(), &mut stream).unwrap();
    stream
}
