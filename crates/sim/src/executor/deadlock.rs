//! A deadlock as a result: the waiting processes, their conditions, and the processes that could satisfy them.

use super::Partition;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One condition a process waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The condition in words, with the relevant numbers.
    pub what: String,
    /// Names of the processes that could satisfy the condition; empty if there are none.
    pub providers: Vec<String>,
}

crate::portable!(struct Wait { what, providers });

/// A process that cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Name of the process.
    pub process: String,
    /// Partition in which the process runs.
    pub partition: Partition,
    /// All conditions the process waits for.
    pub waits: Vec<Wait>,
}

crate::portable!(struct Waiting { process, partition, waits });

/// The wait-for graph of a run with unfinished processes and no events left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Time of the last event.
    pub time: Time,
    /// Every unfinished process.
    pub waiting: Vec<Waiting>,
    /// A cycle in the graph, by name, if there is one: each process waits for the next, the last for the first.
    pub cycle: Vec<String>,
}

crate::portable!(struct Deadlock { time, waiting, cycle });

impl Deadlock {
    pub(crate) fn new(time: Time, mut waiting: Vec<Waiting>) -> Self {
        waiting.sort_by(|a, b| (a.partition, &a.process).cmp(&(b.partition, &b.process)));
        let cycle = find_cycle(&waiting);
        Self { time, waiting, cycle }
    }
}

/// Follows the first waiting provider from each process until a process repeats or the chain ends.
fn find_cycle(waiting: &[Waiting]) -> Vec<String> {
    let alive: BTreeSet<&str> = waiting.iter().map(|w| w.process.as_str()).collect();
    let mut next: BTreeMap<&str, &str> = BTreeMap::new();
    for one in waiting {
        let mut providers = one.waits.first().into_iter().flat_map(|wait| &wait.providers);
        if let Some(provider) = providers.find(|provider| alive.contains(provider.as_str())) {
            next.insert(&one.process, provider);
        }
    }
    let starts = waiting.iter().map(|w| w.process.as_str());
    starts.map(|start| cycle_from(start, &next)).find(|cycle| !cycle.is_empty()).unwrap_or_default()
}

fn cycle_from(start: &str, next: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut trail = vec![start];
    while let Some(&provider) = next.get(trail[trail.len() - 1]) {
        if provider == start {
            return trail.into_iter().map(str::to_owned).collect();
        }
        if trail.contains(&provider) {
            break;
        }
        trail.push(provider);
    }
    Vec::new()
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.waiting.len();
        let noun = if count == 1 { "process waits" } else { "processes wait" };
        write!(
            f,
            "deadlock at {}: {count} {noun} for something that can no longer happen",
            self.time
        )?;
        for waiting in &self.waiting {
            for wait in &waiting.waits {
                write!(f, "\n  `{}` waits for {}", waiting.process, wait.what)?;
                match wait.providers.as_slice() {
                    [] => write!(f, "; nobody can provide it")?,
                    providers => write!(f, "; could come from {}", self.states_of(providers))?,
                }
            }
        }
        if !self.cycle.is_empty() {
            write!(f, "\n  cycle: {} -> {}", self.cycle.join(" -> "), self.cycle[0])?;
        }
        Ok(())
    }
}

impl Deadlock {
    fn states_of(&self, providers: &[String]) -> String {
        let alive = |name: &String| self.waiting.iter().any(|w| &w.process == name);
        let state =
            |name: &String| if alive(name) { "waiting too" } else { "finished or never started" };
        let shown = providers.iter().take(MOST_PROVIDERS);
        let mut shown: Vec<String> =
            shown.map(|name| format!("`{name}` ({})", state(name))).collect();
        if providers.len() > MOST_PROVIDERS {
            shown.push(format!("{} more", providers.len() - MOST_PROVIDERS));
        }
        shown.join(", ")
    }
}

/// Largest number of providers named in a message.
const MOST_PROVIDERS: usize = 8;

impl std::error::Error for Deadlock {}
