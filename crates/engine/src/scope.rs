//! Scopes: how long slabs live.
//!
//! A task's slab is held by the scope it was submitted in, by the task itself, and by each task that names it. Closing a
//! scope lets go of all slabs made in it and never waits. A task without a slab has nothing to hold: its slot is free when
//! it has ended, whatever the scope.
//!
//! - **SC-1 (lives as long as needed).** A slab lives until its scope is closed and all who name it have ended.
//! - **SC-2 (depth).** A run has at most 64 open scopes, its own included.
//! - **SC-3 (manual).** In a manual scope nothing is inferred and nothing is entered: only `after` counts. Manual scopes
//!   hold manual scopes only.
//! - **SC-4 (balanced).** Ending a run with a scope open is an error that names the scope, and closes it.

use crate::refs::ScopeRef;
use std::fmt;

/// Maximum number of open scopes of one run, its own included.
pub(crate) const MAX_DEPTH: usize = 64;

/// A scope that is open; give it to [`crate::Engine::close`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a scope that is not closed fails its run"]
pub struct Scope {
    pub(crate) run: crate::run::RunId,
    pub(crate) number: u64,
}

/// The treatment of dependencies in a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are inferred.
    Automatic,
    /// Only explicit ones count.
    Manual,
}

#[derive(Debug)]
pub(crate) struct OpenScope {
    pub(crate) number: u64,
    pub(crate) label: &'static str,
    pub(crate) mode: Mode,
    pub(crate) bytes: u64,
    pub(crate) refs: Vec<ScopeRef>,
}

impl OpenScope {
    pub(crate) fn new(number: u64, label: &'static str, mode: Mode) -> Self {
        Self { number, label, mode, bytes: 0, refs: Vec::new() }
    }
}

/// Reasons why a scope cannot be opened or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeError {
    /// The run is over or takes nothing more.
    NotBuilding,
    /// There are 64 open.
    TooDeep,
    /// An automatic scope cannot be inside a manual one.
    AutomaticInManual(&'static str),
    /// It is not open any more.
    NotOpen,
    /// This one was open inside; it is closed now, too.
    OpenInside(&'static str),
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilding => write!(f, "the run takes nothing more"),
            Self::TooDeep => write!(f, "a run has at most {MAX_DEPTH} open scopes"),
            Self::AutomaticInManual(label) => {
                write!(f, "an automatic scope inside the manual scope `{label}`")
            }
            Self::NotOpen => write!(f, "the scope is not open"),
            Self::OpenInside(label) => write!(f, "a scope inside was still open: `{label}`"),
        }
    }
}

impl std::error::Error for ScopeError {}
