//! Process groups. Each rank keeps its own list of groups.

use crate::ccl::job::Members;
use crate::error::Error;
use crate::multiprocessing::{GroupState, Receiving};
use crate::rank::Rank;
use crate::request::Handle;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

/// A group of ranks.
#[derive(Clone)]
pub struct ProcessGroup(Rc<State>);

struct State {
    number: u32,
    members: Rc<Members>,
    /// The number of this rank in the group; `None` if it is not a member.
    rank: Option<usize>,
    /// This rank's last collective: the next one waits for it.
    last: RefCell<Option<Handle>>,
    /// The last message of each edge: the next one waits for it.
    messages: RefCell<BTreeMap<EdgeKey, Handle>>,
    progress: Rc<Progress>,
    /// The settings of this group's queues, in the order of their first use.
    connections: RefCell<Vec<phalanx_sim::ipcq::EdgeSpec>>,
}

/// The members of the groups of a context.
#[derive(Debug, Default)]
pub(crate) struct MemberLists(RefCell<Vec<Weak<Members>>>);

impl MemberLists {
    /// The one copy of `ranks`.
    fn share(&self, ranks: Cow<'_, [usize]>) -> Rc<Members> {
        let mut lists = self.0.borrow_mut();
        let known = lists.iter().filter_map(Weak::upgrade).find(|known| *known.ranks == *ranks);
        known.unwrap_or_else(|| {
            let sips = ranks.iter().map(|rank| u32::try_from(*rank).expect("a SIP")).collect();
            let members = Rc::new(Members { ranks: ranks.into(), sips });
            lists.retain(|list| list.strong_count() > 0);
            lists.push(Rc::downgrade(&members));
            members
        })
    }
}

/// The edge of a message: messages on one edge keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EdgeKey {
    pub(crate) direction: Direction,
    /// The other rank.
    pub(crate) peer: usize,
    pub(crate) tag: u32,
}

/// The direction of a message, seen from this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    To,
    From,
}

/// The progress of a rank in the collectives of a group.
pub(crate) struct Progress {
    number: u32,
    members: Rc<Members>,
    /// Collectives that this rank has called.
    asked: Cell<u64>,
    /// Called collectives that are not finished, by number, and the last finished one.
    joined: RefCell<Vec<(u64, String)>>,
    finished: RefCell<Option<String>>,
    /// Messages that this rank waits for.
    receiving: RefCell<Vec<Receiving>>,
    /// The rows of the last all-to-alls with split sizes, by number, newest last.
    splits: RefCell<VecDeque<(u64, SplitRows)>>,
}

/// All-to-alls whose split sizes are kept, for reports.
const KEPT_SPLITS: usize = 8;

/// A rank's call of an all-to-all with split sizes.
#[derive(Clone)]
pub(crate) struct SplitCall {
    pub(crate) group: u32,
    pub(crate) sequence: u64,
    pub(crate) members: Vec<usize>,
    pub(crate) rows: SplitRows,
}

phalanx_sim::portable!(struct SplitCall { group, sequence, members, rows });

/// The rows that a rank sends and receives in an all-to-all with split sizes, by rank of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitRows {
    pub(crate) sent: Vec<usize>,
    pub(crate) received: Vec<usize>,
}

phalanx_sim::portable!(struct SplitRows { sent, received });

/// The groups of a rank.
#[derive(Default)]
pub(crate) struct Groups {
    world: Option<ProcessGroup>,
    all: Vec<ProcessGroup>,
    next: u32,
    /// The progress in each group. It outlives the groups, for reports after the rank has returned.
    history: Vec<Rc<Progress>>,
}

impl Groups {
    /// Forgets all groups and their last requests.
    pub(crate) fn clear(&mut self) {
        for group in &self.all {
            group.0.last.take();
            group.0.messages.take();
        }
        self.world = None;
        self.all.clear();
    }

    /// The topic of the collective that the rank is in, or was in last.
    pub(crate) fn last_joined(&self) -> Option<String> {
        self.history.iter().rev().find_map(|progress| {
            let joined = progress.joined.borrow().last().map(|(_, what)| what.clone());
            joined.or_else(|| progress.finished.borrow().clone())
        })
    }

    /// The progress of the rank, group by group.
    pub(crate) fn states(&self) -> Vec<GroupState> {
        let state = |progress: &Rc<Progress>| GroupState {
            number: progress.number,
            members: progress.members.ranks.to_vec(),
            asked: progress.asked.get(),
            joined: progress.joined.borrow().clone(),
            finished: progress.finished.borrow().clone(),
            receiving: progress.receiving.borrow().clone(),
        };
        self.history.iter().map(state).collect()
    }

