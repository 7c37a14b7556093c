//! The report of a deadlock of ranks: the culprit in one sentence, the state of each rank, and the waits.

use crate::error::group_name;
use crate::rank::Rank;
use phalanx_sim::executor::Deadlock;
use phalanx_sim::portable;
use std::collections::BTreeSet;
use std::fmt;

/// A deadlock of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desync {
    /// The state of each rank.
    pub ranks: Vec<RankState>,
    /// The waiting processes, their waits and the providers.
    pub deadlock: Deadlock,
}

portable!(struct Desync { ranks, deadlock });

/// The state of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// The rank.
    pub rank: usize,
    /// True if its program has returned.
    pub returned: bool,
    /// Its progress in the collectives of each group.
    pub groups: Vec<GroupState>,
}

portable!(struct RankState { rank, returned, groups });

/// The progress of a rank in the collectives of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The number of the group; 0 is the world.
    pub number: u32,
    /// Its ranks.
    pub members: Vec<usize>,
    /// Collectives that the rank has called.
    pub asked: u64,
    /// Called collectives that are not finished, oldest first: number and topic.
    pub joined: Vec<(u64, String)>,
    /// The topic of the last finished collective.
    pub finished: Option<String>,
    /// The messages that the rank waits for, oldest first.
    pub receiving: Vec<Receiving>,
}

portable!(struct GroupState { number, members, asked, joined, finished, receiving });

/// A message that a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiving {
    /// The sending rank; `None` for any rank of the group.
    pub from: Option<usize>,
    /// The tag.
    pub tag: u32,
}

portable!(struct Receiving { from, tag });

impl RankState {
    pub(super) fn of(rank: &Rank, returned: bool) -> Self {
        Self { rank: rank.rank(), returned, groups: rank.groups().borrow().states() }
    }

    /// The oldest joined and unfinished collective of each group.
    pub(crate) fn joined(&self) -> Vec<&str> {
        let first = |group| Some(GroupState::oldest(group)?.1);
        self.groups.iter().filter_map(first).collect()
    }

    fn finished(&self) -> Vec<&str> {
        self.groups.iter().filter_map(|group| group.finished.as_deref()).collect()
    }

    /// The messages that it waits for: the sender, and a description.
    fn waits(&self) -> Vec<(Option<usize>, String)> {
        let mut waits = Vec::new();
        for group in &self.groups {
            for Receiving { from, tag } in &group.receiving {
                let name = group_name(group.number);
                let sender =
                    from.map_or_else(|| "any rank".to_owned(), |from| format!("rank {from}"));
                waits.push((*from, format!("a message from {sender} with tag {tag} in {name}")));
            }
        }
        waits
    }

    fn group(&self, number: u32) -> Option<&GroupState> {
        self.groups.iter().find(|group| group.number == number)
    }
}

impl GroupState {
    fn oldest(&self) -> Option<(u64, &str)> {
        self.joined.first().map(|(sequence, what)| (*sequence, what.as_str()))
    }
}

/// A collective that some ranks have joined and not finished.
struct Stuck<'a> {
    members: &'a [usize],
    /// The ranks that have joined it, each with its topic.
    joined: Vec<(usize, &'a str)>,
    /// The ranks that have not.
    missing: Vec<&'a RankState>,
}

impl Desync {
    pub(crate) fn new(members: &[Rank], returned: &[usize], deadlock: Deadlock) -> Self {
        let state = |rank: &Rank| RankState::of(rank, returned.contains(&rank.rank()));
        Self { ranks: members.iter().map(state).collect(), deadlock }
    }

    /// Returns the ranks that have not joined a collective that other ranks have joined.
    pub fn missing(&self) -> Vec<usize> {
        let stuck = self.stuck();
        let missing = stuck.iter().flat_map(|stuck| &stuck.missing).map(|state| state.rank);
        missing.collect::<BTreeSet<usize>>().into_iter().collect()
    }

