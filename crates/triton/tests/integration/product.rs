//! The product of Triton's code against the same kernel written for `Tl`.

use crate::kernels::{kernel, pointer};
use phalanx_sim::kernel::{Computing, KernelError, Loading, Tile, Tl, View};
use phalanx_sim::machine::Options;
use phalanx_sim::memory::Region;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Grid};
use phalanx_triton::{Argument, Settings};
use std::collections::VecDeque;

const SIZE: usize = 256;
/// Rows, columns and depth of a block, as in `tests/kernels/kernels.py`.
const BLOCK: [usize; 3] = [32, 64, 32];
const STAGES: usize = 3;
const PROGRAMS: usize = SIZE / BLOCK[0] * (SIZE / BLOCK[1]);

async fn product(tl: Tl, [left, right, out]: [Region; 3]) -> Result<(), KernelError> {
    let [rows, columns, depth] = BLOCK;
    let (down, across, group) = (SIZE / rows, SIZE / columns, 8);
    let pid = tl.program_id();
    let first = pid / (group * across) * group;
    let high = (down - first).min(group);
    let (row, column) = (first + pid % (group * across) % high, pid % (group * across) / high);
    let mut ahead: VecDeque<(Loading<Tile>, Loading<Tile>)> = VecDeque::new();
    let (mut next, mut sum) = (0, None::<Computing>);
    for _ in 0..SIZE / depth {
        while ahead.len() < STAGES && next < SIZE / depth {
            let x = View::block(&left, SIZE, (row * rows, next * depth), [rows, depth]);
            let y = View::block(&right, SIZE, (next * depth, column * columns), [depth, columns]);
            ahead.push_back((tl.load(&x), tl.load(&y)));
            next += 1;
        }
        let Some((x, y)) = ahead.pop_front() else { break };
        let (x, y) = (x.await?, y.await?);
        let before = match sum.take() {
            Some(operation) => Some(operation.await?),
            None => None,
        };
        sum = Some(tl.accumulate(&x, &y, before));
    }
    let Some(sum) = sum else { return Ok(()) };
    let result = tl.cast(&sum.await?, DType::F16).await?;
    let target = View::block(&out, SIZE, (row * rows, column * columns), [rows, columns]);
    drop(tl.store(&target, &result));
    Ok(())
}

/// Runs the product; returns its simulated time and its numbers.
fn run(is_triton: bool) -> (Time, Vec<f32>) {
    let result = crate::on("hgx-h100", Options::default(), move |rank| async move {
        let numbers: Vec<f32> =
            (0..SIZE * SIZE).map(|at| f32::from(u8::try_from(at % 7).unwrap())).collect();
        let a = rank.from_slice(&numbers, [SIZE, SIZE], DType::F16)?;
        let b = rank.from_slice(&numbers, [SIZE, SIZE], DType::F16)?;
        let c = rank.zeros([SIZE, SIZE], DType::F16)?;
        rank.synchronize().await?;
        let begin = rank.now();
        if is_triton {
            let whole = |number: usize| Argument::Whole(i64::try_from(number).unwrap());
            let mut arguments = vec![pointer(&a), pointer(&b), pointer(&c)];
            arguments.extend([SIZE, SIZE, SIZE, SIZE, 1, SIZE, 1, SIZE, 1].map(whole));
            let settings =
                Settings { grid: [PROGRAMS, 1, 1], num_stages: STAGES, ..Settings::default() };
            let text = include_str!("../kernels/matmul.ttir");
            kernel(text).launch(&rank, &arguments, &[], &settings)?.wait().await?;
        } else {
            let args = [Arg::read(&a), Arg::read(&b), Arg::write(&c)];
            let launch =
                rank.launch("product", Grid::programs([PROGRAMS]), &args, |tl, args| async move {
                    product(tl, [args.region(0)?, args.region(1)?, args.region(2)?]).await
                });
            launch?.wait().await?;
        }
        let simulated = rank.now() - begin;
        Ok((simulated, c.to_vec().await?))
    });
    result.0
}

#[test]
fn the_product_takes_the_time_of_the_same_kernel_in_rust() {
    let ((native, expected), (triton, numbers)) = (run(false), run(true));
    assert_eq!(numbers, expected);
    let difference = native.as_ps().abs_diff(triton.as_ps());
    assert!(difference * 50 <= native.as_ps(), "{triton} instead of {native}");
}
