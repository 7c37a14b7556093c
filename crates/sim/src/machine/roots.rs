//! The live paths of a machine: every place from which a critical path may go on. Folding keeps what they can reach.
//!
//! A new place that holds a [`Path`] over the end of a window must be added to [`World::live_steps`].

use super::{Sip, World};
use crate::ipcq::Edge;
use crate::kernel::Program;
use crate::record::{Path, StepId, Steps, fold};
use crate::time::Time;
use std::cell::RefMut;
use std::rc::{Rc, Weak};

/// The programs that may still run.
#[derive(Default)]
pub(crate) struct Programs {
    list: Vec<Weak<Program>>,
    /// Length of the list at which ended programs are removed.
    limit: usize,
}

impl Programs {
    pub(crate) fn add(&mut self, program: &Rc<Program>) {
        if self.list.len() >= self.limit {
            self.list.retain(|program| program.strong_count() > 0);
            self.limit = (2 * self.list.len()).max(64);
        }
        self.list.push(Rc::downgrade(program));
    }

    fn live(&self) -> impl Iterator<Item = Rc<Program>> {
        self.list.iter().filter_map(Weak::upgrade)
    }
}

impl World {
    /// Folds the steps of all SIPs if there are many; no event will fire before `since`.
    #[inline]
    pub(super) fn fold_if_due(&self, since: Time) {
        if self.room.is_used_up() {
            self.fold(since);
        }
    }

    #[cold]
    fn fold(&self, since: Time) {
        let mut roots = self.live_steps(since);
        roots.extend(self.launched.last.borrow().map(|(.., path)| path.last()));
        let mut sips: Vec<RefMut<'_, Sip>> =
            self.sips.iter().map(std::cell::RefCell::borrow_mut).collect();
        let mut all: Vec<&mut Steps> = sips.iter_mut().map(|sip| sip.record.steps_mut()).collect();
        fold(&self.room, &mut all, &roots);
    }

    /// Returns the last step of every path of this shard that may go on at `since` or later.
    ///
    /// Ranges are left out: only a recorded run, which folds nothing, walks their paths.
    pub(super) fn live_steps(&self, since: Time) -> Vec<StepId> {
        let mut steps = Vec::new();
        for program in self.launched.programs.borrow().live() {
            steps.extend(program.live_paths().map(|path| path.last()));
        }
        for edge in &self.edges.borrow().list {
            add_edge(&mut steps, edge);
        }
        for exit in &*self.exits.borrow() {
            steps.extend((0..exit.paths.len()).map(|index| exit.paths[index].last()));
        }
        steps.extend(self.packets.borrow().paths().map(Path::last));
        for (number, sip) in (0..).zip(&self.sips).filter(|(number, _)| self.owns(*number)) {
            add_sip(&mut steps, number, &sip.borrow(), since);
        }
        steps
    }
}

/// Adds the paths of messages and of credits on their way home.
fn add_edge(steps: &mut Vec<StepId>, edge: &Edge) {
    steps.push(edge.last_wait.last());
    steps.extend((0..edge.messages.len()).map(|index| edge.messages[index].path.last()));
    steps.extend((0..edge.returning.len()).map(|index| edge.returning[index].path.last()));
}

/// Adds the paths of everything under way, of the wires that someone can wait for at `since` or later, and of the causes
/// that the host has.
fn add_sip(steps: &mut Vec<StepId>, number: u32, sip: &Sip, since: Time) {
    let wires = sip.wires(number).into_iter().map(|(_, wire)| wire);
    steps.extend(wires.filter(|wire| wire.free() >= since).map(|wire| wire.last().last()));
    steps.extend(sip.live_paths().map(|path| path.last()));
    steps.extend_from_slice(sip.record.causes());
}
