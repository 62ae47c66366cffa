//! Streams (FORMAT.md §2 to §4): header, planes, and what tools may know of them.

pub mod body;
pub mod books;
pub(crate) mod buffers;
pub(crate) mod decode;
pub(crate) mod encode;
pub mod header;
pub mod inspect;
pub mod plane;
pub(crate) mod slabs;
pub(crate) mod verified;
