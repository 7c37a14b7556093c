//! The requests of a host to its SIP.

use crate::support::{pe, quad};
use phalanx_sim::kernel::{GridShape, KernelError, ReadOnly, Tl, View};
use phalanx_sim::machine::{Cause, Launch, Machine, Options, RunError};
use phalanx_sim::record::Resource;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Time, topology::PeId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn launch(pes: &[PeId], exclusive: bool) -> Launch<'_> {
    Launch { name: "k", label: None, pes, exclusive, cause: Cause::default() }
}

#[test]
#[should_panic(expected = "HST-1")]
fn hst_1_a_host_launches_on_its_own_sip_only() {
    let mut machine = Machine::new(quad(), Options::default());
    let host = machine.host(0);
    machine
        .spawn(0, "trespasser", async move {
            let pes = [pe(1, 0, 0)];
            host.run(launch(&pes, true), |_| async { Ok(()) }).await.map(drop)
        })
        .detach();
    let _ = machine.drive();
}

#[test]
fn hst_2_the_first_failure_ends_a_launch_and_drops_the_other_programs() {
    struct Bell(Rc<Cell<usize>>);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let mut machine = Machine::new(quad(), Options::default());
    let (host, dropped) = (machine.host(0), Rc::new(Cell::new(0)));
    let bells = dropped.clone();
    let ended = machine.spawn(0, "host", async move {
        let pes = host.pes();
        let kernel = |tl: Tl| {
            let bell = Bell(bells.clone());
            async move {
                let _bell = bell;
                // A higher program number ends sooner; number 3 fails before lower numbers end.
                tl.compute(Time::ns(100 - tl.program_id() as u64)).await;
                if tl.program_id() == 3 {
                    return Err(KernelError::Other("three".into()));
                }
                Ok(())
            }
        };
        let result = host.run(launch(&pes[..6], true), kernel).await;
        host.sim().sleep(Time::ns(50)).await;
        (result.map(drop), host.sim().now())
    });
    machine.drive().unwrap();
    let (result, now) = ended.take().unwrap();
    let error = KernelError::Other("three".into());
    let (kernel, time, line) = ("k".to_owned(), Time::ns(97), None);
    let expected = RunError::Kernel { kernel, pe: pe(0, 0, 3), time, error, line };
    assert_eq!(result, Err(expected), "HST-2");
    assert_eq!((now, dropped.get()), (Time::ns(147), 6), "HST-2");
}

/// Returns the program, PE, begin and end of each program of a grid over some PEs, in the order of programs.
fn grid(axes: [usize; 3], pes: usize, span: fn(usize) -> Time) -> Vec<(usize, u16, Time, Time)> {
    let mut machine = Machine::new(quad(), Options::default());
    let host = machine.host(0);
    let ran = Rc::new(RefCell::new(Vec::new()));
    let noted = ran.clone();
    let ended = machine.spawn(0, "host", async move {
        let kernel = move |tl: Tl| {
            let noted = noted.clone();
            async move {
                let begin = tl.now();
                tl.compute(span(tl.program_id())).await;
                let along = [0, 1, 2].map(|axis| tl.program_id_along(axis));
                let sizes = [0, 1, 2].map(|axis| tl.num_programs_along(axis));
                let number = along[0] + sizes[0] * (along[1] + sizes[1] * along[2]);
                assert_eq!((number, tl.num_programs_along(3)), (tl.program_id(), 1));
                noted.borrow_mut().push((number, tl.pe().pe, begin, tl.now()));
                Ok(())
            }
        };
        let pes = host.pes()[..pes].to_vec();
        let shape = GridShape { axes, ..GridShape::row(0) };
        host.run_programs(launch(&pes, true), shape, kernel).await.map(drop)
    });
    let report = machine.run().unwrap();
    ended.take().unwrap().unwrap();
    let mut ran = ran.take();
    assert_eq!(ran.iter().map(|ran| ran.3).max(), Some(report.simulated));
    ran.sort_unstable();
    ran
}

#[test]
fn grd_1_pes_take_the_programs_of_a_grid_in_order() {
    let span = |program: usize| Time::ns(10 + program as u64 * 7 % 5);
    for (axes, pes) in
        [([17, 1, 1], 3), ([2, 3, 4], 5), ([6, 1, 2], 1), ([4, 1, 1], 4), ([3, 1, 1], 6)]
    {
        let mut free: Vec<(Time, u16)> =
            (0..pes).map(|pe| (Time::ZERO, u16::try_from(pe).unwrap())).collect();
        for (number, pe, begin, end) in grid(axes, pes, span) {
            // The slow way: a PE that is free first.
            let first = free.iter().map(|free| free.0).min().expect("a PE");
            let own = free.iter_mut().find(|free| **free == (first, pe));
            let own = own.unwrap_or_else(|| panic!("GRD-1: program {number} on PE {pe}"));
            assert_eq!((begin, end - begin), (first, span(number)), "GRD-1: {number}");
            own.0 = end;
        }
    }
}

