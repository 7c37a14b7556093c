//! Starts all children of a worker and waits until every one is ready: the barrier.
//!
//! One deadline for all, from the first spawn on; the first child that fails ends the start for all.

use super::child::{FAILURE, REPORT};
use super::handoff::{Chip, Role, WindowRange};
use super::spawn::{Child, Spawner};
use crate::allowance::Allowance;
use crate::bootstrap::BootReport;
use crate::endpoint::mailbox::MailboxClient;
use crate::endpoint::process::Process;
use crate::endpoint::restart::Restart;
use crate::endpoint::{DeathWord, Endpoint};
use crate::error::{Error, StartError};
use crate::shm::{Bell, ParentSide, Phase, Waiting};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for children to leave in order after another could not start.
const ROLLBACK: Duration = Duration::from_secs(1);
/// Time for the kernel to end a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Report of a worker's start.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    /// Each child, chips first.
    pub children: Vec<ChildStart>,
    /// From the first spawn until all were ready.
    pub total: Duration,
}

/// Report of one child's start; times count from the first spawn.
#[derive(Clone, Debug, Default)]
pub struct ChildStart {
    /// Its name.
    pub name: String,
    /// The number of its process.
    pub process: u32,
    /// Time when it was spawned.
    pub spawned: Duration,
    /// Time when it had its mailbox and began to set itself up.
    pub bootstrapping: Option<Duration>,
    /// Time when it was ready.
    pub ready: Option<Duration>,
    /// The processes below it, if it has workers of its own.
    pub descendants: Vec<u32>,
}

impl Startup {
    /// Returns the child that was ready last.
    pub fn straggler(&self) -> Option<&ChildStart> {
        self.children.iter().max_by_key(|child| child.ready.unwrap_or(Duration::MAX))
    }
}

impl fmt::Display for Startup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} children ready after {:.1?}", self.children.len(), self.total)?;
        if let Some(last) = self.straggler() {
            write!(f, "; {} was the last", last.name)?;
        }
        for child in &self.children {
            let time = |time: Option<Duration>| time.map_or("-".into(), |t| format!("{t:.1?}"));
            let (begun, ready) = (time(child.bootstrapping), time(child.ready));
            let ChildStart { name, spawned, .. } = child;
            write!(f, "\n  {name}: spawned {spawned:.1?}, began {begun}, ready {ready}")?;
        }
        Ok(())
    }
}

/// A child on its way to being ready.
pub(crate) struct Starting {
    pub(crate) child: Child,
    pub(crate) side: ParentSide,
    bytes: Vec<u8>,
    pub(crate) report: Option<BootReport>,
    times: ChildStart,
    begun: Instant,
}

/// Plan of a start: roles, time limit, restart.
pub(crate) struct Plan<'a> {
    pub(crate) roles: &'a [Role],
    pub(crate) budget: Duration,
    pub(crate) is_restarting: bool,
}

/// Started children: their endpoints, and the reports of the chips, in order.
pub(crate) struct Started {
    pub(crate) links: Vec<Box<dyn Endpoint>>,
    pub(crate) reports: Vec<(Chip, BootReport)>,
    pub(crate) startup: Startup,
}

/// Starts a child for each role and returns when all are ready; else none is left.
pub(crate) fn start(
    spawner: &Arc<Spawner>,
    plan: &Plan<'_>,
    bell: &Bell,
    waiting: &Waiting,
) -> Result<Started, Error> {
    let (begun, allowance) = (Instant::now(), Allowance::new(plan.budget));
    let mut all = Vec::with_capacity(plan.roles.len());
    let outcome = plan.roles.iter().try_for_each(|role| {
        all.push(Starting::new(spawner, *role, begun)?);
        Ok(())
    });
    let ready = |()| wait_until_ready(&mut all, bell, waiting, plan.budget, allowance);
    let outcome = outcome.and_then(ready);
    if let Err(error) = outcome {
        roll_back(&all, bell, waiting);
        return Err(error);
    }
    let startup = Startup { children: Vec::new(), total: begun.elapsed() };
    let mut started = Started { links: Vec::new(), reports: Vec::new(), startup };
    for mut one in all {
        if let Some(report) = &one.report {
            one.times.descendants.clone_from(&report.descendants);
        }
        one.side.open();
        let report = one.report.unwrap_or_default();
        if let Role::Chip(chip) = one.child.role {
            started.reports.push((chip, report.clone()));
        }
        started.startup.children.push(one.times);
        let restart = || Restart::new(spawner, one.child.role, report, plan.budget);
        let again = plan.is_restarting.then(restart);
        started.links.push(Box::new(Process::new(MailboxClient::new(one.side), one.child, again)));
    }
    Ok(started)
}

fn wait_until_ready(
    all: &mut [Starting],
    bell: &Bell,
    waiting: &Waiting,
    budget: Duration,
    mut allowance: Allowance,
) -> Result<(), Error> {
    loop {
        let mut are_ready = true;
        for one in &mut *all {
            are_ready &= one.look()?;
        }
        if are_ready {
            return Ok(());
        }
        if !allowance.look() {
            return Err(too_late(all, budget));
        }
        let words: Vec<_> = all.iter().map(Starting::death_word).collect();
        let words: Vec<_> = words.iter().filter_map(DeathWord::alive).collect();
        let has_news = || all.iter().any(Starting::has_news);
        waiting.wait(bell, &words, Some(allowance.next()), has_news);
    }
}

