//! The simulator as its users see it.

mod value;
