//! Explanations: the reason why a task is not running, the graph as text, and the critical path of a run.
//!
//! - **WHY-1 (edges).** Every dependency of a live task is listed with its argument and its kind.
//! - **WHY-2 (now).** The reasons of a waiting task are true at the moment of asking: the producers that have not
//!   ended, the turn of its run, the worker or the reservation in its way.
//! - **WHY-3 (path).** The critical path is a chain of edges whose durations add up to the report's `critical`.

use crate::arena::NONE;
use crate::engine::Engine;
use crate::run::{Cause, RunId};
use crate::task::{Route, State, TaskId};
use crate::tensormap::Kinds;
use crate::worker::{Health, PoolId, WorkerId};
use std::fmt::Write;

/// One dependency of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The task that it waits or waited for.
    pub producer: TaskId,
    /// The member of a group that has the argument.
    pub member: u16,
    /// The argument that it comes from; none if it was given explicitly.
    pub argument: Option<u16>,
    /// The conflicts that caused it.
    pub kinds: Kinds,
    /// True if it is over.
    pub is_satisfied: bool,
}

/// The thing that a task waits for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// These tasks.
    Tasks(Vec<TaskId>),
    /// This run, which is in front of its own.
    Turn(RunId),
    /// A worker that is not ready yet.
    Startup(WorkerId),
    /// A worker that is kept for this group.
    Reserved(WorkerId, TaskId),
    /// A worker that is busy with this task.
    Worker(WorkerId, TaskId),
    /// Any worker of a pool.
    Pool(PoolId),
    /// These workers must be idle at the same time; the tasks they are busy with.
    Group(Vec<(WorkerId, Option<TaskId>)>),
    /// Workers that have it.
    Ending(Vec<WorkerId>),
    /// An event that says how it ended.
    Resolution,
    /// Nothing: it has ended well, and its slab is held.
    Holders(u32),
    /// Nothing: it has failed.
    Failed(Cause),
}

/// The answer to [`Engine::why`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The task.
    pub task: TaskId,
    /// Its state.
    pub state: State,
    /// All that it had to wait for.
    pub dependencies: Vec<Dependency>,
    /// The thing that it waits for now.
    pub waiting: Waiting,
}

impl Engine {
    /// Explains the state of a task; `None` if the task is gone.
    pub fn why(&self, task: TaskId) -> Option<Why> {
        let at = self.ring.find(task)?;
        let dependencies = self.ring.edges(at).map(|edge| Dependency {
            producer: edge.producer,
            member: edge.at().member(),
            argument: edge.at().argument(),
            kinds: edge.kinds(),
            is_satisfied: self.has_ended(edge.producer),
        });
        Some(Why {
            task,
            state: self.ring[at].state,
            dependencies: dependencies.collect(),
            waiting: self.waiting(task),
        })
    }

    fn has_ended(&self, task: TaskId) -> bool {
        !matches!(self.state(task), State::Pending | State::Ready | State::Running)
    }

    /// The producers of a task that have not ended.
    pub(crate) fn waits_of(&self, task: TaskId) -> Vec<TaskId> {
        let Some(slot) =
            self.ring.find(task).filter(|slot| self.ring[*slot].state == State::Pending)
        else {
            return Vec::new();
        };
        let edges = self.ring.edges(slot).map(|edge| edge.producer);
        let mut waits: Vec<TaskId> = edges.filter(|producer| !self.has_ended(*producer)).collect();
        waits.sort_unstable();
        waits.dedup();
        waits
    }

    fn waiting(&self, task: TaskId) -> Waiting {
        let (slot, extra) = (&self.ring[task.place()], self.ring.extra(task.place()));
        match slot.state {
            State::Pending => Waiting::Tasks(self.waits_of(task)),
            State::Ready => self.waiting_for_worker(task),
            State::Running if extra.deferred > 0 => Waiting::Resolution,
            State::Running => Waiting::Ending(self.workers_of(task.place())),
            State::Completed | State::Consumed => Waiting::Holders(slot.holders.count()),
            State::Failed => {
                self.ring.rare(task.place()).cause.map_or(Waiting::Holders(0), Waiting::Failed)
            }
        }
    }

