//! Outstanding requests, caches, bursts, rates by type, and products by a plan.

use crate::support::{Outcome, bare, rate, wire, without_data};
use phalanx_sim::kernel::{Gemm, GemmPlan, GemmProblem, Operand, SplitGemm, Tl, View};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::record::Resource;
use phalanx_sim::report::Report;
use phalanx_sim::spec::{CacheSpec, Efficiency, NumberType, VectorClass};
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{Bytes, Capacity, MachineSpec, Rate, Time};
use proptest::prelude::*;

/// Runs a kernel on the first PE, with memory of `elements` f32.
fn on_one_pe<F: Future<Output = Outcome> + 'static>(
    spec: MachineSpec,
    elements: usize,
    kernel: fn(Tl, Region) -> F,
) -> Report {
    let mut machine = Machine::new(spec, without_data());
    let region = machine.zeros(0, 0, DType::F32, elements).unwrap();
    machine.launch(0, "kernel", &machine.pes(0)[..1], move |tl| kernel(tl, region));
    machine.run().unwrap()
}

/// Loads eight blocks of 1000 bytes, all issued at once.
async fn eight_loads(tl: Tl, region: Region) -> Outcome {
    let loads: Vec<_> =
        (0..8).map(|block| tl.load(&View::dense(&region, block * 250, 250))).collect();
    for load in loads {
        drop(load.await?);
    }
    Ok(())
}

#[test]
fn dma_1_latencies_of_outstanding_loads_overlap() {
    let time = |outstanding| {
        let mut spec = bare();
        (spec.dma, spec.hbm.bandwidth) = (wire(10, 400).into(), rate(1000));
        spec.dma.outstanding = outstanding;
        on_one_pe(spec, 2000, eight_loads).simulated
    };
    assert_eq!(time(1), Time::ns(8 * (400 + 100)), "one after the other");
    assert_eq!(time(8), Time::ns(400 + 8 * 100), "DMA-1: one latency");
    // Two under way: each pair of requests takes the latency and the bytes of its first.
    assert_eq!(time(2), Time::ns(4 * (400 + 100) + 100), "DMA-1");
}

#[test]
fn a_load_or_store_of_no_elements_takes_the_way_of_its_region() {
    let time = |cube: u16, store: bool, at: usize| {
        let mut spec = MachineSpec::preset("quad-sip").unwrap();
        spec.hbm.latency = Time::ns(100);
        let mut machine = Machine::new(spec, without_data());
        let region = machine.zeros(0, cube, DType::F32, 64).unwrap();
        machine.launch(0, "nothing", &machine.pes(0)[..1], move |tl| async move {
            let nothing = View::dense(&region, at, 0);
            let tile = tl.load(&nothing).await?;
            if store { tl.store(&nothing, &tile).await } else { Ok(()) }
        });
        machine.run().unwrap().simulated
    };
    for store in [false, true] {
        assert_eq!(time(0, store, 0), time(0, store, 64), "at the end of a region, too");
        assert_eq!(time(1, store, 0), time(1, store, 64));
        assert!(time(1, store, 0) > time(0, store, 0), "the meshes are on the way to cube 1");
    }
}

fn cached(capacity: u64) -> MachineSpec {
    let mut spec = bare();
    spec.hbm.bandwidth = rate(1);
    spec.hbm.latency = Time::ns(100);
    let capacity = Capacity::Limited(Bytes(capacity));
    spec.cache = Some(CacheSpec { capacity, bandwidth: rate(10), latency: Time::ns(7) });
    spec
}

#[test]
fn cache_1_a_block_that_stays_is_read_from_memory_once() {
    async fn again(tl: Tl, region: Region) -> Outcome {
        for _ in 0..3 {
            drop(tl.load(&View::dense(&region, 0, 250)).await?);
        }
        Ok(())
    }
    let report = on_one_pe(cached(1000), 250, again);
    assert_eq!(report.simulated, Time::ns(1000 + 107 + 2 * (100 + 7)), "CACHE-1");
    let small = on_one_pe(cached(999), 250, again);
    assert_eq!(small.simulated, Time::ns(3 * 1100), "a block larger than the cache never is there");
}

