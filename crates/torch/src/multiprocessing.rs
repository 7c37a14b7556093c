//! Spawning ranks: one program runs once for each rank, all on one executor.
//!
//! - **MPS-1 (structured).** When `spawn` returns, all requests of its ranks are over or dropped.
//! - **MPS-2 (root causes).** After a rank fails, the current round finishes (the window of time in which no other rank can
//!   know of the failure); then the other ranks are cancelled and their destructors run. The error holds exactly the ranks
//!   that failed by themselves.
//! - **MPS-3 (usable).** After a failure no message, queue or process is left, and the context can be used again. A request
//!   that a destructor makes while its rank is cancelled is over at once, with an error.
//! - **MPS-4 (no silent hang).** A deadlock of ranks is reported at once: the collectives that each rank joined, the missing
//!   ranks, the ranks that have returned.
//! - **MPS-6 (interrupted).** A run that is interrupted cancels its ranks as a failure does; the error says when.
//! - **MPS-5 (together).** Every rank reaches its first wait before time moves, and ranks resume in a fixed order.

mod desync;
pub(crate) mod single;
mod splits;
pub(crate) mod unwind;

pub use desync::{Desync, GroupState, RankState, Receiving};
pub(crate) use unwind::{CatchPanics, DropPanic, panic_message};

use crate::context::Context;
use crate::distributed::SplitCall;
use crate::error::{Error, Mismatch, MismatchSide};
use crate::rank::Rank;
use phalanx_sim::Time;
use phalanx_sim::executor::JoinHandle;
use phalanx_sim::machine::RunError;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The error of a [`spawn`].
#[derive(Clone, Debug, Default)]
pub struct SpawnError {
    /// The errors by rank: root causes only.
    pub errors: BTreeMap<usize, Error>,
    /// The ranks that were cancelled because of others.
    pub cancelled: Vec<usize>,
    /// The report of a deadlock, if there was one.
    pub desync: Option<Box<Desync>>,
    /// Panics in the destructors of cancelled ranks.
    pub secondary: BTreeMap<usize, String>,
    /// The time at which [`Options::interrupt`](phalanx_sim::machine::Options::interrupt) ended the run, if it did.
    pub interrupted: Option<Time>,
}

impl std::error::Error for SpawnError {}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error that several ranks have in common, such as a wrong setting, is written once.
        let mut texts: Vec<(String, Vec<String>)> = Vec::new();
        for (rank, error) in &self.errors {
            let text = error.to_string();
            match texts.iter_mut().find(|(other, _)| *other == text) {
                Some((_, ranks)) => ranks.push(rank.to_string()),
                None => texts.push((text, vec![rank.to_string()])),
            }
        }
        for (position, (text, ranks)) in texts.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            let prefix = format!("[rank {}] ", ranks.join(", "));
            write!(f, "{prefix}{}", text.replace('\n', &format!("\n{prefix}")))?;
        }
        if let Some(desync) = &self.desync {
            if !self.errors.is_empty() {
                f.write_str("\n")?;
            }
            write!(f, "{desync}")?;
        }
        if let Some(time) = self.interrupted {
            if !self.errors.is_empty() {
                f.write_str("\n")?;
            }
            write!(f, "{}", RunError::Interrupted(time))?;
        }
        if !self.cancelled.is_empty() && self.desync.is_none() {
            let ranks: Vec<String> = self.cancelled.iter().map(ToString::to_string).collect();
            write!(f, "\ncancelled because of that: rank {}", ranks.join(", "))?;
        }
        Ok(())
    }
}

impl SpawnError {
    /// Takes the ranks out whose call was interrupted: the run is, and they are not the cause.
    fn take_interrupted(&mut self) -> Vec<usize> {
        let times = self.errors.iter().filter_map(|(rank, error)| match error {
            Error::Run(RunError::Interrupted(time)) => Some((*rank, *time)),
            _ => None,
        });
        let (ranks, times): (Vec<usize>, Vec<Time>) = times.unzip();
        self.errors.retain(|rank, _| !ranks.contains(rank));
        self.interrupted = times.into_iter().max();
        ranks
    }

