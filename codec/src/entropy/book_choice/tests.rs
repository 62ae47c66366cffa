use super::*;
use crate::entropy::codebook::canonical_codes;
use crate::random::Random;

/// Bits that the symbols of a histogram take in a stream, with the lengths of a custom book; `None` if a symbol that occurs has
/// no code.
fn bits(histogram: &Histogram, choice: &Choice) -> Option<u64> {
    let codes = canonical_codes(&choice.lengths());
    let mut bits = match choice {
        Choice::Dictionary(_) => 0,
        Choice::Custom(lengths) => book_bits(lengths),
    };
    for (&count, code) in histogram.iter().zip(codes).filter(|&(&count, _)| count > 0) {
        bits += count * u64::from((code > 0).then_some(code >> 16)?);
    }
    Some(bits)
}

/// A histogram of about `values` tokens. Half of the histograms are like those of a book of the dictionary; the others have few
/// symbols.
fn histogram(random: &mut Random, values: u64) -> Histogram {
    let near = dictionary::books()[random.below(75) as usize];
    let kind = random.below(4);
    std::array::from_fn(|symbol| match kind {
        0 => values >> near[symbol],
        1 => (values >> near[symbol]) * random.below(3),
        _ => {
            if random.below(8) == 0 {
                random.below(values / 8 + 1)
            } else {
                0
            }
        }
    })
}

#[test]
fn no_candidate_takes_fewer_bits_than_the_book_chosen() {
    let mut random = Random(1);
    let (mut of_dictionary, mut given, mut built) = (0, 0, 0);
    for round in 0..600 {
        let values = [30, 300, 3000, 300_000][round % 4];
        let plane = histogram(&mut random, values);
        // Books for chunks like this one, for other chunks, and one of the dictionary's.
        let mut books: Vec<CodeLengths> = (0..random.below(5))
            .map(|book| match book {
                0 => optimal_lengths(&plane.map(|count| count + random.below(count / 4 + 2))),
                1 => dictionary::books()[random.below(75) as usize],
                _ => optimal_lengths(&histogram(&mut random, values)),
            })
            .collect();
        // A book with the cost of the first book: two symbols that do not occur have swapped their codes.
        let absent: Vec<usize> = (0..SYMBOLS).filter(|&symbol| plane[symbol] == 0).collect();
        if let (Some(&(mut twin)), [first, .., last]) = (books.first(), &absent[..]) {
            twin.swap(*first, *last);
            books.push(twin);
        }
        let chosen_by = |policy| choose(&plane, policy, &books);

        // The candidates in their order: of equal ones the first is taken.
        let from_dictionary = (0..75).map(Choice::Dictionary);
        let candidates: Vec<Choice> = from_dictionary.clone().chain(books.iter().copied().map(Choice::Custom)).collect();
        let best_of = |candidates: &[Choice]| {
            let costs = candidates.iter().filter_map(|choice| bits(&plane, choice).map(|bits| (bits, *choice)));
            costs.min_by_key(|&(bits, _)| bits).unwrap()
        };
        assert_eq!(chosen_by(CodebookPolicy::Dictionary), best_of(&candidates[..75]).1, "round {round}");
        let (best_bits, best) = best_of(&candidates);
        let own = Choice::Custom(optimal_lengths(&plane));
        let own_bits = bits(&plane, &own).unwrap();
        assert_eq!(chosen_by(CodebookPolicy::Custom), own, "round {round}");

        let chosen = chosen_by(CodebookPolicy::Auto);
        if chosen == best {
            // A book for the plane alone would have won less than its margin, or it was not expected to win.
            let entropy = entropy_bits(&plane);
            let was_built = entropy + entropy / 128 + expected_book_bits(&plane) + best_bits / 64 < best_bits;
            assert!(!was_built || own_bits + best_bits / 64 >= best_bits, "round {round}: {own_bits} bits, {best_bits} chosen");
        } else {
            assert_eq!(chosen, own, "round {round}");
            assert!(own_bits + best_bits / 64 < best_bits, "round {round}: {own_bits} bits chosen, {best_bits}");
        }
        of_dictionary += u32::from(matches!(chosen, Choice::Dictionary(_)));
        given += u32::from(chosen == best && matches!(best, Choice::Custom(_)));
        built += u32::from(chosen != best);
    }
    assert!(of_dictionary > 60 && given > 60 && built > 60, "{of_dictionary} of the dictionary, {given} given, {built} built");
}

#[test]
fn a_built_book_must_win_its_bytes_and_a_64th() {
    // A single symbol: its entropy is 0 and its own code has one bit, so that only the margin decides.
    for symbol in [0, 15, 30, 46, 75, 105] {
        let length = dictionary::books().iter().map(|lengths| u64::from(lengths[symbol])).min().unwrap();
        let (mut built, mut kept) = (0, 0);
        for count in 0..1500 {
            let mut plane = [0; SYMBOLS];
            plane[symbol] = count;
            let is_built = matches!(choose(&plane, CodebookPolicy::Auto, &[]), Choice::Custom(_));
            let own = book_bits(&optimal_lengths(&plane));
            let is_expected = count * length / 64 + 128 < count * length;
            assert_eq!(
                is_built,
                is_expected && count + count * length / 64 + own < count * length,
                "{count} times symbol {symbol}"
            );
            *(if is_built { &mut built } else { &mut kept }) += 1;
        }
        assert!(kept > 10 && (built > 30 || length == 1), "{length} bits: {built} built, {kept} kept");
    }
}

#[test]
fn no_book_is_built_within_a_128th_of_the_entropy() {
    // Four equally frequent symbols: a code of their own takes exactly their entropy. So some books that would win by the margin
    // are not built.
    let symbols = 28..32;
    let length =
        dictionary::books().iter().map(|lengths| lengths[symbols.clone()].iter().map(|&length| u64::from(length)).sum()).min();
    let length: u64 = length.unwrap();
    let mut only_for_the_excess = 0;
    for count in 1..3000 {
        let mut plane = [0; SYMBOLS];
        plane[symbols.clone()].fill(count);
        let entropy = entropy_bits(&plane);
        assert!(entropy == 8 * count || entropy == 8 * count - 1, "{entropy} bits for {count} of each");
        let margin = count * length / 64;
        let wins = 8 * count + margin + book_bits(&optimal_lengths(&plane)) < count * length;
        let is_built = matches!(choose(&plane, CodebookPolicy::Auto, &[]), Choice::Custom(_));
        assert_eq!(is_built, wins && entropy + entropy / 128 + margin + 128 < count * length, "{count} of each");
        only_for_the_excess += u32::from(!is_built && wins);
    }
    assert!(only_for_the_excess > 0, "the excess decides nothing");
}