#[test]
fn cache_1_who_loads_a_block_that_is_coming_waits_for_it() {
    let mut spec = cached(1 << 20);
    (spec.pes.rows, spec.pes.columns) = (2, 2);
    let mut machine = Machine::new(spec, without_data());
    let region = machine.zeros(0, 0, DType::F32, 250).unwrap();
    machine.launch(0, "kernel", &machine.pes(0), move |tl| async move {
        tl.load(&View::of(&region)).await.map(drop)
    });
    let report = machine.run().unwrap();
    assert_eq!(report.simulated, Time::ns(1107), "CACHE-1: the cache has sent four blocks by then");
    let hbm = report.utilisation.iter().find(|usage| matches!(usage.resource, Resource::Hbm(_)));
    assert_eq!(hbm.unwrap().bytes, 1000, "CACHE-1");
}

#[test]
fn cache_3_a_stored_block_is_written_when_it_leaves() {
    async fn stores(tl: Tl, region: Region) -> Outcome {
        let tile = tl.zeros(DType::F32, 250)?;
        for block in 0..3 {
            tl.store(&View::dense(&region, block * 250, 250), &tile).await?;
        }
        Ok(())
    }
    let report = on_one_pe(cached(2000), 750, stores);
    assert_eq!(report.simulated, Time::ns(3 * 107), "CACHE-3: nobody waits for memory");
    let hbm = report.utilisation.iter().find(|usage| matches!(usage.resource, Resource::Hbm(_)));
    assert_eq!(hbm.unwrap().bytes, 1000, "CACHE-3: one block has left");
}

#[test]
fn dense_transposed_and_sparse_loads_differ_by_their_bursts() {
    let time = |burst, load: fn(Region) -> View| {
        let mut spec = bare();
        spec.dma = wire(1, 0).into();
        spec.dma.burst = burst;
        let mut machine = Machine::new(spec, without_data());
        let region = machine.zeros(0, 0, DType::F32, 64 * 64).unwrap();
        machine.launch(0, "load", &machine.pes(0)[..1], move |tl| async move {
            tl.load(&load(region)).await.map(drop)
        });
        machine.run().unwrap().simulated
    };
    let dense: fn(Region) -> View = |region| View::dense(&region, 0, 64);
    let rows: fn(Region) -> View = |region| View::strided(&region, 0, [8, 8], [64, 1]);
    let transposed: fn(Region) -> View = |region| View::strided(&region, 0, [8, 8], [1, 64]);
    let sparse: fn(Region) -> View = |region| View::strided(&region, 0, 64, 64);
    let near: fn(Region) -> View = |region| View::strided(&region, 0, 64, 2);
    for view in [dense, rows, transposed, sparse, near] {
        assert_eq!(time(0, view), Time::ns(256), "without bursts only bytes count");
    }
    assert_eq!(time(64, dense), Time::ns(256));
    assert_eq!(time(64, rows), Time::ns(8 * 64), "a row of 32 bytes takes a burst");
    assert_eq!(time(64, transposed), Time::ns(8 * 64), "the same bytes in another order");
    assert_eq!(time(64, sparse), Time::ns(64 * 64), "one element a burst");
    assert_eq!(
        time(64, near),
        Time::ns(512),
        "every second element: the bursts between are shared"
    );
}

#[test]
fn engines_have_rates_by_type_efficiencies_and_costs_by_class() {
    let mut spec = bare();
    (spec.gemm.rate, spec.gemm.tile) = (rate(1), [10, 10, 5]);
    spec.gemm.rates[NumberType::F16 as usize] = Rate::per_second(4_000_000_000);
    spec.gemm.efficiency = Efficiency::millionths(500_000).unwrap();
    spec.vector = rate(1);
    spec.vector_costs.0[VectorClass::Exp as usize] = 3;
    let time = |spec: &MachineSpec,
                kernel: fn(Tl) -> std::pin::Pin<Box<dyn Future<Output = Outcome>>>| {
        let mut machine = Machine::new(spec.clone(), without_data());
        machine.launch(0, "kernel", &machine.pes(0)[..1], kernel);
        machine.run().unwrap().simulated
    };
    let dot = |dtype: DType| -> fn(Tl) -> std::pin::Pin<Box<dyn Future<Output = Outcome>>> {
        match dtype {
            DType::F16 => |tl| Box::pin(dot_of(tl, DType::F16)),
            _ => |tl| Box::pin(dot_of(tl, DType::F32)),
        }
    };
    assert_eq!(time(&spec, dot(DType::F32)), Time::ns(2 * 1000));
    assert_eq!(time(&spec, dot(DType::F16)), Time::ns(2 * 250));
    assert_eq!(time(&spec, |tl| Box::pin(exp_and_add(tl))), Time::ns(3 * 400 + 400));
    spec.hbm.bandwidth = rate(1);
    spec.hbm.efficiency = Efficiency::millionths(250_000).unwrap();
    assert_eq!(on_one_pe(spec, 2000, eight_loads).simulated, Time::ns(8 * 4000));
}

