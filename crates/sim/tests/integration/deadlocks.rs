//! A deadlock is a result: the waiting processes, their conditions, and the processes that could satisfy them.

use crate::support::{Outcome, bare, pair, receive_sizes, send_sizes};
use phalanx_sim::Time;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::spec::GridSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;

const ENDS: (PeId, PeId) = (PeId::first(0), PeId::first(1));

fn deadlock(run: Result<phalanx_sim::report::Report, RunError>) -> String {
    match run {
        Err(RunError::Deadlock(deadlock)) => deadlock.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn waiting_for_a_message_that_nobody_sends_is_a_deadlock() {
    let edge = EdgeSpec::default();
    let run = pair(
        bare(),
        Options::default(),
        ENDS,
        (
            move |tl| send_sizes(tl, ENDS.1, edge, vec![64]),
            move |tl| receive_sizes(tl, ENDS.0, edge, vec![64, 64], Time::ns(3)),
        ),
    );
    insta::assert_snapshot!(deadlock(run), @"
    deadlock at 1003.5 ns: 1 process waits for something that can no longer happen
      `receiver@sip1.cube0.pe0` waits for a message on sip0.cube0.pe0->sip1.cube0.pe0 (4 slots of 16 KiB); could come from `sender@sip0.cube0.pe0` (finished or never started)
    ");
}

#[test]
fn par_3_deadlock_unread_messages_and_end_are_decided_when_no_event_is_left() {
    let late = Time::us(7);
    let run = |sent: usize, received: usize| {
        let send = move |tl: Tl| async move {
            tl.compute(late).await;
            send_sizes(tl, ENDS.1, EdgeSpec::default(), vec![64; sent]).await
        };
        let receive = move |tl: Tl| {
            receive_sizes(tl, ENDS.0, EdgeSpec::default(), vec![64; received], Time::ZERO)
        };
        let mut machine = Machine::new(bare(), Options::default());
        machine.launch(0, "sender", &[ENDS.0], send);
        machine.launch(1, "receiver", &[ENDS.1], receive);
        let run = machine.run();
        assert!(machine.now() >= late, "PAR-3: nothing is decided before the last event");
        run
    };
    // The receiver waits from the start, the message comes late: no deadlock before that.
    run(1, 1).unwrap();
    let text = deadlock(run(0, 1));
    assert!(text.starts_with("deadlock at 7000 ns: 1 process waits"), "PAR-3: {text}");
    let error = run(1, 0).unwrap_err();
    assert!(matches!(error, RunError::CreditsAway { unread: 1, .. }), "PAR-3: {error:?}");
}

#[test]
fn waiting_on_an_edge_that_nobody_opened_names_the_pe_that_should() {
    let edge = EdgeSpec { n_slots: 2, slot_size: 256, ..EdgeSpec::default() };
    let run = pair(
        bare(),
        Options::default(),
        ENDS,
        (
            |_| async { Ok(()) },
            move |tl| receive_sizes(tl, PeId::first(5), edge, vec![64], Time::ZERO),
        ),
    );
    insta::assert_snapshot!(deadlock(run), @"
    deadlock at 0 ns: 1 process waits for something that can no longer happen
      `receiver@sip1.cube0.pe0` waits for a message on sip5.cube0.pe0->sip1.cube0.pe0 (2 slots of 256 B); could come from `sip5.cube0.pe0` (finished or never started)
    ");
}

/// Sends more than the slots hold, and waits for it, before it receives anything.
async fn stubborn(tl: Tl, other: PeId, edge: EdgeSpec) -> Outcome {
    let (sender, receiver) = (tl.sender(other, edge)?, tl.receiver(other, edge)?);
    for _ in 0..3 {
        tl.send(&sender, &tl.zeros(DType::F32, 16)?).await;
    }
    for _ in 0..3 {
        drop(tl.recv(&receiver, DType::F32, 16).await?);
    }
    Ok(())
}

fn stubborn_pair(n_slots: u32) -> Result<phalanx_sim::report::Report, RunError> {
    let edge = EdgeSpec { n_slots, slot_size: 64, ..EdgeSpec::default() };
    let kernels = (move |tl| stubborn(tl, ENDS.1, edge), move |tl| stubborn(tl, ENDS.0, edge));
    pair(bare(), Options::default(), ENDS, kernels)
}

#[test]
fn two_that_fill_each_others_queue_are_a_cycle() {
    assert!(stubborn_pair(3).is_ok(), "with a slot for each message nobody waits");
    insta::assert_snapshot!(deadlock(stubborn_pair(2)), @"
    deadlock at 501 ns: 2 processes wait for something that can no longer happen
      `sender@sip0.cube0.pe0` waits for a credit on sip0.cube0.pe0->sip1.cube0.pe0 (2 slots of 64 B, all taken); could come from `receiver@sip1.cube0.pe0` (waiting too)
      `receiver@sip1.cube0.pe0` waits for a credit on sip1.cube0.pe0->sip0.cube0.pe0 (2 slots of 64 B, all taken); could come from `sender@sip0.cube0.pe0` (waiting too)
      cycle: sender@sip0.cube0.pe0 -> receiver@sip1.cube0.pe0 -> sender@sip0.cube0.pe0
    ");
}

/// Four programs; number 2 does not reach the barrier.
fn barrier<F>(
    absentee: impl Fn(Tl) -> F + Clone + 'static,
) -> Result<phalanx_sim::report::Report, RunError>
where
    F: Future<Output = Outcome> + 'static,
{
    let mut spec = bare();
    spec.pes = GridSpec { rows: 2, columns: 2, ..spec.pes };
    let mut machine = Machine::new(spec, Options::default());
    machine.launch(0, "meet", &machine.pes(0), move |tl| {
        let absentee = absentee.clone();
        async move {
            if tl.program_id() == 2 {
                return absentee(tl).await;
            }
            tl.barrier().await;
            Ok(())
        }
    });
    machine.run()
}

#[test]
fn a_barrier_that_a_program_never_reaches_names_it() {
    insta::assert_snapshot!(deadlock(barrier(|_| async { Ok(()) })), @"
    deadlock at 0 ns: 3 processes wait for something that can no longer happen
      `meet@sip0.cube0.pe0` waits for a barrier of `meet` that 3 of 4 programs have reached; could come from `meet@sip0.cube0.pe2` (finished or never started)
      `meet@sip0.cube0.pe1` waits for a barrier of `meet` that 3 of 4 programs have reached; could come from `meet@sip0.cube0.pe2` (finished or never started)
      `meet@sip0.cube0.pe3` waits for a barrier of `meet` that 3 of 4 programs have reached; could come from `meet@sip0.cube0.pe2` (finished or never started)
    ");
}

#[test]
fn mch_2_a_kernel_that_fails_while_others_wait_is_the_error() {
    let failing = barrier(|tl| async move {
        tl.compute(Time::ns(9)).await;
        Err(KernelError::Other("no such expert".into()))
    });
    let text = "kernel `meet` on sip0.cube0.pe2 failed at 9 ns: no such expert";
    assert_eq!(failing.unwrap_err().to_string(), text, "MCH-2");
}

#[test]
fn a_program_behind_one_that_never_ends_waits_for_the_pe() {
    let mut machine = Machine::new(bare(), Options::default());
    let edge = EdgeSpec::default();
    for name in ["first", "second"] {
        machine.launch(0, name, &[ENDS.0], move |tl| {
            receive_sizes(tl, ENDS.1, edge, vec![64], Time::ZERO)
        });
    }
    let text = deadlock(machine.run());
    assert!(text.contains("`second@sip0.cube0.pe0` waits for"), "{text}");
    assert!(text.contains("`first@sip0.cube0.pe0` (waiting too)"), "{text}");
}
