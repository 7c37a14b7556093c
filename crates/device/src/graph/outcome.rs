//! The outcome of a graph: times, edges and the critical path, as values, DOT and JSON.

use super::drive::{Entry, Graph};
use super::failure::{GraphFailure, TaskFailure};
use super::task::{TaskId, named};
use phalanx_engine::{Kinds, State};
use phalanx_sim::Time;
use phalanx_sim::topology::PeId;
use phalanx_torch::Error;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The outcome of a graph that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The name of the graph.
    pub name: String,
    /// Time at which it was opened.
    pub began: Time,
    /// Time at which its last task ended.
    pub ended: Time,
    /// Pairs of overlapping accesses, one of them a write, that were left unordered on request.
    pub unordered: u64,
    tasks: Vec<TaskReport>,
    edges: Vec<Edge>,
    critical: Vec<TaskId>,
}

/// The final state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It completed.
    Completed,
    /// It failed by itself.
    Failed,
    /// It was never started because this task failed; `None` if the graph was given up as a whole.
    NeverStarted(Option<TaskId>),
}

/// A task and its times.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// The task.
    pub id: TaskId,
    /// Its kernel.
    pub kernel: String,
    /// Its label.
    pub label: String,
    /// The PEs that ran it: one, or one for each member.
    pub pes: Vec<PeId>,
    /// Time of its submission.
    pub submitted: Time,
    /// Time at which its dependencies were over and its command left.
    pub dispatched: Option<Time>,
    /// Time at which its kernel began.
    pub started: Option<Time>,
    /// Time at which it ended.
    pub ended: Option<Time>,
    /// Its final state.
    pub state: TaskState,
}

/// A dependency between two tasks. A task that was over when the later one was submitted makes no edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The task that had to end.
    pub from: TaskId,
    /// The task that had to wait.
    pub to: TaskId,
    /// The member of the group that has the argument.
    pub member: usize,
    /// The argument that makes the edge; `None` for an edge of `after`.
    pub argument: Option<usize>,
    /// The kinds of the dependency.
    pub kinds: Kinds,
}

impl TaskReport {
    /// Returns the name with the label, as in `dot c[0, 1]`.
    pub fn name(&self) -> String {
        named(&self.kernel, &self.label)
    }

    /// Returns the time from the command to the end.
    pub fn took(&self) -> Time {
        let span = self.dispatched.zip(self.ended);
        span.map_or(Time::ZERO, |(from, to)| to.saturating_sub(from))
    }

    /// The run time of its kernel.
    pub(crate) fn ran(&self) -> Time {
        let span = self.started.zip(self.ended);
        span.map_or(Time::ZERO, |(from, to)| to.saturating_sub(from))
    }
}

impl Outcome {
    /// Returns the simulated time from opening to the last end.
    pub fn simulated(&self) -> Time {
        self.ended.saturating_sub(self.began)
    }

    /// Returns all tasks, in the order of submission.
    pub fn tasks(&self) -> &[TaskReport] {
        &self.tasks
    }

    /// Returns the report of a task; `None` for a task of another graph.
    pub fn task(&self, id: TaskId) -> Option<&TaskReport> {
        self.tasks.get(id.number).filter(|report| report.id == id)
    }

    /// Returns all edges, by the task that waited.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the chain of dependent tasks that took longest, dispatch included, first task first.
    pub fn critical_path(&self) -> impl Iterator<Item = &TaskReport> {
        self.critical.iter().filter_map(|id| self.task(*id))
    }

    /// Returns the time of the critical path: more PEs do not make the graph faster than this.
    pub fn critical_time(&self) -> Time {
        self.critical_path().fold(Time::ZERO, |sum, task| sum + task.took())
    }

    /// Returns the graph in DOT, for Graphviz: tasks with names, PEs and times, edges with their kinds, the critical
    /// path in bold.
    pub fn to_dot(&self) -> String {
        let mut text = format!("digraph {} {{\n", quoted(&self.name));
        for task in &self.tasks {
            let pes = listed(&task.pes);
            let label = format!("{} {}\\n{pes}\\n{}", task.id, plain(&task.name()), task.ran());
            let bold = if self.critical.contains(&task.id) { ", style=bold" } else { "" };
            let _ = writeln!(text, "  t{} [label=\"{label}\"{bold}];", task.id.number);
        }
        for edge in &self.edges {
            let argument =
                edge.argument.map_or_else(String::new, |argument| format!(" arg {argument}"));
            let (from, to) = (edge.from.number, edge.to.number);
            let _ = writeln!(text, "  t{from} -> t{to} [label=\"{}{argument}\"];", edge.kinds);
        }
        text + "}\n"
    }

