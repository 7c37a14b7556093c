//! The order of operations on one PE: values, stores, engines.

use crate::support::{bare, computed, rate, solo, wire, without_data};
use phalanx_sim::kernel::{Computing, Tile, Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::report::Report;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{Compare, DType, Value};
use phalanx_sim::{MachineSpec, Time};

/// DMA of 1 B/ns with 10 ns latency, vector engine of 1 B/ns, matrix engine of 1 FLOP/ns.
fn slow() -> MachineSpec {
    let mut spec = bare();
    (spec.dma, spec.vector, spec.gemm.rate) = (wire(1, 10).into(), rate(1), rate(1));
    spec.gemm.tile = [2, 2, 2];
    spec
}

fn time<F>(kernel: impl Fn(Tl, phalanx_sim::memory::Region) -> F + 'static) -> Report
where
    F: Future<Output = crate::support::Outcome> + 'static,
{
    let mut machine = Machine::new(slow(), Options::default());
    let region = machine.zeros(0, 0, DType::F32, 25).unwrap();
    machine.launch(0, "kernel", &[PeId::first(0)], move |tl| kernel(tl, region));
    machine.run().unwrap()
}

#[test]
fn krn_2_a_tile_keeps_its_value_when_its_origin_is_overwritten() {
    let got = computed(&[], &Value::full(DType::F32, 4, 3.0), |tl, _, out| async move {
        let view = View::of(&out);
        let old = tl.load(&view).await?;
        let late = tl.load(&view);
        tl.store(&view, &tl.full(DType::F32, 4, 10.0)?).await?;
        let sum = tl.add(&old, &late.await?).await?;
        assert_eq!(tl.item(&old, 0)?, 3.0, "KRN-2");
        tl.store(&view, &tl.add(&sum, &tl.load(&view).await?).await?).await
    });
    assert_eq!(got, Array::new(DType::F32, &[16.0; 4]), "KRN-2: 3 + 3 + 10");
}

#[test]
fn krn_3_stores_take_effect_in_the_order_they_are_issued() {
    let got = computed(&[], &Value::zeros(DType::F32, 4), |tl, _, out| async move {
        for number in 1..4 {
            drop(tl.store(&View::dense(&out, 0, 4), &tl.full(DType::F32, 4, number.into())?));
        }
        drop(tl.store(&View::dense(&out, 1, 2), &tl.full(DType::F32, 2, -1.0)?));
        Ok(())
    });
    assert_eq!(got, Array::new(DType::F32, &[3.0, -1.0, -1.0, 3.0]), "KRN-3");
}

#[test]
fn krn_3_stores_are_over_when_the_kernel_ends() {
    let report = time(|tl, region| async move {
        for _ in 0..3 {
            drop(tl.store(&View::of(&region), &tl.zeros(DType::F32, 25)?));
        }
        assert_eq!(tl.now(), Time::ZERO, "issuing takes no time");
        Ok(())
    });
    assert_eq!(report.simulated, Time::ns(3 * 110), "KRN-3");
}

#[test]
fn krn_3_stores_are_over_when_a_barrier_is_passed() {
    let report = time(|tl, region| async move {
        drop(tl.store(&View::of(&region), &tl.zeros(DType::F32, 25)?));
        tl.barrier().await;
        assert_eq!(tl.now(), Time::ns(110), "KRN-3");
        Ok(())
    });
    assert_eq!(report.simulated, Time::ns(110));
}

#[test]
fn krn_4_loads_wait_for_each_other_and_not_for_stores() {
    let report = time(|tl, region| async move {
        let view = View::of(&region);
        let loads = [tl.load(&view), tl.load(&view)];
        drop(tl.store(&view, &tl.zeros(DType::F32, 25)?));
        for (number, load) in (1..).zip(loads) {
            drop(load.await?);
            assert_eq!(tl.now(), Time::ns(number * 110), "KRN-4");
        }
        Ok(())
    });
    assert_eq!(report.simulated, Time::ns(220), "KRN-4");
}

#[test]
fn krn_4_each_engine_does_one_thing_after_another() {
    let report = time(|tl, _| async move {
        let (x, m) = (tl.zeros(DType::F32, 25)?, tl.zeros(DType::F32, [2, 2])?);
        let sums = [tl.add(&x, &x), tl.exp(&x)];
        let products = [tl.dot(&m, &m, None), tl.dot(&m, &m, None)];
        for (number, product) in (1..).zip(products) {
            drop(product.await?);
            assert_eq!(tl.now(), Time::ns(number * 16), "KRN-4: the engines work side by side");
        }
        for (number, sum) in (1..).zip(sums) {
            drop(sum.await?);
            assert_eq!(tl.now(), Time::ns(number * 100), "KRN-4");
        }
        Ok(())
    });
    assert_eq!(report.simulated, Time::ns(200));
}

#[test]
fn a_load_of_two_views_pays_the_latency_once() {
    let report = time(|tl, region| async move {
        tl.load_pair(&View::dense(&region, 0, 10), &View::dense(&region, 5, 15)).await.map(drop)
    });
    assert_eq!(report.simulated, Time::ns(10 + 100));
}

#[test]
fn programs_on_one_pe_run_one_after_another() {
    let mut machine = Machine::new(slow(), without_data());
    for _ in 0..3 {
        machine.launch(0, "nap", &[PeId::first(0)], |tl| async move {
            tl.compute(Time::ns(5)).await;
            Ok(())
        });
    }
    assert_eq!(machine.run().unwrap().simulated, Time::ns(15));
}

#[test]
fn a_kernel_that_does_nothing_takes_no_time() {
    assert_eq!(
        solo(bare(), Options::default(), |_| async { Ok(()) }).unwrap().simulated,
        Time::ZERO
    );
}

/// Returns the nanoseconds, and so the bytes, that a vector operation takes on tiles of zeros of two shapes.
fn charged<F>(dtype: DType, shapes: [[usize; 2]; 2], operation: F) -> u64
where
    F: Fn(&Tl, &Tile, &Tile) -> Computing + Clone + 'static,
{
    let report = solo(slow(), without_data(), move |tl| {
        let operation = operation.clone();
        async move {
            let [left, right] = shapes.map(|shape| tl.zeros(dtype, shape));
            operation(&tl, &left?, &right?).await.map(drop)
        }
    });
    report.unwrap().simulated.as_ps() / 1_000
}

#[test]
fn a_comparison_takes_as_long_as_a_sum_of_the_same_joint_shape() {
    let outer = [[30, 1], [1, 20]];
    let less = |tl: &Tl, x: &Tile, y: &Tile| tl.compare(Compare::Lt, x, y);
    assert_eq!(charged(DType::F32, outer, Tl::add), 30 * 20 * 4);
    assert_eq!(charged(DType::F32, outer, less), 30 * 20 * 4);
    assert_eq!(charged(DType::F16, outer, less), 30 * 20 * 4, "the result is of i32");
}

#[test]
fn a_cast_and_a_selection_take_the_bytes_of_their_largest_tile() {
    let shapes = [[3, 5], [3, 5]];
    let cast = |to| move |tl: &Tl, x: &Tile, _: &Tile| tl.cast(x, to);
    assert_eq!(charged(DType::F16, shapes, cast(DType::F32)), 15 * 4, "the result is the larger");
    assert_eq!(charged(DType::F32, shapes, cast(DType::F16)), 15 * 4, "the operand is the larger");
    assert_eq!(charged(DType::F16, shapes, cast(DType::Bf16)), 15 * 2);
    let select = |tl: &Tl, x: &Tile, y: &Tile| match tl.zeros(DType::I32, [3, 5]) {
        Ok(condition) => tl.select(&condition, x, y),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(charged(DType::F16, shapes, select), 15 * 4, "the condition is of i32");
}
