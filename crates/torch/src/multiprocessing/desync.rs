//! When ranks cannot go on: who joined what, who is missing, who has returned, and who waits for whom.

use crate::rank::Rank;
use phalanx_sim::executor::Deadlock;
use std::fmt;

/// Ranks that nothing can resume.
#[derive(Clone, Debug)]
pub struct Desync {
    /// Where each rank is.
    pub ranks: Vec<RankState>,
    /// Every process that waits, what for, and who could provide it.
    pub deadlock: Deadlock,
}

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankState {
    /// Which.
    pub rank: usize,
    /// Whether its program has returned.
    pub returned: bool,
    /// The collective it has joined and not finished, per group: what it is.
    pub joined: Vec<String>,
    /// The last one it has finished, per group.
    pub finished: Vec<String>,
}

impl Desync {
    pub(super) fn new(members: &[Rank], returned: &[usize], deadlock: Deadlock) -> Self {
        let state = |rank: &Rank| {
            let groups = rank.groups().borrow();
            RankState {
                rank: rank.rank(),
                returned: returned.contains(&rank.rank()),
                joined: groups.joined(),
                finished: groups.finished(),
            }
        };
        Self { ranks: members.iter().map(state).collect(), deadlock }
    }

    /// The ranks that others wait for: those that have not joined what some have.
    pub fn missing(&self) -> Vec<usize> {
        let joined = |state: &&RankState| !state.joined.is_empty();
        if !self.ranks.iter().any(|state| joined(&state)) {
            return Vec::new();
        }
        let absent = self.ranks.iter().filter(|state| !joined(state));
        absent.map(|state| state.rank).collect()
    }
}

impl fmt::Display for Desync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the ranks cannot go on:")?;
        for state in &self.ranks {
            write!(f, "  rank {}: ", state.rank)?;
            match (&*state.joined, &*state.finished) {
                ([], []) if state.returned => writeln!(f, "returned without joining a collective")?,
                ([], finished) if state.returned => {
                    writeln!(f, "returned after {}", finished.join(", "))?;
                }
                ([], []) => writeln!(f, "joined no collective")?,
                ([], finished) => {
                    writeln!(f, "finished {}, joined nothing since", finished.join(", "))?
                }
                (joined, _) => writeln!(f, "joined {}, not finished", joined.join(", "))?,
            }
        }
        let missing: Vec<String> = self.missing().iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            writeln!(f, "missing: rank {}", missing.join(", "))?;
        }
        write!(f, "{}", self.deadlock)
    }
}
