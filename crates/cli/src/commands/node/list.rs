//! `phalanx node list`: what there is to run on a node.

use crate::commands::workloads::{ParameterView, section};
use crate::printer;
use phalanx_sim::MachineSpec;
use phalanx_workloads::node::{self, Workload};
use serde::Serialize;
use std::io;

pub(super) fn list(spec: &MachineSpec, json: bool) -> io::Result<()> {
    if json { printer::json(&NodeWorkloadsJson::new(spec)) } else { printer::data(&text(spec)) }
}

fn text(spec: &MachineSpec) -> String {
    let mut parts = vec![format!("node workloads, with their defaults on {}\n", spec.name)];
    parts
        .extend(node::all().iter().map(|one| section(one.name, one.summary, one.parameters, spec)));
    parts.push("run one with `phalanx node WORKLOAD -p NAME=VALUE`\n".to_owned());
    parts.join("\n")
}

#[derive(Serialize)]
struct NodeWorkloadsJson<'a> {
    machine: &'a str,
    workloads: Vec<WorkloadView>,
}

#[derive(Serialize)]
struct WorkloadView {
    name: &'static str,
    summary: &'static str,
    /// Unless it is said; null if the machine has too few SIPs.
    chips: Option<u32>,
    parameters: Vec<ParameterView>,
}

impl<'a> NodeWorkloadsJson<'a> {
    fn new(spec: &'a MachineSpec) -> Self {
        let workload = |workload: &Workload| WorkloadView {
            name: workload.name,
            summary: workload.summary,
            chips: workload.chips(spec, None).ok(),
            parameters: ParameterView::all(workload.parameters, spec),
        };
        Self { machine: &spec.name, workloads: node::all().iter().map(workload).collect() }
    }
}
