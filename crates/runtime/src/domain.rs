//! Domains: the same window of memory on each of some chips, into which all of them can reach.
//!
//! ```text
//!   graph.allocate_domain(…)           task.domain(0)
//!        │                                  │
//!      Domain ── Call::domain ── membership ──► DomainView    put, get, notify, wait, barrier
//!        └── buffer(rank, name): a tensor, for arguments and for the host
//! ```
//!
//! The order of the chips gives their ranks. A chip may be in several domains, with another rank and other memory in each.
//! A rank tells a peer something with a cell in the peer's window: a number that only this rank writes, and that only grows.
//!
//! - **DOM-1 (checked first).** A domain that cannot be is refused before anything is allocated: no chip, a chip twice or
//!   that does not exist, too many ranks, cells or buffers, a name twice, buffers that exceed the window.
//! - **DOM-2 (members only).** A task on a chip that is not a member cannot be given the domain, and the error names the
//!   members.
//! - **DOM-3 (zero).** A window is zero before anybody can reach it, also if its memory was used before.
//! - **DOM-4 (released, then freed).** Dropping the last handle releases a domain; its memory is used again only after every
//!   run that was given it is over, the last window first. Numbers of domains are never used again.
//! - **DOM-5 (payload first).** A rank that has seen a value of a cell sees all that the cell's writer put anywhere before.
//! - **DOM-6 (one writer).** A cell has one writer and a line of its own, and its value never goes down.
//! - **DOM-7 (finite).** Every wait ends. The error of a failed wait names the cell, the rank, the value that was seen
//!   and the value that was wanted.
//! - **DOM-8 (no aliases).** Buffers, cells and windows never overlap. Memory that peers can reach is copied, never
//!   seen in place: an argument in a window of a domain that its task has is copied too.
//! - **DOM-9 (no false alarm).** A task that waits for a peer is not taken for stuck while the peer runs; if the peer runs
//!   nothing, the report names it, and the wait ends, not the worker that waits.
//! - **DOM-10 (no wait for the lost).** A wait for a rank whose worker is lost, or of which a task with this domain has failed in
//!   the same run, ends at once; the error names the worker and the cause. A cell that already holds the wanted value
//!   counts, and waits among the other ranks go on.
//! - **DOM-11 (in step).** A barrier ends for nobody before all have come to it. A rank that has failed comes to no more barriers
//!   of that run; in the run after one that failed all ranks are in step again.

mod allocated;
mod error;
pub(crate) mod notice;
mod owned;
pub(crate) mod roster;
mod view;

pub(crate) use allocated::Allocated;
pub use error::DomainError;
pub use owned::OwnedDomain;
pub(crate) use roster::{LINE, MAX_BUFFERS, MAX_NAME, MAX_RANKS, MAX_SIGNALS};
pub use view::{DomainView, WindowBuffer};
pub(crate) use view::{TaskIdentity, check_memory};

use crate::call::Call;
use crate::error::Error;
use crate::memory::Home;
use crate::message::{MAX_DOMAINS, Membership};
use crate::orchestrator::Orchestrator;
use crate::tensor::{DType, Layout, Tensor};
use roster::{Member, Part, Roster};
use std::fmt;
use std::sync::Arc;

/// Description of a domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct DomainSpec<'a> {
    /// Its name in reports.
    pub name: &'a str,
    /// The chips, in the order of their ranks.
    pub chips: &'a [u32],
    /// Bytes of each window for buffers.
    pub window: u64,
    /// The buffers of each window: name, element type, and elements along each axis.
    pub buffers: &'a [(&'a str, DType, &'a [u64])],
    /// Number of cells that each rank has in each window.
    pub signals: u32,
}

/// A domain; clones are the same. Its memory lasts until nobody names it and all runs that use it are over.
#[derive(Clone)]
pub struct Domain(pub(crate) Arc<Allocated>);

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roster = &self.0.roster;
        write!(f, "Domain({}, `{}`, chips {:?})", roster.id, roster.name, roster.chips())
    }
}

impl Domain {
    /// Returns the number that no other domain of its worker has or had.
    pub fn id(&self) -> u64 {
        self.0.roster.id
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.roster.name
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.0.roster.members.len()
    }

    /// Returns the chips, in the order of their ranks.
    pub fn chips(&self) -> Vec<u32> {
        self.0.roster.chips()
    }

    /// Returns the rank of a chip; an error that names the members if it is none.
    pub fn rank_of(&self, chip: u32) -> Result<usize, DomainError> {
        let roster = &self.0.roster;
        roster.rank_of(chip).ok_or_else(|| DomainError::NotAMember {
            domain: roster.name.clone(),
            who: format!("chip {chip}"),
            members: roster.chips(),
        })
    }

    /// Returns a buffer in the window of a rank, as an argument for its chip, or for the host to read and write.
    pub fn buffer(&self, rank: usize, name: &str) -> Result<Tensor, DomainError> {
        let roster = &self.0.roster;
        let window = self.0.window(rank);
        let window = window.ok_or_else(|| error::no_rank(roster, rank))?;
        let part = roster.part(name).ok_or_else(|| error::no_buffer(roster, name))?;
        let tensor = Tensor::new(window.clone(), part.offset, part.layout);
        Ok(tensor.expect("TEN-1: a part lies in its window"))
    }
}

impl Call {
    /// Makes the task a rank of this domain: the rank of the chip that runs the task. The task finds the domain with
    /// [`Task::domain`](crate::Task::domain), counted from 0.
    #[must_use]
    pub fn domain(mut self, domain: &Domain) -> Self {
        self.rare_mut().domains.push(domain.clone());
        self
    }
}