#[test]
fn krn_5_a_store_to_memory_that_a_launch_only_reads_fails_its_kernel() {
    for is_awaited in [true, false] {
        let mut machine = Machine::new(quad(), Options::default());
        let host = machine.host(0);
        let [read, written] = [1.0, 2.0]
            .map(|number| machine.resident(0, 0, Value::full(DType::F32, 8, number)).unwrap());
        let ended = machine.spawn(0, "host", async move {
            let kernel = move |tl: Tl| async move {
                let tile = tl.load(&View::dense(&read, 0, 4)).await?;
                tl.store(&View::dense(&written, 0, 4), &tile).await?;
                let refused = tl.store(&View::dense(&read, 4, 4), &tile);
                if is_awaited {
                    drop(refused.await);
                }
                Ok(())
            };
            let argument = ReadOnly { argument: 7, region: read };
            let shape = GridShape { read_only: [argument].into(), ..GridShape::row(1) };
            host.run_programs(launch(&[pe(0, 0, 0)], true), shape, kernel).await.map(drop)
        });
        machine.drive().unwrap();
        let Err(RunError::Kernel { error, line, .. }) = ended.take().unwrap() else {
            panic!("KRN-5")
        };
        let address = read.address + 16;
        assert_eq!(error, KernelError::ReadOnly { address, argument: 7 }, "KRN-5");
        assert!(line.is_some(), "KRN-6");
        let content = |region| machine.read(region).unwrap().unwrap().to_f32();
        assert_eq!(content(&read), [1.0; 8], "KRN-5: nothing has changed");
        assert_eq!(content(&written)[..5], [1.0, 1.0, 1.0, 1.0, 2.0]);
    }
}

/// Returns the end of a launch after a long one on the same PE, and the time counted for the PE.
fn second_of_two(exclusive: bool) -> (Time, Time) {
    let mut machine = Machine::new(quad(), Options::default());
    let host = machine.host(0);
    let region = host.reserve(0, DType::F32, 64).unwrap();
    let end = machine.spawn(0, "host", async move {
        let (pes, other) = ([pe(0, 0, 0)], host.clone());
        let busy = host.sim().spawn("busy", async move {
            let kernel = |tl: Tl| async move {
                tl.compute(Time::us(1)).await;
                Ok(())
            };
            other.run(launch(&[pe(0, 0, 0)], true), kernel).await.map(drop)
        });
        host.sim().sleep(Time::ns(1)).await;
        let kernel = |tl: Tl| async move {
            let zeros = tl.zeros(DType::F32, 64)?;
            tl.store(&View::of(&region), &zeros).await
        };
        host.run(launch(&pes, exclusive), kernel).await.unwrap();
        let end = host.sim().now();
        busy.await.unwrap().unwrap();
        end
    });
    let report = machine.run().unwrap();
    let of_pe =
        report.stalls.iter().filter(|stalls| matches!(stalls.resource, Resource::Program(_)));
    let spent: u64 = of_pe.map(|stalls| stalls.stack.total().as_ps()).sum();
    (end.take().unwrap(), Time::ps(spent))
}

#[test]
fn hst_3_a_launch_in_the_background_takes_no_turn() {
    let (end, spent) = second_of_two(true);
    assert!(end > Time::us(1) && spent == end, "one after the other: {end}, {spent}");
    let (end, spent) = second_of_two(false);
    assert!(end < Time::ns(300), "HST-3: {end}");
    assert_eq!(
        spent,
        Time::us(1),
        "HST-3: the PE's time is put down to the program whose turn it is"
    );
}

#[test]
fn what_a_host_writes_it_reads() {
    let mut machine = Machine::new(quad(), Options::default());
    let host = machine.host(2);
    let got = machine.spawn(2, "host", async move {
        let region = host.reserve(1, DType::I32, 3).unwrap();
        let value = Some(Value::from_i32(&[4, 5, 6]));
        let cause = host.write(&region, 0, value, 3, Cause::default()).await.unwrap();
        let (value, _) = host.read(&region, 1, 2, cause).await.unwrap();
        host.free(&region);
        assert!(host.read(&region, 0, 1, cause).await.is_err());
        value.unwrap().to_i32()
    });
    machine.drive().unwrap();
    assert_eq!(got.take().unwrap(), [5, 6]);
}
