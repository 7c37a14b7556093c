//! Timelines as their readers see them.

mod chrome;
mod device;
mod model;
mod perfetto;
mod random;
mod refusal;
mod schema;
