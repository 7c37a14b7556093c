//! A finished run, as text for people and as JSON for programs.

pub(crate) mod fitting;
mod json;
pub(crate) mod points;
pub(crate) mod sweep;
mod text;
pub(crate) mod validation;

pub(crate) use json::Parameters;
use phalanx_sim::MachineSpec;
use phalanx_workloads::{Outcome, Settings, Workload};
use std::time::Duration;

/// A run and its outcome.
pub(crate) struct Finished<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) spec: &'a MachineSpec,
    pub(crate) settings: Settings,
    pub(crate) outcome: Outcome,
    pub(crate) wall: Duration,
}

impl Finished<'_> {
    /// The report for people; it makes sense without colours.
    pub(crate) fn text(&self) -> String {
        text::report(self)
    }

    /// The report for programs; its keys are stable.
    pub(crate) fn json(&self) -> impl serde::Serialize + '_ {
        json::ReportJson::new(self)
    }
}
