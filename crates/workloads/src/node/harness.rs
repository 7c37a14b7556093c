//! The harness of a workload: runs graphs on a node, times them, and compares their results.

use super::check::Check;
use super::{NodeError, Run, Setup};
use crate::Settings;
use phalanx_runtime::{DType, Failure, Orchestrator, Tensor, Worker};
use phalanx_sim::value::{Element, bf16};
use std::time::Instant;

/// The harness of a running workload.
pub(super) struct Harness<'a> {
    pub(super) worker: Worker,
    pub(super) settings: &'a Settings,
    pub(super) chips: u32,
    pub(super) check: Check,
    pub(super) runs: Vec<Run>,
    tell: &'a dyn Fn(&str),
    /// True until the first result was spoiled, if asked for.
    is_spoiling: bool,
}

impl<'a> Harness<'a> {
    pub(super) fn new(worker: Worker, setup: &'a Setup<'_>, settings: &'a Settings) -> Self {
        Self {
            worker,
            settings,
            chips: setup.chips,
            check: Check::default(),
            runs: Vec::new(),
            tell: setup.tell,
            is_spoiling: settings.word("spoil") == "yes",
        }
    }

    /// Runs a graph `repeats` times.
    pub(super) fn repeat(
        &mut self,
        label: &'static str,
        mut graph: impl FnMut(&mut Orchestrator<'_>) -> Result<(), Failure>,
    ) -> Result<(), NodeError> {
        let repeats = self.settings.count("repeats");
        for repeat in 1..=repeats {
            (self.tell)(&format!("run {repeat} of {repeats}"));
            let begun = Instant::now();
            let finished = self.worker.run(label, &mut graph)?;
            let (tasks, simulated) = (finished.report.tasks, finished.simulated);
            self.runs.push(Run { tasks, wall: begun.elapsed(), simulated_ps: simulated });
        }
        (self.tell)("comparing");
        Ok(())
    }

    /// A tensor with these elements.
    pub(super) fn tensor<T: Element>(
        &self,
        dtype: DType,
        shape: &[usize],
        elements: &[T],
    ) -> Result<Tensor, NodeError> {
        let tensor = self.empty(dtype, shape)?;
        self.worker.write(&tensor, elements)?;
        Ok(tensor)
    }

    /// A tensor full of zeros.
    pub(super) fn empty(&self, dtype: DType, shape: &[usize]) -> Result<Tensor, NodeError> {
        let shape: Vec<u64> = shape.iter().map(|axis| *axis as u64).collect();
        Ok(self.worker.tensor(dtype, &shape)?)
    }

    /// Compares a tensor of f32 with a reference.
    pub(super) fn compare(
        &mut self,
        what: &str,
        tensor: &Tensor,
        expected: impl IntoIterator<Item = f64>,
        tolerance: f64,
    ) -> Result<(), NodeError> {
        let mut got = self.worker.read::<f32>(tensor)?;
        if let Some(middle) = self.spoiled(got.len()) {
            got[middle] += 1.0;
        }
        self.check.within(what, &got, expected, tolerance);
        Ok(())
    }

    /// Compares a tensor of bf16 with a reference, in steps of the type.
    pub(super) fn compare_steps(
        &mut self,
        what: &str,
        tensor: &Tensor,
        expected: impl IntoIterator<Item = bf16>,
        steps: u32,
    ) -> Result<(), NodeError> {
        let mut got = self.worker.read::<bf16>(tensor)?;
        if let Some(middle) = self.spoiled(got.len()) {
            got[middle] += bf16::ONE;
        }
        self.check.steps(what, &got, expected, steps);
        Ok(())
    }

    /// The element of the first result to spoil.
    fn spoiled(&mut self, count: usize) -> Option<usize> {
        (count > 0 && std::mem::take(&mut self.is_spoiling)).then_some(count / 2)
    }
}