/// Makes the error of a start that takes too long: names the child that all wait for.
fn too_late(all: &[Starting], budget: Duration) -> Error {
    let late = all.iter().find(|one| one.times.ready.is_none());
    let worker = late.map_or_else(String::new, |one| one.child.name());
    let phase = late.map_or(Phase::Starting, Starting::phase);
    let ready = all.iter().filter(|one| one.times.ready.is_some()).count();
    let words = format!(
        "it is not ready after {budget:.1?} ({ready} of {} children are); raise `startup` of the budgets if it needs longer",
        all.len()
    );
    StartError { worker, phase, words }.into()
}

impl Starting {
    /// Starts a child; times count from `begun`.
    pub(crate) fn new(spawner: &Spawner, role: Role, begun: Instant) -> Result<Self, Error> {
        let (child, side) = spawner.spawn(role)?;
        let (name, process) = (role.name(), child.number());
        let times = ChildStart { name, process, spawned: begun.elapsed(), ..ChildStart::default() };
        Ok(Self { child, side, bytes: Vec::new(), report: None, times, begun })
    }

    fn phase(&self) -> Phase {
        self.side.phase().unwrap_or(Phase::Failed)
    }

    /// Returns the last phase that was seen.
    fn seen(&self) -> Phase {
        match (self.times.bootstrapping, self.times.ready) {
            (_, Some(_)) => Phase::Ready,
            (Some(_), None) => Phase::Bootstrapping,
            (None, None) => Phase::Starting,
        }
    }

    /// True if something has happened that `look` has not seen.
    fn has_news(&self) -> bool {
        !self.side.events.is_empty() || self.phase() != self.seen() || self.child.exit().is_some()
    }

    fn death_word(&self) -> DeathWord {
        let segment = self.side.segment().clone();
        DeathWord { segment, offset: self.side.robust_offset() }
    }

    /// Takes in its phase; true if it is ready.
    pub(crate) fn look(&mut self) -> Result<bool, Error> {
        let begun = self.begun;
        let exit = self.child.exit();
        let phase = self.side.phase().map_err(|error| self.failed(error.to_string()))?;
        self.listen()?;
        if phase >= Phase::Bootstrapping {
            self.times.bootstrapping.get_or_insert_with(|| begun.elapsed());
        }
        if let Some(exit) = exit {
            let words = self.child.describe_exit(exit);
            return Err(self.failed(words));
        }
        match phase {
            Phase::Starting | Phase::Bootstrapping => Ok(false),
            Phase::Failed => Err(self.failed("it did not say why".to_owned())),
            Phase::Ready | Phase::Serving | Phase::Leaving => {
                self.times.ready.get_or_insert_with(|| begun.elapsed());
                let Some(report) = &self.report else {
                    return Err(self.failed("it reported nothing".to_owned()));
                };
                self.child.register_descendants(&report.descendants);
                Ok(true)
            }
        }
    }

    /// Takes in its events: a report, or the words of a failure.
    fn listen(&mut self) -> Result<(), Error> {
        loop {
            match self.side.events.next(&mut self.bytes) {
                Ok(true) => {}
                Ok(false) => break,
                Err(corrupt) => return Err(self.failed(corrupt.to_string())),
            }
            let words = match self.bytes.split_first() {
                Some((&REPORT, bytes)) => match self.decode(bytes) {
                    Ok(report) => {
                        self.report = Some(report);
                        continue;
                    }
                    Err(words) => words,
                },
                Some((&FAILURE, words)) => String::from_utf8_lossy(words).into_owned(),
                _ => "it said what is no message".to_owned(),
            };
            return Err(self.failed(words));
        }
        if self.side.events.release() {
            self.side.ring();
        }
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<BootReport, String> {
        match &self.child.role {
            Role::Chip(chip) => BootReport::decode(bytes, chip),
            Role::Sub { .. } => Ok(BootReport::default()),
            Role::Worker { number, .. } => {
                let (device_id, rank, nranks) = (0, *number, 0);
                let window = WindowRange::default();
                BootReport::decode(bytes, &Chip { device_id, rank, nranks, window })
            }
        }
    }

    fn failed(&self, words: String) -> Error {
        let phase = self.side.phase().unwrap_or(Phase::Failed);
        // A child that reports a failure has failed while it set itself up.
        let phase = if phase == Phase::Failed { Phase::Bootstrapping } else { phase };
        StartError { worker: self.child.name(), phase, words }.into()
    }
}

/// Ends all children, in order or by force; when it returns, all are gone and reaped.
fn roll_back(all: &[Starting], bell: &Bell, waiting: &Waiting) {
    let wait = |budget| {
        let are_gone = || all.iter().all(|one| one.child.exit().is_some());
        let mut allowance = Allowance::new(budget);
        while !are_gone() && allowance.look() {
            waiting.wait(bell, &[], Some(allowance.next()), are_gone);
        }
    };
    for one in all {
        one.side.shut_down();
    }
    wait(ROLLBACK);
    for one in all {
        one.child.kill();
    }
    wait(KILL_TIMEOUT);
}
