//! The product against a slow, readable simulator of the same costs.
//!
//! `reference/simulator.rs` is written from "What things cost" in ARCHITECTURE.md alone: one event a stage, no wire taken
//! ahead of time. Random traffic runs on random machines in both, and the end of every step must be the same picosecond.
//!
//! `PHALANX_REFERENCE_CASES` is the number of scenarios (300). A full run has 20000:
//! `PHALANX_REFERENCE_CASES=20000 cargo test -p phalanx-sim --test integration reference`.

mod agenda;
mod by_hand;
mod caches;
mod channels;
mod draw;
mod faster;
mod hosts;
mod idle;
mod messages;
mod networks;
mod product;
mod programs;
mod routes;
mod script;
mod simulator;

use crate::support::{bare, without_data};
use draw::{FEW, MANY, machines, round_machines, scenarios};
use phalanx_sim::MachineSpec;
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::machine::Options;
use phalanx_sim::report::Report;
use phalanx_sim::spec::{GridSpec, WireSpec};
use proptest::prelude::*;
use script::{Scenario, Times};

/// Returns the number of scenarios of a test that has `usual` of 300 by default.
fn cases(usual: u32) -> ProptestConfig {
    let wanted = std::env::var("PHALANX_REFERENCE_CASES").ok();
    let count = wanted.and_then(|number| number.parse().ok()).unwrap_or(300);
    ProptestConfig::with_cases((count * usual).div_ceil(300))
}

/// Checks that the product and the slow simulator agree, whatever the order in which SIPs take their turns.
fn compare(scenario: &Scenario) -> Result<(), TestCaseError> {
    let reference = simulator::run(scenario);
    for order in [PartitionOrder::Queued, PartitionOrder::Shuffled(1)] {
        compare_times(scenario, &product::run(scenario, order), &reference)?;
    }
    Ok(())
}

/// Checks that all times of the product are those of the slow simulator.
fn compare_times(
    scenario: &Scenario,
    product: &Times,
    reference: &Times,
) -> Result<(), TestCaseError> {
    for (number, script) in scenario.scripts.iter().enumerate() {
        for (step, what) in script.steps.iter().enumerate() {
            let (got, expected) = (product.steps[number][step], reference.steps[number][step]);
            prop_assert!(
                got == expected,
                "WIR-4: step {} of {}, {:?}, ends at {}, in the reference at {}",
                step,
                script.pe,
                what,
                got,
                expected
            );
        }
    }
    prop_assert_eq!(&product.orders, &reference.orders, "WIR-4: the orders of the hosts");
    prop_assert_eq!(product.simulated, reference.simulated, "WIR-4");
    Ok(())
}

/// Returns the machine with nothing but links and the host's wire that take time.
fn with_links_alone(spec: MachineSpec) -> MachineSpec {
    let free = |grid: GridSpec| GridSpec { link: WireSpec::FREE, ..grid };
    let (cubes, pes) = (free(spec.cubes), free(spec.pes));
    MachineSpec { hbm: bare().hbm, dma: WireSpec::FREE.into(), cubes, pes, ..spec }
}

/// Returns the scenario with a host link that takes as long as a DMA, or longer: memories may serve early.
fn with_far_hosts(mut scenario: Scenario) -> Scenario {
    let spec = &mut scenario.spec;
    spec.host.latency = spec.host.latency.max(spec.dma.latency);
    scenario
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn wir_4_random_traffic_on_random_machines_equals_the_reference(scenario in scenarios(machines(), FEW)) {
        compare(&scenario)?;
    }

    #[test]
    fn flt_1_random_traffic_with_many_equal_times_equals_the_reference(scenario in scenarios(round_machines(), FEW)) {
        compare(&scenario)?;
    }

    #[test]
    fn wir_5_memories_that_serve_early_change_nothing(scenario in scenarios(machines(), FEW).prop_map(with_far_hosts)) {
        let (times, report) = product::run_with(&scenario, without_data());
        let (late, recorded) = product::run_with(&scenario, Options { record: true, ..without_data() });
        compare_times(&scenario, &times, &late)?;
        let seen = |report: &Report| format!("{:?}", (&report.utilisation, &report.stalls, &report.edges, report.events));
        prop_assert_eq!(seen(&report), seen(&recorded), "WIR-5");
        let path = |report: &Report| format!("{:?}", (&report.critical_path.parts, report.critical_path.spent));
        prop_assert_eq!(path(&report), path(&recorded), "WIR-5");
    }

    #[test]
    fn ipc_4_random_messages_over_links_equal_the_reference(
        scenario in scenarios(round_machines().prop_map(with_links_alone), FEW)
    ) {
        compare(&scenario)?;
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn wir_4_crowded_traffic_equals_the_reference(
        scenario in prop_oneof![scenarios(machines(), MANY), scenarios(round_machines(), MANY)]
    ) {
        compare(&scenario)?;
    }
}
