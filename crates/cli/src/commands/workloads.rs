//! `phalanx run` without a workload: what there is to run.

use crate::printer;
use owo_colors::OwoColorize;
use phalanx_sim::MachineSpec;
use phalanx_sim::report::{Style, Table};
use phalanx_workloads::{self as workload, Parameter, ParameterKind, Workload};
use serde::Serialize;
use std::io;

pub(super) fn list(spec: &MachineSpec, json: bool) -> io::Result<()> {
    if json { printer::json(&WorkloadsJson::new(spec)) } else { printer::data(&text(spec)) }
}

fn text(spec: &MachineSpec) -> String {
    let mut parts = vec![format!("workloads, with their defaults on {}\n", spec.name)];
    parts.extend(
        workload::all().iter().map(|one| section(one.name, one.summary, one.parameters, spec)),
    );
    parts.push("run one with `phalanx run WORKLOAD -p NAME=VALUE`\n".to_owned());
    parts.join("\n")
}

/// A workload of any kind: its name, its sentence, its parameters.
pub(super) fn section(
    name: &str,
    summary: &str,
    parameters: &[Parameter],
    spec: &MachineSpec,
) -> String {
    let table = table(parameters, spec).text(Style::Terminal);
    let rows = table.trim_end().replace('\n', "\n  ");
    format!("{}  {summary}\n  {rows}\n", name.bold())
}

/// Parameters with their defaults on a machine.
fn table(parameters: &[Parameter], spec: &MachineSpec) -> Table {
    let mut table = Table::new(&["parameter", "default", "help"], &[]);
    for parameter in parameters {
        let default = parameter.default_for(spec);
        table.row([
            format!("{:<9}", parameter.name),
            format!("{default:<8}"),
            parameter.help.to_owned(),
        ]);
    }
    table
}

#[derive(Serialize)]
struct WorkloadsJson<'a> {
    machine: &'a str,
    workloads: Vec<WorkloadView>,
}

#[derive(Serialize)]
struct WorkloadView {
    name: &'static str,
    summary: &'static str,
    parameters: Vec<ParameterView>,
}

/// A parameter, for programs.
#[derive(Serialize)]
pub(super) struct ParameterView {
    name: &'static str,
    kind: &'static str,
    default: String,
    help: &'static str,
}

impl ParameterView {
    /// Those of a workload, with their defaults on a machine.
    pub(super) fn all(parameters: &[Parameter], spec: &MachineSpec) -> Vec<Self> {
        let one = |parameter: &Parameter| Self {
            name: parameter.name,
            kind: kind(parameter.kind),
            default: parameter.default_for(spec),
            help: parameter.help,
        };
        parameters.iter().map(one).collect()
    }
}

impl<'a> WorkloadsJson<'a> {
    fn new(spec: &'a MachineSpec) -> Self {
        let workload = |workload: &Workload| WorkloadView {
            name: workload.name,
            summary: workload.summary,
            parameters: ParameterView::all(workload.parameters, spec),
        };
        Self { machine: &spec.name, workloads: workload::all().iter().map(workload).collect() }
    }
}

const fn kind(kind: ParameterKind) -> &'static str {
    match kind {
        ParameterKind::Count { .. } => "count",
        ParameterKind::Sip => "sip",
        ParameterKind::Bytes { .. } => "bytes",
        ParameterKind::Time => "time",
        ParameterKind::DType => "dtype",
        ParameterKind::Word(_) => "word",
        ParameterKind::Name => "name",
    }
}
