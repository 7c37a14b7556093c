//! Waits between workers in domains, and notices to ranks that wait for a peer that will not write.

use super::Core;
use crate::clock;
use crate::domain::notice::Until;
use crate::domain::{Allocated, Domain};
use crate::message::{DecodeBuffers, Step, decode_task};
use phalanx_engine::{Event, RunId, Start, Time, WorkerId};
use std::sync::Arc;

/// The worker of a rank that another rank waits for.
struct Peer {
    name: String,
    /// Its activity, as the end of a sentence.
    does: String,
}

impl Core {
    /// Remembers a domain for as long as it lives; its ranks are told of lost workers.
    pub(crate) fn register_domain(&mut self, domain: &Domain) {
        self.domains.retain(|known| known.strong_count() > 0);
        self.domains.push(Arc::downgrade(&domain.0));
        for (rank, at) in domain.0.links.iter().enumerate() {
            if let Some(words) = &self.links[*at].lost {
                domain.0.tell(rank, Until::Ever, &self.say_lost(*at, words));
            }
        }
    }

    fn living_domains(&self) -> Vec<Arc<Allocated>> {
        self.domains.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    /// Describes the loss of a worker in one line.
    fn say_lost(&self, at: usize, words: &str) -> String {
        let words = words.lines().collect::<Vec<_>>().join(" ");
        format!("{} is lost: {words}", self.links[at].endpoint.name())
    }

    /// Tells the peers of the worker at `at` in its domains that it is lost for good, and the cause.
    pub(super) fn tell_of_loss(&mut self, at: usize, words: &str) {
        for domain in self.living_domains() {
            if let Some(rank) = domain.links.iter().position(|link| *link == at) {
                let words = self.say_lost(at, words);
                self.tell_peers(&domain, rank, Until::Ever, &words);
            }
        }
    }

    /// Tells the peers of a task in its domains that it has failed, and why: nobody waits for its ranks until the
    /// run is over.
    pub(super) fn tell_of_failure(&mut self, flight: &Start, words: &str) {
        let domains = self.living_domains();
        let Some(run) = self.jobs[flight.task.slot()].run.filter(|_| !domains.is_empty()) else {
            return;
        };
        // A backtrace may follow.
        let words = words.lines().next().unwrap_or_default();
        for (id, rank) in self.memberships_of(flight) {
            if let Some(domain) = domains.iter().find(|domain| domain.roster.id == id) {
                self.tell_peers(domain, rank, Until::EndOf(run.number()), words);
            }
        }
    }

    /// Returns the domains of a task, and its rank in each.
    fn memberships_of(&self, flight: &Start) -> Vec<(u64, usize)> {
        let mut buffers = DecodeBuffers::default();
        let message = self.jobs[flight.task.slot()].message(flight.member);
        let Ok(received) = decode_task(message, &mut buffers) else { return Vec::new() };
        received
            .memberships
            .iter()
            .map(|membership| (membership.roster.id, membership.rank))
            .collect()
    }

    /// Tells all ranks of a domain that nobody waits for one of them. A rank that waits there moves from here on,
    /// however long nobody has looked.
    fn tell_peers(&mut self, domain: &Allocated, rank: usize, until: Until, words: &str) {
        domain.tell(rank, until, words);
        let now = Time(clock::now());
        for at in domain.links.iter().copied() {
            let waits = self.waits_for(at);
            if waits.is_some_and(|(waited, ..)| waited.roster.id == domain.roster.id) {
                let worker = self.worker(at);
                self.engine.step(now, Event::Progress(worker));
            }
        }
    }

    /// Ends the wait of a worker for a peer that does not come; not if the worker was told before.
    pub(super) fn end_wait(&mut self, worker: WorkerId) -> bool {
        let Some((domain, rank, _)) = self.waits_for(worker.index()) else { return false };
        let flight = self.engine.flights(worker).next();
        let run = flight.and_then(|flight| self.jobs[flight.task.slot()].run);
        let Some(run) = run.map(RunId::number).filter(|run| !domain.is_told(rank, *run)) else {
            return false;
        };
        let Peer { name, does } = self.describe_peer(&domain, rank);
        self.tell_peers(&domain, rank, Until::EndOf(run), &format!("{name} {does}"));
        true
    }

    /// Realigns the barriers of all domains after a failed run.
    pub(super) fn realign_barriers(&self) {
        for domain in self.living_domains() {
            domain.realign_barriers();
        }
    }

    /// Returns the domain and the rank that the worker at `at` waits for, and with which cell.
    fn waits_for(&self, at: usize) -> Option<(Arc<Allocated>, usize, u32)> {
        let step = self.links[at].endpoint.evidence().step;
        let Step::Waits { domain, rank, cell } = Step::decode(step) else { return None };
        let mut living = self.domains.iter().filter_map(std::sync::Weak::upgrade);
        let is_meant = |known: &Arc<Allocated>| {
            Step::short(known.roster.id) == domain
                && known.links.get(usize::from(rank)).is_some_and(|link| *link < self.links.len())
                && known.links.contains(&at)
        };
        Some((living.find(is_meant)?, usize::from(rank), cell))
    }

    /// True if the worker at `at` only waits, at last for one that runs something else than such a wait.
    pub(crate) fn is_held_up(&self, at: usize) -> bool {
        let mut last = at;
        // Longer chains are circles.
        for _ in 0..self.links.len() {
            let Some((domain, rank, _)) = self.waits_for(last) else { break };
            last = domain.links[rank];
        }
        last != at && self.waits_for(last).is_none() && self.has_task(last)
    }

    /// Describes the wait of the worker at `at`; empty if it does not wait.
    pub(crate) fn say_wait(&self, at: usize) -> String {
        let Some((domain, rank, cell)) = self.waits_for(at) else { return String::new() };
        let roster = &domain.roster;
        let is_barrier = cell == roster.signals;
        let what = if is_barrier { "the barrier".to_owned() } else { format!("cell {cell}") };
        let Peer { name, does } = self.describe_peer(&domain, rank);
        format!(
            "; it waits for {what} of rank {rank} of {roster}, and that is {name}, which {does}"
        )
    }

    /// Describes the worker of a rank that another rank waits for.
    fn describe_peer(&self, domain: &Allocated, rank: usize) -> Peer {
        let at = domain.links[rank];
        let does = match (&self.links[at].lost, self.has_task(at)) {
            (Some(words), _) => format!("is lost: {words}"),
            (None, true) => "does not write it".to_owned(),
            (None, false) => "runs nothing".to_owned(),
        };
        Peer { name: self.links[at].endpoint.name(), does }
    }
}
