//! A tiled product and its reduction, with inferred edges only: right, the same again, and faster with more PEs.

use super::*;
use phalanx_sim::executor::PartitionOrder;
use phalanx_sim::timeline;
use phalanx_torch::multiprocessing::spawn;
use phalanx_trace::{Format, Writer};

const TILE: usize = 16;
const TILES: usize = 3;
const SIDE: usize = TILE * TILES;

/// `partial = a · b`.
async fn dot(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
    let product = tl.dot(&a, &b, None).await?;
    tl.store(&args.view(2)?, &product).await
}

/// `c = partial 0 + partial 1 + ...`, in this order.
async fn reduce(tl: Tl, args: Args) -> Result<(), KernelError> {
    let mut sum = tl.load(&args.view(1)?).await?;
    for part in 1..TILES {
        let next = tl.load(&args.view(1 + part)?).await?;
        sum = tl.add(&sum, &next).await?;
    }
    tl.store(&args.view(0)?, &sum).await
}

fn number(stream: usize, index: usize) -> f32 {
    let small = u16::try_from(index.wrapping_mul(7919).wrapping_add(stream * 104_729) % 101);
    (f32::from(small.expect("below 101")) - 50.0) / 7.0
}

async fn product(cx: &Rank, options: GraphOptions) -> Result<(Outcome, Vec<f32>), Error> {
    let placed = cx.placed(phalanx_torch::DpPolicy::default());
    let a = placed.resident([SIDE, SIDE], DType::F32, |index| number(1, index))?;
    let b = placed.resident([SIDE, SIDE], DType::F32, |index| number(2, index))?;
    let c = cx.empty([SIDE, SIDE], DType::F32)?;
    let parts = cx.empty([TILES * SIDE, SIDE], DType::F32)?;
    cx.synchronize().await?;
    let graph = cx.graph("gemm", options)?;
    let part = |k: usize, row, column| tile(&parts.narrow(0, k * SIDE, SIDE)?, row, column, TILE);
    for (row, column) in (0..TILES * TILES).map(|at| (at / TILES, at % TILES)) {
        let mut sum = KernelTask::new("reduce", reduce).output(&tile(&c, row, column, TILE)?);
        for k in 0..TILES {
            let (left, right) = (tile(&a, row, k, TILE)?, tile(&b, k, column, TILE)?);
            let partial = part(k, row, column)?;
            graph
                .submit(KernelTask::new("dot", dot).input(&left).input(&right).output(&partial))
                .await?;
            sum = sum.input(&partial);
        }
        graph.submit(sum).await?;
    }
    Ok((graph.finish().await?, c.to_vec().await?))
}

/// The same with loops only: products of each tile summed first, then the partial sums in order.
fn reference() -> Vec<f32> {
    let mut c = vec![0.0f32; SIDE * SIDE];
    for (at, sum) in c.iter_mut().enumerate() {
        let (row, column) = (at / SIDE, at % SIDE);
        let partial = |k: usize| {
            let products = (k * TILE..(k + 1) * TILE)
                .map(|i| number(1, row * SIDE + i) * number(2, i * SIDE + column));
            products.fold(0.0f32, |sum, product| sum + product)
        };
        *sum = (1..TILES).fold(partial(0), |sum, k| sum + partial(k));
    }
    c
}

fn run(pes: usize) -> (Outcome, Vec<f32>) {
    let options = GraphOptions { pes: Grid::Pes(pes), ..GraphOptions::default() };
    let compute = move |cx| {
        let options = options.clone();
        async move { product(&cx, options).await }
    };
    quad().run(compute).expect("a product")
}

