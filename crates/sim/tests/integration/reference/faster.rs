//! Faster parts: a machine with a faster part is slower as a whole only where the slow simulator says so too.
//!
//! A faster part can slow a run down: it changes the order in which flights come to another wire. The product must not
//! add slow-downs of its own.

use super::draw::{MANY, scenarios};
use super::script::{Scenario, Step};
use super::{cases, product, simulator};
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::spec::{Forwarding, WireSpec};
use phalanx_sim::{Bandwidth, MachineSpec, Time};
use proptest::prelude::*;

/// The parts of a machine that move bytes.
#[derive(Clone, Copy, Debug)]
enum Part {
    Link,
    Host,
    Cubes,
    Pes,
    Hbm,
    Dma,
}

const PARTS: [Part; 6] = [Part::Link, Part::Host, Part::Cubes, Part::Pes, Part::Hbm, Part::Dma];

fn wire(spec: &mut MachineSpec, part: Part) -> (&mut Bandwidth, &mut Time) {
    let wire: &mut WireSpec = match part {
        Part::Link => return (&mut spec.sips.link.bandwidth, &mut spec.sips.link.latency),
        Part::Host => &mut spec.host,
        Part::Cubes => &mut spec.cubes.link,
        Part::Pes => &mut spec.pes.link,
        Part::Dma => &mut spec.dma,
        Part::Hbm => return (&mut spec.hbm.bandwidth, &mut spec.hbm.latency),
    };
    (&mut wire.bandwidth, &mut wire.latency)
}

/// A change of one part: its bandwidth times a factor, or its latency divided by it, in percent.
type Change = (Part, bool, u64);

fn change(spec: &mut MachineSpec, (part, of_bandwidth, percent): Change) {
    let (bandwidth, latency) = wire(spec, part);
    if of_bandwidth {
        let rate = bandwidth.as_per_second().map(|rate| rate * percent / 100);
        *bandwidth = rate.and_then(Bandwidth::per_second).unwrap_or(*bandwidth);
    } else {
        *latency = Time::ps((latency.as_ps() * 100 / percent).max(1));
    }
}

/// Draws machines of the presets in which every part takes time, with other figures.
fn full_machines() -> impl Strategy<Value = MachineSpec> {
    let names = prop::sample::select(vec!["pair", "quad-sip", "torus-16"]);
    let percents = prop::array::uniform12(30..300u64);
    (names, percents).prop_map(|(name, percents)| {
        let mut spec = MachineSpec::preset(name).unwrap();
        spec.sips.forwarding = Forwarding::ALL[usize::from(percents[0] % 2 == 0)];
        let kinds = PARTS.into_iter().flat_map(|part| [(part, true), (part, false)]);
        for ((part, of_bandwidth), percent) in kinds.zip(percents) {
            change(&mut spec, (part, of_bandwidth, percent));
        }
        spec
    })
}

/// Returns the scenario with sizes that take as long as the latencies of full machines.
fn enlarged(mut scenario: Scenario) -> Scenario {
    const FACTOR: u64 = 24;
    for script in &mut scenario.scripts {
        for step in &mut script.steps {
            match step {
                Step::Load { piece, .. } | Step::Store { piece, .. } => piece.bytes *= FACTOR,
                Step::Pair { pieces, .. } => {
                    for piece in pieces {
                        piece.bytes *= FACTOR;
                    }
                }
                Step::Send { bytes, .. } | Step::Receive { bytes, .. } => *bytes *= FACTOR,
                Step::Compute(_) | Step::Await => {}
            }
        }
    }
    for queue in &mut scenario.queues {
        queue.edge.slot_size *= FACTOR;
        queue.edge.vc_chunk_size *= FACTOR;
    }
    scenario
}

/// True if a run takes more than 1 % longer than another.
fn is_slower(after: Time, before: Time) -> bool {
    after.as_ps() > before.as_ps() + before.as_ps() / 100
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn wir_4_a_faster_part_slows_a_run_only_where_it_slows_the_reference(
        scenario in scenarios(full_machines(), MANY).prop_map(enlarged),
        part in prop::sample::select(PARTS.to_vec()),
        of_bandwidth: bool,
        percent in 110..800u64,
    ) {
        let mut faster = scenario.clone();
        change(&mut faster.spec, (part, of_bandwidth, percent));
        let run = |scenario| product::run(scenario, PartitionOrder::Queued).simulated;
        let [before, after] = [&scenario, &faster].map(run);
        if is_slower(after, before) {
            let [slow, fast] = [&scenario, &faster].map(|scenario| simulator::run(scenario).simulated);
            prop_assert!(is_slower(fast, slow), "{} after {}, in the reference {} after {}", after, before, fast, slow);
        }
    }
}
