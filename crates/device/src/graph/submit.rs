//! Submitting a task to the engine: checks, leases, and the wait for a free slot.

use super::drive::{Entry, Graph, Work};
use super::task::{KernelTask, Member, Tag, TaskId, TaskTarget, bytes_of, writes};
use phalanx_engine::{Arg, Placement, PoolId, Submit, SubmitError, TaskSpec, WorkerId};
use phalanx_sim::topology::PeId;
use phalanx_torch::Error;
use phalanx_torch::Tensor;
use phalanx_torch::driver::{Drive, allocation};
use std::rc::Rc;

/// The checked target of a task.
enum Route {
    Worker(WorkerId),
    Pool(PoolId),
    Group(Vec<WorkerId>),
    PoolGroup(PoolId),
}

/// The answer of the engine.
enum Answer {
    Taken(TaskId),
    /// All slots are taken; the number of slots freed so far.
    Full(u64),
}

impl Graph {
    pub(super) async fn submit(self: &Rc<Self>, task: KernelTask) -> Result<TaskId, Error> {
        let route = self.route(&task)?;
        self.check(&task)?;
        let members = members(&task);
        let mut args = Vec::new();
        for member in &members {
            let mut of_member = Vec::new();
            for (tensor, tag) in *member {
                let buffer = self.lease(tensor).await?;
                of_member.push(Arg { view: bytes_of(tensor, buffer)?, tag: *tag });
            }
            args.push(of_member);
        }
        loop {
            match self.offer(&task, &route, &members, &args)? {
                Answer::Taken(id) => {
                    self.carry_out(self.rank.cause());
                    return Ok(id);
                }
                Answer::Full(before) => {
                    let describe = |graph: &Self| graph.at_work("room in graph");
                    self.until(|state| state.room > before, describe).await;
                }
            }
        }
    }

    fn refuse<T>(&self, task: &KernelTask, why: impl std::fmt::Display) -> Result<T, Error> {
        Err(Error::argument(format!("graph `{}`: task `{}`: {why}", self.name, task.name())))
    }

    /// Refuses tensors of other ranks and tasks of other graphs.
    fn check(&self, task: &KernelTask) -> Result<(), Error> {
        let mut tensors = members(task).into_iter().flatten();
        if let Some((tensor, _)) = tensors.find(|(tensor, _)| !tensor.owner().is(&self.rank)) {
            let rank = self.rank.rank();
            return self.refuse(task, format!("{tensor:?} is not one of rank {rank}"));
        }
        let count = self.state.borrow().tasks.len();
        let is_foreign = |id: &&TaskId| id.graph != self.number || id.number >= count;
        if let Some(id) = task.after.iter().find(is_foreign) {
            return self.refuse(task, format!("`after` names {id}, a task of another graph"));
        }
        Ok(())
    }

    fn route(&self, task: &KernelTask) -> Result<Route, Error> {
        if task.members.is_empty() {
            return match task.target {
                TaskTarget::Pe(pe) => Ok(Route::Worker(self.worker(task, pe)?)),
                TaskTarget::Any | TaskTarget::Cube(_) => Ok(Route::Pool(self.pool(task)?)),
            };
        }
        if !task.args.is_empty() {
            return self.refuse(task, "a group's arguments are given with its members");
        }
        let pes: Vec<PeId> = task.members.iter().filter_map(|member| member.pe).collect();
        if pes.len() == task.members.len() {
            let workers: Result<Vec<_>, Error> =
                pes.into_iter().map(|pe| self.worker(task, pe)).collect();
            return Ok(Route::Group(workers?));
        }
        if pes.is_empty() {
            return Ok(Route::PoolGroup(self.pool(task)?));
        }
        self.refuse(task, "either all members of a group name their PE or none does")
    }

    fn worker(&self, task: &KernelTask, pe: PeId) -> Result<WorkerId, Error> {
        match self.pes.iter().position(|own| *own == pe) {
            Some(at) => Ok(self.workers[at]),
            None => self.refuse(
                task,
                format!(
                    "{pe} is none of the {} PEs of the graph; see `GraphOptions::pes`",
                    self.pes.len()
                ),
            ),
        }
    }

