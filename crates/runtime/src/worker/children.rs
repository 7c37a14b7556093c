//! How a worker's workers are made: as processes or as threads, set up, and known by what they report.

use super::{Builder, Worker};
use crate::bootstrap::{Bootstrap, ChipContext, Report};
use crate::endpoint::Endpoint;
use crate::endpoint::thread::spawn_thread;
use crate::error::{Error, Lost, StartError};
use crate::failure::Failure;
use crate::memory::Home;
use crate::process::Startup;
use crate::process::letter::{Chip, Role};
use crate::process::spawn::Nursery;
use crate::process::startup::{Plan, start};
use crate::runner::{Runner, caught};
use crate::shm::{Phase, Segment};
use crate::tensor::{Buffer, Bytes};
use phalanx_engine::{Grant, Identity, Stats};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a worker keeps of the start of its workers.
#[derive(Default)]
pub(crate) struct Children {
    startup: Startup,
    contexts: Vec<ChipContext>,
    /// Starts and reaps processes; goes last.
    nursery: Option<Arc<Nursery>>,
}

/// What the bootstrap of a chip made, and what it reports.
type SetUp = (Option<Box<dyn Any + Send>>, Report);

impl Worker {
    /// What each chip reported when it was ready, in the order of their ranks.
    pub fn chip_contexts(&self) -> &[ChipContext] {
        &self.children.contexts
    }

    /// How the start of the processes went; empty if there are none.
    pub fn startup(&self) -> &Startup {
        &self.children.startup
    }

    /// What its engine holds now, and how often something ended that nobody knew of.
    pub fn stats(&self) -> Stats {
        let mut core = self.node.enter();
        core.pump();
        core.engine.stats()
    }

    /// Workers that are gone although nobody told them to leave, and how they ended.
    pub fn lost(&self) -> Vec<Lost> {
        let mut core = self.node.enter();
        core.pump();
        core.losses()
    }

    /// Workers that were lost and replaced, the last first; see [`Builder::restart`].
    pub fn replaced(&self) -> Vec<Lost> {
        let mut core = self.node.enter();
        core.pump();
        core.replaced()
    }

    /// Makes buffers of what a chip has cut out of its window.
    fn know_chip(&mut self, chip: &Chip, report: Report) -> Result<(), Error> {
        let mut core = self.node.enter();
        let mut buffers = BTreeMap::new();
        for carved in report.buffers {
            core.last_buffer += 1;
            let (number, generation, owner) = (core.last_buffer, 1, self.node.nonce);
            let identity = Identity { owner, number, generation };
            let id = core.engine.register(identity, carved.bytes, Grant::ReadWrite);
            let id = id.map_err(|error| Error::Setting(error.to_string()))?;
            let (memory, home, dropped) = (0, Home::Chip(chip.rank), None);
            let (offset, bytes) = (chip.window.0 + carved.offset, carved.bytes);
            let bytes =
                Bytes { id, owner, number, generation, memory, offset, bytes, home, dropped };
            if buffers.insert(carved.name.clone(), Buffer(Arc::new(bytes))).is_some() {
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
            local_window_base: window.0,
            actual_window_size: window.1,
            buffers,
        });
        Ok(())
    }
}

fn start_error(chip: &Chip, words: String) -> StartError {
    let worker = format!("chip {}", chip.rank);
    StartError { worker, phase: Phase::Bootstrapping, words }
}

impl Builder {
    /// Who all are to be, with the windows of the chips.
    fn roles(&self, worker: &Worker) -> Result<Vec<Role>, Error> {
        let mut core = worker.node.enter();
        let mut roles = Vec::new();
        for rank in 0..self.chips {
            let base = if self.window > 0 { core.memory.allocate(self.window)? } else { 0 };
            let device_ids = self.device_ids.as_ref();
            let device_id = device_ids.and_then(|ids| ids.get(rank as usize)).copied();
            let (device_id, nranks) = (device_id.unwrap_or(rank), self.chips);
            let window = (base, self.window);
            roles.push(Role::Chip(Chip { device_id, rank, nranks, window }));
        }
        roles.extend((0..self.subs).map(|number| Role::Sub { number }));
        Ok(roles)
    }

    /// Starts a process for each, and returns when all are ready.
    pub(super) fn start_processes(
        &self,
        worker: &mut Worker,
    ) -> Result<Vec<Box<dyn Endpoint>>, Error> {
        let roles = self.roles(worker)?;
        if roles.is_empty() {
            return Ok(Vec::new());
        }
        let node = Arc::downgrade(&worker.node);
        let bell = worker.node.bell.clone();
        let alarm = move || match node.upgrade() {
            Some(node) => node.alarm(),
            None => drop(bell.ring()),
        };
        let memory = worker.node.enter().memory.segment.clone();
        let path = self.program_path.clone();
        let setting = &self.setting;
        let nursery = Nursery::new(self.program, setting, path, &worker.node.bell, &memory, alarm)?;
        let nursery = Arc::new(nursery);
        let budget = Duration::from_nanos(self.ladder.startup.0);
        let node = &worker.node;
        let plan = Plan { roles: &roles, budget, is_restarting: self.is_restarting };
        let started = start(&nursery, &plan, &node.bell, &node.waiting)?;
        worker.children.nursery = Some(nursery);
        worker.children.startup = started.startup;
        let keeper = worker.node.start_keeper();
        worker.threads.push(keeper.map_err(|error| Error::system("the keeper", error))?);
        for (chip, report) in started.reports {
            worker.know_chip(&chip, report)?;
        }
        Ok(started.lanes)
    }

    /// Starts a thread for each; chips set themselves up first, all at the same time.
    pub(super) fn start_threads(
        &self,
        worker: &mut Worker,
    ) -> Result<Vec<Box<dyn Endpoint>>, Error> {
        let roles = self.roles(worker)?;
        let memory = worker.node.enter().memory.segment.clone();
        let devices = self.set_up(&roles, &memory)?;
        let mut lanes = Vec::new();
        for (role, set_up) in roles.iter().zip(devices) {
            let (device, report) = set_up.map_or((None, None), |(d, r)| (d, Some(r)));
            if let (Role::Chip(chip), Some(report)) = (role, report) {
                worker.know_chip(chip, report)?;
            }
            let runner = Runner::new(self.program, vec![memory.clone()], device);
            let (lane, thread) = spawn_thread(&worker.node, role.name(), runner)?;
            worker.threads.push(thread);
            lanes.push(lane);
        }
        Ok(lanes)
    }

    /// Runs the bootstrap of every chip in a thread of its own: a device and a report for each chip, nothing for others.
    fn set_up(&self, roles: &[Role], memory: &Segment) -> Result<Vec<Option<SetUp>>, Error> {
        let one = |role: &Role| -> Result<Option<SetUp>, Failure> {
            let Role::Chip(chip) = role else { return Ok(None) };
            let Some(bootstrap) = self.program.bootstrap() else {
                return Ok(Some((None, Report { window: chip.window, ..Report::default() })));
            };
            let mut setting = Bootstrap::new(*chip, memory, &self.setting, &|| false);
            let device = caught(|| bootstrap(&mut setting))?;
            Ok(Some((Some(device), setting.finish())))
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = roles.iter().map(|role| scope.spawn(move || one(role))).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err(Failure::new("its thread panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        let mut devices = Vec::new();
        for (role, result) in roles.iter().zip(results) {
            devices.push(result.map_err(|failure| StartError {
                worker: role.name(),
                phase: Phase::Bootstrapping,
                words: failure.words().to_owned(),
            })?);
        }
        Ok(devices)
    }
}
