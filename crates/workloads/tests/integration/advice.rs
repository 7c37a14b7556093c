//! Advice for every workload on every machine: each piece is followed as its user would, and gains what it says.
//!
//! `PHALANX_ADVICE=full` takes the runs that are too long for advice by default as well.

use phalanx_sim::MachineSpec;
use phalanx_sim::advice::{Advice, Change, LEAST_GAIN, Target};
use phalanx_sim::machine::Options;
use phalanx_torch::ccl::{Algorithm, CclConfig};
use phalanx_workloads::{self as workload, SHORT, Setup, Workload};

/// A workload with its parameters, and its environment.
struct Case {
    workload: &'static Workload,
    given: Vec<(String, String)>,
    setup: Setup,
}

impl Case {
    fn new(workload: &'static Workload, machine: MachineSpec, given: &[(&str, &str)]) -> Self {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options = Options { data: false, critical_path: true, ..Options::default() };
        Self { workload, given: given.collect(), setup: Setup::new(machine, options) }
    }

    fn run(&self) -> workload::Outcome {
        self.workload.run_with(self.setup.clone(), &self.settings()).unwrap()
    }

    fn settings(&self) -> workload::Settings {
        let given: Vec<(&str, &str)> =
            self.given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.workload.settings(&self.setup.machine, &given).unwrap()
    }

    fn advice(&self) -> Vec<Advice> {
        self.workload.advise(&self.setup, &self.settings(), &self.run())
    }

    /// Follows a piece of advice as a user would: with `--set`, a line of `ccl.yaml`, or `-p`.
    fn follow(&self, change: &Change) -> Self {
        let Change { target, name, to, .. } = change;
        let (mut given, mut setup) = (self.given.clone(), self.setup.clone());
        match (target, name.strip_prefix("defaults.")) {
            (Target::Machine, _) => {
                setup.machine = setup.machine.with(&format!("{name}={to}")).unwrap();
                given = self.settings().iter().map(|(name, value)| (name.into(), value)).collect();
            }
            (Target::Setting, Some(key)) => {
                let text = format!("defaults: {{ {key}: {to} }}");
                setup.ccl = CclConfig::parse("ccl.yaml", &text, &Algorithm::names()).unwrap();
            }
            (Target::Setting, None) => {
                given.retain(|(known, _)| known != name);
                given.push((name.clone(), to.clone()));
            }
        }
        Self { workload: self.workload, given, setup }
    }

    fn check(&self, preset: &str) {
        let outcome = self.run();
        if outcome.report.events > SHORT && !is_full() {
            return;
        }
        let name = self.workload.name;
        for advice in self.workload.advise(&self.setup, &self.settings(), &outcome) {
            let Advice { change, before, after, .. } = &advice;
            let again = self.follow(change).run().report.simulated;
            let what = format!("TUNE-1: {name} on {preset}: {advice}");
            assert_eq!((*before, *after), (outcome.report.simulated, again), "{what}");
            assert!(advice.saved().as_ps() * LEAST_GAIN >= before.as_ps(), "{what}");
        }
    }
}

fn is_full() -> bool {
    std::env::var("PHALANX_ADVICE").is_ok_and(|value| value == "full")
}

fn preset(name: &str) -> MachineSpec {
    MachineSpec::preset(name).unwrap()
}

/// Checks the advice for every workload on a preset.
fn follow_all_advice(name: &str) {
    for workload in workload::all() {
        // A run in which 64 ranks choose an algorithm takes seconds.
        let is_long = name == "pod-64" && workload.parameters.iter().any(|one| one.name == "ranks");
        if !is_long || is_full() {
            Case::new(workload, preset(name), &[]).check(name);
        }
    }
}

#[test]
fn tune_1_advice_on_pair_gains_what_it_says() {
    follow_all_advice("pair");
}

#[test]
fn tune_1_advice_on_quad_sip_gains_what_it_says() {
    follow_all_advice("quad-sip");
}

#[test]
fn tune_1_advice_on_octo_ring_gains_what_it_says() {
    follow_all_advice("octo-ring");
}

#[test]
fn tune_1_advice_on_torus_16_gains_what_it_says() {
    follow_all_advice("torus-16");
}

#[test]
fn tune_1_advice_on_pod_64_gains_what_it_says() {
    follow_all_advice("pod-64");
}

#[test]
fn tune_1_advice_on_bare_gains_what_it_says() {
    follow_all_advice("bare");
}

#[test]
fn tune_1_an_algorithm_that_is_not_the_fastest_is_told_so() {
    let all_reduce = workload::find("all-reduce").unwrap();
    let case = Case::new(all_reduce, preset("bare"), &[("algorithm", "tree")]);
    let advice = case.advice();
    let change = &advice.iter().find(|advice| advice.change.name == "algorithm").unwrap().change;
    assert_eq!(change.to_string(), "algorithm tree -> auto", "TUNE-1");
    case.check("bare");
}

#[test]
fn tune_2_no_advice_asks_for_more_slots_than_a_pe_can_hold() {
    const KIB: u64 = 228;
    for (name, given) in [
        ("queue", &[("n_slots", "2")][..]),
        ("ring", &[("n_slots", "2")]),
        ("all-reduce", &[("algorithm", "ring")]),
    ] {
        for machine in ["pair", "quad-sip", "pod-64"] {
            let machine = preset(machine).with(&format!("pe.tcm.capacity={KIB} KiB")).unwrap();
            let machine = machine.with("system.sips.count=2").unwrap();
            let case = Case::new(workload::find(name).unwrap(), machine, given);
            for Advice { change, .. } in case.advice() {
                let followed = case.follow(&change).run().report;
                for queue in followed.edges {
                    let bytes = u64::from(queue.spec.n_slots) * queue.spec.slot_size;
                    assert!(bytes <= KIB << 10, "TUNE-2: {name}: {change}: {}", queue.spec);
                    let n_slots = queue.spec.n_slots.to_string();
                    let is_asked = !change.name.ends_with("n_slots") || change.to == n_slots;
                    assert!(is_asked, "TUNE-2: {name}: {change}: {n_slots}");
                }
            }
        }
    }
}

#[test]
fn a_perceptron_of_ranks_is_told_that_memory_and_meshes_limit_it() {
    let case = Case::new(workload::find("tp-mlp").unwrap(), preset("quad-sip"), &[]);
    let advice = case.advice();
    let limits = ["cube.hbm.", "cube.pes.link.", "sip.cubes.link."];
    let is_limit =
        |advice: &&Advice| limits.iter().any(|path| advice.change.name.starts_with(path));
    assert!(advice.iter().any(|advice| is_limit(&advice)), "{advice:?}");
}

#[test]
fn a_run_that_waits_for_its_launch_is_told_that_the_host_limits_it() {
    let case = Case::new(workload::find("vector-add").unwrap(), preset("quad-sip"), &[]);
    let advice = case.advice();
    assert_eq!(advice[0].change.name, "system.host.link.latency", "{advice:?}");
}
