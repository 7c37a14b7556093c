//! Queues between PEs: their timing, and the errors of wrong use.

use crate::support::{
    Outcome, bare, limited, pair, pe, quad, receive_sizes, roomy, send_sizes, traffic, without_data,
};
use phalanx_sim::Time;
use phalanx_sim::ipcq::{Backpressure, BufferKind, EdgeSpec};
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::{Options, RunError};
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use proptest::prelude::*;

const ENDS: (PeId, PeId) = (PeId::first(0), PeId::first(1));

/// `S_j = max(S_{j-1} + ser, R_{j-K} + ac)`; `R_j = max(S_j + ser + a, R_{j-1}) + c`, in nanoseconds.
fn recurrence(messages: usize, slots: usize, [ser, a, c]: [u64; 3]) -> u64 {
    let (mut sent, mut received) = (Vec::<u64>::new(), Vec::<u64>::new());
    for j in 0..messages {
        let wire = sent.last().map_or(0, |last| last + ser);
        let credit = if j >= slots { received[j - slots] + a } else { 0 };
        sent.push(wire.max(credit));
        received.push((sent[j] + ser + a).max(received.last().copied().unwrap_or(0)) + c);
    }
    received[messages - 1]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ipc_4_slots_obey_the_recurrence(messages in 1..40usize, slots in 1..12u32, units in 1..30usize, consume in 0..900u64) {
        let (bytes, consume) = (units * 1280, Time::ns(consume));
        let edge = EdgeSpec { n_slots: slots, slot_size: bytes as u64, ..EdgeSpec::default() };
        let (out, into) = (vec![bytes; messages], vec![bytes; messages]);
        let report = pair(bare(), without_data(), ENDS, (
            move |tl| send_sizes(tl, ENDS.1, edge, out.clone()),
            move |tl| receive_sizes(tl, ENDS.0, edge, into.clone(), consume),
        )).unwrap();
        let expected = recurrence(messages, slots as usize, [units as u64 * 10, 500, consume.as_ps() / 1000]);
        prop_assert_eq!(report.simulated, Time::ns(expected), "IPC-4");
    }

    #[test]
    fn polling_is_never_faster_than_sleeping_and_looks_at_whole_periods(period in 1..700u64, slots in 1..4u32) {
        let time = |backpressure| {
            let edge = EdgeSpec { n_slots: slots, slot_size: 1280, backpressure, ..EdgeSpec::default() };
            traffic(&bare(), edge, &[(ENDS.0, ENDS.1, &[1280; 6])])
        };
        let (asleep, polling) = (time(Backpressure::Sleep), time(Backpressure::Poll(Time::ns(period))));
        prop_assert!(polling.simulated >= asleep.simulated);
        // The last message left at a whole number of periods, unless it never waited; it arrived 510 ns later.
        let left = (polling.simulated - Time::ns(510)).as_ps() % (period * 1000);
        let straight = [10, 20].map(|turns| Time::ns(turns).as_ps() % (period * 1000));
        prop_assert!(left == 0 || straight.contains(&left), "{} {}", polling.simulated, left);
        prop_assert!(polling.edges[0].polls > 0);
    }
}

#[test]
fn a_poll_rounds_up_to_the_next_look() {
    let time = |backpressure| {
        let edge = EdgeSpec { n_slots: 1, slot_size: 1280, backpressure, ..EdgeSpec::default() };
        traffic(&bare(), edge, &[(ENDS.0, ENDS.1, &[1280; 2])]).simulated
    };
    // The credit is home at 10 + 500 + 500 ns.
    assert_eq!(time(Backpressure::Sleep), Time::ns(1010 + 510));
    assert_eq!(time(Backpressure::Poll(Time::ns(300))), Time::ns(1200 + 510));
    assert_eq!(time(Backpressure::Poll(Time::ns(101))), Time::ns(1010 + 510));
}

#[test]
fn a_look_that_finds_two_credits_is_one_look() {
    let backpressure = Backpressure::Poll(Time::ns(300));
    let edge = EdgeSpec { n_slots: 2, slot_size: 1280, backpressure, ..EdgeSpec::default() };
    let report = traffic(&bare(), edge, &[(ENDS.0, ENDS.1, &[1280; 4])]);
    // Credits are home at 1010 and 1020 ns; the sender polls at 300, 600, 900 and 1200 ns, and then sends both.
    assert_eq!(report.simulated, Time::ns(1200 + 2 * 10 + 500));
    assert_eq!(report.edges[0].polls, 4);
}

