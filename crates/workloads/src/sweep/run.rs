//! Running the points of a sweep.

use super::journal::{Journal, JournalError, Mark, claim};
use super::{Point, Sweep, Team};
use crate::Setup;
use phalanx_sim::Time;
use phalanx_sim::machine::Options;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A point and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// The simulated time, or the reason why there is none.
    pub outcome: Result<Time, String>,
}

impl Row {
    /// Returns the simulated time.
    pub fn time(&self) -> Option<Time> {
        self.outcome.as_ref().ok().copied()
    }

    /// Returns the row as one line of JSON, without its end.
    pub fn json(&self, sweep: &Sweep) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let machine = sweep.machine_name(&self.point).map(|name| ("machine", text(name)));
        let settings = self.point.settings.iter();
        let settings = settings.map(|(name, value)| {
            let is_number = value.parse::<u64>().is_ok_and(|number| number.to_string() == *value);
            (name.as_str(), if is_number { value.clone() } else { text(value) })
        });
        let fields = machine.into_iter().chain(settings);
        let fields: Vec<String> =
            fields.map(|(name, value)| format!("{}: {value}", text(name))).collect();
        let (time, error) = match &self.outcome {
            Ok(time) => (time.as_ps().to_string(), "null".to_owned()),
            Err(error) => ("null".to_owned(), text(error)),
        };
        let point = fields.join(", ");
        format!("{{\"point\": {{{point}}}, \"simulated_ps\": {time}, \"error\": {error}}}")
    }
}

/// The result of one point, from a thread.
type Done = (usize, Result<Result<Time, String>, JournalError>);

impl Sweep {
    /// Runs all points on `jobs` threads.
    pub fn run(&self, points: &[Point], jobs: usize) -> Vec<Row> {
        let mut rows = Vec::with_capacity(points.len());
        let done =
            self.run_with(points, jobs, None, &Team::Alone, &mut |row| rows.push(row.clone()));
        done.expect("SWE-1: without a journal nothing is written");
        rows
    }

    /// Runs the points that `team` leaves to this process on `jobs` threads, but for those that `journal` has. `told` gets the rows
    /// that this process gives, in the order of the points. Processes of a team that claim points need a journal, and close it
    /// afterwards.
    pub fn run_with(
        &self,
        points: &[Point],
        jobs: usize,
        journal: Option<&mut Journal>,
        team: &Team,
        told: &mut dyn FnMut(&Row),
    ) -> Result<(), JournalError> {
        let keys: Vec<String> = points.iter().map(|point| self.key(point)).collect();
        let mut gathered =
            Gathered { points, team, outcomes: vec![None; points.len()], next: 0, told };
        let mut journal = journal;
        gathered.take_known(journal.as_deref(), &keys);
        let is_open = |index: &usize| team.may_run(*index) && gathered.outcomes[*index].is_none();
        let open: Vec<usize> = (0..points.len()).filter(is_open).collect();
        let claims = journal.as_deref().zip(team.job()).map(|(journal, job)| journal.claims(job));
        let work = Work {
            sweep: self,
            points,
            open,
            claims,
            next: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        work.on_threads(jobs, |index, outcome| {
            if let Some(journal) = journal.as_deref_mut() {
                journal.keep(&keys[index], &outcome)?;
            }
            gathered.add(index, outcome);
            Ok(())
        })?;
        match (journal, team) {
            (Some(journal), Team::Member { rank: 0, size, job }) => {
                gathered.wait(&work, journal, &keys, (job, *size))
            }
            (Some(journal), Team::Member { rank, job, .. }) => journal.mark(job, Mark::Done, *rank),
            _ => Ok(()),
        }
    }

    /// The outcome of a point (SWE-2).
    fn outcome(&self, point: &Point) -> Result<Time, String> {
        catch_unwind(AssertUnwindSafe(|| self.simulate(point)))
            .unwrap_or_else(|_| Err("a mistake of Phalanx: the run panicked".to_owned()))
    }

    fn simulate(&self, point: &Point) -> Result<Time, String> {
        let (machine, settings) = self.set_up(point).map_err(|error| error.to_string())?;
        let options = Options { data: self.data, critical_path: false, ..Options::default() };
        let setup = Setup { machine, options, ccl: self.ccl.clone() };
        let outcome =
            self.workload.run_with(setup, &settings).map_err(|error| error.to_string())?;
        match outcome.check {
            Some(check) if !check.correct => {
                Err(format!("the result is wrong: max abs error {}", check.max_abs_error))
            }
            _ => Ok(outcome.report.simulated),
        }
    }
}

impl Team {
    fn job(&self) -> Option<&str> {
        match self {
            Self::Member { job, .. } => Some(job),
            Self::Alone | Self::Share(_) => None,
        }
    }
}

/// The points that are left, for threads that take them one by one.
struct Work<'a> {
    sweep: &'a Sweep,
    points: &'a [Point],
    open: Vec<usize>,
    /// The directory of claims, if other processes take points too (SWE-4).
    claims: Option<PathBuf>,
    next: AtomicUsize,
    over: AtomicBool,
}

