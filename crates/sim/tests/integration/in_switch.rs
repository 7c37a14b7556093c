//! Multicast and reduction inside a switch, against recurrences.

use crate::support::{bare, wire, without_data};
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::spec::{Efficiency, InSwitchSpec, Topology};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, DType};
use phalanx_sim::{MachineSpec, Time};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Links of 128 B/ns and 500 ns; a switch of half their bandwidth and 100 ns for both.
fn switch(count: u32) -> MachineSpec {
    let mut spec = bare();
    let cost =
        InSwitchSpec { efficiency: Efficiency::millionths(500_000).unwrap(), start: Time::ns(100) };
    (spec.sips.count, spec.sips.topology) = (count, Topology::Switch);
    spec.sips.link = wire(128, 500).into();
    (spec.sips.multicast, spec.sips.reduction) = (Some(cost), Some(cost));
    spec
}

fn edge(n_slots: u32, slot_size: u64) -> EdgeSpec {
    EdgeSpec { n_slots, slot_size, ..EdgeSpec::default() }
}

fn firsts(sips: impl Iterator<Item = u32>) -> Vec<PeId> {
    sips.map(PeId::first).collect()
}

type Arrivals = Rc<RefCell<Vec<Vec<u64>>>>;

/// Runs rounds of a reduction from SIPs 1, 2, ... to SIP 0; `waits[sip][round]` is what a sender waits before each post.
/// Returns the arrival of each round, in nanoseconds.
fn reduce(spec: MachineSpec, edge: EdgeSpec, elements: usize, waits: &[Vec<u64>]) -> Vec<u64> {
    let rounds = waits[0].len();
    let arrivals: Arrivals = Rc::new(RefCell::new(vec![Vec::new()]));
    let mut machine = Machine::new(spec, without_data());
    let senders = firsts((1..).take(waits.len()));
    for (from, waits) in senders.iter().zip(waits) {
        let waits = waits.clone();
        machine.launch(from.sip, "contribute", &[*from], move |tl| {
            let waits = waits.clone();
            async move {
                let sender = tl.contributor(PeId::first(0), 0, edge)?;
                for wait in waits {
                    tl.compute(Time::ns(wait)).await;
                    tl.send(&sender, &tl.zeros(DType::F32, elements)?).await;
                }
                Ok(())
            }
        });
    }
    let seen = arrivals.clone();
    machine.launch(0, "reduce", &[PeId::first(0)], move |tl| {
        let (senders, seen) = (senders.clone(), seen.clone());
        async move {
            let reducer = tl.reducer(&senders, 0, edge)?;
            for _ in 0..rounds {
                drop(tl.recv_reduced(&reducer, Binary::Add, DType::F32, elements).await?);
                seen.borrow_mut()[0].push(tl.now().as_ps() / 1_000);
            }
            Ok(())
        }
    });
    machine.run().unwrap_or_else(|error| panic!("{error}"));
    arrivals.borrow()[0].clone()
}

/// The recurrence of ISW-2, with a receiver that frees each slot at once.
fn reduced_at(slots: usize, span: u64, waits: &[Vec<u64>]) -> Vec<u64> {
    let (out, back) = (600, 500);
    let mut left = vec![0; waits.len()];
    let mut posted = vec![0; waits.len()];
    let mut arrived: Vec<u64> = Vec::new();
    let mut port = 0;
    for round in 0..waits[0].len() {
        let credit = round.checked_sub(slots).map_or(0, |before| arrived[before] + back);
        let mut head = 0;
        for (sender, waits) in waits.iter().enumerate() {
            // A sender goes on when its message has a credit.
            let granted = (posted[sender] + waits[round]).max(credit);
            posted[sender] = granted;
            let start = granted.max(left[sender]);
            left[sender] = start + span;
            head = head.max(start + out);
        }
        port = head.max(port) + span;
        arrived.push(port);
    }
    arrived
}

proptest! {
    #[test]
    fn isw_2_rounds_of_a_reduction_follow_the_recurrence(
        waits in (1..5usize, 1..8usize).prop_flat_map(|(senders, rounds)| {
            prop::collection::vec(prop::collection::vec(0..3_000u64, rounds), senders)
        }),
        slots in 1..4u32,
        kib in 1..65usize,
    ) {
        let spec = switch(8);
        let got = reduce(spec, edge(slots, 64 << 10), kib * 256, &waits);
        // Half of 128 B/ns.
        let expected = reduced_at(slots as usize, kib as u64 * 1_024 / 64, &waits);
        prop_assert_eq!(got, expected, "ISW-2");
    }

    #[test]
    fn isw_1_a_multicast_waits_for_the_slowest_receiver(
        work in prop::collection::vec(0..4_000u64, 1..6), messages in 1..8usize, slots in 1..4u32,
    ) {
        let (got, expected) = (multicast(&work, messages, slots), multicast_at(&work, messages, slots));
        prop_assert_eq!(got, expected, "ISW-1");
    }
}

