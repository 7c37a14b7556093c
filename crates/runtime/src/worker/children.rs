//! Start of a worker's workers, as processes or as threads.

use super::{Builder, Isolation, Worker, settings};
use crate::bootstrap::{BootReport, Bootstrap, ChipContext, Device};
use crate::endpoint::Endpoint;
use crate::endpoint::thread::spawn_thread;
use crate::error::{Error, Lost, StartError};
use crate::failure::Failure;
use crate::memory::Home;
use crate::process::Startup;
use crate::process::handoff::{Chip, Role, WindowRange};
use crate::process::spawn::{Spawner, SpawnerSettings};
use crate::process::startup::{Plan, start};
use crate::runner::{Runner, caught};
use crate::shm::{Phase, Segment};
use crate::tensor::{Access, Buffer, Bytes};
use phalanx_engine::{Grant, Identity, Stats};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ScopedJoinHandle};

/// Result of the start of a worker's workers.
#[derive(Default)]
pub(crate) struct Children {
    startup: Startup,
    contexts: Vec<ChipContext>,
    /// Every process below this worker.
    descendants: Vec<u32>,
    /// Starts and reaps processes; goes last.
    spawner: Option<Arc<Spawner>>,
}

/// Parts of a worker thread.
#[derive(Default)]
struct SetUp {
    /// Only of a chip.
    device: Option<Device>,
    /// Only of a chip.
    report: Option<BootReport>,
    /// Only of a worker that has workers.
    worker: Option<Worker>,
}

/// Parts that a worker thread has from the workers above it.
#[derive(Clone, Copy)]
struct Inherited<'a> {
    /// Memories of the parent and of its parents.
    memories: &'a [Segment],
    /// Nonces of the workers whose tasks the thread runs.
    tasks_of: &'a [u64],
}

impl Worker {
    /// Returns the reports of the chips, in the order of their ranks.
    pub fn chip_contexts(&self) -> &[ChipContext] {
        &self.children.contexts
    }

    /// Returns every process below this worker, at the time when all were ready.
    pub(crate) fn descendants(&self) -> &[u32] {
        &self.children.descendants
    }

    /// Returns the memories of its children: its own first, then those of its parents.
    fn memories(&self) -> Vec<Segment> {
        std::iter::once(&self.memory).chain(&self.inherited).cloned().collect()
    }

    /// Returns the nonces of the workers whose tasks its threads run: its own, and all above it.
    fn tasks_of(&self) -> Vec<u64> {
        std::iter::once(self.node.nonce).chain(self.above.iter().copied()).collect()
    }

    /// Returns the report of the start of the processes; empty if there are none.
    pub fn startup(&self) -> &Startup {
        &self.children.startup
    }

    /// Returns the counts of its engine: the tasks that it holds now, and endings that it did not know.
    pub fn stats(&self) -> Stats {
        let mut core = self.node.lock();
        core.pump();
        core.engine.stats()
    }

    /// Returns the lost workers and the causes of their ends.
    pub fn lost(&self) -> Vec<Lost> {
        let mut core = self.node.lock();
        core.pump();
        core.losses()
    }

    /// Returns workers that were lost and replaced, the last first; see [`Builder::restart`].
    pub fn replaced(&self) -> Vec<Lost> {
        let mut core = self.node.lock();
        core.pump();
        core.replaced()
    }

    /// Makes buffers of what a chip has cut out of its window.
    fn register_chip(&mut self, chip: &Chip, report: BootReport) -> Result<(), Error> {
        let mut core = self.node.lock();
        let mut buffers = BTreeMap::new();
        for carved in report.buffers {
            let (number, generation, owner) = (core.arena.next_number(), 1, self.node.nonce);
            let identity = Identity { owner, number, generation };
            let id = core.engine.register(identity, carved.bytes, Grant::ReadWrite);
            let id = id.map_err(|error| Error::Setting(error.to_string()))?;
            let (memory, home, dropped) = (0, Home::Chip(chip.rank), None);
            let (offset, bytes) = (chip.window.base + carved.offset, carved.bytes);
            let buffer = Buffer(Arc::new(Bytes {
                id,
                owner,
                number,
                generation,
                memory,
                offset,
                bytes,
                base: 0,
                access: Access::ReadWrite,
                home,
                dropped,
            }));
            if buffers.insert(carved.name.clone(), buffer).is_some() {
                let words = format!("two of its buffers are called `{}`", carved.name);
                return Err(start_error(chip, words).into());
            }
        }
        drop(core);
        let Chip { device_id, rank, nranks, window } = *chip;
        self.children.contexts.push(ChipContext {
            device_id,
            rank,
            nranks,
            device_ctx: report.device_ctx,
            local_window_base: window.base,
            actual_window_size: window.bytes,
            buffers,
        });
        Ok(())
    }
}

