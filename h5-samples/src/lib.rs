//! Seeded scientific-looking fields.
