//! Who waits for whom in a domain, as far as workers say.

use super::Core;
use crate::domain::{Allocated, Domain};
use crate::message::Step;
use std::sync::Arc;

impl Core {
    /// Remembers a domain for as long as it lives, for reports.
    pub(crate) fn know_domain(&mut self, domain: &Domain) {
        self.domains.retain(|known| known.strong_count() > 0);
        self.domains.push(Arc::downgrade(&domain.0));
    }

    /// The domain and the rank that the worker at `at` waits for, and with which cell.
    fn waits_for(&self, at: usize) -> Option<(Arc<Allocated>, usize, u32)> {
        let step = self.lanes[at].endpoint.evidence().step;
        let Step::Waits { domain, rank, cell } = Step::decode(step) else { return None };
        let mut living = self.domains.iter().filter_map(std::sync::Weak::upgrade);
        let is_meant = |known: &Arc<Allocated>| {
            Step::short(known.roster.id) == domain
                && known.lanes.get(usize::from(rank)).is_some_and(|lane| *lane < self.lanes.len())
                && known.lanes.contains(&at)
        };
        Some((living.find(is_meant)?, usize::from(rank), cell))
    }

    /// Whether the worker at `at` only waits, at last for one that runs something else than such a wait.
    pub(crate) fn is_held_up(&self, at: usize) -> bool {
        let mut last = at;
        // Longer chains are circles.
        for _ in 0..self.lanes.len() {
            let Some((domain, rank, _)) = self.waits_for(last) else { break };
            last = domain.lanes[rank];
        }
        last != at && self.waits_for(last).is_none() && self.has_task(last)
    }

    /// Whom the worker at `at` waits for, in words; nothing if it does not wait.
    pub(crate) fn say_wait(&self, at: usize) -> String {
        let Some((domain, rank, cell)) = self.waits_for(at) else { return String::new() };
        let roster = &domain.roster;
        let is_barrier = cell == roster.signals;
        let what = if is_barrier { "the barrier".to_owned() } else { format!("cell {cell}") };
        let other = domain.lanes[rank];
        let peer = &self.lanes[other];
        let does = match (&peer.lost, self.has_task(other)) {
            (Some(words), _) => format!("is lost: {words}"),
            (None, true) => "does not write it".to_owned(),
            (None, false) => "runs nothing".to_owned(),
        };
        let name = peer.endpoint.name();
        format!(
            "; it waits for {what} of rank {rank} of {roster}, and that is {name}, which {does}"
        )
    }
}
