//! A feed-forward layer over two chips, each simulated in a process of its own.
//!
//! ```text
//!   chip 0: part 0 = x[:, 0..k] · w[0..k, :] ─┐              ┌─ chip 0: y = part 0 + part 1
//!                                             ├─ one buffer ─┤
//!   chip 1: part 1 = x[:, k..] · w[k.., :] ───┘              └─ chip 1: y = part 0 + part 1
//! ```
//!
//! This example demonstrates in particular: chip callables, chips as processes, and an order that follows from the buffer
//! that both stages name.
//!
//! Run with `cargo run --release -p phalanx-torch --example node_ffn`.
#![expect(clippy::print_stdout, reason = "an example")]

use phalanx_device::SimChip;
use phalanx_runtime::{Call, Callable, DType, Failure, Program, Target, Task, Worker, register};
use phalanx_sim::MachineSpec;
use phalanx_torch::Grid;

const SIDE: usize = 64;

/// `part = x · w`, one tile each.
fn product(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "product", Grid::Pes(1), |tl, args| async move {
        let (x, w) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
        let part = tl.dot(&x, &w, None).await?;
        tl.store(&args.view(2)?, &part).await
    })
}

/// `y = part 0 + part 1`.
fn sum(task: &mut Task<'_>) -> Result<(), Failure> {
    SimChip::launch(task, "sum", Grid::Pes(1), |tl, args| async move {
        let (one, other) = tl.load_pair(&args.view(0)?, &args.view(1)?).await?;
        let y = tl.add(&one, &other).await?;
        tl.store(&args.view(2)?, &y).await
    })
}

const PRODUCT: Callable = register!(product);
const SUM: Callable = register!(sum);
static PROGRAM: Program = Program::new(&[PRODUCT, SUM]).chip(SimChip::bootstrap);

/// Small whole numbers: every sum of products is exact.
fn numbers(stream: usize) -> Vec<f32> {
    let small = |at: usize| u8::try_from((at * 31 + stream * 17) % 7).unwrap_or(0);
    (0..SIDE * SIDE).map(|at| f32::from(small(at)) - 3.0).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A chip is this program, started again.
    PROGRAM.serve_if_child();
    let machine = MachineSpec::preset("pair")?;
    let worker = Worker::builder(&PROGRAM).chips(2).setting(SimChip::setting(&machine)).init()?;
    println!("{}", worker.startup());

    let side = SIDE as u64;
    let tensor = |rows: u64| worker.tensor(DType::F32, &[rows, side]);
    let (inputs, parts) = ([0, 1, 2, 3].map(|_| tensor(side)), tensor(2 * side)?);
    let [x0, w0, x1, w1] = inputs;
    let shards = [(x0?, w0?, tensor(side)?), (x1?, w1?, tensor(side)?)];
    for (chip, (x, w, _)) in shards.iter().enumerate() {
        worker.write(x, &numbers(chip))?;
        worker.write(w, &numbers(2 + chip))?;
    }
    let part = |chip: u64| parts.rows(chip * side, (chip + 1) * side);
    let finished = worker.run("ffn", |graph| {
        for (chip, (x, w, _)) in (0..).zip(&shards) {
            let args = [x.input(), w.input(), part(u64::from(chip))?.output()];
            graph.submit_next_level(Target::Chip(chip), &Call::new(&PRODUCT).args(args))?;
        }
        // Nothing says that the sums wait for the products: they read what those write.
        for (chip, (_, _, y)) in (0..).zip(&shards) {
            let args = [part(0)?.input(), part(1)?.input(), y.output()];
            graph.submit_next_level(Target::Chip(chip), &Call::new(&SUM).args(args))?;
        }
        Ok(())
    })?;

    let mut expected = vec![0.0f32; SIDE * SIDE];
    for (x, w) in [(numbers(0), numbers(2)), (numbers(1), numbers(3))] {
        for (at, sum) in expected.iter_mut().enumerate() {
            let (row, column) = (at / SIDE, at % SIDE);
            *sum += (0..SIDE).map(|k| x[row * SIDE + k] * w[k * SIDE + column]).sum::<f32>();
        }
    }
    for (chip, (_, _, y)) in shards.iter().enumerate() {
        if worker.read::<f32>(y)? != expected {
            return Err(format!("y of chip {chip} is not that of plain loops").into());
        }
    }
    let (tasks, picoseconds) = (finished.report.tasks, finished.simulated);
    println!(
        "{tasks} tasks on 2 chips, {picoseconds} ps of chip time, the same bits as plain loops"
    );
    Ok(worker.close()?)
}