    /// The last all-to-alls with split sizes that the rank has called.
    pub(crate) fn split_calls(&self) -> Vec<SplitCall> {
        let calls = |progress: &Rc<Progress>| {
            let calls = progress.splits.borrow().clone().into_iter();
            let (group, members) = (progress.number, progress.members.ranks.to_vec());
            calls.map(move |(sequence, rows)| {
                let members = members.clone();
                SplitCall { group, sequence, members, rows }
            })
        };
        self.history.iter().flat_map(calls).collect()
    }

    fn add(&mut self, rank: &Rank, members: Vec<usize>) -> Result<ProcessGroup, Error> {
        let number = self.next;
        if number >= MOST_GROUPS {
            return Err(Error::argument(format!(
                "new_group: a rank makes at most {MOST_GROUPS} groups"
            )));
        }
        self.next += 1;
        let members = rank.settings().members.share(members.into());
        let progress = Rc::new(Progress {
            number,
            members: members.clone(),
            asked: Cell::new(0),
            joined: RefCell::default(),
            finished: RefCell::default(),
            receiving: RefCell::default(),
            splits: RefCell::default(),
        });
        self.history.retain(|old| old.number != number);
        self.history.push(progress.clone());
        let group = ProcessGroup(Rc::new(State {
            number,
            rank: members.ranks.iter().position(|member| *member == rank.rank()),
            members,
            last: RefCell::new(None),
            messages: RefCell::default(),
            progress,
            connections: RefCell::default(),
        }));
        self.all.push(group.clone());
        Ok(group)
    }
}

impl ProcessGroup {
    /// Its ranks, by their numbers in the world.
    pub fn members(&self) -> &[usize] {
        &self.0.members.ranks
    }

    /// Its ranks and their SIPs.
    pub(crate) fn shared_members(&self) -> &Members {
        &self.0.members
    }

    /// Returns the number of its ranks.
    pub fn size(&self) -> usize {
        self.0.members.ranks.len()
    }

    /// Returns the number of this rank in the group; `None` if it is not a member.
    pub fn rank(&self) -> Option<usize> {
        self.0.rank
    }

    /// The number of rank `global` of the world in the group.
    pub(crate) fn rank_of(&self, global: usize) -> Option<usize> {
        self.0.members.ranks.iter().position(|member| *member == global)
    }

    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// `world`, or `group 3 of ranks 0, 2`.
    pub(crate) fn describe(&self) -> String {
        if self.0.number == 0 {
            return "the world".to_owned();
        }
        let ranks: Vec<String> = self.members().iter().map(ToString::to_string).collect();
        format!("group {} of ranks {}", self.0.number, ranks.join(", "))
    }

    /// The number of the next collective, from 1.
    pub(crate) fn next_sequence(&self) -> u64 {
        let asked = &self.0.progress.asked;
        asked.set(asked.get() + 1);
        asked.get()
    }

    /// Makes `handle` the last message of an edge.
    pub(crate) fn follow_message(&self, edge: EdgeKey, handle: &Handle) {
        self.0.messages.borrow_mut().insert(edge, handle.clone());
    }

    /// The last message of an edge, if it is not over.
    pub(crate) fn last_message(&self, edge: EdgeKey) -> Option<Handle> {
        self.0.messages.borrow().get(&edge).filter(|handle| !handle.is_over()).cloned()
    }

    /// The channel of queues with these settings.
    pub(crate) fn channel(&self, edge: phalanx_sim::ipcq::EdgeSpec) -> u32 {
        let mut connections = self.0.connections.borrow_mut();
        let index = connections.iter().position(|known| *known == edge).unwrap_or_else(|| {
            connections.push(edge);
            connections.len() - 1
        });
        let index = u32::try_from(index).expect("few settings");
        self.0.number * CONNECTIONS + index % CONNECTIONS
    }

    /// Makes `handle` the last collective; returns the one before.
    pub(crate) fn follow(&self, handle: &Handle) -> Option<Handle> {
        self.0.last.replace(Some(handle.clone()))
    }

    /// The last collective, if it is not over.
    pub(crate) fn last(&self) -> Option<Handle> {
        self.0.last.borrow().clone().filter(|handle| !handle.is_over())
    }

    /// Records that this rank waits for a message.
    pub(crate) fn expect(&self, message: Receiving) {
        self.0.progress.receiving.borrow_mut().push(message);
    }