    fn workers_of(&self, slot: u32) -> Vec<WorkerId> {
        let workers = (0..).map(WorkerId).zip(&self.workers);
        let busy =
            workers.filter(|(_, state)| state.flights.iter().any(|flight| flight.slot == slot));
        busy.map(|(worker, _)| worker).collect()
    }

    fn waiting_for_worker(&self, task: TaskId) -> Waiting {
        let slot = &self.ring[task.place()];
        let run = &self.runs[slot.run as usize];
        if !run.is_active {
            let ahead = self.lists.unfinished.iter().map(|at| &self.runs[*at as usize]);
            let behind =
                ahead.clone().find(|other| other.id != run.id && other.shares(&run.resources));
            return Waiting::Turn(behind.map_or(run.id, |other| other.id));
        }
        let busy = |worker: &u32| {
            let flight = self.workers[*worker as usize].flights.front();
            (WorkerId(*worker), flight.map(|flight| self.ring.id(flight.slot)))
        };
        match slot.route {
            Route::Worker(worker) => self.waiting_for(worker),
            Route::Pool(pool) => Waiting::Pool(PoolId(pool)),
            Route::Group(group) => {
                let group = &self.groups[group];
                let workers =
                    group.pool.map_or(&group.targets, |pool| &self.pools[pool as usize].workers);
                Waiting::Group(workers.iter().map(busy).collect())
            }
        }
    }

    fn waiting_for(&self, worker: u32) -> Waiting {
        let state = &self.workers[worker as usize];
        let id = WorkerId(worker);
        if state.health == Health::Starting {
            return Waiting::Startup(id);
        }
        let group = if state.reserved == NONE {
            None
        } else {
            self.runs[state.reserved as usize].groups.front()
        };
        if let Some(group) = group {
            return Waiting::Reserved(id, self.ring.id(*group));
        }
        state
            .flights
            .front()
            .map_or(Waiting::Startup(id), |flight| Waiting::Worker(id, self.ring.id(flight.slot)))
    }

    /// Returns the graph of a run: all tasks if the engine records, with the edges from tasks that had ended, else the
    /// live tasks.
    pub fn graph(&self, run: RunId) -> Graph {
        let Some(at) = self.runs.get(run.index as usize).filter(|entry| entry.id == run) else {
            return Graph::default();
        };
        let mut graph = Graph { label: at.label, ..Graph::default() };
        for entry in &at.record.entries {
            let node = GraphNode {
                task: entry.task,
                work: entry.work,
                members: entry.members,
                state: entry.state,
                took: entry.took,
            };
            graph.nodes.push(node);
            graph.edges.extend(entry.edges.iter().map(|edge| GraphEdge {
                from: at.record.entries[edge.from as usize].task,
                to: entry.task,
                member: edge.at.member(),
                argument: edge.at.argument(),
                kinds: edge.kinds,
            }));
        }
        if !self.config.is_recording {
            self.add_live(run, &mut graph);
        }
        graph
    }

    fn add_live(&self, run: RunId, graph: &mut Graph) {
        let mut tasks: Vec<_> =
            self.ring.tasks().filter(|(_, slot, _)| slot.run == run.index).collect();
        tasks.sort_unstable_by_key(|(_, _, extra)| extra.sequence);
        for (at, slot, _) in tasks {
            let task = self.ring.id(at);
            let members =
                if let Route::Group(group) = slot.route { self.groups[group].members } else { 1 };
            graph.nodes.push(GraphNode {
                task,
                work: slot.work,
                members,
                state: slot.state,
                took: 0,
            });
            let edges = self.ring.edges(at).filter(|edge| self.ring.find(edge.producer).is_some());
            graph.edges.extend(edges.map(|edge| GraphEdge {
                from: edge.producer,
                to: task,
                member: edge.at().member(),
                argument: edge.at().argument(),
                kinds: edge.kinds(),
            }));
        }
    }