    pub(crate) fn of(rank: usize, error: Error) -> Self {
        Self { errors: BTreeMap::from([(rank, error)]), ..Self::default() }
    }
}

/// Runs `program(rank, cx)` once for each of `ranks` ranks; returns their results in order. In a [shard](crate::shards), only the own
/// ranks run and return results ([`Context::own_ranks`], [`Context::gather`]); a failure is that of all.
///
/// # Errors
///
/// [`SpawnError`] if a rank fails, panics or deadlocks (MPS-2, MPS-4).
pub fn spawn<T, P, F>(context: &mut Context, ranks: usize, program: P) -> Result<Vec<T>, SpawnError>
where
    T: 'static,
    P: Fn(usize, Rank) -> F + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    if let Err(error) = context.check_ranks("spawn", ranks) {
        return Err(SpawnError::of(context.default_ranks(), error));
    }
    let program = Rc::new(program);
    let own = context.own_ranks(ranks);
    let members: Vec<Rank> = own.map(|rank| context.rank(rank, ranks)).collect();
    let processes: Vec<_> =
        members.iter().map(|rank| start(context, rank, program.clone())).collect();
    let ended = context.machine.drive();
    conclude(context, &members, processes, ended)
}

/// The process of a rank.
type RankProcess<T> = JoinHandle<Result<T, Error>>;

fn start<T, P, F>(context: &mut Context, rank: &Rank, program: Rc<P>) -> RankProcess<T>
where
    T: 'static,
    P: Fn(usize, Rank) -> F + 'static,
    F: Future<Output = Result<T, Error>> + 'static,
{
    let (number, own, inner) = (rank.rank(), rank.clone(), rank.clone());
    let drop_panic = rank.drop_panic().clone();
    let guarded = CatchPanics::new(async move { program(number, inner).await }, drop_panic);
    let process = async move {
        let result = match guarded.await {
            Ok(value) => own.settle().await.map(|()| value),
            Err(error) => Err(error),
        };
        if result.is_err() {
            own.host().sim().stop();
        }
        own.cancel();
        result
    };
    let sip = rank.host().sip();
    context.machine.spawn(sip, format!("rank{number}"), process)
}

fn conclude<T>(
    context: &mut Context,
    members: &[Rank],
    processes: Vec<RankProcess<T>>,
    ended: Result<(), RunError>,
) -> Result<Vec<T>, SpawnError> {
    let (mut results, mut left) = (Vec::new(), Left::default());
    for (member, process) in members.iter().zip(&processes) {
        match process.take() {
            Some(Ok(value)) => {
                left.returned.push(member.rank());
                results.push(value);
            }
            Some(Err(error)) => drop(left.errors.insert(member.rank(), error)),
            None => left.running.push(member.rank()),
        }
    }
    let is_whole = ended.is_ok() && left.errors.is_empty() && left.running.is_empty();
    if context.gather(vec![is_whole]).into_iter().all(|is_whole| is_whole) {
        return Ok(results);
    }
    left.look_at(members);
    let left = Left::join(context.gather(vec![left]));
    let mut failure = left.failure(ended);
    drop(processes);
    context.clear();
    let panics = members.iter().filter_map(|rank| Some((rank.rank(), rank.drop_panic().take()?)));
    failure.secondary.extend(context.gather(panics.collect()));
    Err(failure)
}

/// The state that the ranks of a failed run have left, as plain data: shards gather it.
#[derive(Clone, Default)]
struct Left {
    /// The errors of programs.
    errors: BTreeMap<usize, Error>,
    running: Vec<usize>,
    returned: Vec<usize>,
    /// Failed requests of running ranks that these have not looked at.
    unseen: BTreeMap<usize, Error>,
    states: Vec<RankState>,
    /// The call that each rank has joined last.
    joined: BTreeMap<usize, Option<String>>,
    splits: Vec<(usize, SplitCall)>,
}

