//! Python functions as callables, and lists of them as programs.
//!
//! A callable has a name for life and a program is for life too, so both are made once for each list of functions and kept.

use super::child;
use phalanx_runtime::{Callable, Program};
use pyo3::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The most labels of runs and scopes that are kept.
const MAX_LABELS: usize = 4096;

/// A Python function as the runtime knows it: by its name, its kind and its version.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Function(pub(crate) Callable);

#[pymethods]
impl Function {
    #[new]
    fn new(name: &str, is_graph: bool, is_collective: bool, version: u32) -> Self {
        let name = keep(name, usize::MAX).unwrap_or("function");
        let callable = if is_graph {
            Callable::orchestration(name, child::run_graph)
        } else {
            Callable::new(name, child::run_task)
        };
        let callable = callable.version(version);
        Self(if is_collective { callable.collective() } else { callable })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.0.name()
    }
}

/// Returns `text` for life, unless there are `most` such texts already.
fn keep(text: &str, most: usize) -> Option<&'static str> {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.get(text) {
        return Some(found);
    }
    let text = (kept.len() < most).then(|| &*Box::leak(text.to_owned().into_boxed_str()))?;
    kept.insert(text);
    Some(text)
}

/// Returns the label of a run or a scope.
pub(crate) fn label(text: &str) -> &'static str {
    keep(text, MAX_LABELS).unwrap_or("a run with one of many labels")
}

/// Returns the program of these functions.
pub(crate) fn program(functions: &[Callable], has_bootstrap: bool) -> &'static Program {
    static PROGRAMS: Mutex<Vec<(&'static Program, bool)>> = Mutex::new(Vec::new());
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_same = |program: &Program| {
        let (ours, theirs) = (functions.iter(), program.callables().iter());
        ours.map(Callable::digest).eq(theirs.map(Callable::digest))
    };
    let found = programs.iter().find(|(program, has)| *has == has_bootstrap && is_same(program));
    if let Some((program, _)) = found {
        return program;
    }
    let callables: &'static [Callable] = Box::leak(functions.into());
    let program = Program::new(callables);
    let program = if has_bootstrap { program.chip(child::bootstrap) } else { program };
    let program = &*Box::leak(Box::new(program));
    programs.push((program, has_bootstrap));
    program
}