impl Work<'_> {
    /// Runs the points on threads; `took` gets the outcomes on this thread, in the order of their ends.
    fn on_threads(
        &self,
        jobs: usize,
        mut took: impl FnMut(usize, Result<Time, String>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let (sender, receiver) = mpsc::channel::<Done>();
        thread::scope(|scope| {
            for _ in 0..jobs.clamp(1, self.open.len().max(1)) {
                let sender = sender.clone();
                scope.spawn(move || self.take(&sender));
            }
            drop(sender);
            let result = receiver.iter().try_for_each(|(index, outcome)| took(index, outcome?));
            self.over.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Takes points until none is left.
    fn take(&self, sender: &mpsc::Sender<Done>) {
        while !self.over.load(Ordering::Relaxed) {
            let Some(&index) = self.open.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            let is_ours =
                self.claims.as_ref().map_or(Ok(true), |claims| claim(claims, &index.to_string()));
            let done = match is_ours {
                Ok(false) => continue,
                Ok(true) => Ok(self.sweep.outcome(&self.points[index])),
                Err(error) => Err(error),
            };
            // The receiver is gone after an error: there is nothing left to do.
            if sender.send((index, done)).is_err() {
                break;
            }
        }
    }
}

/// The outcomes so far, given in the order of the points.
struct Gathered<'a> {
    points: &'a [Point],
    team: &'a Team,
    outcomes: Vec<Option<Result<Time, String>>>,
    next: usize,
    told: &'a mut dyn FnMut(&Row),
}

impl Gathered<'_> {
    fn add(&mut self, index: usize, outcome: Result<Time, String>) {
        self.outcomes[index] = Some(outcome);
        self.give();
    }

    /// Takes over what a journal has (SWE-3).
    fn take_known(&mut self, journal: Option<&Journal>, keys: &[String]) {
        let Some(journal) = journal else { return };
        for (outcome, key) in self.outcomes.iter_mut().zip(keys) {
            if outcome.is_none() {
                *outcome = journal.row(key).cloned();
            }
        }
        self.give();
    }

    /// Gives the rows up to the first that is missing.
    fn give(&mut self) {
        while self.next < self.points.len() {
            if self.team.gives(self.next) {
                let Some(outcome) = &self.outcomes[self.next] else { return };
                let point = self.points[self.next].clone();
                (self.told)(&Row { point, outcome: outcome.clone() });
            }
            self.next += 1;
        }
    }

    /// Waits for the rows of the other processes. Rows that are missing when all have left are run here.
    fn wait(
        &mut self,
        work: &Work,
        journal: &mut Journal,
        keys: &[String],
        (job, size): (&str, usize),
    ) -> Result<(), JournalError> {
        loop {
            // In this order: what is written before the last process leaves is read.
            let have_left = journal.is_marked(job, Mark::Done, 1..size);
            journal.refresh()?;
            self.take_known(Some(journal), keys);
            if self.next == self.points.len() {
                return Ok(());
            }
            if have_left {
                for (index, key) in keys.iter().enumerate() {
                    if self.outcomes[index].is_none() {
                        let outcome = work.sweep.outcome(&self.points[index]);
                        journal.keep(key, &outcome)?;
                        self.add(index, outcome);
                    }
                }
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
