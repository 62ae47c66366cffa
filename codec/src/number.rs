//! Numbers: the types of a chunk's values, and the integers that encode them.

pub(crate) mod dispatch;
pub mod element;
pub mod fixed_log2;
pub mod integer;
pub mod pairs;
pub mod patched16;
pub mod rounding;
pub mod small_float;
pub mod value;
