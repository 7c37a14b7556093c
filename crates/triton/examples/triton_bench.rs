//! The matrix product of Triton's own code against the same kernel written for `Tl` in Rust: prints the ratios of simulated time and of
//! CPU time as one JSON object.

#[path = "../tests/integration/rust_product.rs"]
mod rust_product;

use phalanx_sim::machine::Options;
use phalanx_sim::{DType, MachineSpec, Time};
use phalanx_torch::{Arg, Context, Error, Grid, Rank, Tensor, multiprocessing};
use phalanx_triton::{Argument, Kernel, Settings};
use rust_product::{STAGES, product, programs};
use rustix::time::{ClockId, clock_gettime};
use std::io::Write as _;

const SIZE: usize = 512;
const ROUNDS: usize = 3;

async fn tensors(rank: &Rank) -> Result<[Tensor; 3], Error> {
    let numbers: Vec<f32> =
        (0..SIZE * SIZE).map(|at| f32::from(u8::try_from(at % 7).unwrap_or(0))).collect();
    let a = rank.from_slice(&numbers, [SIZE, SIZE], DType::F16)?;
    let b = rank.from_slice(&numbers, [SIZE, SIZE], DType::F16)?;
    let c = rank.zeros([SIZE, SIZE], DType::F16)?;
    rank.synchronize().await?;
    Ok([a, b, c])
}

fn whole(number: usize) -> Argument {
    Argument::Whole(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Runs the product; returns simulated time, CPU nanoseconds and the numbers.
fn run(is_triton: bool) -> Result<(Time, i128, Vec<f32>), Box<dyn std::error::Error>> {
    let kernel = Kernel::read(include_str!("../tests/kernels/matmul.ttir"))?;
    let mut context = Context::new(MachineSpec::preset("quad-sip")?, Options::default());
    let results = multiprocessing::spawn(&mut context, 1, move |_, rank| {
        let kernel = kernel.clone();
        async move {
            let tensors = tensors(&rank).await?;
            let (begin, cpu) = (rank.now(), clock_gettime(ClockId::ThreadCPUTime));
            let programs = programs(SIZE);
            if is_triton {
                let pointer = |tensor: &Tensor| Argument::Pointer(tensor.clone(), 0);
                let mut arguments: Vec<Argument> = tensors.iter().map(pointer).collect();
                arguments.extend([SIZE, SIZE, SIZE, SIZE, 1, SIZE, 1, SIZE, 1].map(whole));
                let settings =
                    Settings { grid: [programs, 1, 1], num_stages: STAGES, ..Settings::default() };
                kernel.launch(&rank, &arguments, &[], &settings)?.wait().await?;
            } else {
                let args =
                    [Arg::read(&tensors[0]), Arg::read(&tensors[1]), Arg::write(&tensors[2])];
                let launch = rank.launch(
                    "product",
                    Grid::programs([programs]),
                    &args,
                    |tl, args| async move {
                        product(tl, [args.region(0)?, args.region(1)?, args.region(2)?], SIZE).await
                    },
                );
                launch?.wait().await?;
            }
            let simulated = rank.now() - begin;
            let numbers = tensors[2].to_vec().await?;
            let after = clock_gettime(ClockId::ThreadCPUTime);
            let nanoseconds = i128::from(after.tv_sec - cpu.tv_sec) * 1_000_000_000
                + i128::from(after.tv_nsec - cpu.tv_nsec);
            Ok((simulated, nanoseconds, numbers))
        }
    });
    Ok(results.map_err(|error| error.to_string())?.remove(0))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut simulated, mut cpu) = ([0.0; 2], [f64::MAX; 2]);
    let mut products = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for is_triton in [false, true] {
            let (time, nanoseconds, numbers) = run(is_triton)?;
            let which = usize::from(is_triton);
            simulated[which] = time.as_ps() as f64;
            cpu[which] = cpu[which].min(nanoseconds as f64);
            products[which] = numbers;
        }
    }
    if products[0] != products[1] {
        return Err("the two kernels compute different numbers".into());
    }
    let (simulated, cpu) = (simulated[1] / simulated[0], cpu[1] / cpu[0]);
    writeln!(
        std::io::stdout(),
        "{{\"simulated_ratio\": {simulated:.4}, \"cpu_ratio\": {cpu:.3}}}"
    )?;
    Ok(())
}
