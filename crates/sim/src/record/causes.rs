//! The causes that a host was given: paths that live in host programs, where folding cannot find them.

use super::path::StepId;

/// Most causes of all hosts together.
const ALL: usize = 1 << 16;

/// The latest causes that a host was given.
///
/// A host program may keep a cause as long as it likes. It goes on from the latest of several, so that older ones rarely
/// matter; if a host goes on from one that is not among these, the critical path may not reach back to the start.
pub(super) struct Causes {
    list: Vec<StepId>,
    /// Position of the oldest in a full list.
    oldest: usize,
    most: usize,
}

impl Causes {
    pub(super) fn new(sips: u32) -> Self {
        Self { list: Vec::new(), oldest: 0, most: (ALL / sips.max(1) as usize).clamp(256, 4096) }
    }

    pub(super) fn add(&mut self, step: StepId) {
        if self.list.len() < self.most {
            return self.list.push(step);
        }
        self.list[self.oldest] = step;
        self.oldest = (self.oldest + 1) % self.most;
    }

    pub(super) fn latest(&self) -> &[StepId] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Path, Resource, Room, Steps, Use};
    use crate::stall::Kind;
    use crate::time::Time;
    use std::rc::Rc;

    #[test]
    fn the_latest_causes_are_kept() {
        let (mut causes, mut path) = (Causes::new(1 << 20), Path::default());
        let mut steps = Steps::new(0, 1, false, Rc::new(Room::new(1 << 10, 1)));
        let mut given = Vec::new();
        for at in 0..600 {
            steps.add(&mut path, Time::ps(at), Use::new(Resource::Host(0), Kind::Link));
            causes.add(path.last());
            given.push(path.last());
        }
        let mut latest = causes.latest().to_vec();
        latest.sort_unstable();
        assert_eq!(latest, given[600 - 256..]);
    }
}
