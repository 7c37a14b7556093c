//! The product of Triton's code against the same kernel written for `Tl`.

use crate::kernels::{kernel, pointer};
use crate::rust_product::{STAGES, product, programs};
use phalanx_sim::machine::Options;
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Grid};
use phalanx_triton::{Argument, Settings};

const SIZE: usize = 256;

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
            let settings = Settings {
                grid: [programs(SIZE), 1, 1],
                num_stages: STAGES,
                ..Settings::default()
            };
            let text = include_str!("../kernels/matmul.ttir");
            kernel(text).launch(&rank, &arguments, &[], &settings)?.wait().await?;
        } else {
            let args = [Arg::read(&a), Arg::read(&b), Arg::write(&c)];
            let launch = rank.launch(
                "product",
                Grid::programs([programs(SIZE)]),
                &args,
                |tl, args| async move {
                    product(tl, [args.region(0)?, args.region(1)?, args.region(2)?], SIZE).await
                },
            );
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
