//! Memory, scratch and engines: limits of capacity, shared bandwidth, errors.

use crate::support::{bare, limited, pe, quad, rate, solo, wire, without_data};
use phalanx_sim::kernel::{KernelError, Mask, View};
use phalanx_sim::machine::{Machine, Options, RunError};
use phalanx_sim::memory::{MemoryError, Region};
use phalanx_sim::report::Report;
use phalanx_sim::spec::GridSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Bytes, MachineSpec, Time};
use proptest::prelude::*;

fn with_scratch(bytes: u64) -> MachineSpec {
    MachineSpec { tcm: limited(bytes), ..bare() }
}

#[test]
fn krn_1_scratch_that_is_full_is_an_error_that_names_kernel_and_bytes() {
    let error = solo(with_scratch(1024), Options::default(), |tl| async move {
        let _first = tl.zeros(DType::F32, 200)?;
        tl.zeros(DType::F16, 113).map(drop)
    });
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with(
            "kernel `solo` on sip0.cube0.pe0 failed at 0 ns: out of scratch: 226 B wanted for a constant, 224 B of 1 KiB \
             free ("
        ),
        "KRN-1: {text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn krn_1_tiles_never_exceed_scratch(sizes in prop::collection::vec((1..80usize, any::<bool>()), 1..40)) {
        let report = solo(with_scratch(1000), Options::default(), move |tl| {
            let sizes = sizes.clone();
            async move {
                let mut tiles = Vec::new();
                for (elements, keep) in sizes {
                    let used: u64 = tiles.iter().map(phalanx_sim::kernel::Tile::bytes).sum();
                    let wanted = elements as u64 * 4;
                    match tl.zeros(DType::F32, elements) {
                        Ok(tile) => {
                            assert!(used + wanted <= 1000, "KRN-1: {used} and {wanted}");
                            tiles.push(tile);
                        }
                        Err(KernelError::ScratchFull { free, .. }) => {
                            assert_eq!(free, Bytes(1000 - used), "KRN-1");
                            assert!(wanted > free.0, "KRN-1: {wanted} fit");
                        }
                        Err(other) => return Err(other),
                    }
                    if !keep {
                        tiles.pop();
                    }
                }
                Ok(())
            }
        });
        prop_assert!(report.is_ok(), "{:?}", report);
    }
}

