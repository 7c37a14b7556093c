//! Contention inside a SIP: who is served first, and when a wire may be idle.

use crate::support::{bare, pe, rate, wire, without_data};
use phalanx_sim::kernel::{Tl, View};
use phalanx_sim::machine::Machine;
use phalanx_sim::memory::Region;
use phalanx_sim::spec::GridSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// Returns one SIP of two cubes with a row of PEs each: 100 ns from PE to PE, 16 B/ns from cube to cube.
fn two_cubes(pes: u32) -> MachineSpec {
    let mut spec = bare();
    spec.sips.count = 1;
    spec.pes = GridSpec { rows: 1, columns: pes, link: wire(1_000, 100) };
    spec.cubes = GridSpec { rows: 1, columns: 2, link: wire(16, 0) };
    spec
}

/// A store of 1 600 bytes by a PE of the first cube.
#[derive(Clone, Copy)]
struct Store {
    pe: u16,
    at: Time,
}

/// Runs stores to the memory of the second cube; returns their ends, in the order of PEs.
fn ends_of(spec: MachineSpec, stores: &'static [Store]) -> Vec<u64> {
    let mut machine = Machine::new(spec, without_data());
    let region = machine.zeros(0, 1, DType::F32, 400).unwrap();
    let ends = Rc::new(RefCell::new(vec![0; stores.len()]));
    let pes: Vec<PeId> = stores.iter().map(|store| pe(0, 0, store.pe)).collect();
    let told = ends.clone();
    machine.launch(0, "stores", &pes, move |tl| store_once(tl, region, stores, told.clone()));
    machine.run().unwrap();
    ends.take()
}

async fn store_once(
    tl: Tl,
    region: Region,
    stores: &'static [Store],
    ends: Rc<RefCell<Vec<u64>>>,
) -> crate::support::Outcome {
    let program = tl.program_id();
    tl.compute(stores[program].at).await;
    let tile = tl.zeros(DType::F32, 400)?;
    tl.store(&View::of(&region), &tile).await?;
    ends.borrow_mut()[program] = tl.now().as_ps() / 1_000;
    Ok(())
}

#[test]
fn wir_3_a_wire_serves_in_the_order_of_arrival_not_of_issue() {
    const LATE: Store = Store { pe: 0, at: Time::ns(199) };
    const FAR: Store = Store { pe: 2, at: Time::ZERO };
    const NEAR: Store = Store { pe: 0, at: Time::ns(50) };
    // From PE 2 the head needs 200 ns to the wire between the cubes; the store of PE 0 is over by then.
    let mut ends = ends_of(two_cubes(3), &[FAR, NEAR]);
    assert_eq!(ends, [300, 150], "WIR-3");
    // A near store that is issued much later but arrives first goes first, and the other waits for it.
    ends = ends_of(two_cubes(3), &[FAR, LATE]);
    assert_eq!(ends, [399, 299], "WIR-3");
}

#[test]
fn wir_4_a_wire_is_not_idle_while_somebody_waits() {
    // Nine stores arrive 100 ns apart and take 100 ns each: the wire is busy from the first to the last.
    const STORES: [Store; 9] = {
        let mut stores = [Store { pe: 0, at: Time::ZERO }; 9];
        let mut pe = 0;
        while pe < 9 {
            stores[pe as usize].pe = pe;
            pe += 1;
        }
        stores
    };
    let ends = ends_of(two_cubes(9), &STORES);
    assert_eq!(ends, (1..=9).map(|end| end * 100).collect::<Vec<u64>>(), "WIR-4");
}

#[test]
fn flt_1_heads_that_arrive_together_are_served_in_order_of_issue() {
    const FIRST: Store = Store { pe: 1, at: Time::ZERO };
    const SECOND: Store = Store { pe: 0, at: Time::ns(100) };
    assert_eq!(ends_of(two_cubes(2), &[FIRST, SECOND]), [200, 300], "FLT-1");
    assert_eq!(ends_of(two_cubes(2), &[SECOND, FIRST]), [300, 200], "FLT-1");
}