#[test]
fn slots_in_hbm_cost_more_than_slots_in_scratch() {
    let time = |buffer_kind| {
        let edge = EdgeSpec { buffer_kind, ..EdgeSpec::default() };
        traffic(&quad(), edge, &[(pe(0, 0, 1), pe(1, 1, 3), &[4096; 6])]).simulated
    };
    assert!(time(BufferKind::Hbm) > time(BufferKind::Tcm));
}

#[test]
fn slots_in_hbm_leave_scratch_alone_and_are_given_back() {
    let mut spec = bare();
    (spec.tcm, spec.hbm.capacity) = (limited(64), limited(4096));
    let time = |n_slots| {
        let edge = EdgeSpec {
            n_slots,
            slot_size: 64,
            buffer_kind: BufferKind::Hbm,
            ..EdgeSpec::default()
        };
        pair(
            spec.clone(),
            Options::default(),
            ENDS,
            (
                move |tl| send_sizes(tl, ENDS.1, edge, vec![64; 3]),
                move |tl| async move {
                    for _ in 0..3 {
                        receive_sizes(tl.clone(), ENDS.0, edge, vec![64], Time::ns(1)).await?;
                    }
                    Ok(())
                },
            ),
        )
    };
    time(64).unwrap();
    let text = time(65).unwrap_err().to_string();
    let words = "kernel `receiver` on sip1.cube0.pe0 failed at 0 ns: no room in the HBM of sip1.cube0: 4160 B wanted, \
                 4 KiB of 4 KiB free in one piece (";
    assert!(text.starts_with(words), "{text}");
}

#[test]
fn ipc_3_and_mch_1_a_message_left_unread_is_an_error_that_names_the_edge() {
    let run = |sent: usize| {
        pair(
            bare(),
            Options::default(),
            ENDS,
            (
                move |tl| send_sizes(tl, ENDS.1, EdgeSpec::default(), vec![64; sent]),
                |tl| receive_sizes(tl, ENDS.0, EdgeSpec::default(), vec![64; 2], Time::ZERO),
            ),
        )
    };
    assert!(run(2).is_ok());
    let error = run(3).unwrap_err();
    assert!(
        matches!(error, RunError::CreditsAway { unread: 1, away: 1, slots: 4, .. }),
        "MCH-1: {error:?}"
    );
    assert_eq!(
        error.to_string(),
        "1 message left unread on sip0.cube0.pe0->sip1.cube0.pe0 (1 of 4 credits not home)",
        "IPC-3"
    );
    assert_eq!(
        run(9).unwrap_err().to_string(),
        "7 messages left unread on sip0.cube0.pe0->sip1.cube0.pe0 (4 of 4 credits not home)"
    );
}

#[test]
fn mch_2_the_first_kernel_to_fail_ends_the_run_and_is_named() {
    let error = pair(
        bare(),
        Options::default(),
        ENDS,
        (
            |tl: Tl| async move {
                tl.compute(Time::ns(70)).await;
                tl.reserve(u64::MAX / 4).map(drop)?;
                Err(phalanx_sim::kernel::KernelError::Other("the second thought".into()))
            },
            |tl| receive_sizes(tl, ENDS.0, EdgeSpec::default(), vec![64], Time::ZERO),
        ),
    );
    // The other kernel waits for a message that never comes: the failure of the first is reported, not a deadlock.
    let text = "kernel `sender` on sip0.cube0.pe0 failed at 70 ns: the second thought";
    assert_eq!(error.unwrap_err().to_string(), text, "MCH-2");
}

