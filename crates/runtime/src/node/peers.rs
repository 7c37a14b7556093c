//! Who waits for whom in a domain, as far as workers say, and who is told that there is nobody to wait for.

use super::Core;
use crate::clock;
use crate::domain::notice::Until;
use crate::domain::{Allocated, Domain};
use crate::message::{Parts, Step, decode_task};
use phalanx_engine::{Event, RunId, Start, Time, WorkerId};
use std::sync::Arc;

impl Core {
    /// Remembers a domain for as long as it lives; its ranks are told who is lost already.
    pub(crate) fn know_domain(&mut self, domain: &Domain) {
        self.domains.retain(|known| known.strong_count() > 0);
        self.domains.push(Arc::downgrade(&domain.0));
        for (rank, at) in domain.0.lanes.iter().enumerate() {
            if let Some(words) = &self.lanes[*at].lost {
                domain.0.tell(rank, Until::Ever, &self.say_lost(*at, words));
            }
        }
    }

    fn living_domains(&self) -> Vec<Arc<Allocated>> {
        self.domains.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    /// How a worker was lost, in one line.
    fn say_lost(&self, at: usize, words: &str) -> String {
        let words = words.lines().collect::<Vec<_>>().join(" ");
        format!("{} is lost: {words}", self.lanes[at].endpoint.name())
    }

    /// Tells those who may wait for the worker at `at` in a domain that it is lost for good, and how.
    pub(super) fn tell_of_loss(&mut self, at: usize, words: &str) {
        for domain in self.living_domains() {
            if let Some(rank) = domain.lanes.iter().position(|lane| *lane == at) {
                let words = self.say_lost(at, words);
                self.tell_peers(&domain, rank, Until::Ever, &words);
            }
        }
    }

    /// Tells those who may wait for a task in its domains that it has failed, and why: nobody waits for its ranks until the
    /// run is over.
    pub(super) fn tell_of_failure(&mut self, flight: &Start, words: &str) {
        let domains = self.living_domains();
        let Some(run) = self.jobs[flight.task.slot()].run.filter(|_| !domains.is_empty()) else {
            return;
        };
        // A backtrace may follow.
        let words = words.lines().next().unwrap_or_default();
        for (id, rank) in self.seats_of(flight) {
            if let Some(domain) = domains.iter().find(|domain| domain.roster.id == id) {
                self.tell_peers(domain, rank, Until::EndOf(run.number()), words);
            }
        }
    }

    /// The domains of a task, and its rank in each.
    fn seats_of(&self, flight: &Start) -> Vec<(u64, usize)> {
        let mut parts = Parts::default();
        let message = self.jobs[flight.task.slot()].message(flight.member);
        let Ok(received) = decode_task(message, &mut parts) else { return Vec::new() };
        received.seats.iter().map(|seat| (seat.roster.id, seat.rank)).collect()
    }

    /// Tells all ranks of a domain that nobody waits for one of them. Who waits there moves from here on, however long nobody
    /// has looked.
    fn tell_peers(&mut self, domain: &Allocated, rank: usize, until: Until, words: &str) {
        domain.tell(rank, until, words);
        let now = Time(clock::now());
        for at in domain.lanes.iter().copied() {
            let waits = self.waits_for(at);
            if waits.is_some_and(|(waited, ..)| waited.roster.id == domain.roster.id) {
                let worker = self.worker(at);
                self.engine.step(now, Event::Progress(worker));
            }
        }
    }

    /// Ends the wait of a worker that waits for a peer who does not come; not if it was told so before.
    pub(super) fn end_wait(&mut self, worker: WorkerId) -> bool {
        let Some((domain, rank, _)) = self.waits_for(worker.index()) else { return false };
        let flight = self.engine.flights(worker).next();
        let run = flight.and_then(|flight| self.jobs[flight.task.slot()].run);
        let Some(run) = run.map(RunId::number).filter(|run| !domain.is_told(rank, *run)) else {
            return false;
        };
        let (name, does) = self.say_peer(&domain, rank);
        self.tell_peers(&domain, rank, Until::EndOf(run), &format!("{name} {does}"));
        true
    }

    /// A run that failed is over: ranks that failed in it are in step again.
    pub(super) fn bring_in_step(&self) {
        for domain in self.living_domains() {
            domain.bring_in_step();
        }
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
        let (name, does) = self.say_peer(&domain, rank);
        format!(
            "; it waits for {what} of rank {rank} of {roster}, and that is {name}, which {does}"
        )
    }

    /// Who a rank is, and what it does while it is waited for.
    fn say_peer(&self, domain: &Allocated, rank: usize) -> (String, String) {
        let at = domain.lanes[rank];
        let does = match (&self.lanes[at].lost, self.has_task(at)) {
            (Some(words), _) => format!("is lost: {words}"),
            (None, true) => "does not write it".to_owned(),
            (None, false) => "runs nothing".to_owned(),
        };
        (self.lanes[at].endpoint.name(), does)
    }
}
