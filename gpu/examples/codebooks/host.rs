//! The way over the host, Huffman's algorithm, and what all ways are compared with.

/// Bit at which a code's length begins in its entry: `LENGTH_SHIFT` in `codebooks.cu`.
const LENGTH_SHIFT: u32 = 27;

/// Huffman's algorithm with arrays that are kept: the counts are sorted once; then the least two of two queues, the leaves and the
/// joined nodes, which come out in ascending order by themselves, are joined until one is left.
pub(crate) struct Huffman {
    leaves: Vec<u64>,       // count << 32 | symbol, ascending
    nodes: Vec<u64>,        // weights of the joined nodes
    leaf_parents: Vec<u32>, // the node that a leaf or a node became part of
    parents: Vec<u32>,      // and then, from the root down, depths
    lengths: Vec<u8>,
}

impl Huffman {
    pub(crate) fn new(symbols: usize) -> Self {
        let numbers = || vec![0; symbols];
        let nodes = Vec::with_capacity(symbols);
        Self { leaves: nodes.clone(), nodes, leaf_parents: numbers(), parents: numbers(), lengths: vec![0; symbols] }
    }

    /// Canonical codes by symbol; the histogram has at least two.
    pub(crate) fn build(&mut self, histogram: &[u32], codes: &mut [u32]) {
        self.leaves.clear();
        self.nodes.clear();
        let present = histogram.iter().enumerate().filter(|&(_, &count)| count > 0);
        self.leaves.extend(present.map(|(symbol, &count)| u64::from(count) << 32 | symbol as u64));
        self.leaves.sort_unstable();
        let (mut leaf, mut node) = (0, 0);
        for parent in 0..self.leaves.len() - 1 {
            let mut weight = 0;
            for _ in 0..2 {
                let lightest = self.leaves.get(leaf).map_or(u64::MAX, |entry| entry >> 32);
                // Leaves first where weights are equal, which keeps the longest code short.
                if self.nodes.get(node).is_none_or(|&joined| lightest <= joined) {
                    weight += lightest;
                    self.leaf_parents[leaf] = parent as u32;
                    leaf += 1;
                } else {
                    weight += self.nodes[node];
                    self.parents[node] = parent as u32;
                    node += 1;
                }
            }
            self.nodes.push(weight);
        }
        let root = self.nodes.len() - 1;
        self.parents[root] = 0;
        for node in (0..root).rev() {
            self.parents[node] = self.parents[self.parents[node] as usize] + 1;
        }
        self.lengths.fill(0);
        for (entry, &parent) in self.leaves.iter().zip(&self.leaf_parents) {
            self.lengths[(entry & 0xffff_ffff) as usize] = self.parents[parent as usize] as u8 + 1;
        }
        write_canonical(&self.lengths, codes);
    }
}

/// Canonical codes: ascending by length, then by symbol. An entry is 0 for a symbol without a code.
fn write_canonical(lengths: &[u8], codes: &mut [u32]) {
    let mut counts = [0u32; 33];
    for &length in lengths {
        counts[usize::from(length)] += 1;
    }
    counts[0] = 0;
    let (mut next, mut code) = ([0u32; 33], 0);
    for length in 1..33 {
        code = (code + counts[length - 1]) << 1;
        next[length] = code;
    }
    for (entry, &length) in codes.iter_mut().zip(lengths) {
        let next = &mut next[usize::from(length)];
        *entry = if length > 0 { *next | u32::from(length) << LENGTH_SHIFT } else { 0 };
        *next += 1;
    }
}

pub(crate) fn canonical(lengths: &[u8]) -> Vec<u32> {
    let mut codes = vec![0; lengths.len()];
    write_canonical(lengths, &mut codes);
    codes
}

pub(crate) fn lengths_of(codes: &[u32]) -> Vec<u8> {
    codes.iter().map(|entry| (entry >> LENGTH_SHIFT) as u8).collect()
}

/// Every symbol that occurs has a code, the codes are canonical, and no code is left over.
pub(crate) fn check_codes(codes: &[u32], histogram: &[u32]) {
    let lengths = lengths_of(codes);
    assert!(histogram.iter().zip(&lengths).all(|(&count, &length)| (count > 0) == (length > 0)), "symbols that occur have codes");
    assert_eq!(codes, canonical(&lengths), "the codes are canonical");
    let used: u64 = lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (32 - length)).sum();
    assert_eq!(used, 1 << 32, "the code is complete");
}

/// Lengths of least cost of at most `max_bits`, by package-merge as the codec has it, for any number of symbols. What the others are
/// compared with; not timed.
pub(crate) fn package_merge(weights: &[u64], max_bits: u8) -> Vec<u8> {
    let mut leaves: Vec<(u64, Option<usize>)> =
        weights.iter().enumerate().filter(|&(_, &weight)| weight > 0).map(|(symbol, &weight)| (weight, Some(symbol))).collect();
    leaves.sort_by_key(|&(weight, symbol)| (weight, symbol));
    let mut levels = vec![leaves.clone()];
    for below in 0..usize::from(max_bits) - 1 {
        let pairs = levels[below].chunks_exact(2).map(|pair| (pair[0].0 + pair[1].0, None));
        let mut level: Vec<_> = leaves.iter().copied().chain(pairs).collect();
        level.sort_by_key(|&(weight, _)| weight);
        levels.push(level);
    }
    let mut lengths = vec![0; weights.len()];
    let mut taken = 2 * leaves.len() - 2;
    for level in levels.iter().rev() {
        let symbols: Vec<usize> = level[..taken].iter().filter_map(|&(_, symbol)| symbol).collect();
        taken = 2 * (taken - symbols.len());
        for symbol in symbols {
            lengths[symbol] += 1;
        }
    }
    lengths
}

pub(crate) fn cost(histogram: &[u32], lengths: &[u8]) -> u64 {
    histogram.iter().zip(lengths).map(|(&count, &length)| u64::from(count) * u64::from(length)).sum()
}

pub(crate) fn cheapest(histogram: &[u32], books: &[Vec<u8>]) -> (usize, u64) {
    let costs = books.iter().map(|lengths| cost(histogram, lengths));
    costs.enumerate().min_by_key(|&(_, cost)| cost).expect("there are books")
}

pub(crate) fn widened(histogram: &[u32]) -> Vec<u64> {
    histogram.iter().map(|&count| u64::from(count)).collect()
}