fn start_error(chip: &Chip, words: String) -> StartError {
    let worker = format!("chip {}", chip.rank);
    StartError { worker, phase: Phase::Bootstrapping, words }
}

/// Starts the thread that drives the node while no caller does.
fn start_progress(worker: &mut Worker) -> Result<(), Error> {
    let thread = worker.node.start_progress_thread();
    let cannot = |error| Error::system("the progress thread cannot be started", error);
    worker.threads.push(thread.map_err(cannot)?);
    Ok(())
}

impl Builder {
    /// Returns the roles of all workers, with the windows of the chips.
    fn roles(&self, worker: &Worker) -> Result<Vec<Role>, Error> {
        let mut core = worker.node.lock();
        let mut roles = Vec::new();
        for rank in 0..self.chips {
            let base = if self.window > 0 { core.arena.allocate(self.window)? } else { 0 };
            let device_ids = self.device_ids.as_ref();
            let device_id = device_ids.and_then(|ids| ids.get(rank as usize)).copied();
            let (device_id, nranks) = (device_id.unwrap_or(rank), self.chips);
            let window = WindowRange { base, bytes: self.window };
            roles.push(Role::Chip(Chip { device_id, rank, nranks, window }));
        }
        for (number, child) in (0..).zip(&self.workers) {
            roles.push(Role::Worker { number, level: child.height() });
        }
        roles.extend((0..self.subs).map(|number| Role::Sub { number }));
        Ok(roles)
    }

    /// Starts all workers. If one cannot be had, `worker` is left with those that can, and ends them when it is dropped.
    pub(super) fn start(&self, worker: &mut Worker) -> Result<Vec<Box<dyn Endpoint>>, Error> {
        let mut links = Vec::new();
        let started = match self.isolation() {
            Isolation::Thread => self.start_threads(worker, &mut links),
            Isolation::Process => self.start_processes(worker, &mut links),
        };
        if let Err(error) = started.and_then(|()| start_progress(worker)) {
            let mut core = worker.node.lock();
            for link in links {
                core.add_link(link);
            }
            return Err(error);
        }
        Ok(links)
    }

    /// Starts a process for each, and returns when all are ready.
    fn start_processes(
        &self,
        worker: &mut Worker,
        links: &mut Vec<Box<dyn Endpoint>>,
    ) -> Result<(), Error> {
        let roles = self.roles(worker)?;
        if roles.is_empty() {
            return Ok(());
        }
        let node = Arc::downgrade(&worker.node);
        let bell = worker.node.bell().clone();
        let alarm = move || match node.upgrade() {
            Some(node) => node.wake_drivers(),
            None => drop(bell.ring()),
        };
        let settings: Result<Vec<Segment>, _> = self.workers.iter().map(settings::write).collect();
        let settings = settings.map_err(|error| Error::system("settings of a worker", error))?;
        let spawner_settings = SpawnerSettings {
            program: self.program,
            setting: &self.setting,
            path: self.program_path.clone(),
            bell: worker.node.bell(),
            memories: worker.memories(),
            workers: settings,
        };
        let spawner = Arc::new(Spawner::new(spawner_settings, alarm)?);
        let budget = self.budgets.startup;
        let node = &worker.node;
        let plan = Plan { roles: &roles, budget, is_restarting: self.is_restarting };
        let started = start(&spawner, &plan, node.bell(), &node.waiting)?;
        worker.children.spawner = Some(spawner);
        links.extend(started.links);
        for child in &started.startup.children {
            worker.children.descendants.push(child.process);
            worker.children.descendants.extend_from_slice(&child.descendants);
        }
        worker.children.startup = started.startup;
        for (chip, report) in started.reports {
            worker.register_chip(&chip, report)?;
        }
        Ok(())
    }

