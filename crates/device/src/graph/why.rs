//! Explanations of the state of a task, in words that name tasks and PEs.

use super::drive::Graph;
use super::outcome::{Edge, Outcome, TaskState, listed};
use super::task::TaskId;
use phalanx_engine::{State, Waiting, WorkerId};
use std::fmt;

/// An explanation of the state of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The task.
    pub task: TaskId,
    /// Its kernel and label.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The tasks that it has, or had, to wait for.
    pub dependencies: Vec<Dependency>,
    /// Its present wait, or its end, in words.
    pub waiting: String,
}

/// A task that another task waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependency {
    /// The edge between the two.
    pub edge: Edge,
    /// The name of the task that is waited for.
    pub name: String,
    /// True if that task is over.
    pub is_over: bool,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} `{}` {}", self.task, self.name, self.waiting)?;
        for Dependency { edge, name, is_over } in &self.dependencies {
            let over = if *is_over { "over" } else { "not over" };
            write!(f, "\n  behind {} `{name}` ({}", edge.from, edge.kinds)?;
            if let Some(argument) = edge.argument {
                write!(f, " by argument {argument}")?;
            }
            write!(f, "), {over}")?;
        }
        Ok(())
    }
}

impl Graph {
    pub(super) fn why(&self, id: TaskId) -> Option<Why> {
        let state = self.state.borrow();
        let entry = state.tasks.get(id.number).filter(|_| id.graph == self.number)?;
        let Some(why) = entry.task.and_then(|task| state.engine.why(task)) else {
            let waiting = match (entry.ended, &entry.error) {
                (Some(ended), None) => format!("ended on {} at {ended}", listed(&entry.pes)),
                (Some(ended), Some((pe, error))) => format!("failed on {pe} at {ended}: {error}"),
                (None, _) => "was never started: a task it is behind has failed".to_owned(),
            };
            let (name, state) = (entry.name(), entry.last_state());
            return Some(Why { task: id, name, state, dependencies: Vec::new(), waiting });
        };
        let number = |task: phalanx_engine::TaskId| {
            state.tasks.iter().position(|other| other.task == Some(task))
        };
        let dependencies = why.dependencies.iter().filter_map(|edge| {
            let from = number(edge.producer)?;
            let shown = Edge {
                from: self.id(from),
                to: id,
                member: edge.member.into(),
                argument: edge.argument.map(usize::from),
                kinds: edge.kinds,
            };
            let (name, is_over) = (state.tasks[from].name(), edge.is_satisfied);
            Some(Dependency { edge: shown, name, is_over })
        });
        let named = |task: phalanx_engine::TaskId| {
            let at = number(task);
            at.map_or_else(String::new, |at| format!("#{at} `{}`", state.tasks[at].name()))
        };
        Some(Why {
            task: id,
            name: entry.name(),
            state: why.state,
            dependencies: dependencies.collect(),
            waiting: self.in_words(&why.waiting, named),
        })
    }

    fn in_words(
        &self,
        waiting: &Waiting,
        named: impl Fn(phalanx_engine::TaskId) -> String,
    ) -> String {
        let pe = |worker: &WorkerId| self.pe_of(*worker).to_string();
        match waiting {
            Waiting::Tasks(tasks) => {
                let tasks: Vec<String> = tasks.iter().map(|task| named(*task)).collect();
                format!("waits for {}", tasks.join(", "))
            }
            Waiting::Worker(worker, task) => {
                format!("waits for {}, which has {}", pe(worker), named(*task))
            }
            Waiting::Reserved(worker, task) => {
                format!("waits for {}, which is kept for {}", pe(worker), named(*task))
            }
            Waiting::Startup(worker) => format!("waits for {}", pe(worker)),
            Waiting::Pool(_) => "waits for a free PE".to_owned(),
            Waiting::Group(workers) => {
                let pes: Vec<String> = workers.iter().map(|(worker, _)| pe(worker)).collect();
                format!("waits for enough of {} to be free together", pes.join(", "))
            }
            Waiting::Ending(workers) => {
                let pes: Vec<String> = workers.iter().map(pe).collect();
                format!("runs on {}", pes.join(", "))
            }
            Waiting::Failed(_) => "has failed".to_owned(),
            Waiting::Turn(_) | Waiting::Resolution | Waiting::Holders(_) => "is over".to_owned(),
        }
    }
}

impl Outcome {
    /// Explains when a task ran, or why it never did; `None` for a task of another graph.
    pub fn why(&self, id: TaskId) -> Option<Why> {
        let report = self.task(id)?;
        let ended = report.ended.unwrap_or(self.ended);
        let (state, waiting) = match report.state {
            TaskState::Completed => {
                (State::Completed, format!("ended on {} at {ended}", listed(&report.pes)))
            }
            TaskState::Failed => {
                (State::Failed, format!("failed on {} at {ended}", listed(&report.pes)))
            }
            TaskState::NeverStarted(Some(root)) => {
                let name = self.task(root).map_or_else(String::new, super::TaskReport::name);
                (State::Failed, format!("was never started because {root} `{name}` failed"))
            }
            TaskState::NeverStarted(None) => (State::Failed, "was never started".to_owned()),
        };
        let behind = self.edges().iter().filter(|edge| edge.to == id).map(|edge| {
            let from = self.task(edge.from);
            let is_over = from.is_some_and(|from| from.ended.is_some());
            let name = from.map_or_else(String::new, super::TaskReport::name);
            Dependency { edge: *edge, name, is_over }
        });
        let (task, name) = (id, report.name());
        Some(Why { task, name, state, dependencies: behind.collect(), waiting })
    }
}