    /// Returns the graph in JSON: `{"graph": name, "simulated_ps": …, "tasks": […], "edges": […], "critical": […]}`,
    /// times in picoseconds.
    pub fn to_json(&self) -> String {
        let time = |time: Option<Time>| time.map_or("null".into(), |time| time.as_ps().to_string());
        let tasks = self.tasks.iter().map(|task| {
            let pes: Vec<String> = task.pes.iter().map(|pe| format!("\"{pe}\"")).collect();
            let state = match task.state {
                TaskState::Completed => "completed",
                TaskState::Failed => "failed",
                TaskState::NeverStarted(_) => "never started",
            };
            format!(
                "{{\"task\":{},\"kernel\":{},\"label\":{},\"pes\":[{}],\"state\":\"{state}\",\"submitted_ps\":{},\
                 \"dispatched_ps\":{},\"started_ps\":{},\"ended_ps\":{}}}",
                task.id.number,
                quoted(&task.kernel),
                quoted(&task.label),
                pes.join(","),
                task.submitted.as_ps(),
                time(task.dispatched),
                time(task.started),
                time(task.ended),
            )
        });
        let edges = self.edges.iter().map(|edge| {
            let argument = edge.argument.map_or("null".to_owned(), |index| index.to_string());
            format!(
                "{{\"from\":{},\"to\":{},\"member\":{},\"argument\":{argument},\"kinds\":\"{}\"}}",
                edge.from.number, edge.to.number, edge.member, edge.kinds
            )
        });
        let critical = self.critical.iter().map(|id| id.number.to_string());
        format!(
            "{{\"graph\":{},\"simulated_ps\":{},\"tasks\":[{}],\"edges\":[{}],\"critical\":[{}]}}",
            quoted(&self.name),
            self.simulated().as_ps(),
            tasks.collect::<Vec<_>>().join(","),
            edges.collect::<Vec<_>>().join(","),
            critical.collect::<Vec<_>>().join(",")
        )
    }
}

/// `sip0.cube0.pe0, sip0.cube0.pe1`.
pub(super) fn listed(pes: &[PeId]) -> String {
    pes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Text without quotes, backslashes and control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '\'' } else { c }).collect()
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", plain(text))
}

impl Graph {
    /// The outcome of the graph, or its failure.
    pub(super) fn conclude(&self) -> Result<Outcome, Error> {
        let outcome = self.outcome();
        let state = self.state.borrow();
        let roots: Vec<TaskFailure> = (0..)
            .zip(&state.tasks)
            .filter_map(|(number, entry)| {
                let (pe, error) = entry.error.clone()?;
                Some(TaskFailure {
                    task: self.id(number),
                    kernel: entry.kernel_name.clone(),
                    label: entry.label.clone(),
                    pe,
                    time: entry.ended.unwrap_or_default(),
                    error,
                })
            })
            .collect();
        let is_never = |task: &&TaskReport| matches!(task.state, TaskState::NeverStarted(_));
        let never_started: Vec<TaskId> =
            outcome.tasks.iter().filter(is_never).map(|task| task.id).collect();
        if roots.is_empty() && never_started.is_empty() {
            return Ok(outcome);
        }
        let (graph, stall) = (self.name.clone(), state.stall.clone());
        Err(Error::custom(GraphFailure { graph, roots, never_started, stall, outcome }))
    }

    fn outcome(&self) -> Outcome {
        let state = self.state.borrow();
        let recorded = state.engine.graph(state.run);
        let number = |work: u64| usize::try_from(work).unwrap_or(usize::MAX);
        let known: BTreeMap<phalanx_engine::TaskId, usize> =
            recorded.nodes.iter().map(|node| (node.task, number(node.work))).collect();
        let edges: Vec<Edge> = recorded
            .edges
            .iter()
            .map(|edge| Edge {
                from: self.id(known[&edge.from]),
                to: self.id(known[&edge.to]),
                member: edge.member.into(),
                argument: edge.argument.map(usize::from),
                kinds: edge.kinds,
            })
            .collect();
        let failed: Vec<bool> = state.tasks.iter().map(|entry| entry.error.is_some()).collect();
        let roots = roots(&failed, &edges);
        let first = failed.iter().position(|failed| *failed);
        let tasks = state.tasks.iter().enumerate().map(|(number, entry)| {
            let root = roots[number].or(first).map(|root| self.id(root));
            entry.report(self.id(number), root)
        });
        let critical = state.engine.critical_path(state.run);
        Outcome {
            name: self.name.clone(),
            began: self.began,
            ended: state.tasks.iter().filter_map(|entry| entry.ended).max().unwrap_or(self.began),
            unordered: state.engine.outcome(state.run).map_or(0, |ended| ended.report.unordered),
            tasks: tasks.collect(),
            edges,
            critical: critical.iter().map(|(_, work, _)| self.id(number(*work))).collect(),
        }
    }
}

/// The failed task that each task depends on, if there is one. Edges go forward.
fn roots(failed: &[bool], edges: &[Edge]) -> Vec<Option<usize>> {
    let mut roots: Vec<Option<usize>> = vec![None; failed.len()];
    for edge in edges {
        let (from, to) = (edge.from.number, edge.to.number);
        let root = if failed[from] { Some(from) } else { roots[from] };
        roots[to] = roots[to].or(root);
    }
    roots
}

impl Entry {
    fn report(&self, id: TaskId, root: Option<TaskId>) -> TaskReport {
        let state = match (&self.error, self.ended) {
            (Some(_), _) => TaskState::Failed,
            (None, Some(_)) => TaskState::Completed,
            (None, None) => TaskState::NeverStarted(root),
        };
        TaskReport {
            id,
            kernel: self.kernel_name.clone(),
            label: self.label.clone(),
            pes: self.pes.clone(),
            submitted: self.submitted,
            dispatched: self.dispatched,
            started: self.started,
            ended: self.ended,
            state,
        }
    }

    /// The engine's word for its state, after the engine has forgotten the task.
    pub(super) fn last_state(&self) -> State {
        if self.error.is_none() && self.ended.is_some() { State::Completed } else { State::Failed }
    }
}
