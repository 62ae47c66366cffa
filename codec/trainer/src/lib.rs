//! Makes the dictionary of precomputed codebooks.
