//! The requests of a host to its SIP.

use crate::support::{pe, quad};
use phalanx_sim::kernel::{KernelError, Tl, View};
use phalanx_sim::machine::{Cause, Launch, Machine, Options, RunError};
use phalanx_sim::record::Resource;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Time, topology::PeId};
use std::cell::Cell;
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
