//! The description of a worker.
//!
//! - **BLD-1 (refused early).** Numbers with which nothing could ever run are refused by their name, before anything is made;
//!   with all others a worker runs, or says what the system does not give.

use super::Worker;
use super::budgets::{Budgets, LONGEST};
use super::children::Children;
use crate::error::Error;
use crate::memory::Arena;
use crate::node::{Core, Node, NodeSettings};
use crate::orchestrator::WorkerIds;
use crate::program::Program;
use crate::serve::MAX_DEPTH;
use crate::shm::{Bell, Segment, Waiting};
use crate::timeline::Recorder;
use phalanx_engine::{Config, Engine, Event, Time};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most tasks that can be live.
const MAX_SLOTS: u32 = 1 << 31;
/// The most workers that one worker has.
const MAX_WORKERS: u32 = 0xffff;

/// Isolation of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each is a process of its own.
    Process,
    /// Each is a thread of this process.
    Thread,
}

/// Describes a worker; [`Builder::init`] makes it.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) program: &'static Program,
    pub(crate) level: Option<u32>,
    pub(crate) chips: u32,
    pub(crate) subs: u32,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) memory: u64,
    pub(crate) slots: u32,
    pub(crate) slabs: u64,
    pub(crate) runs: usize,
    pub(crate) depth: usize,
    pub(crate) budgets: Budgets,
    pub(crate) close: Duration,
    pub(crate) is_recording: bool,
    pub(crate) program_path: Option<PathBuf>,
    pub(crate) window: u64,
    pub(crate) device_ids: Option<Vec<u32>>,
    pub(crate) setting: Vec<u8>,
    pub(crate) workers: Vec<Builder>,
    pub(crate) is_restarting: bool,
}

impl Builder {
    pub(crate) fn new(program: &'static Program) -> Self {
        Self {
            program,
            level: None,
            chips: 0,
            subs: 0,
            isolation: None,
            memory: 1 << 30,
            slots: 1024,
            slabs: 1 << 28,
            runs: 2,
            depth: 16,
            budgets: Budgets::default(),
            close: Duration::from_secs(10),
            is_recording: false,
            program_path: None,
            window: 0,
            device_ids: None,
            setting: Vec::new(),
            workers: Vec::new(),
            is_restarting: false,
        }
    }

    /// Sets the number of its level: 3 is a node with chips; above it, the next level are workers themselves.
    #[must_use]
    pub fn level(self, level: u32) -> Self {
        Self { level: Some(level), ..self }
    }

    /// Sets the number of chips.
    #[must_use]
    pub fn chips(self, chips: u32) -> Self {
        Self { chips, ..self }
    }

    /// Sets the number of sub workers.
    #[must_use]
    pub fn sub_workers(self, subs: u32) -> Self {
        Self { subs, ..self }
    }

    /// Makes its workers threads of this process, not processes.
    #[must_use]
    pub fn threads(self) -> Self {
        Self { isolation: Some(Isolation::Thread), ..self }
    }