/// Sends messages of 16 KiB to receivers that work on each for their own time; returns the arrivals at each.
fn multicast(work: &[u64], messages: usize, slots: u32) -> Vec<Vec<u64>> {
    let arrivals: Arrivals = Rc::new(RefCell::new(vec![Vec::new(); work.len()]));
    let receivers = firsts((1..).take(work.len()));
    let edge = edge(slots, 16 << 10);
    let mut machine = Machine::new(switch(8), without_data());
    let to = receivers.clone();
    machine.launch(0, "send", &[PeId::first(0)], move |tl| {
        let to = to.clone();
        async move {
            let multicaster = tl.multicaster(&to, 0, edge)?;
            for _ in 0..messages {
                drop(tl.multicast(&multicaster, &tl.zeros(DType::F32, 4_096)?));
            }
            Ok(())
        }
    });
    for (number, (pe, work)) in receivers.into_iter().zip(work.to_vec()).enumerate() {
        let seen = arrivals.clone();
        machine.launch(pe.sip, "receive", &[pe], move |tl| {
            let seen = seen.clone();
            async move {
                let receiver = tl.multicast_receiver(PeId::first(0), 0, edge)?;
                for _ in 0..messages {
                    let _tile = tl.recv(&receiver, DType::F32, 4_096).await?;
                    seen.borrow_mut()[number].push(tl.now().as_ps() / 1_000);
                    tl.compute(Time::ns(work)).await;
                }
                Ok(())
            }
        });
    }
    machine.run().unwrap_or_else(|error| panic!("{error}"));
    arrivals.borrow().clone()
}

/// The recurrence of ISW-1.
fn multicast_at(work: &[u64], messages: usize, slots: u32) -> Vec<Vec<u64>> {
    let (span, out, back) = (16 * 1_024 / 64, 600, 500);
    let mut taken: Vec<Vec<u64>> = vec![Vec::new(); work.len()];
    let mut freed = taken.clone();
    let mut left = 0;
    for message in 0..messages {
        let credit = message
            .checked_sub(slots as usize)
            .map_or(0, |before| freed.iter().map(|freed| freed[before] + back).max().unwrap());
        let start = credit.max(left);
        left = start + span;
        for ((taken, freed), work) in taken.iter_mut().zip(&mut freed).zip(work) {
            let at = (start + out + span).max(freed.last().copied().unwrap_or(0));
            taken.push(at);
            freed.push(at + work);
        }
    }
    taken
}

#[test]
fn isw_3_both_pay_the_start_of_the_switch_and_its_bandwidth() {
    // 64 KiB at 64 B/ns, 500 + 100 ns.
    assert_eq!(
        reduce(switch(8), edge(4, 64 << 10), 16_384, &[vec![0], vec![400]]),
        [400 + 600 + 1_024],
        "ISW-3"
    );
    assert_eq!(multicast(&[0, 0], 2, 4), vec![vec![600 + 256, 600 + 512]; 2], "ISW-3");
}

#[test]
fn isw_3_a_message_of_several_slots_takes_several_rounds() {
    let spec = switch(4);
    // 16 KiB in slots of 4 KiB, two at a time: each third round waits for a credit.
    let waits = [vec![0]];
    let slots = [vec![0; 4]];
    let got = reduce(spec, edge(2, 4 << 10), 4_096, &waits);
    assert_eq!(got, reduced_at(2, 64, &slots)[3..], "ISW-3");
}

/// Sums `sip * scale` of SIPs 1..4 on SIP 0 in the given order, and sends the result to all; each returns it.
fn sum_and_spread(order: &'static [u32], numbers: &'static [f32]) -> Vec<f64> {
    let found: Rc<RefCell<Vec<f64>>> = Rc::default();
    let mut machine = Machine::new(switch(4), Options::default());
    for sip in 0..4 {
        let found = found.clone();
        machine.launch(sip, "sum", &[PeId::first(sip)], move |tl: Tl| {
            let found = found.clone();
            async move {
                let (edge, root) = (EdgeSpec::default(), PeId::first(0));
                let sum = if sip == 0 {
                    let from: Vec<PeId> = order.iter().copied().map(PeId::first).collect();
                    let reducer = tl.reducer(&from, 3, edge)?;
                    let sum = tl.recv_reduced(&reducer, Binary::Add, DType::F32, 2).await?;
                    tl.multicast(&tl.multicaster(&from, 3, edge)?, &sum).await;
                    sum
                } else {
                    let tile = tl.full(DType::F32, 2, numbers[sip as usize].into())?;
                    tl.send(&tl.contributor(root, 3, edge)?, &tile).await;
                    tl.recv(&tl.multicast_receiver(root, 3, edge)?, DType::F32, 2).await?
                };
                let number = tl.item(&sum, 1)?;
                found.borrow_mut().push(number);
                Ok(())
            }
        });
    }
    machine.run().unwrap_or_else(|error| panic!("{error}"));
    found.borrow().clone()
}

