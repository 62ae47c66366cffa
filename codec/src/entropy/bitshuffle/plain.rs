//! FORMAT.md §9.2, and §11.4 for the encoder, word for word, one bit plane at a time: writes and reads blocks of bit planes.

/// The number `u` of an integer `v` of `width` bits. `u` of the least integer is cut to `width` bits.
fn folded(v: i64, width: u32) -> u64 {
    let u = v.unsigned_abs().saturating_mul(2) - u64::from(v > 0);
    u.min(u64::MAX >> (64 - width))
}

/// The integer of a number `u`, whose low bits count.
fn unfolded(u: u64) -> i64 {
    if u % 2 == 1 { (u / 2 + 1).cast_signed() } else { (u / 2).cast_signed().wrapping_neg() }
}

/// Encoder: the bytes of a block of integers of `width` bits.
pub(super) fn encode(block: &[i64], width: u32) -> Vec<u8> {
    let numbers: Vec<u64> = block.iter().map(|&v| folded(v, width)).collect();
    let count = (0..width).filter(|k| numbers.iter().any(|u| u >> k & 1 == 1)).max().map_or(0, |last| last as usize + 1);
    if count == 0 {
        return Vec::new();
    }
    let mut modes = vec![0; count.div_ceil(4)];
    let (mut all_flags, mut fours, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..count {
        let word = |of_word: &[u64]| of_word.iter().rev().fold(0u32, |word, u| word << 1 | (u >> k & 1) as u32).to_le_bytes();
        let words: Vec<[u8; 4]> = numbers.chunks(32).map(word).collect();
        let nonzero_words: Vec<[u8; 4]> = words.iter().copied().filter(|&word| word != [0; 4]).collect();
        let nonzero_bytes: Vec<u8> = words.as_flattened().iter().copied().filter(|&byte| byte != 0).collect();
        let mode = if nonzero_bytes.is_empty() {
            0
        } else if 64 + 4 * nonzero_words.len() + 8 * nonzero_bytes.len() < 32 * words.len() {
            let flags = words.iter().rev().fold(0u64, |flags, word| flags << 1 | u64::from(*word != [0; 4]));
            all_flags.extend(flags.to_le_bytes());
            fours.extend(nonzero_words.iter().map(four_bits));
            bytes.extend(nonzero_bytes);
            2
        } else {
            bytes.extend(words.as_flattened());
            1
        };
        modes[k / 4] |= mode << (2 * (k % 4));
    }
    let fours: Vec<u8> = fours.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 4).collect();
    let mut stream = [vec![count as u8], modes, all_flags, fours, bytes].concat();
    stream.resize(stream.len().next_multiple_of(4), 0);
    stream
}

/// Four bits that say which bytes of a word are not 0.
fn four_bits(word: &[u8; 4]) -> u8 {
    (0..4).fold(0, |bits, j| bits | u8::from(word[j] != 0) << j)
}

/// Decoder: the integers of a block of `len`, modulo 2^width. `None` if the bytes are no such block.
pub(super) fn decode(stream: &[u8], len: usize, width: usize) -> Option<Vec<i64>> {
    if stream.is_empty() {
        return Some(vec![0; len]);
    }
    let mut rest = stream;
    let mut take = |size: usize| {
        let taken;
        (taken, rest) = rest.split_at_checked(size)?;
        Some(taken)
    };
    let (count, words) = (usize::from(take(1)?[0]), len.div_ceil(32));
    let packed = take(count.div_ceil(4))?;
    let modes: Vec<u8> = packed.iter().flat_map(|byte| (0..4).map(move |k| byte >> (2 * k) & 3)).collect();
    if !(1..=width).contains(&count)
        || modes.contains(&3)
        || modes[count - 1] == 0
        || modes[count..].iter().any(|&mode| mode != 0)
    {
        return None;
    }
    let sparse = modes.iter().filter(|&&mode| mode == 2).count();
    let flags: Vec<u64> = take(8 * sparse)?.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
    let flagged: usize = flags.iter().map(|flags| flags.count_ones() as usize).sum();
    let fours: Vec<u8> = take(flagged.div_ceil(2))?.iter().flat_map(|pair| [pair & 15, pair >> 4]).collect();
    if flags.iter().any(|&flags| flags == 0 || flags.checked_shr(words as u32).unwrap_or(0) != 0)
        || fours[flagged..].iter().any(|&four| four != 0)
    {
        return None;
    }
    let (mut flags, mut fours, mut numbers) = (flags.iter(), fours.iter(), vec![0u64; 32 * words]);
    for (k, &mode) in modes[..count].iter().enumerate() {
        let mut plane = vec![[0; 4]; words];
        if mode == 1 {
            plane = take(4 * words)?.as_chunks().0.to_vec();
        } else if mode == 2 {
            let flags = flags.next()?;
            for word in (0..words).filter(|word| flags >> word & 1 == 1) {
                let four = fours.next()?;
                for j in (0..4).filter(|j| four >> j & 1 == 1) {
                    plane[word][j] = take(1)?[0];
                }
                if *four == 0 || four_bits(&plane[word]) != *four {
                    return None;
                }
            }
        }
        for (i, u) in numbers.iter_mut().enumerate() {
            *u |= u64::from(u32::from_le_bytes(plane[i / 32]) >> (i % 32) & 1) << k;
        }
    }
    let last_is_0 = numbers.iter().all(|u| u >> (count - 1) == 0);
    let padding_is_0 = rest.len() < 4 && stream.len().is_multiple_of(4) && rest.iter().all(|&byte| byte == 0);
    let behind_is_0 = numbers[len..].iter().all(|&u| u == 0);
    (!last_is_0 && padding_is_0 && behind_is_0).then(|| numbers[..len].iter().map(|&u| unfolded(u)).collect())
}