    /// The oldest unfinished collective of each group.
    fn stuck(&self) -> Vec<Stuck<'_>> {
        let groups = self.ranks.iter().flat_map(|state| &state.groups);
        let numbers: BTreeSet<u32> = groups.map(|group| group.number).collect();
        numbers.into_iter().filter_map(|number| self.stuck_in(number)).collect()
    }

    fn stuck_in(&self, number: u32) -> Option<Stuck<'_>> {
        let states =
            || self.ranks.iter().filter_map(move |state| Some((state, state.group(number)?)));
        let oldest = |group: &GroupState| group.oldest().map(|(sequence, _)| sequence);
        let sequence = states().filter_map(|(_, group)| oldest(group)).min()?;
        let (_, one) = states().find(|(_, group)| oldest(group) == Some(sequence))?;
        let joined = states().filter_map(|(state, group)| {
            let (_, what) = group.joined.iter().find(|(number, _)| *number == sequence)?;
            Some((state.rank, what.as_str()))
        });
        let absent = |state: &&RankState| {
            one.members.contains(&state.rank)
                && state.group(number).is_none_or(|group| group.asked < sequence)
        };
        Some(Stuck {
            members: &one.members,
            joined: joined.collect(),
            missing: self.ranks.iter().filter(absent).collect(),
        })
    }

    /// The culprit, in one sentence.
    pub(crate) fn culprit(&self) -> String {
        let stuck = self.stuck();
        // A rank that has returned will never join; a rank in another collective may be blocked by others.
        let gone = |stuck: &&Stuck<'_>| stuck.missing.iter().any(|state| state.returned);
        let missed = stuck
            .iter()
            .find(gone)
            .or_else(|| stuck.iter().find(|stuck| !stuck.missing.is_empty()));
        if let Some(stuck) = missed {
            return self.missed(stuck);
        }
        if let Some(sentence) = stuck.iter().find_map(Stuck::disagreement) {
            return sentence;
        }
        self.of_processes()
    }

    /// The sentence for a collective that some ranks have not joined.
    fn missed(&self, stuck: &Stuck<'_>) -> String {
        let returned: Vec<usize> =
            stuck.missing.iter().filter(|state| state.returned).map(|state| state.rank).collect();
        let (joined, what) = (stuck.ranks_joined(), short(stuck.joined[0].1));
        let have = if stuck.joined.len() == 1 { "has" } else { "have" };
        let rest = format!("{what}, which {joined} {have} joined");
        if !returned.is_empty() {
            return format!("{} returned without joining {rest}", named(&returned));
        }
        let missing: Vec<usize> = stuck.missing.iter().map(|state| state.rank).collect();
        let first = stuck.missing[0];
        if let Some(elsewhere) = first.joined().first() {
            return format!(
                "rank {} is in {} and has not joined {rest}",
                first.rank,
                short(elsewhere)
            );
        }
        let not = if missing.len() == 1 { "has" } else { "have" };
        let waits = self.wait_of(first.rank).map(|what| format!(": it waits for {what}"));
        format!("{} {not} not joined {rest}{}", named(&missing), waits.unwrap_or_default())
    }

    /// The wait of a rank's program.
    fn wait_of(&self, rank: usize) -> Option<&str> {
        let name = format!("rank{rank}");
        let waiting = self.deadlock.waiting.iter().find(|waiting| waiting.process == name)?;
        waiting.waits.first().map(|wait| wait.what.as_str())
    }

    /// The sentence for a message that was never sent, by a rank that has `returned` or not.
    fn unsent(&self, returned: bool) -> Option<String> {
        for state in &self.ranks {
            for (from, what) in state.waits() {
                let Some(from) = from else {
                    if !returned {
                        return Some(format!(
                            "rank {} waits for {what}, and nobody has sent it",
                            state.rank
                        ));
                    }
                    continue;
                };
                if self.ranks.get(from).is_none_or(|from| from.returned != returned) {
                    continue;
                }
                let begin = format!("rank {} waits for {what}", state.rank);
                if returned {
                    return Some(format!(
                        "{begin}, and rank {from} has returned without sending it"
                    ));
                }
                let waits = self.wait_of(from).map(|what| format!(": it waits for {what}"));
                let waits = waits.unwrap_or_default();
                return Some(format!("{begin}, and rank {from} has not sent it{waits}"));
            }
        }
        None
    }

    /// The sentence for waits of kernels and messages.
    fn of_processes(&self) -> String {
        if let Some(sentence) = self.unsent(true) {
            return sentence;
        }
        let deadlock = &self.deadlock;
        let what = |name: &String| {
            let waiting = deadlock.waiting.iter().find(|waiting| waiting.process == *name)?;
            Some(format!("`{name}` for {}", waiting.waits.first()?.what))
        };
        if !deadlock.cycle.is_empty() {
            let waits: Vec<String> = deadlock.cycle.iter().filter_map(what).collect();
            return format!("these wait for each other: {}", waits.join(", "));
        }
        if let Some(sentence) = self.unsent(false) {
            return sentence;
        }
        let alive: BTreeSet<&str> =
            deadlock.waiting.iter().map(|waiting| waiting.process.as_str()).collect();
        for waiting in &deadlock.waiting {
            for wait in &waiting.waits {
                if wait.providers.iter().all(|provider| !alive.contains(provider.as_str())) {
                    return format!(
                        "`{}` waits for {}, which never comes",
                        waiting.process, wait.what
                    );
                }
            }
        }
        "the ranks wait for something that can no longer happen".to_owned()
    }
}

impl Stuck<'_> {
    fn ranks_joined(&self) -> String {
        named(&self.joined.iter().map(|(rank, _)| *rank).collect::<Vec<_>>())
    }

    /// The sentence for ranks that joined different collectives: the minority is taken to be wrong.
    fn disagreement(&self) -> Option<String> {
        let mut kinds: Vec<(&str, Vec<usize>)> = Vec::new();
        for (rank, what) in &self.joined {
            match kinds.iter_mut().find(|(kind, _)| kind == what) {
                Some((_, ranks)) => ranks.push(*rank),
                None => kinds.push((what, vec![*rank])),
            }
        }
        if kinds.len() < 2 {
            return None;
        }
        kinds.sort_by_key(|(_, ranks)| ranks.len());
        let ((few, odd), (most, others)) = (kinds.first()?, kinds.last()?);
        debug_assert!(odd.len() + others.len() <= self.members.len());
        Some(format!("{} joined {few}, where {} joined {most}", named(odd), named(others)))
    }
}

/// `rank 2`, or `ranks 0, 1, 3`.
fn named(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, list.join(", "))
}

/// A topic without its details.
fn short(what: &str) -> &str {
    what.split_once(": ").map_or(what, |(short, _)| short)
}

impl fmt::Display for Desync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.culprit())?;
        for state in &self.ranks {
            write!(f, "\n  rank {}: ", state.rank)?;
            let (joined, finished) = (state.joined(), state.finished());
            match (&*joined, &*finished) {
                ([], []) if state.returned => write!(f, "returned without joining a collective")?,
                ([], finished) if state.returned => {
                    write!(f, "returned after {}", finished.join("; "))?;
                }
                ([], []) => write!(f, "joined no collective")?,
                ([], finished) => {
                    write!(f, "finished {}; joined nothing since", finished.join("; "))?;
                }
                (joined, _) => write!(f, "joined {}; not finished", joined.join("; "))?,
            }
            for (_, message) in state.waits() {
                write!(f, "; waits for {message}")?;
            }
        }
        write!(f, "\n{}", self.deadlock)
    }
}
