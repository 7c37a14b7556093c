//! `phalanx node doctor`: checks of this host for workers, with advice.

use crate::printer;
use crate::progress::Progress;
use owo_colors::OwoColorize;
use phalanx_runtime::doctor::{Finding, Status, examine};
use phalanx_sim::report::{Style, Table};
use phalanx_workloads::node::{NOTHING, PROGRAM};
use serde::Serialize;
use std::process::ExitCode;

pub(super) fn doctor(json: bool) -> anyhow::Result<ExitCode> {
    let progress = Progress::start("checks");
    let findings = examine(&PROGRAM, &NOTHING);
    drop(progress);
    if json {
        printer::json(&NodeDoctorJson::new(&findings))?;
    } else {
        printer::data(&text(&findings))?;
    }
    let is_broken = worst(&findings) == Status::Broken;
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn worst(findings: &[Finding]) -> Status {
    findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Fine)
}

fn text(findings: &[Finding]) -> String {
    let mut table = Table::new(&["check", "status", "found"], &[]);
    for Finding { name, status, found, .. } in findings {
        table.row([(*name).to_owned(), word(*status).to_owned(), found.clone()]);
    }
    let advice = findings.iter().filter_map(advice);
    let text = table.text(Style::Terminal) + &advice.collect::<String>();
    let verdict = match worst(findings) {
        Status::Fine => "this host runs workers",
        Status::Doubtful => "this host runs workers, with the reservations above",
        Status::Broken => "this host does not run workers as processes; `--threads` may do",
    };
    text + &format!("\n{verdict}\n")
}

/// A change to make, and the reason.
fn advice(finding: &Finding) -> Option<String> {
    let Finding { name, status, meaning, advice, .. } = finding;
    let (advice, word) = (advice.as_ref()?, word(*status));
    let is_broken = *status == Status::Broken;
    let word = if is_broken { word.red().to_string() } else { word.yellow().to_string() };
    Some(format!("\n{word}: {name}: {meaning}\n  {advice}\n"))
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Fine => "ok",
        Status::Doubtful => "warn",
        Status::Broken => "fail",
    }
}

#[derive(Serialize)]
struct NodeDoctorJson<'a> {
    status: &'static str,
    checks: Vec<FindingView<'a>>,
}

#[derive(Serialize)]
struct FindingView<'a> {
    name: &'static str,
    status: &'static str,
    found: &'a str,
    meaning: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
}

impl<'a> NodeDoctorJson<'a> {
    fn new(findings: &'a [Finding]) -> Self {
        let check = |finding: &'a Finding| {
            let Finding { name, status, found, meaning, advice } = finding;
            FindingView { name, status: word(*status), found, meaning, advice: advice.as_deref() }
        };
        Self { status: word(worst(findings)), checks: findings.iter().map(check).collect() }
    }
}