    /// Returns the critical path of a recorded run: of each task its id, the driver's number for it, and its duration.
    pub fn critical_path(&self, run: RunId) -> Vec<(TaskId, u64, u64)> {
        let Some(run) = self.runs.get(run.index as usize).filter(|entry| entry.id == run) else {
            return Vec::new();
        };
        let entries = &run.record.entries;
        let mut until: Vec<u64> = Vec::with_capacity(entries.len());
        let mut before: Vec<Option<u32>> = Vec::with_capacity(entries.len());
        for entry in entries {
            let last =
                entry.edges.iter().map(|edge| edge.from).max_by_key(|from| until[*from as usize]);
            until.push(last.map_or(0, |from| until[from as usize]).saturating_add(entry.took));
            before.push(last);
        }
        let last = (0..).zip(&until).max_by_key(|(_, until)| **until).map(|(at, _)| at);
        let mut path: Vec<_> = std::iter::successors(last, |at: &u32| before[*at as usize])
            .map(|at| &entries[at as usize])
            .map(|entry| (entry.task, entry.work, entry.took))
            .collect();
        path.reverse();
        path
    }
}

/// Tasks and the causes of their waits.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Label of the run.
    pub label: &'static str,
    /// Its tasks in the order of submission.
    pub nodes: Vec<GraphNode>,
    /// Its edges.
    pub edges: Vec<GraphEdge>,
}

/// A task of a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphNode {
    /// The task.
    pub task: TaskId,
    /// The driver's number for the work.
    pub work: u64,
    /// Number of members.
    pub members: usize,
    /// Its state.
    pub state: State,
    /// Its duration.
    pub took: u64,
}

/// An edge of a graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphEdge {
    /// The task that had to end.
    pub from: TaskId,
    /// The task that had to wait.
    pub to: TaskId,
    /// The member with the argument.
    pub member: u16,
    /// The argument it comes from; none if it was given explicitly.
    pub argument: Option<u16>,
    /// The conflicts that caused the edge.
    pub kinds: Kinds,
}

impl Graph {
    /// Returns the graph in DOT, for Graphviz.
    pub fn to_dot(&self) -> String {
        let mut text = format!("digraph \"{}\" {{\n", self.label.replace('"', "'"));
        for GraphNode { task, work, state, .. } in &self.nodes {
            let _ = writeln!(text, "  \"{task}\" [label=\"{task}\\nwork {work}\\n{state:?}\"];");
        }
        for GraphEdge { from, to, argument, kinds, .. } in &self.edges {
            let argument = argument.map_or(String::new(), |argument| format!(" arg {argument}"));
            let _ = writeln!(text, "  \"{from}\" -> \"{to}\" [label=\"{kinds}{argument}\"];");
        }
        text + "}\n"
    }

    /// Returns the graph in JSON: `{"run": label, "tasks": [...], "edges": [...]}`.
    pub fn to_json(&self) -> String {
        let tasks = self.nodes.iter().map(|GraphNode { task, work, members, state, took }| {
            format!(
                "{{\"task\":\"{task}\",\"work\":{work},\"members\":{members},\"state\":\"{state:?}\",\"took\":{took}}}"
            )
        });
        let edges = self.edges.iter().map(|GraphEdge { from, to, member, argument, kinds }| {
            let argument = argument.map_or("null".to_owned(), |argument| argument.to_string());
            format!(
                "{{\"from\":\"{from}\",\"to\":\"{to}\",\"member\":{member},\"argument\":{argument},\"kinds\":\"{kinds}\"}}"
            )
        });
        let (tasks, edges): (Vec<_>, Vec<_>) = (tasks.collect(), edges.collect());
        let label = self.label.replace(['"', '\\'], "'");
        format!(
            "{{\"run\":\"{label}\",\"tasks\":[{}],\"edges\":[{}]}}",
            tasks.join(","),
            edges.join(",")
        )
    }
}
