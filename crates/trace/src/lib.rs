//! Timelines of virtual and real time.
#![forbid(unsafe_code)]