phalanx_sim::portable!(struct Left { errors, running, returned, unseen, states, joined, splits });

impl Left {
    /// Adds what the ranks know.
    fn look_at(&mut self, members: &[Rank]) {
        for member in members {
            let rank = member.rank();
            if self.running.contains(&rank)
                && let Some(error) = member.unseen_failure()
            {
                self.unseen.insert(rank, error);
            }
            self.states.push(RankState::of(member, self.returned.contains(&rank)));
            let groups = member.groups().borrow();
            self.joined.insert(rank, groups.last_joined());
            self.splits.extend(groups.split_calls().into_iter().map(|call| (rank, call)));
        }
    }

    /// Returns what the ranks of all shards have left.
    fn join(all: Vec<Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut joined, part| {
            joined.errors.extend(part.errors);
            joined.running.extend(part.running);
            joined.returned.extend(part.returned);
            joined.unseen.extend(part.unseen);
            joined.states.extend(part.states);
            joined.joined.extend(part.joined);
            joined.splits.extend(part.splits);
            joined
        })
    }

    /// Returns the root causes.
    fn failure(self, ended: Result<(), RunError>) -> SpawnError {
        let mut failure = SpawnError { errors: self.errors, ..SpawnError::default() };
        // A failed request that a waiting rank has not looked at is a root cause too.
        failure.errors.extend(self.unseen);
        let stopped = failure.take_interrupted();
        match ended {
            Err(RunError::Deadlock(deadlock)) if failure.errors.is_empty() => {
                failure.desync = Some(Box::new(Desync { ranks: self.states, deadlock }));
            }
            Err(RunError::Interrupted(time)) => failure.interrupted = Some(time),
            Ok(()) | Err(RunError::Deadlock(_)) => {}
            Err(error) if failure.errors.is_empty() => {
                let (rank, error) = attribute(error, &self.joined);
                failure.errors.insert(rank, error);
            }
            Err(_) => {}
        }
        if let Some((rank, error)) = splits::disagreement(&self.splits, &failure) {
            failure.errors = BTreeMap::from([(rank, error)]);
            failure.desync = None;
        }
        let running = self.running.into_iter().chain(stopped);
        failure.cancelled = running.filter(|rank| !failure.errors.contains_key(rank)).collect();
        failure.cancelled.sort_unstable();
        failure
    }
}

/// Attributes an error of the whole run to a rank.
fn attribute(error: RunError, joined: &BTreeMap<usize, Option<String>>) -> (usize, Error) {
    match &error {
        RunError::Kernel { pe, .. } => (pe.sip as usize, error.into()),
        RunError::CreditsAway { edge, about, .. } => {
            let [sender, receiver] = [edge.from.sip, edge.to.sip].map(|sip| sip as usize);
            let message = crate::distributed::unreceived(edge);
            let last = joined.get(&receiver);
            let disagreement = about.as_ref().map(|about| {
                disagreement(sender, about, last.map(|last| (receiver, last.as_deref())))
            });
            (sender, message.or(disagreement).unwrap_or_else(|| error.into()))
        }
        RunError::Deadlock(_) | RunError::TooLong | RunError::Interrupted(_) => (0, error.into()),
    }
}

/// The error of a collective's message that its receiver did not take: the receiver, which has joined another collective last, or
/// none.
fn disagreement(sender: usize, about: &str, receiver: Option<(usize, Option<&str>)>) -> Error {
    let rank = receiver.map_or(sender, |(rank, _)| rank);
    let last = receiver.and_then(|(_, last)| last);
    let there = last.filter(|last| *last != about);
    let there = there.unwrap_or("no collective that wants its message").to_owned();
    Error::Mismatch(Box::new(Mismatch {
        here: MismatchSide { rank: sender, operation: about.to_owned() },
        there: MismatchSide { rank, operation: there },
    }))
}
