//! `auto` against every algorithm in the programs whose sums have a copy in each cube.

use phalanx_sim::machine::Options;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation};
use phalanx_workloads::{self as workload, Setup};

/// The simulated time of a workload, and the algorithm of its sums.
fn run(name: &str, machine: &MachineSpec, algorithm: &str) -> (Time, String) {
    let workload = workload::find(name).unwrap();
    let settings = workload.settings(machine, &[]).unwrap();
    let text = format!("defaults: {{ algorithm: {algorithm} }}");
    let ccl = CclConfig::parse("ccl.yaml", &text, &Algorithm::names()).unwrap();
    let options = Options { data: false, ..Options::default() };
    let setup = Setup { machine: machine.clone(), options, ccl };
    let outcome = workload.run_with(setup, &settings).unwrap();
    (outcome.report.simulated, outcome.ranks.unwrap().algorithm)
}

#[test]
fn tun_1_no_algorithm_beats_auto_in_a_parallel_layer() {
    for (preset, bandwidth) in [("quad-sip", 64), ("quad-sip", 128), ("octo-ring", 64)] {
        let set = [format!("system.sips.link.bandwidth={bandwidth} GB/s")];
        let machine = MachineSpec::preset(preset).and_then(|spec| spec.with_all(&set)).unwrap();
        let members: Vec<u32> = (0..machine.sips.count).collect();
        for name in ["tp-mlp", "tp-block"] {
            let (auto, chosen) = run(name, &machine, "auto");
            for algorithm in Algorithm::ALL {
                if algorithm.check(Operation::AllReduce, &machine, &members).is_err() {
                    continue;
                }
                let (other, by) = run(name, &machine, algorithm.name);
                let row = format!("{name} on {preset}, {bandwidth} GB/s");
                assert!(auto <= other, "TUN-1: {row}: {auto} by {chosen}, and {other} by {by}");
            }
        }
    }
}