    fn pool(&self, task: &KernelTask) -> Result<PoolId, Error> {
        let cube = match task.target {
            TaskTarget::Cube(cube) => Some(cube),
            TaskTarget::Any => None,
            TaskTarget::Pe(pe) => {
                return self
                    .refuse(task, format!("a group on {pe}: name the PEs with its members"));
            }
        };
        match (self.pools.get(&cube), cube) {
            (Some(pool), _) => Ok(*pool),
            (None, None) => self.refuse(
                task,
                "its PEs are pooled by cube: place it on a cube, or use `Pools::Whole`",
            ),
            (None, Some(cube)) => self.refuse(
                task,
                format!(
                    "there is no pool of cube {cube}: use `Pools::Cubes` and a cube of the graph"
                ),
            ),
        }
    }

    /// Submits a task to the engine, if a slot is free.
    fn offer(
        &self,
        task: &KernelTask,
        route: &Route,
        members: &[&[(Tensor, Tag)]],
        args: &[Vec<Arg>],
    ) -> Result<Answer, Error> {
        let state = &mut *self.state.borrow_mut();
        let slices: Vec<&[Arg]> = args.iter().map(Vec::as_slice).collect();
        let targets: Vec<(WorkerId, &[Arg])> = match route {
            Route::Group(workers) => workers.iter().copied().zip(slices.iter().copied()).collect(),
            _ => Vec::new(),
        };
        let (placement, own): (Placement<'_>, &[Arg]) = match route {
            Route::Worker(worker) => (Placement::Worker(*worker), slices[0]),
            Route::Pool(pool) => (Placement::Pool(*pool), slices[0]),
            Route::Group(_) => (Placement::Group(&targets), &[]),
            Route::PoolGroup(pool) => (Placement::PoolGroup(*pool, &slices), &[]),
        };
        let after: Vec<_> =
            task.after.iter().filter_map(|id| state.tasks[id.number].task).collect();
        let number = state.tasks.len();
        let spec = TaskSpec {
            after: &after,
            priority: task.priority,
            is_unordered: task.is_unordered,
            expected: super::drive::reading(task.expected),
            ..TaskSpec::new(placement).args(own).work(number as u64)
        };
        let taken = match state.engine.submit(state.run, &spec) {
            Ok(Submit::Accepted { task, .. }) => Some(task),
            Ok(Submit::Blocked { .. }) => return Ok(Answer::Full(state.room)),
            // The graph has failed: the task counts as never started.
            Err(SubmitError::RunFailed(_) | SubmitError::NotBuilding(_)) => None,
            Err(error) => return self.refuse(task, error),
        };
        state.tasks.push(self.entry(task, taken, members));
        Ok(Answer::Taken(self.id(number)))
    }

    fn entry(
        &self,
        task: &KernelTask,
        taken: Option<phalanx_engine::TaskId>,
        members: &[&[(Tensor, Tag)]],
    ) -> Entry {
        let all = members.iter().flat_map(|member| member.iter());
        let tensors = |member: &&[(Tensor, Tag)]| -> Vec<Tensor> {
            member.iter().map(|(tensor, _)| tensor.clone()).collect()
        };
        let work =
            Work { kernel: task.kernel.clone(), tensors: members.iter().map(tensors).collect() };
        Entry {
            kernel_name: task.kernel_name.clone(),
            label: task.label.clone(),
            task: taken,
            work: taken.is_some().then_some(work),
            writes: all
                .filter(|(_, tag)| writes(*tag))
                .map(|(tensor, _)| allocation(tensor).number)
                .collect(),
            pes: Vec::new(),
            submitted: self.rank.now(),
            dispatched: None,
            started: None,
            ended: None,
            error: None,
        }
    }
}

/// The arguments of each member; a task without members counts as one member.
fn members(task: &KernelTask) -> Vec<&[(Tensor, Tag)]> {
    if task.members.is_empty() {
        return vec![&task.args];
    }
    task.members.iter().map(|Member { args, .. }| args.as_slice()).collect()
}
