//! WIR-4 on the log of a run, without the slow simulator: a memory stack is never idle while an access waits.

use super::draw::{FEW, machines, scenarios};
use super::product;
use super::script::{Scenario, Step};
use crate::support::{rate, without_data};
use phalanx_sim::machine::Options;
use phalanx_sim::record::Resource;
use phalanx_sim::report::Report;
use phalanx_sim::spec::{GridSpec, SipsSpec, Topology, WireSpec};
use phalanx_sim::{MachineSpec, Time};
use proptest::prelude::*;

/// Returns one SIP of one cube with a limited memory, whose host takes no time.
fn one_cube(mut spec: MachineSpec) -> MachineSpec {
    if spec.hbm.bandwidth.is_unlimited() {
        spec.hbm.bandwidth = rate(7);
    }
    let sips = SipsSpec { count: 1, topology: Topology::Ring1d, ..spec.sips };
    let cubes = GridSpec { rows: 1, columns: 1, ..spec.cubes };
    let levels = Vec::new();
    spec.dma.burst = 0;
    MachineSpec { sips, levels, cubes, host: WireSpec::FREE, cache: None, ..spec }
}

/// Returns the scenario with loads, stores and computations alone, each awaited before the next begins.
fn one_by_one(mut scenario: Scenario) -> Scenario {
    scenario.hosts.clear();
    for script in &mut scenario.scripts {
        script.steps.retain(|step| !matches!(step, Step::Send { .. } | Step::Receive { .. }));
        for step in &mut script.steps {
            if let Step::Load { waits, .. } | Step::Pair { waits, .. } | Step::Store { waits, .. } =
                step
            {
                *waits = true;
            }
        }
    }
    scenario
}

/// Returns the instants at which accesses come to the memory stack: each step begins at the end of the step before, and
/// the DMA adds its latency, and before the second piece of a pair the transfer of the first.
fn arrivals(scenario: &Scenario, ends: &[Vec<Time>]) -> Vec<Time> {
    let mut arrivals = Vec::new();
    for (script, ends) in scenario.scripts.iter().zip(ends) {
        let begins = std::iter::once(Time::ZERO).chain(ends.iter().copied());
        for (step, begin) in script.steps.iter().zip(begins) {
            let asked = begin + scenario.spec.dma.latency;
            match step {
                Step::Load { .. } | Step::Store { .. } => arrivals.push(asked),
                Step::Pair { pieces, .. } => {
                    let first = scenario.spec.dma.bandwidth.time_for(pieces[0].bytes);
                    arrivals.extend([asked, asked + first]);
                }
                _ => {}
            }
        }
    }
    arrivals.sort_unstable();
    arrivals
}

/// Returns the begins and ends of the turns of the memory stack.
fn turns(report: &Report) -> Vec<(Time, Time)> {
    let ops = report.ops.iter().flat_map(|log| log.iter());
    let mut turns: Vec<_> = ops
        .filter(|op| matches!(op.resource, Resource::Hbm(_)))
        .map(|op| (op.start, op.end))
        .collect();
    turns.sort_unstable();
    turns
}

proptest! {
    #![proptest_config(super::cases(100))]

    #[test]
    fn wir_4_memory_is_never_idle_while_an_access_waits(
        scenario in scenarios(machines().prop_map(one_cube), FEW).prop_map(one_by_one)
    ) {
        let options = Options { record: true, ..without_data() };
        let (times, report) = product::run_with(&scenario, options);
        let (arrivals, turns) = (arrivals(&scenario, &times.steps), turns(&report));
        prop_assert_eq!(arrivals.len(), turns.len());
        let mut free = Time::ZERO;
        for (arrival, (start, end)) in arrivals.into_iter().zip(turns) {
            prop_assert_eq!(start, arrival.max(free), "WIR-4: free at {}, next arrival at {}", free, arrival);
            free = end;
        }
    }
}
