//! What users write programs in.
#![forbid(unsafe_code)]