impl Orchestrator<'_> {
    /// Makes a domain: zeroed windows of one size on some chips.
    ///
    /// It lasts as long as the run, or longer if a handle does.
    pub fn allocate_domain(&mut self, spec: &DomainSpec<'_>) -> Result<Domain, Error> {
        let (parts, data) = plan(spec)?;
        let workers: Result<Vec<_>, _> = spec.chips.iter().map(|chip| self.chip(*chip)).collect();
        let links: Vec<usize> = workers?.iter().map(|worker| worker.index()).collect();
        let chips = spec.chips.iter().map(|chip| Member { chip: *chip, window: 0 });
        let mut roster = Roster {
            id: 0,
            name: spec.name.to_owned(),
            memory: 0,
            notices: 0,
            data,
            signals: spec.signals,
            members: chips.collect(),
            parts,
        };
        let bytes = roster.window_bytes().ok_or(DomainError::Overflow)?;
        let mut core = self.node.lock();
        let mut buffers = Vec::with_capacity(links.len() + 1);
        buffers.push(self.node.new_buffer(&mut core, roster.notice_bytes(), Home::Host)?);
        roster.notices = buffers[0].0.offset;
        for member in &mut roster.members {
            let window = self.node.new_buffer(&mut core, bytes, Home::Chip(member.chip))?;
            member.window = window.0.offset;
            buffers.push(window);
        }
        roster.id = buffers[1].0.number;
        roster.memory = buffers[1].0.memory;
        let (owner, memory) = (self.node.nonce, &core.arena.segment);
        let domain = Allocated::new(roster, links, owner, buffers, memory);
        let domain = Domain(Arc::new(domain.map_err(|error| Error::Setting(error.to_string()))?));
        core.register_domain(&domain);
        drop(core);
        self.hold(&domain);
        Ok(domain)
    }

    /// Keeps a domain until the run is over.
    fn hold(&mut self, domain: &Domain) {
        if !self.held.contains(&domain.id()) {
            self.held.push(domain.id());
            self.node.lock().keep(self.run, Box::new(domain.clone()));
        }
    }

    /// Returns the memberships of a call in its domains, if it may have them.
    #[inline]
    pub(crate) fn memberships(
        &mut self,
        call: &Call,
        home: Option<Home>,
    ) -> Result<Vec<Membership>, Error> {
        if call.rare().domains.is_empty() {
            return Ok(Vec::new());
        }
        self.take_memberships(call, home)
    }

    #[inline(never)]
    fn take_memberships(
        &mut self,
        call: &Call,
        home: Option<Home>,
    ) -> Result<Vec<Membership>, Error> {
        let count = call.rare().domains.len();
        if count > MAX_DOMAINS {
            return Err(Error::TooMany { what: "domains", limit: MAX_DOMAINS, count });
        }
        let mut memberships = Vec::with_capacity(count);
        for domain in &call.rare().domains {
            let roster = Arc::clone(&domain.0.roster);
            if domain.0.owner != self.node.nonce {
                return Err(DomainError::Foreign { domain: roster.name.clone() }.into());
            }
            let Some(Home::Chip(chip)) = home else {
                let (domain, members) = (roster.name.clone(), roster.chips());
                let who = "a task that any worker may take".to_owned();
                return Err(DomainError::NotAMember { domain, who, members }.into());
            };
            memberships.push(Membership { rank: domain.rank_of(chip)?, roster });
        }
        for domain in &call.rare().domains {
            self.hold(domain);
        }
        Ok(memberships)
    }
}

/// Returns the buffers of a window, and the bytes that they take with the gaps between cache lines.
fn plan(spec: &DomainSpec<'_>) -> Result<(Vec<Part>, u64), Error> {
    check_counts(spec)?;
    let mut parts: Vec<Part> = Vec::with_capacity(spec.buffers.len());
    let (mut data, mut needed) = (0u64, 0u64);
    for (name, dtype, shape) in spec.buffers {
        if parts.iter().any(|part| part.name == *name) {
            return Err(DomainError::SameBuffer { name: (*name).to_owned() }.into());
        }
        check_name(name)?;
        let layout = Layout::dense(*dtype, shape)?;
        needed = needed.checked_add(layout.extent).ok_or(DomainError::Overflow)?;
        parts.push(Part { name: (*name).to_owned(), offset: data, layout });
        let taken = layout.extent.checked_next_multiple_of(LINE);
        let end = taken.and_then(|taken| data.checked_add(taken));
        data = end.ok_or(DomainError::Overflow)?;
    }
    if needed > spec.window {
        let (domain, window) = (spec.name.to_owned(), spec.window);
        return Err(DomainError::TooSmall { domain, window, needed }.into());
    }
    let window = spec.window.checked_next_multiple_of(LINE).ok_or(DomainError::Overflow)?;
    Ok((parts, data.max(window)))
}

fn check_counts(spec: &DomainSpec<'_>) -> Result<(), Error> {
    check_name(spec.name)?;
    let ranks = spec.chips.len();
    if ranks == 0 {
        return Err(DomainError::Empty { domain: spec.name.to_owned() }.into());
    }
    let within = |what, limit, count| {
        if count > limit {
            return Err(DomainError::TooMany { what, limit, count });
        }
        Ok(())
    };
    within("ranks", MAX_RANKS, ranks)?;
    within("buffers", MAX_BUFFERS, spec.buffers.len())?;
    within("cells for each rank", MAX_SIGNALS as usize, spec.signals as usize)?;
    let twice = |(at, chip): (usize, &u32)| spec.chips[..at].contains(chip);
    if let Some(at) = spec.chips.iter().enumerate().position(twice) {
        let (domain, chip) = (spec.name.to_owned(), spec.chips[at]);
        return Err(DomainError::SameChip { domain, chip }.into());
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), DomainError> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(DomainError::Name { bytes: name.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