    /// Records that the oldest such message has arrived.
    pub(crate) fn received(&self, message: Receiving) {
        let mut receiving = self.0.progress.receiving.borrow_mut();
        if let Some(index) = receiving.iter().position(|other| *other == message) {
            receiving.remove(index);
        }
    }

    /// Records the rows of the collective that this rank has called last.
    pub(crate) fn note_splits(&self, rows: SplitRows) {
        let progress = &self.0.progress;
        let mut splits = progress.splits.borrow_mut();
        if splits.len() == KEPT_SPLITS {
            splits.pop_front();
        }
        splits.push_back((progress.asked.get(), rows));
    }

    pub(crate) fn join(&self, sequence: u64, what: String) {
        self.0.progress.joined.borrow_mut().push((sequence, what));
    }

    pub(crate) fn finish(&self, sequence: u64) {
        let progress = &self.0.progress;
        let mut joined = progress.joined.borrow_mut();
        if let Some(index) = joined.iter().position(|(number, _)| *number == sequence) {
            *progress.finished.borrow_mut() = Some(joined.remove(index).1);
        }
    }
}

/// Most different queue settings of a group.
const CONNECTIONS: u32 = 64;

/// Most groups of a rank: their numbers are part of the numbers of channels.
pub(crate) const MOST_GROUPS: u32 = 1 << 14;

/// Makes the group of all ranks. Every rank calls this before any communication.
pub fn init_process_group(cx: &Rank) -> Result<ProcessGroup, Error> {
    let mut groups = cx.groups().borrow_mut();
    if groups.world.is_some() {
        return Err(Error::argument("trying to initialize the default process group twice!"));
    }
    let world = groups.add(cx, (0..cx.world_size()).collect())?;
    groups.world = Some(world.clone());
    Ok(world)
}

/// The given group, or the world.
pub(crate) fn resolve(cx: &Rank, group: Option<&ProcessGroup>) -> Result<ProcessGroup, Error> {
    let groups = cx.groups().borrow();
    let Some(world) = &groups.world else {
        return Err(Error::argument(
            "Default process group has not been initialized, please make sure to call init_process_group.",
        ));
    };
    let Some(group) = group else { return Ok(world.clone()) };
    if !groups.all.iter().any(|own| Rc::ptr_eq(&own.0, &group.0)) {
        return Err(Error::argument(format!(
            "{} is none of rank {}'s: it was destroyed, or another rank made it; make one with new_group",
            group.describe(),
            cx.rank()
        )));
    }
    Ok(group.clone())
}

/// Makes a group of some ranks. Every rank of the world calls this in the same order, members or not; no rank waits. Members
/// are sorted.
pub fn new_group(cx: &Rank, ranks: &[usize]) -> Result<ProcessGroup, Error> {
    resolve(cx, None)?;
    let size = cx.world_size();
    let mut members = ranks.to_vec();
    members.sort_unstable();
    if let Some(rank) = members.iter().find(|rank| **rank >= size) {
        return Err(Error::argument(format!(
            "Rank {rank} is out of range. Valid ranks are 0 to {} (world_size={size})",
            size - 1
        )));
    }
    if members.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::argument(format!(
            "ranks list must not contain duplicate entries, got {ranks:?}"
        )));
    }
    if members.is_empty() {
        return Err(Error::argument("new_group: a group needs at least one rank"));
    }
    cx.groups().borrow_mut().add(cx, members)
}

/// Forgets a group; with `None`, all groups.
pub fn destroy_process_group(cx: &Rank, group: Option<&ProcessGroup>) -> Result<(), Error> {
    let resolved = resolve(cx, group)?;
    let mut groups = cx.groups().borrow_mut();
    if group.is_none() || resolved.number() == 0 {
        groups.clear();
        groups.next = 0;
        return Ok(());
    }
    groups.all.retain(|other| other.number() != resolved.number());
    Ok(())
}

/// Returns the number of this rank in a group; `None` if it is not a member.
pub fn get_rank(cx: &Rank, group: Option<&ProcessGroup>) -> Result<Option<usize>, Error> {
    Ok(resolve(cx, group)?.rank())
}

/// Returns the size of a group; `None` if this rank is not a member.
pub fn get_world_size(cx: &Rank, group: Option<&ProcessGroup>) -> Result<Option<usize>, Error> {
    let group = resolve(cx, group)?;
    Ok(group.rank().map(|_| group.size()))
}
