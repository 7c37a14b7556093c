//! Queues between PEs: bounded, in order, nothing lost, every credit home.

use crate::scenario::{Scenario, scenarios};
use crate::support::{bare, pe, traffic, without_data};
use phalanx_sim::Time;
use phalanx_sim::ipcq::{Backpressure, EdgeSpec};
use phalanx_sim::machine::Options;
use phalanx_sim::report::{EdgeUsage, Report};
use proptest::prelude::*;

fn usage<'a>(report: &'a Report, scenario: &Scenario, flow: usize) -> &'a EdgeUsage {
    let flow = &scenario.flows[flow];
    let edge =
        report.edges.iter().find(|edge| edge.edge.from == flow.from && edge.edge.to == flow.to);
    edge.expect("every flow opens its edge")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn ipc_2_messages_arrive_in_order_and_none_is_lost(scenario in scenarios()) {
        let (report, received) = scenario.run(Options::default());
        report.unwrap();
        for (flow, received) in scenario.flows.iter().zip(received) {
            prop_assert_eq!(received.len(), flow.messages.len(), "IPC-2: {:?}", flow);
            for (number, value) in received.into_iter().enumerate() {
                prop_assert_eq!(value.unwrap().to_f32(), flow.contents(number), "IPC-2: {:?}", flow);
            }
        }
    }

    #[test]
    fn ipc_1_and_ipc_3_slots_are_bounded_and_credits_come_home(scenario in scenarios()) {
        // A run with a missing credit is an error (MCH-1).
        let report = scenario.run(without_data()).0.unwrap();
        for (number, flow) in scenario.flows.iter().enumerate() {
            let usage = usage(&report, &scenario, number);
            prop_assert!(usage.most_slots <= flow.edge.n_slots, "IPC-1: {:?}", usage);
            prop_assert_eq!((usage.messages, usage.bytes), (flow.slots(), flow.bytes()));
            prop_assert!(usage.credit_wait <= report.simulated);
        }
    }

    #[test]
    fn mch_3_time_does_not_depend_on_data(scenario in scenarios()) {
        let (on, off) = (scenario.run(Options::default()).0.unwrap(), scenario.run(without_data()).0.unwrap());
        prop_assert_eq!((on.simulated, on.events), (off.simulated, off.events), "MCH-3");
        prop_assert_eq!((on.stalls, on.utilisation), (off.stalls, off.utilisation), "MCH-3");
    }
}

#[test]
fn ipc_5_a_credit_that_nobody_waits_for_is_no_event() {
    let run = |edge| traffic(&bare(), edge, &[(pe(0, 0, 0), pe(1, 0, 0), &[1024; 6])]);
    let sleeping = EdgeSpec { n_slots: 6, ..EdgeSpec::default() };
    let polling = EdgeSpec { backpressure: Backpressure::Poll(Time::ns(100)), ..sleeping };
    let (lazy, eager) = (run(sleeping), run(polling));
    assert_eq!(lazy.simulated, eager.simulated, "IPC-5: the same times");
    assert_eq!(lazy.events + 6, eager.events, "IPC-5: a credit of a sender that polls is an event");
}