async fn dot_of(tl: Tl, dtype: DType) -> Outcome {
    let (left, right) = (tl.zeros(dtype, [10, 5])?, tl.zeros(dtype, [5, 10])?);
    tl.dot(&left, &right, None).await.map(drop)
}

async fn exp_and_add(tl: Tl) -> Outcome {
    let tile = tl.zeros(DType::F32, 100)?;
    let power = tl.exp(&tile).await?;
    tl.add(&power, &tile).await.map(drop)
}

/// Computes a product by a plan on four PEs with a cache; returns the numbers of `c`.
fn product(dims: [usize; 3], plan: GemmPlan, (left, right): (&[f32], &[f32])) -> Vec<f32> {
    let [rows, columns, depth] = dims;
    let mut spec = cached(1 << 10);
    (spec.pes.rows, spec.pes.columns) = (2, 2);
    spec.dma = wire(4, 20).into();
    spec.dma.outstanding = 3;
    let mut machine = Machine::new(spec, Options::default());
    let a = machine.resident(0, 0, Value::from_f32(DType::F32, left)).unwrap();
    let b = machine.resident(0, 0, Value::from_f32(DType::F32, right)).unwrap();
    let c = machine.zeros(0, 0, DType::F32, rows * columns).unwrap();
    let sums = SplitGemm::sums(dims, &plan);
    let sums = (sums > 0).then(|| machine.empty(0, 0, DType::F32, sums).unwrap());
    let gemm = Gemm {
        a: Operand::row_major(a, depth),
        b: Operand::row_major(b, columns),
        c: Operand::row_major(c, columns),
        dims,
        tile: plan.tile,
        buffers: 1,
        share: (0, 1),
    };
    let product = SplitGemm { gemm, plan, launch: (0, 1), sums };
    machine.launch(0, "gemm", &machine.pes(0), move |tl| async move { product.run(&tl).await });
    machine.run().unwrap_or_else(|error| panic!("{plan:?}: {error}"));
    machine.read(&c).unwrap().unwrap().to_f32()
}

proptest! {
    #[test]
    fn gem_1_any_plan_gives_the_product(
        dims in [1..20usize, 1..20, 1..20],
        tile in [1..9usize, 1..9, 1..5],
        (parts, buffers, rows_together) in (1..6usize, 1..5u32, 1..5usize),
        seed in any::<u8>(),
    ) {
        let [m, n, k] = dims;
        let split_k = parts.min(k.div_ceil(tile[2]));
        let plan = GemmPlan { tile, split_k, buffers, rows_together };
        // Small whole numbers: every order of additions gives the same.
        let number = |at: usize, by: usize| [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0][(at * by + usize::from(seed)) % 7];
        let a: Vec<f32> = (0..m * k).map(|at| number(at, 5)).collect();
        let b: Vec<f32> = (0..k * n).map(|at| number(at, 3)).collect();
        let expected: Vec<f32> = (0..m * n)
            .map(|at| (0..k).map(|step| a[at / n * k + step] * b[step * n + at % n]).sum())
            .collect();
        prop_assert_eq!(product(dims, plan, (&a, &b)), expected, "GEM-1: {:?}", plan);
    }
}

#[test]
fn the_fastest_plan_splits_k_for_one_row_and_not_for_a_large_square() {
    let spec = MachineSpec::preset("hgx-h100").unwrap();
    let (dtype, pes) = (DType::Bf16, 132);
    let plan = |dims| {
        let product = GemmProblem { dims, dtype, pes, buffers: 5, tile: None, split_k: None };
        GemmPlan::fastest(&spec, &product)
    };
    assert!(plan([1, 512, 16_384]).split_k > 1);
    let large = plan([4096, 4096, 4096]);
    assert_eq!((large.split_k, large.tile[0] * large.tile[1]), (1, 128 * 256));
    let (tile, split_k) = (Some([64, 32, 128]), Some(3));
    let product = GemmProblem { dims: [64, 64, 4096], dtype, pes, buffers: 2, tile, split_k };
    let given = GemmPlan::fastest(&spec, &product);
    assert_eq!((given.tile, given.split_k, given.buffers), ([64, 32, 128], 3, 2));
}