#[test]
fn isw_4_a_reduction_combines_in_the_order_of_its_senders() {
    const NUMBERS: &[f32] = &[0.0, 1e8, 1.0, -1e8];
    assert_eq!(sum_and_spread(&[1, 2, 3], NUMBERS), [0.0; 4], "ISW-4: 1e8 swallows 1");
    assert_eq!(sum_and_spread(&[1, 3, 2], NUMBERS), [1.0; 4], "ISW-4");
}

/// Runs a kernel on SIP 0 of a machine and returns the error.
fn refusal(
    spec: MachineSpec,
    open: fn(&Tl) -> Result<(), phalanx_sim::kernel::KernelError>,
) -> String {
    let mut machine = Machine::new(spec, Options::default());
    machine.launch(0, "open", &[PeId::first(0)], move |tl| async move { open(&tl) });
    machine.run().unwrap_err().to_string()
}

#[test]
fn isw_1_what_no_switch_can_do_is_refused() {
    let plain = || MachineSpec { sips: bare().sips, ..switch(8) };
    let refused = |spec, open, reason: &str| {
        let error = refusal(spec, open);
        assert!(error.contains(reason), "{error}");
    };
    refused(
        plain(),
        |tl| tl.multicaster(&[PeId::first(1)], 0, EdgeSpec::default()).map(drop),
        "copies messages",
    );
    refused(
        plain(),
        |tl| tl.contributor(PeId::first(1), 0, EdgeSpec::default()).map(drop),
        "combines messages",
    );
    refused(
        switch(8),
        |tl| tl.multicaster(&[], 0, EdgeSpec::default()).map(drop),
        "needs another end",
    );
    refused(
        switch(8),
        |tl| tl.multicaster(&[PeId::first(9)], 0, EdgeSpec::default()).map(drop),
        "copies messages",
    );
    refused(
        switch(8),
        |tl| tl.reducer(&[PeId::first(0)], 0, EdgeSpec::default()).map(drop),
        "combines messages",
    );
    refused(
        switch(8),
        |tl| tl.reducer(&[PeId::first(1), PeId::first(1)], 0, EdgeSpec::default()).map(drop),
        "one port for each SIP",
    );
    refused(
        switch(8),
        |tl| {
            let edge = EdgeSpec { buffer_kind: BufferKind::Hbm, ..EdgeSpec::default() };
            tl.reducer(&[PeId::first(1)], 0, edge).map(drop)
        },
        "in TCM",
    );
    refused(
        switch(8),
        |tl| {
            let edge =
                EdgeSpec { backpressure: Backpressure::Poll(Time::ns(1)), ..EdgeSpec::default() };
            tl.multicaster(&[PeId::first(1)], 0, edge).map(drop)
        },
        "must sleep",
    );
}

#[test]
fn isw_2_a_reduction_that_lacks_a_sender_is_a_deadlock_that_names_it() {
    let mut machine = Machine::new(switch(4), Options::default());
    machine.launch(0, "reduce", &[PeId::first(0)], |tl| async move {
        let reducer = tl.reducer(&firsts(1..4), 0, EdgeSpec::default())?;
        drop(tl.recv_reduced(&reducer, Binary::Add, DType::F32, 4).await?);
        Ok(())
    });
    for sip in 1..3 {
        machine.launch(sip, "send", &[PeId::first(sip)], |tl| async move {
            let sender = tl.contributor(PeId::first(0), 0, EdgeSpec::default())?;
            tl.send(&sender, &tl.zeros(DType::F32, 4)?).await;
            Ok(())
        });
    }
    let error = machine.run().unwrap_err();
    assert!(matches!(error, RunError::Deadlock(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("a reduction of 3 messages at sip0.cube0.pe0, 1 of them not sent"),
        "{text}"
    );
    assert!(text.contains("sip3.cube0.pe0"), "{text}");
}
