// Four ways of decoding the same Huffman codes on a GPU: what `examples/decoders` measures. No part of the plugin.
//
//     layout                               index                       decoder
//     blocks, a bit string each            where each block begins     a thread a block, as the first cuSZ
//     one bit string                       none                        self-synchronising subsequences
//     one bit string                       a byte a subsequence: gaps  subsequences that know where they begin
//     blocks of 32 lanes (FORMAT.md §9.1)  where each block begins     a warp a block
//
// The layouts hold the same symbols in the same order, one byte each when they are decoded.

#include "decoders/coarse.cuh"
#include "decoders/compare.cuh"
#include "decoders/gap_array.cuh"
#include "decoders/lanes_alone.cuh"
#include "decoders/plain.cuh"
#include "decoders/self_sync.cuh"
#include "decoders/staged.cuh"
