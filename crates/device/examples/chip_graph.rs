//! A tiled matrix product on the PEs of one chip, as a graph of tasks whose order follows from the tiles they touch.
//!
//! ```text
//!   dot(a[i, k], b[k, j]) -> part[k][i, j]   one task for each i, j, k: all independent
//!   reduce(part[0..][i, j]) -> c[i, j]       one task for each i, j: behind the partial products of its tile
//! ```
//!
//! This example demonstrates in particular: tiles as views, inferred edges, times and the critical path of a graph.
//!
//! Run with `cargo run --release -p phalanx-device --example chip_graph`.
#![expect(clippy::print_stdout, reason = "an example")]

use phalanx_device::graph::{Dispatch, Outcome};
use phalanx_device::{GraphOptions, KernelTask, OpenGraph};
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::{DType, MachineSpec, machine::Options};
use phalanx_torch::{Args, Context, DpPolicy, Error, Grid, Rank, Tensor};

const TILE: usize = 128;
const TILES: usize = 4;
const SIDE: usize = TILE * TILES;

/// `part = a · b`, one tile each.
async fn dot(tl: Tl, args: Args) -> Result<(), KernelError> {
    let (a, b) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
    let product = tl.dot(&a, &b, None).await?;
    tl.store(&args.view(2)?, &product).await
}

/// `c = part 0 + part 1 + ...`
async fn reduce(tl: Tl, args: Args) -> Result<(), KernelError> {
    let mut sum = tl.load(&args.view(1)?).await?;
    for part in 1..TILES {
        let next = tl.load(&args.view(1 + part)?).await?;
        sum = tl.add(&sum, &next).await?;
    }
    tl.store(&args.view(0)?, &sum).await
}

/// Small whole numbers: every sum of products is exact.
fn number(stream: usize, index: usize) -> f32 {
    let small = index.wrapping_mul(7919).wrapping_add(stream * 104_729) % 7;
    f32::from(u8::try_from(small).unwrap_or(0)) - 3.0
}

fn tile(x: &Tensor, row: usize, column: usize) -> Result<Tensor, Error> {
    x.narrow(0, row * TILE, TILE)?.narrow(1, column * TILE, TILE)
}

/// The program of the rank: nothing in it says which task waits for which.
async fn product(cx: Rank, options: GraphOptions) -> Result<(Outcome, Vec<f32>), Error> {
    let here = cx.placed(DpPolicy::default());
    let a = here.resident([SIDE, SIDE], DType::F32, |index| number(1, index))?;
    let b = here.resident([SIDE, SIDE], DType::F32, |index| number(2, index))?;
    let c = cx.empty([SIDE, SIDE], DType::F32)?;
    let parts = cx.empty([TILES * SIDE, SIDE], DType::F32)?.chunk(TILES, 0)?;
    cx.synchronize().await?;

    let graph = cx.graph("gemm", options)?;
    for (i, j) in (0..TILES * TILES).map(|at| (at / TILES, at % TILES)) {
        let mut sum = KernelTask::new("reduce", reduce).label(format!("c[{i}, {j}]"));
        sum = sum.output(&tile(&c, i, j)?);
        for (k, part) in parts.iter().enumerate() {
            let partial = tile(part, i, j)?;
            let dot = KernelTask::new("dot", dot).label(format!("c[{i}, {j}] k={k}"));
            let dot = dot.input(&tile(&a, i, k)?).input(&tile(&b, k, j)?).output(&partial);
            graph.submit(dot).await?;
            sum = sum.input(&partial);
        }
        graph.submit(sum).await?;
    }
    let outcome = graph.finish().await?;
    Ok((outcome, c.to_vec().await?))
}

/// The same with loops.
fn reference() -> Vec<f32> {
    let [a, b] = [1, 2].map(|stream| -> Vec<f32> {
        (0..SIDE * SIDE).map(|index| number(stream, index)).collect()
    });
    let mut c = vec![0.0; SIDE * SIDE];
    for (row, line) in c.chunks_mut(SIDE).enumerate() {
        for (x, factors) in a[row * SIDE..].iter().zip(b.chunks(SIDE)) {
            line.iter_mut().zip(factors).for_each(|(sum, y)| *sum += x * y);
        }
    }
    c
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let machine = MachineSpec::preset("quad-sip")?;
    let want = reference();
    println!("{SIDE}x{SIDE}x{SIDE} in tiles of {TILE}, f32, on a chip of `quad-sip`");
    println!(
        "{:>4} {:>6} {:>6} {:>14} {:>14} {:>14}",
        "PEs", "tasks", "edges", "commands", "two at a PE", "on chip"
    );
    for pes in [1, 2, 4, 8] {
        let base = GraphOptions { pes: Grid::Pes(pes), ..GraphOptions::default() };
        let ways = [
            base.clone(),
            GraphOptions { depth: 2, ..base.clone() },
            GraphOptions { dispatch: Dispatch::OnChip(phalanx_sim::Time::ns(50)), ..base },
        ];
        let mut outcomes = Vec::new();
        for options in ways {
            let mut context = Context::new(machine.clone(), Options::default());
            let (outcome, got) = context.run(move |cx| product(cx, options.clone()))?;
            if got != want {
                return Err("the product is not that of plain loops".into());
            }
            outcomes.push(outcome);
        }
        let times: Vec<String> = outcomes.iter().map(|one| one.simulated().to_string()).collect();
        let [commands, two, chip] = &times[..] else { return Err("three ways".into()) };
        let (tasks, edges) = (outcomes[0].tasks().len(), outcomes[0].edges().len());
        println!("{pes:>4} {tasks:>6} {edges:>6} {commands:>14} {two:>14} {chip:>14}");
        if pes == 8 {
            println!(
                "the same bits as plain loops, every time; the critical path with {pes} PEs, on chip:"
            );
            for task in outcomes[2].critical_path() {
                println!("  {} `{}` on {}: {}", task.id, task.name(), task.pes[0], task.took());
            }
        }
    }
    Ok(())
}
