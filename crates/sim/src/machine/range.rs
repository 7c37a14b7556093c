//! Named ranges of host programs: from the first request made in a range to the end of the last.

use super::{Cause, Host, World};
use crate::record::{Gap, Owner, Path, RangeSpan};
use crate::time::Time;
use std::cell::Cell;
use std::rc::Rc;

/// A named range of a host program.
///
/// A host makes requests and goes on, so that the work of a range may begin and end long after the host has passed it. A
/// range therefore begins when its first request does (at its opening, if it has none), and ends with the last of its
/// requests or when the host leaves it, whichever is later. It is noted when its last copy is dropped.
#[derive(Clone)]
pub struct HostRange(Rc<State>);

struct State {
    world: Rc<World>,
    sip: u32,
    name: String,
    opened: Time,
    /// The begin of the first request.
    begun: Cell<Option<Time>>,
    /// The latest end so far, and the path to it.
    end: Cell<Time>,
    path: Cell<Path>,
}

impl Host {
    /// Opens a range.
    pub fn range(&self, name: impl Into<String>) -> HostRange {
        let opened = self.sim().now();
        HostRange(Rc::new(State {
            world: self.world.clone(),
            sip: self.sip,
            name: name.into(),
            opened,
            begun: Cell::new(None),
            end: Cell::new(opened),
            path: Cell::default(),
        }))
    }
}

impl HostRange {
    /// Counts a request that began at `begun` and is over now; `cause` led to its end.
    pub fn cover(&self, begun: Time, cause: Cause) {
        let first = self.0.begun.get().map_or(begun, |first| first.min(begun));
        self.0.begun.set(Some(first));
        self.close(cause);
    }

    /// Lets the range last until now at least; `cause` led here.
    pub fn close(&self, cause: Cause) {
        let now = self.0.world.sim.now();
        if now >= self.0.end.get() {
            self.0.end.set(now);
            self.0.path.set(cause.path());
        }
    }

    /// True for copies of one range.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let (to, mut path) = (self.end.get(), self.path.get());
        path.advance(to, Gap::Dependency);
        let span = RangeSpan {
            owner: Owner::Host(self.sip),
            name: std::mem::take(&mut self.name),
            from: self.begun.get().unwrap_or(self.opened).min(to),
            to,
        };
        self.world.sips[self.sip as usize].borrow_mut().record.ranges.add(span, path);
    }
}
