//! Named ranges: stretches of time that a program names, like NVTX.

use super::log::{Log, Shared};
use super::path::Path;
use crate::time::Time;
use crate::topology::PeId;
use std::collections::BTreeMap;
use std::fmt;

/// The program that a range or a critical path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The host program of a SIP.
    Host(u32),
    /// A kernel on a PE.
    Kernel(PeId),
}

crate::portable!(enum Owner { 0 => Host(sip), 1 => Kernel(pe) });

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(sip) => write!(f, "host{sip}"),
            Self::Kernel(pe) => write!(f, "{pe}"),
        }
    }
}

/// One range of a recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSpan {
    /// The program that opened it.
    pub owner: Owner,
    /// Its name.
    pub name: String,
    /// Its start.
    pub from: Time,
    /// Its end.
    pub to: Time,
}

crate::portable!(struct RangeSpan { owner, name, from, to });

/// The ranges of one name.
#[derive(Clone, Debug)]
pub(crate) struct RangeTotal {
    pub(crate) count: u64,
    pub(crate) total: Time,
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// The program whose range ended last, and the path to that end.
    pub(crate) last: (Owner, Path),
}

crate::portable!(struct RangeTotal { count, total, from, to, last });

impl RangeTotal {
    /// Adds the ranges of the same name on another SIP, or later ones.
    pub(crate) fn add(&mut self, other: &Self) {
        // The latest end decides, and the lowest owner among equal ends: the order of adding does not.
        if (self.to, other.last.0) < (other.to, self.last.0) {
            self.last = other.last;
        }
        self.count += other.count;
        self.total += other.total;
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
    }
}

/// The ranges of one SIP that have ended.
pub(crate) struct Ranges {
    recording: bool,
    totals: BTreeMap<String, RangeTotal>,
    spans: Log<RangeSpan>,
}

impl Ranges {
    pub(super) fn new(recording: bool) -> Self {
        Self { recording, totals: BTreeMap::new(), spans: Log::default() }
    }

    /// Notes a range that has ended; `path` led to its end.
    pub(crate) fn add(&mut self, span: RangeSpan, path: Path) {
        let RangeSpan { owner, from, to, .. } = span;
        let one = RangeTotal { count: 1, total: to - from, from, to, last: (owner, path) };
        match self.totals.get_mut(&span.name) {
            Some(total) => total.add(&one),
            None => drop(self.totals.insert(span.name.clone(), one)),
        }
        if self.recording {
            self.spans.push(span);
        }
    }

    /// Replaces all ranges by those of another shard.
    pub(super) fn put(&mut self, totals: BTreeMap<String, RangeTotal>, spans: Shared<RangeSpan>) {
        (self.totals, self.spans) = (totals, Log::of(spans));
    }

    pub(crate) fn totals(&self) -> &BTreeMap<String, RangeTotal> {
        &self.totals
    }

    /// Returns each range, in the order of their ends; nothing without recording.
    pub(crate) fn spans(&mut self) -> Shared<RangeSpan> {
        self.spans.share()
    }
}
