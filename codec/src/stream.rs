//! Streams (FORMAT.md §2 to §4): header, planes, and what tools may know of them.

pub mod body;
pub mod books;
pub mod header;
pub mod inspect;
pub mod plane;