#[test]
fn krn_1_slots_take_scratch_until_their_receiver_is_dropped() {
    let edge = phalanx_sim::ipcq::EdgeSpec { n_slots: 2, slot_size: 512, ..Default::default() };
    let report = solo(with_scratch(1024), Options::default(), move |tl| async move {
        let slots = tl.receiver(PeId::first(1), edge)?;
        assert!(tl.zeros(DType::F32, 1).is_err(), "KRN-1");
        drop(slots);
        tl.zeros(DType::F32, 256).map(drop)
    });
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn mem_1_the_memory_of_a_cube_is_bounded_and_given_back() {
    let mut spec = quad();
    spec.hbm.capacity = limited(4096);
    let machine = Machine::new(spec, Options::default());
    let first = machine.zeros(2, 3, DType::F32, 1000).unwrap();
    let full = machine.zeros(2, 3, DType::F32, 25).unwrap_err();
    assert!(
        matches!(full, MemoryError::Full { sip: 2, cube: 3, free: Bytes(96), .. }),
        "MEM-1: {full}"
    );
    assert!(machine.zeros(2, 2, DType::F32, 1000).is_ok());
    machine.free(&first);
    assert!(machine.zeros(2, 3, DType::F32, 1024).is_ok(), "MEM-5");
}

/// Every PE of the first cube loads `bytes` of its memory at once.
fn loading_together(pes: u32, dma: u64, hbm: u64, bytes: usize) -> Report {
    let mut spec = bare();
    spec.pes = GridSpec { rows: 1, columns: pes, ..spec.pes };
    (spec.dma, spec.hbm.bandwidth) = (wire(dma, 0), rate(hbm));
    let mut machine = Machine::new(spec, without_data());
    let region = machine.zeros(0, 0, DType::F32, bytes / 4).unwrap();
    machine.launch(0, "load", &machine.pes(0), move |tl| async move {
        tl.load(&View::of(&region)).await.map(drop)
    });
    machine.run().unwrap()
}

#[test]
fn hbm_bandwidth_is_shared_by_those_who_load_together() {
    assert_eq!(loading_together(1, 16, 16, 1600).simulated, Time::ns(100));
    assert_eq!(loading_together(2, 16, 16, 1600).simulated, Time::ns(200));
    // Eight of 8 B/ns each, though each could take 16.
    assert_eq!(loading_together(8, 16, 64, 1600).simulated, Time::ns(200));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn nobody_loads_faster_than_the_stack_gives(pes in 1..9u32, dma in 1..64u64, hbm in 1..64u64, words in 1..500usize) {
        let report = loading_together(pes, dma, hbm, words * 4);
        let bytes = words as u64 * 4;
        let bound = rate(hbm).time_for(bytes * u64::from(pes)).max(rate(dma).time_for(bytes));
        prop_assert!(report.simulated >= bound, "{} {}", report.simulated, bound);
    }
}

/// Returns the error of a kernel that loads `view` of a region.
fn load_refused(
    options: Options,
    view: impl Fn(&Region) -> View + 'static,
) -> Result<Report, RunError> {
    let mut machine = Machine::new(bare(), options);
    let region = machine.empty(0, 0, DType::F32, 10).unwrap();
    machine.launch(0, "reader", &[PeId::first(0)], move |tl| {
        let view = view(&region);
        async move {
            let tile = tl.load(&view).await?;
            if tl.has_data() {
                assert!(tl.item(&tile, 0)?.is_nan(), "MEM-3: poison");
            }
            Ok(())
        }
    });
    machine.run()
}

#[test]
fn mem_3_unwritten_memory_names_address_and_kernel_or_reads_as_nan() {
    let text = load_refused(Options::default(), |region| View::dense(region, 3, 2))
        .unwrap_err()
        .to_string();
    let words = "kernel `reader` on sip0.cube0.pe0 failed at 0 ns: address 0x100c of sip0 was read but never written (";
    assert!(text.starts_with(words), "MEM-3: {text}");
    let lenient = Options { strict: false, ..Options::default() };
    assert!(load_refused(lenient, |region| View::dense(region, 3, 2)).is_ok(), "MEM-3");
    assert!(load_refused(without_data(), |region| View::dense(region, 3, 2)).is_ok());
}

#[test]
fn mem_2_unmapped_addresses_and_wrong_types_are_refused_with_and_without_data() {
    for options in [Options::default(), without_data()] {
        let beyond = load_refused(options.clone(), |region| View::dense(region, 8, 3))
            .unwrap_err()
            .to_string();
        assert!(
            beyond.contains("address 0x1028 of sip0 is not mapped; the region before it is 0x1000..0x1028 (10 x f32)"),
            "MEM-2: {beyond}"
        );
        let null = |region: &Region| View { address: 0, ..View::of(region) };
        let text = load_refused(options.clone(), null).unwrap_err().to_string();
        assert!(text.contains("address 0x0 of sip0 is not mapped"), "MEM-2: {text}");
        let typed = |region: &Region| View { dtype: DType::I32, ..View::of(region) };
        let text = load_refused(options, typed).unwrap_err().to_string();
        assert!(text.contains("address 0x1000 of sip0 holds f32, not i32"), "MEM-2: {text}");
    }
}

#[test]
fn mem_6_an_address_inside_an_element_is_refused_whatever_the_mask() {
    let each = || Mask::Each([true, false, true].into());
    for mask in [|| Mask::All, || Mask::below(2), each] {
        for options in [Options::default(), without_data()] {
            let odd = move |region: &Region| {
                let view = View::dense(region, 0, 3).masked(mask());
                View { address: view.address + 2, ..view }
            };
            let text = load_refused(options, odd).unwrap_err().to_string();
            let expected = "address 0x1002 of sip0 is in the middle of an element: the f32 there begins at 0x1000";
            assert!(text.contains(expected), "MEM-6: {text}");
        }
    }
}

#[test]
fn memory_of_another_cube_is_reached_over_the_mesh() {
    let time = |cube| {
        let mut machine = Machine::new(quad(), Options::default());
        let region = machine.resident(0, cube, Value::zeros(DType::F32, 1024)).unwrap();
        machine.launch(0, "load", &[pe(0, 0, 5)], move |tl| async move {
            tl.load(&View::of(&region)).await.map(drop)
        });
        // The command from the host.
        machine.run().unwrap().simulated - Time::us(1) - Time::ns(1)
    };
    // 50 ns DMA latency, 100 ns HBM latency, and 4 KiB at the slowest, the DMA's 256 B/ns (NOC-1).
    assert_eq!(time(0), Time::ps(50_000 + 100_000 + 16_000));
    // Two wires of 20 ns between cubes; PE 5 is in row 1, column 1: two wires of 5 ns.
    assert_eq!(time(3), Time::ps(50_000 + 100_000 + 2 * 20_000 + 2 * 5_000 + 16_000));
}