/// Returns the error of a run of `sender` and `receiver`.
fn said<FS, FR>(
    options: Options,
    sender: impl Fn(Tl) -> FS + 'static,
    receiver: impl Fn(Tl) -> FR + 'static,
) -> String
where
    FS: Future<Output = Outcome> + 'static,
    FR: Future<Output = Outcome> + 'static,
{
    match pair(bare(), options, ENDS, (sender, receiver)) {
        Err(RunError::Kernel { error, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn idle(_: Tl) -> Outcome {
    Ok(())
}

#[test]
fn ends_that_disagree_are_told_both_settings() {
    let narrow = EdgeSpec { n_slots: 2, ..EdgeSpec::default() };
    let text = said(
        Options::default(),
        |tl| send_sizes(tl, ENDS.1, EdgeSpec::default(), vec![64]),
        move |tl| receive_sizes(tl, ENDS.0, narrow, vec![64], Time::ZERO),
    );
    assert_eq!(
        text,
        "edge sip0.cube0.pe0->sip1.cube0.pe0: the sender has 4 slots of 16 KiB, the receiver 2 slots of 16 KiB"
    );
}

#[test]
fn a_message_of_another_type_or_size_is_refused() {
    let wrong = |dtype, elements: usize, options| {
        said(
            options,
            |tl| send_sizes(tl, ENDS.1, EdgeSpec::default(), vec![64]),
            move |tl| async move {
                let receiver = tl.receiver(ENDS.0, EdgeSpec::default())?;
                tl.recv(&receiver, dtype, elements).await.map(drop)
            },
        )
    };
    let edge = "edge sip0.cube0.pe0->sip1.cube0.pe0";
    assert_eq!(
        wrong(DType::F32, 15, Options::default()),
        format!("{edge}: expected f32[15], got f32[16]")
    );
    assert_eq!(
        wrong(DType::I32, 16, Options::default()),
        format!("{edge}: expected i32[16], got f32[16]")
    );
    assert_eq!(
        wrong(DType::F32, 15, without_data()),
        format!("{edge}: expected f32[15], got 64 B")
    );
}

#[test]
fn a_message_of_several_slots_and_another_size_is_refused_with_and_without_data() {
    for options in [Options::default(), without_data()] {
        let edge = EdgeSpec { slot_size: 64, ..EdgeSpec::default() };
        let text = said(
            options,
            move |tl| send_sizes(tl, ENDS.1, edge, vec![160]),
            move |tl| receive_sizes(tl, ENDS.0, edge, vec![180], Time::ZERO),
        );
        assert!(text.contains("expected f32[45], got"), "{text}");
    }
}

#[test]
fn edges_that_cannot_work_are_refused() {
    let reason = |to, spec| {
        said(Options::default(), move |tl| async move { tl.sender(to, spec).map(drop) }, idle)
    };
    let (usual, to) = (EdgeSpec::default(), ENDS.1);
    for (to, spec, expected) in [
        (ENDS.0, usual, "a PE cannot send to itself"),
        (pe(8, 0, 0), usual, "there is no such PE in this machine"),
        (pe(0, 0, 1), usual, "there is no such PE in this machine"),
        (to, EdgeSpec { n_slots: 0, ..usual }, "it needs at least one slot"),
        (to, EdgeSpec { slot_size: 0, ..usual }, "its slots need room for at least one byte"),
        (
            to,
            EdgeSpec { backpressure: Backpressure::Poll(Time::ZERO), ..usual },
            "a sender that polls needs a period",
        ),
    ] {
        assert!(reason(to, spec).ends_with(expected), "{}", reason(to, spec));
    }
}

#[test]
fn channels_between_the_same_pes_are_queues_of_their_own() {
    let report = pair(
        bare(),
        Options::default(),
        ENDS,
        (
            |tl: Tl| async move {
                for channel in [3, 0, 7] {
                    let sender = tl.sender_on(ENDS.1, channel, roomy())?;
                    drop(tl.send(&sender, &tl.full(DType::I32, 1, f64::from(channel))?));
                }
                Ok(())
            },
            |tl: Tl| async move {
                for channel in [7, 3, 0] {
                    let receiver = tl.receiver_on(ENDS.0, channel, roomy())?;
                    let tile = tl.recv(&receiver, DType::I32, 1).await?;
                    assert_eq!(tl.item(&tile, 0)?, f64::from(channel));
                }
                Ok(())
            },
        ),
    )
    .unwrap();
    let names: Vec<String> = report.edges.iter().map(|edge| edge.edge.to_string()).collect();
    let name = "sip0.cube0.pe0->sip1.cube0.pe0";
    assert_eq!(names, [name.to_owned(), format!("{name}#3"), format!("{name}#7")]);
}

#[test]
fn ipc_6_a_protocol_adds_its_delay_and_stretches_bytes_on_links() {
    let time = |delay, millionths| {
        let efficiency = phalanx_sim::spec::Efficiency::millionths(millionths).unwrap();
        let edge = EdgeSpec { slot_size: 12_800, delay, efficiency, ..EdgeSpec::default() };
        traffic(&bare(), edge, &[(ENDS.0, ENDS.1, &[12_800])]).simulated
    };
    // 12 800 bytes take 100 ns of the link, and 500 ns of latency.
    assert_eq!(time(Time::ZERO, 1_000_000), Time::ns(600), "IPC-6");
    assert_eq!(time(Time::ns(70), 1_000_000), Time::ns(670), "IPC-6");
    assert_eq!(time(Time::ns(70), 500_000), Time::ns(770), "IPC-6");
}