    /// Sets the bytes of memory for buffers; they cost nothing before they are used.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: bytes, ..self }
    }

    /// Sets the most tasks that are live at a time, at least one, and the bytes that they allocate.
    #[must_use]
    pub fn ring(self, slots: u32, bytes: u64) -> Self {
        Self { slots, slabs: bytes, ..self }
    }

    /// Sets the most runs that are unfinished at a time, at least one.
    #[must_use]
    pub fn runs(self, runs: usize) -> Self {
        Self { runs, ..self }
    }

    /// Sets the number of tasks that a worker is sent ahead, unless they are long. With 0 and 1 a worker is sent the next task
    /// after it has ended the last.
    #[must_use]
    pub fn depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// Sets the time limits. Time in which this process and its workers were stopped is part of no budget.
    #[must_use]
    pub fn budgets(self, budgets: Budgets) -> Self {
        Self { budgets, ..self }
    }

    /// Sets the longest time that closing takes, without time in which this process is stopped.
    #[must_use]
    pub fn close_within(self, close: Duration) -> Self {
        Self { close: close.min(LONGEST), ..self }
    }

    /// Records the tasks of runs, for graphs and critical paths, and their times ([`Worker::timeline`]).
    #[must_use]
    pub fn recording(self) -> Self {
        Self { is_recording: true, ..self }
    }

    /// Sets the program that children run instead of this one; it must begin with [`Program::serve_if_child`].
    #[must_use]
    pub fn program_path(self, path: impl Into<PathBuf>) -> Self {
        Self { program_path: Some(path.into()), ..self }
    }

    /// Sets the bytes of each chip's window, from which its bootstrap takes buffers; part of the memory.
    #[must_use]
    pub fn window(self, bytes: u64) -> Self {
        Self { window: bytes, ..self }
    }

    /// Sets the devices of the chips, in the order of their ranks; by default their ranks.
    #[must_use]
    pub fn device_ids(self, device_ids: &[u32]) -> Self {
        Self { device_ids: Some(device_ids.to_vec()), ..self }
    }

    /// Sets bytes for the bootstrap of every chip ([`Bootstrap::setting`](crate::Bootstrap::setting)), for example a machine.
    #[must_use]
    pub fn setting(self, setting: impl Into<Vec<u8>>) -> Self {
        Self { setting: setting.into(), ..self }
    }

    /// Starts a lost worker again. Its [idempotent](crate::Call::idempotent) tasks run again; its other tasks have
    /// failed. A worker that was started again three times without doing anything, or without getting ready, stays
    /// lost. The contents of its window stay.
    #[must_use]
    pub fn restart(self) -> Self {
        Self { is_restarting: true, ..self }
    }

    /// Starts everything; when it returns, every worker is ready.
    pub fn init(self) -> Result<Worker, Error> {
        self.init_under(Vec::new(), Vec::new())
    }

    /// Starts a worker whose parents have these memories, the nearest parent first; the parents in `above` are in this process.
    pub(crate) fn init_under(
        mut self,
        inherited: Vec<Segment>,
        above: Vec<u64>,
    ) -> Result<Worker, Error> {
        self.inherit_settings(0)?;
        self.check()?;
        let budgets = self.budgets.check()?;
        let memory = Arena::new(self.slabs, self.memory);
        let memory = memory.map_err(|error| self.no_memory(error))?;
        let bell = Bell::create().map_err(|error| Error::system("a bell", error))?;
        let mut engine = Engine::new(Config {
            slots: self.slots,
            bytes: self.slabs,
            depth: self.runs,
            is_recording: self.is_recording,
        });
        let ids = self.add_workers(&mut engine);
        let segment = memory.segment.clone();
        let recorder = self.is_recording.then(Recorder::start);
        let core = Core::new(engine, memory, self.program, recorder);
        let (program, waiting) = (self.program, self.waiting());
        let has_threads = self.isolation() == Isolation::Thread;
        let settings = NodeSettings { bell, budgets, program, waiting, has_threads };
        let node = Arc::new(Node::new(core, settings));
        let (threads, children) = (Vec::new(), Children::default());
        let (close, level) = (self.close, self.height());
        let memory = segment;
        let mut worker =
            Worker { node, ids, memory, inherited, threads, children, close, level, above };
        let links = self.start(&mut worker)?;
        let mut core = worker.node.lock();
        for link in links {
            core.add_link(link);
        }
        let (now, workers): (_, Vec<_>) =
            (Time(crate::clock::now()), core.engine.workers().collect());
        for one in workers {
            core.engine.step(now, Event::Ready(one));
        }
        drop(core);
        Ok(worker)
    }

    fn no_memory(&self, error: std::io::Error) -> Error {
        let (memory, slabs) = (self.memory, self.slabs);
        let what = format!("shared memory of the worker (`memory` {memory}, `ring` {slabs} bytes)");
        Error::system(what, error)
    }

    /// Refuses impossible settings, before anything is made.
    fn check(&self) -> Result<(), Error> {
        self.program.check()?;
        self.check_numbers()?;
        let others = self.next_level().saturating_add(self.subs);
        if others == 0 {
            return Err(Error::NoWorkers("chips and no sub workers"));
        }
        let is_process = self.isolation() == Isolation::Process && others > 0;
        if is_process && self.program_path.is_none() && !crate::process::serves_children() {
            return Err(Error::NotAsked);
        }
        let given = self.device_ids.as_ref().map_or(self.chips as usize, Vec::len);
        if given != self.chips as usize {
            let chips = self.chips;
            return Err(Error::Setting(format!("{given} device ids were given for {chips} chips")));
        }
        Ok(())
    }

    /// Refuses numbers with which nothing could ever run, here and in all workers inside.
    fn check_numbers(&self) -> Result<(), Error> {
        let Self { slots, runs, depth, .. } = *self;
        let workers = self.next_level().saturating_add(self.subs);
        let wrong = if slots == 0 || slots > MAX_SLOTS {
            format!("`ring` has place for 1 to {MAX_SLOTS} tasks: {slots}")
        } else if runs == 0 {
            "`runs` is at least 1, or no run could begin: 0".to_owned()
        } else if depth > MAX_DEPTH {
            format!("`depth` is at most {MAX_DEPTH}: {depth}")
        } else if workers > MAX_WORKERS {
            format!("a worker has at most {MAX_WORKERS} chips, workers and sub workers: {workers}")
        } else {
            return self.workers.iter().try_for_each(Self::check_numbers);
        };
        Err(Error::Setting(wrong))
    }

    /// Returns the wait policy. A waiter keeps its processor only while there is one for each worker, and for the caller that
    /// drives processes; threads drive themselves, and their caller sleeps.
    fn waiting(&self) -> Waiting {
        let has_threads = self.isolation() == Isolation::Thread;
        let workers = self.next_level().saturating_add(self.subs);
        let runners = workers.saturating_add(u32::from(!has_threads));
        let runners = usize::try_from(runners).unwrap_or(usize::MAX);
        Waiting::calibrate().among(runners)
    }

    /// Tells the engine of all workers: chips first, then sub workers.
    fn add_workers(&self, engine: &mut Engine) -> WorkerIds {
        let mut ids = WorkerIds::default();
        if self.next_level() > 0 {
            let pool = engine.add_pool();
            ids.next_level_pool = Some(pool);
            ids.next_level =
                (0..self.next_level()).map(|_| engine.add_worker(Some(pool), self.depth)).collect();
        }
        if self.subs > 0 {
            let pool = engine.add_pool();
            ids.sub_pool = Some(pool);
            ids.subs = (0..self.subs).map(|_| engine.add_worker(Some(pool), self.depth)).collect();
        }
        // All kinds of workers run tasks in the order in which they are sent (EP-2, EP-7).
        engine.workers().for_each(|worker| engine.keeps_order(worker));
        ids
    }
}