#[test]
fn grf_2_a_tiled_product_has_the_numbers_of_one_pe_and_of_plain_loops() {
    let (one, alone) = run(1);
    let (eight, together) = run(8);
    assert_eq!(alone, together, "GRF-2: bit by bit");
    let largest =
        alone.iter().zip(reference()).map(|(got, want)| (got - want).abs()).fold(0.0f32, f32::max);
    assert!(largest < 1e-2, "GRF-2: {largest} off plain loops");
    assert_eq!(one.edges().len(), TILES * TILES * TILES, "GRF-1: one for each partial product");
    let dots = |edge: &phalanx_device::graph::Edge| {
        one.task(edge.from).expect("a task").kernel == "dot"
            && one.task(edge.to).expect("a task").kernel == "reduce"
    };
    assert!(one.edges().iter().all(dots), "GRF-1");
    assert!(eight.simulated() < one.simulated(), "{} {}", eight.simulated(), one.simulated());
    assert!(eight.simulated() >= eight.critical_time());
}

#[test]
fn grf_2_whole_numbers_give_the_bits_of_plain_loops_on_every_number_of_pes() {
    for pes in [1, 2, 3, 8] {
        let sums = chip_of(pes).run(move |cx| async move { whole(&cx, pes).await });
        assert_eq!(sums.expect("sums"), [64.0 * 6.0; 16], "GRF-2: {pes} PEs");
    }
}

fn chip_of(pes: usize) -> Context {
    let columns = format!("cube.pes.columns={pes}");
    Context::new(machine("bare", &["system.sips.count=1", &columns]), Options::default())
}

/// Products of ones and sums of them: `4x64 · 64x4`, six times.
async fn whole(cx: &Rank, pes: usize) -> Result<Vec<f32>, Error> {
    let (a, b) = (cx.full([4, 64], 1.0, DType::F32)?, cx.full([64, 4], 1.0, DType::F32)?);
    let (sum, part) = (matrix(cx, 4, 4)?, matrix(cx, 4, 4)?);
    let graph = cx.graph("whole", free(pes))?;
    for _ in 0..6 {
        graph.submit(KernelTask::new("dot", dot).input(&a).input(&b).output(&part)).await?;
        let add = KernelTask::new("add", |tl: Tl, args: Args| async move {
            let (x, y) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
            let both = tl.add(&x, &y).await?;
            tl.store(&args.view(0)?, &both).await
        });
        graph.submit(add.in_out(&sum).input(&part)).await?;
    }
    graph.finish().await?;
    sum.to_vec().await
}

/// Everything a run of four ranks, each with its own graph, has shown.
fn image(partition_order: PartitionOrder) -> (Vec<u8>, Vec<String>) {
    let options = Options { record: true, partition_order, ..Options::default() };
    let mut context = Context::new(machine("quad-sip", &[]), options);
    let outcomes = spawn(&mut context, 4, |rank, cx| async move {
        // So short a budget that the watchdog looks again and again.
        let (pes, budget) = (Grid::Pes(2 + rank), Some(Time::us(1)));
        let options = GraphOptions { pes, budget, ..GraphOptions::default() };
        Ok(product(&cx, options).await?.0.to_json())
    });
    let mut writer = Writer::new(Vec::new(), Format::Perfetto).expect("a writer");
    timeline::write(&context.report(), &mut writer).expect("a trace");
    (writer.finish().expect("bytes"), outcomes.expect("four graphs"))
}

#[test]
fn grf_3_the_same_program_gives_the_same_trace_twice_and_in_any_order_of_ranks() {
    let first = image(PartitionOrder::Queued);
    assert!(first == image(PartitionOrder::Queued), "GRF-3");
    for seed in 0..3 {
        assert!(first == image(PartitionOrder::Shuffled(seed)), "GRF-3, PAR-2: seed {seed}");
    }
}

#[test]
fn grf_3_time_does_not_depend_on_numbers() {
    let time = |data| {
        let options = Options { data, ..Options::default() };
        let mut context = Context::new(machine("quad-sip", &[]), options);
        let simulated = context.run(|cx| async move {
            let x = matrix(&cx, 8, 8)?;
            let graph = cx.graph("increments", GraphOptions::default())?;
            for _ in 0..4 {
                let y = matrix(&cx, 8, 8)?;
                graph.submit(KernelTask::new("increment", increment).input(&x).output(&y)).await?;
            }
            Ok(graph.finish().await?.ended)
        });
        simulated.expect("increments")
    };
    assert_eq!(time(true), time(false));
}
