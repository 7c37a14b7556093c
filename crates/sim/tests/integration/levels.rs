//! Machines of levels.
