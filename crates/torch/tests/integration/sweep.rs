//! Sweeps of collectives: sizes and bandwidths as nccl-tests has them, results checked, and what bound them.

use crate::ranks::{ccl, machine};
use phalanx_sim::Time;
use phalanx_sim::machine::Options;
use phalanx_sim::value::DType;
use phalanx_torch::ccl::sweep::{Bound, Sweep};
use phalanx_torch::ccl::{Algorithm, Operation, ReduceOp, Tuner};
use std::rc::Rc;

fn sweep(operation: Operation, sips: u32, text: &str, data: bool) -> Sweep {
    Sweep {
        machine: machine("bare", &[&format!("system.sips.count={sips}")]),
        options: Options { data, ..Options::default() },
        ccl: ccl(text),
        operation,
        combine: ReduceOp::Sum,
        dtype: DType::F32,
        ranks: None,
    }
}

#[test]
fn swp_1_sizes_and_bandwidths_follow_nccl_tests() {
    let whole = "defaults: { algorithm: ring, slot_size: 1 MiB }";
    let row = sweep(Operation::AllReduce, 8, whole, false).measure(1 << 20, None).unwrap();
    assert_eq!((row.bytes, row.count), (1 << 20, 1 << 18));
    assert_eq!(row.out_of_place.time, Time::ns(23_128), "SWP-1: the formula");
    let algbw = 1_048_576.0 / 23_128.0;
    assert!((row.out_of_place.algbw - algbw).abs() < 1e-9);
    assert!((row.out_of_place.busbw - algbw * 14.0 / 8.0).abs() < 1e-9);
    assert_eq!(row.out_of_place.wrong, None, "SWP-2: nobody looked");
    let row = sweep(Operation::AllGather, 8, whole, false).measure(1 << 20, None).unwrap();
    assert_eq!((row.bytes, row.count), (1 << 20, 1 << 15), "SWP-1: a rank's share");
    assert_eq!(row.in_place.time, Time::ns(10_668));
    let row = sweep(Operation::AllGather, 3, whole, false).measure(1024, None).unwrap();
    assert_eq!((row.bytes, row.count), (3 * 84 * 4, 84), "SWP-1: shares of whole 16 bytes");
    let row = sweep(Operation::ReduceScatter, 8, whole, false).measure(4, None).unwrap();
    assert_eq!((row.bytes, row.count), (32, 1), "SWP-1: at least one element");
    let row = sweep(Operation::AllReduce, 1, whole, false).measure(4096, None).unwrap();
    assert!(row.out_of_place.busbw.abs() < 1e-12, "SWP-1: one rank needs no bus");
}

#[test]
fn swp_2_every_operation_and_algorithm_is_checked_element_by_element() {
    for operation in Operation::ALL {
        for name in Algorithm::names() {
            let text = format!("defaults: {{ algorithm: {name}, slot_size: 64 B, n_slots: 2 }}");
            let sweep = Sweep { dtype: DType::F16, ..sweep(operation, 3, &text, true) };
            let plan = sweep.ccl.plan(name, &Algorithm::names()).unwrap();
            if sweep.fits(&plan).is_err() {
                continue;
            }
            let row = sweep.measure(1000, Some(&plan)).unwrap();
            assert_eq!(row.algorithm, name);
            let wrong = [row.out_of_place.wrong, row.in_place.wrong];
            assert_eq!(wrong, [Some(0); 2], "SWP-2: {operation} by {name}");
        }
    }
    let product = sweep(Operation::AllReduce, 4, "defaults: { algorithm: ring }", true);
    for combine in ReduceOp::ALL {
        let row = Sweep { combine, ..product.clone() }.measure(400, None).unwrap();
        assert_eq!(row.in_place.wrong, Some(0), "SWP-2: {}", combine.name());
    }
}

#[test]
fn a_row_says_what_bound_it() {
    let bound = |bytes: u64, text: &str| {
        let text = format!("defaults: {{ algorithm: ring, {text} }}");
        sweep(Operation::AllReduce, 8, &text, false).measure(bytes, None).unwrap().bound
    };
    assert_eq!(bound(64, "n_slots: 4"), Bound::Latency);
    assert_eq!(bound(64 << 20, "n_slots: 16"), Bound::Link);
    assert_eq!(bound(16 << 20, "n_slots: 1"), Bound::Credit);
    let mut slow = sweep(Operation::AllReduce, 8, "defaults: { algorithm: ring }", false);
    slow.machine = machine("bare", &["pe.vector.bandwidth=1 GB/s"]);
    assert_eq!(slow.measure(1 << 20, None).unwrap().bound, Bound::Vector);
    slow.machine = machine("octo-ring", &["cube.hbm.bandwidth=1 GB/s"]);
    assert_eq!(slow.measure(1 << 20, None).unwrap().bound, Bound::Hbm);
}

#[test]
fn a_call_of_the_first_ranks_takes_the_time_of_its_sweep() {
    for operation in [Operation::AllReduce, Operation::AllGather, Operation::Broadcast] {
        let whole = sweep(operation, 4, "defaults: { algorithm: auto }", false);
        let row = whole.measure(1 << 16, None).unwrap();
        let tuner = Rc::new(Tuner::new(whole.machine.clone()));
        let timed = whole.time(1 << 16, None, &tuner).unwrap();
        assert_eq!((timed.time, timed.plan.name), (row.out_of_place.time, row.algorithm));
        // Behind a switch other devices make no difference.
        let behind = |sips: u32| {
            let set = [format!("system.sips.count={sips}"), "system.sips.topology=switch".into()];
            machine("bare", &set.each_ref().map(String::as_str))
        };
        let (large, small) = (behind(8), behind(3));
        let part = Sweep { machine: large.clone(), ranks: Some(3), ..whole.clone() };
        let alone = Sweep { machine: small.clone(), ..whole.clone() };
        let of = |sweep: &Sweep| {
            let tuner = Rc::new(Tuner::new(sweep.machine.clone()));
            sweep.time(1 << 16, None, &tuner).unwrap().time
        };
        assert_eq!(of(&part), of(&alone), "{operation}");
        assert_eq!(part.ranks(), 3);
    }
}
