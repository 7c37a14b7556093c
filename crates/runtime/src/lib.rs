//! Runs task graphs for real: workers as threads or processes behind shared-memory mailboxes.

pub mod shm;
mod sync;