#[test]
fn flt_2_the_order_of_waiting_decides_the_order_of_resuming() {
    // PE 0 loads over the wire between the cubes, whose end is known late; PE 1 loads what is near.
    let mut spec = two_cubes(2);
    spec.cubes.link = wire(16, 100);
    spec.hbm.bandwidth = rate(16);
    let spec = &spec;
    let order = |swapped: bool| {
        let mut machine = Machine::new(spec.clone(), without_data());
        let far = machine.zeros(0, 1, DType::F32, 400).unwrap();
        let near = machine.zeros(0, 0, DType::F32, 400).unwrap();
        let resumed = Rc::new(RefCell::new(Vec::new()));
        let pes = [pe(0, 0, u16::from(swapped)), pe(0, 0, u16::from(!swapped))];
        let told = resumed.clone();
        machine.launch(0, "loads", &pes, move |tl| {
            let told = told.clone();
            async move {
                let is_far = tl.pe().pe == 0;
                let _tile = tl.load(&View::of(if is_far { &far } else { &near })).await?;
                if !is_far {
                    // 100 ns of memory, and 100 ns more: both end at 200 ns.
                    tl.compute(Time::ns(100)).await;
                }
                told.borrow_mut().push((tl.pe().pe, tl.now()));
                Ok(())
            }
        });
        machine.run().unwrap();
        resumed.take()
    };
    let both = [(0, Time::ns(200)), (1, Time::ns(200))];
    assert_eq!(order(false), both, "FLT-2: who began to wait first");
    assert_eq!(order(true), both, "FLT-2: PE 1 began its last wait later");
}

/// Loads of many PEs at once keep their memory busy, whatever their number.
#[test]
fn wir_4_more_than_64_pes_lose_no_memory_time() {
    for pes in [1, 64, 65, 200] {
        let mut spec = bare();
        spec.sips.count = 1;
        spec.pes = GridSpec { rows: 1, columns: pes, ..spec.pes };
        (spec.dma, spec.hbm.bandwidth) = (wire(16, 70).into(), rate(64));
        let mut machine = Machine::new(spec, without_data());
        let region = machine.zeros(0, 0, DType::F32, 4_000).unwrap();
        machine.launch(0, "load", &machine.pes(0), move |tl| async move {
            tl.load(&View::of(&region)).await.map(drop)
        });
        let span = Time::ns(1_000.max(250 * u64::from(pes)));
        assert_eq!(machine.run().unwrap().simulated, Time::ns(70) + span, "WIR-4: {pes} PEs");
    }
}

/// The example of the guide: a mesh that is faster by 1 ns per hop makes a run slower by 99 ns.
#[test]
fn wir_3_a_faster_mesh_can_make_a_run_slower() {
    let simulated = |latency: u64| {
        let mut spec = two_cubes(3);
        spec.pes.link = wire(1_000, latency);
        let mut machine = Machine::new(spec, without_data());
        let region = machine.zeros(0, 1, DType::F32, 400).unwrap();
        machine.launch(0, "far and near", &[pe(0, 0, 2), pe(0, 0, 0)], move |tl| async move {
            let is_near = tl.pe().pe == 0;
            if is_near {
                tl.compute(Time::ns(199)).await;
            }
            let tile = tl.zeros(DType::F32, 400)?;
            tl.store(&View::of(&region), &tile).await?;
            if is_near {
                tl.compute(Time::ns(1_000)).await;
            }
            Ok(())
        });
        machine.run().unwrap().simulated
    };
    assert_eq!(simulated(100), Time::ns(199 + 100 + 1_000), "the near store goes first");
    assert_eq!(simulated(99), Time::ns(198 + 100 + 100 + 1_000), "the far store goes first");
}
