//! Errors from outside, and runs that are interrupted.

use super::{assert_usable, ccl, machine, number, quad};
use phalanx_sim::kernel::Tl;
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::{DType, Foreign, Time};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Arg, Context, Error, Grid, distributed as dist};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The error that another language would raise.
#[derive(Debug, PartialEq)]
struct Exception(Vec<u8>);

fn raise() -> Foreign {
    Foreign::new("ValueError: no luck", Exception(vec![1, 2, 3]))
}

#[test]
fn the_error_of_a_kernel_comes_with_its_payload_to_the_rank_that_waits() {
    let mut context = quad();
    let seen = context.run(|cx| async move {
        let x = cx.zeros([4], DType::F32)?;
        let kernel = |_: Tl, _| async { Err(raise().into()) };
        let handle = cx.launch("raises", Grid::Pes(2), &[Arg::write(&x)], kernel)?;
        let error = handle.wait().await.expect_err("it fails");
        let text = error.to_string();
        assert!(text.starts_with("kernel `raises` on sip0.cube0.pe0 failed at"), "{text}");
        assert!(text.ends_with(": ValueError: no luck"), "{text}");
        assert_eq!(error.foreign(), error.clone().foreign(), "copies hold the same payload");
        // REQ-3: what depends on it holds the first failure.
        let poisoned = x.to_vec().await.expect_err("it depends on the kernel");
        assert!(matches!(poisoned, Error::After { .. }));
        assert_eq!(poisoned.foreign(), error.foreign());
        let payload = error.foreign().and_then(Foreign::downcast_ref::<Exception>);
        assert_eq!(payload, Some(&Exception(vec![1, 2, 3])));
        assert!(error.foreign().unwrap().downcast_ref::<String>().is_none());
        Ok(())
    });
    seen.unwrap();
}

#[test]
fn mps_2_the_error_of_a_rank_comes_with_its_payload_to_the_caller_of_spawn() {
    let mut context = quad();
    let failed = spawn(&mut context, 4, |rank, cx| async move {
        if rank == 2 {
            return Err(raise().into());
        }
        dist::init_process_group(&cx)?;
        dist::barrier(&cx, None).await
    });
    let error = failed.unwrap_err();
    let payload = error.errors[&2].foreign().and_then(Foreign::downcast_ref::<Exception>);
    assert_eq!(payload, Some(&Exception(vec![1, 2, 3])));
    assert_eq!(error.errors.len(), 1);
    assert_usable(&mut context);
}

/// Options of a run that is interrupted after so many windows.
fn interrupted_after(windows: usize) -> (Options, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let interrupt = move || count.fetch_add(1, Ordering::Relaxed) + 1 == windows;
    (Options { interrupt: Some(Arc::new(interrupt)), ..Options::default() }, asked)
}

#[test]
fn mps_6_an_interrupted_run_says_so_and_leaves_a_usable_context() {
    let (options, asked) = interrupted_after(40);
    let named = ccl("defaults: { algorithm: ring }");
    let mut context = Context::new(machine("quad-sip", &[]), options).with_ccl(named);
    let stopped = spawn(&mut context, 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([1000], f64::from(number(rank)), DType::F32)?;
        loop {
            dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
        }
        #[expect(unreachable_code, reason = "it never ends by itself")]
        Ok(())
    });
    let error = stopped.unwrap_err();
    let time = error.interrupted.expect("MPS-6");
    assert!(time > Time::ZERO && time == context.now(), "{time}");
    assert!(error.errors.is_empty() && error.desync.is_none());
    assert_eq!(error.cancelled, [0, 1, 2, 3]);
    let words =
        format!("the run was interrupted at {time}\ncancelled because of that: rank 0, 1, 2, 3");
    assert_eq!(error.to_string(), words);
    assert_eq!(asked.load(Ordering::Relaxed), 40, "it is asked once a window");
    assert_usable(&mut context);
}

#[test]
fn mps_6_a_run_that_is_interrupted_while_a_rank_chooses_says_so() {
    let (options, _) = interrupted_after(3);
    let mut context = Context::new(machine("quad-sip", &[]), options);
    let stopped = spawn(&mut context, 4, |_, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.zeros([1000], DType::F32)?;
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await
    });
    let error = stopped.unwrap_err();
    assert!(error.interrupted.is_some() && error.errors.is_empty(), "MPS-6: {error}");
    assert!(error.cancelled.contains(&0), "MPS-6: {error}");
    assert_usable(&mut context);
}

#[test]
fn mps_6_an_interrupt_that_does_not_come_changes_nothing() {
    let times = [Options::default(), interrupted_after(usize::MAX).0].map(|options| {
        let mut context = Context::new(machine("quad-sip", &[]), options);
        assert_usable(&mut context);
        context.now()
    });
    assert_eq!(times[0], times[1]);
}

#[test]
fn a_machine_that_was_interrupted_can_go_on() {
    let (options, _) = interrupted_after(3);
    let mut machine = Machine::new(machine("bare", &[]), options);
    let pes = machine.pes(0);
    machine.launch(0, "naps", &pes[..1], |tl| async move {
        for _ in 0..10 {
            tl.compute(Time::us(1)).await;
        }
        Ok(())
    });
    let error = machine.run().unwrap_err();
    assert_eq!(error, RunError::Interrupted(machine.now()));
    assert_eq!(machine.run().unwrap().simulated, Time::us(10));
}