    /// Starts a thread for each; chips set themselves up first, all at the same time.
    fn start_threads(
        &self,
        worker: &mut Worker,
        links: &mut Vec<Box<dyn Endpoint>>,
    ) -> Result<(), Error> {
        let roles = self.roles(worker)?;
        let memories = worker.memories();
        let tasks_of = worker.tasks_of();
        let made = self.set_up(&roles, Inherited { memories: &memories, tasks_of: &tasks_of })?;
        for (role, SetUp { device, report, worker: child }) in roles.iter().zip(made) {
            if let (Role::Chip(chip), Some(report)) = (role, report) {
                worker.register_chip(chip, report)?;
            }
            let descendants = child.as_ref().map(Worker::descendants).unwrap_or_default();
            worker.children.descendants.extend_from_slice(descendants);
            let runner = Runner::new(self.program, memories.clone(), device).over(child);
            let (link, thread) = spawn_thread(&worker.node, &tasks_of, &role.name(), runner)?;
            worker.threads.push(thread);
            links.push(link);
        }
        Ok(())
    }

    /// Runs the bootstrap of every chip, and starts every worker that has workers, each in a thread of its own. The first
    /// that cannot be set up decides the error.
    fn set_up(&self, roles: &[Role], inherited: Inherited<'_>) -> Result<Vec<SetUp>, Error> {
        let first: OnceLock<Error> = OnceLock::new();
        let one = |role: &Role| {
            let is_over = || first.get().is_some();
            let made = caught(|| self.set_up_one(role, inherited, &is_over));
            let made = made.map_err(|failure| {
                let (worker, words) = (role.name(), failure.words().to_owned());
                let _ = first.set(StartError { worker, phase: Phase::Bootstrapping, words }.into());
            });
            made.unwrap_or_default()
        };
        let made = thread::scope(|scope| {
            let begin = |role| {
                if matches!(role, &Role::Sub { .. }) || first.get().is_some() {
                    return None;
                }
                let thread = thread::Builder::new().spawn_scoped(scope, move || one(role));
                let cannot = |error| Error::thread(&role.name(), error);
                thread.map_err(|error| first.set(cannot(error))).ok()
            };
            let threads: Vec<_> = roles.iter().map(begin).collect();
            let join = |thread: ScopedJoinHandle<'_, SetUp>| thread.join().unwrap_or_default();
            threads.into_iter().map(|thread| thread.map(join).unwrap_or_default()).collect()
        });
        first.into_inner().map_or(Ok(made), Err)
    }

    fn set_up_one(
        &self,
        role: &Role,
        inherited: Inherited<'_>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SetUp, Failure> {
        match role {
            Role::Chip(chip) => self.set_up_chip(*chip, &inherited.memories[0], is_over),
            Role::Sub { .. } => Ok(SetUp::default()),
            Role::Worker { number, .. } => {
                let child = self.workers[*number as usize].clone();
                let worker = Some(
                    child.init_under(inherited.memories.to_vec(), inherited.tasks_of.to_vec())?,
                );
                Ok(SetUp { worker, ..SetUp::default() })
            }
        }
    }

    fn set_up_chip(
        &self,
        chip: Chip,
        memory: &Segment,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SetUp, Failure> {
        let Some(bootstrap) = self.program.bootstrap() else {
            let report = Some(BootReport { window: chip.window, ..BootReport::default() });
            return Ok(SetUp { report, ..SetUp::default() });
        };
        let mut setting = Bootstrap::new(chip, memory, &self.setting, is_over);
        let device = Some(Device::make(bootstrap, &mut setting)?);
        Ok(SetUp { device, report: Some(setting.finish()), worker: None })
    }
}
