//! The results of kernels, and the errors of kernels that fail.
#![expect(
    clippy::many_single_char_names,
    clippy::float_cmp,
    reason = "matrices have one letter, and results are exact"
)]

use crate::{failure, on};
use phalanx_sim::DType;
use phalanx_sim::machine::Options;
use phalanx_sim::value::Buffer;
use phalanx_torch::Tensor;
use phalanx_triton::{Argument, Kernel, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) fn kernel(text: &str) -> Kernel {
    Kernel::read(text).unwrap_or_else(|error| panic!("{error}"))
}

const ADD: &str = include_str!("../kernels/add.ttir");
const MATMUL: &str = include_str!("../kernels/matmul.ttir");
const SOFTMAX: &str = include_str!("../kernels/softmax.ttir");
const SHAPES: &str = include_str!("../kernels/shapes.ttir");
const LOCKED: &str = include_str!("../kernels/locked.ttir");
const PLACED: &str = include_str!("../kernels/placed.ttir");
const DESCRIBED: &str = include_str!("../kernels/described.ttir");

pub(crate) fn pointer(tensor: &Tensor) -> Argument {
    Argument::Pointer(tensor.clone(), 0)
}

fn whole(number: usize) -> Argument {
    Argument::Whole(i64::try_from(number).unwrap())
}

fn grid(axes: [usize; 3]) -> Settings {
    Settings { grid: axes, num_stages: 3, ..Settings::default() }
}

/// Small numbers that f16 holds exactly.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| f32::from(u8::try_from((at * 7 + seed * 13) % 11).unwrap()) - 5.0).collect()
}

#[test]
fn tex_1_vector_add_with_a_ragged_end() {
    let (sum, _) = on("quad-sip", Options::default(), |rank| async move {
        let n = 5000;
        let x = rank.from_slice(&numbers(n, 1), [n], DType::F32)?;
        let y = rank.from_slice(&numbers(n, 2), [n], DType::F32)?;
        let out = rank.zeros([n], DType::F32)?;
        let arguments = [pointer(&x), pointer(&y), pointer(&out), whole(n)];
        kernel(ADD).launch(&rank, &arguments, &[], &grid([5, 1, 1]))?.wait().await?;
        out.to_vec().await
    });
    let (x, y) = (numbers(5000, 1), numbers(5000, 2));
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(sum, expected, "TEX-1");
}

fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let at =
        |row: usize, column: usize| (0..k).map(|i| a[row * k + i] * b[i * n + column]).sum::<f32>();
    (0..m * n).map(|place| at(place / n, place % n)).collect()
}

fn run_matmul(
    machine: &str,
    [m, n, k]: [usize; 3],
    num_stages: usize,
) -> (Vec<f32>, phalanx_sim::Time) {
    on(machine, Options::default(), move |rank| async move {
        let a = rank.from_slice(&numbers(m * k, 1), [m, k], DType::F16)?;
        let b = rank.from_slice(&numbers(k * n, 2), [k, n], DType::F16)?;
        let c = rank.zeros([m, n], DType::F16)?;
        let mut arguments = vec![pointer(&a), pointer(&b), pointer(&c)];
        arguments.extend([m, n, k, k, 1, n, 1, n, 1].map(whole));
        let programs = m.div_ceil(32) * n.div_ceil(64);
        let settings = Settings { num_stages, ..grid([programs, 1, 1]) };
        kernel(MATMUL).launch(&rank, &arguments, &[], &settings)?.wait().await?;
        c.to_vec().await
    })
}

#[test]
fn tex_1_matrix_product() {
    let dims = [64, 128, 96];
    let (c, _) = run_matmul("quad-sip", dims, 3);
    assert_eq!(c, product(&numbers(64 * 96, 1), &numbers(96 * 128, 2), dims), "TEX-1");
}

#[test]
fn tex_4_loads_ahead_save_time_and_change_no_bit() {
    // A machine whose DMA has several loads under way.
    let run = |stages| run_matmul("hgx-h100", [64, 64, 512], stages);
    let ((one, slow), (three, fast)) = (run(1), run(3));
    assert_eq!(one, three, "TEX-4");
    assert!(fast < slow, "TEX-4: {fast} with three stages, {slow} with one");
}

#[test]
fn tex_1_softmax_of_rows_in_a_loop() {
    let (rows, columns) = (7, 100);
    let (out, _) = on("quad-sip", Options::default(), move |rank| async move {
        let x = rank.from_slice(&numbers(rows * columns, 3), [rows, columns], DType::F32)?;
        let out = rank.zeros([rows, columns], DType::F32)?;
        let mut arguments = vec![pointer(&out), pointer(&x)];
        arguments.extend([columns, columns, rows, columns].map(whole));
        kernel(SOFTMAX).launch(&rank, &arguments, &[], &grid([3, 1, 1]))?.wait().await?;
        out.to_vec().await
    });
    let source = numbers(rows * columns, 3);
    for (row, got) in source.chunks(columns).zip(out.chunks(columns)) {
        let top = row.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = row.iter().map(|x| (x - top).exp()).sum();
        for (x, got) in row.iter().zip(got) {
            assert!(((x - top).exp() / sum - got).abs() < 1e-6, "TEX-1");
        }
    }
}

#[test]
fn tex_1_blocks_of_descriptors_end_at_the_edge() {
    let [m, n, k] = [40, 70, 64];
    let (c, _) = on("quad-sip", Options::default(), move |rank| async move {
        let a = rank.from_slice(&numbers(m * k, 1), [m, k], DType::F16)?;
        let b = rank.from_slice(&numbers(n * k, 2), [n, k], DType::F16)?;
        let c = rank.zeros([m, n], DType::F16)?;
        let mut arguments = vec![pointer(&a), pointer(&b), pointer(&c)];
        arguments.extend([m, n, k].map(whole));
        kernel(DESCRIBED).launch(&rank, &arguments, &[], &grid([2, 2, 1]))?.wait().await?;
        c.to_vec().await
    });
    let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
    let turned: Vec<f32> = (0..k * n).map(|at| b[at % n * k + at / n]).collect();
    assert_eq!(c, product(&a, &turned, [m, n, k]), "TEX-1");
}

#[test]
fn tex_1_sorts_scans_and_other_moves_of_elements() {
    const B: usize = 64;
    let source = numbers(B, 5);
    let (out, _) = on("quad-sip", Options::default(), |rank| async move {
        let x = rank.from_slice(&numbers(B, 5), [B], DType::F32)?;
        let out = rank.zeros([6 * B], DType::F32)?;
        kernel(SHAPES)
            .launch(&rank, &[pointer(&x), pointer(&out)], &[], &grid([1; 3]))?
            .wait()
            .await?;
        out.to_vec().await
    });
    let part = |number: usize| out[number * B..][..B].to_vec();
    let mut sorted = source.clone();
    sorted.sort_by(f32::total_cmp);
    assert_eq!(part(0), sorted, "TEX-1: sort");
    let mut sum = 0.0;
    let sums: Vec<f32> = source
        .iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect();
    assert_eq!(part(1), sums, "TEX-1: cumsum");
    let halves: Vec<f32> = source.chunks(2).map(|pair| sum + pair[0] - pair[1]).collect();
    assert_eq!(part(2)[..B / 2], halves, "TEX-1: split and interleave");
    let turned: Vec<f32> = (0..B).map(|at| source[at % (B / 4) * 4 + at / (B / 4)] * 2.0).collect();
    assert_eq!(part(3), turned, "TEX-1: trans");
    let best: Vec<f32> = source
        .chunks(4)
        .map(|row| {
            let top = row.iter().copied().fold(f32::MIN, f32::max);
            let at = u8::try_from(row.iter().position(|x| *x == top).unwrap()).unwrap();
            f32::from(at) + top
        })
        .collect();
    assert_eq!(part(4)[..B / 4], best, "TEX-1: argmax");
    let chosen = source.iter().zip(0_u8..).map(|(x, at)| match at % 3 {
        0 => *x,
        _ => x.abs() * f32::from(at / 2),
    });
    assert_eq!(part(5), chosen.collect::<Vec<_>>(), "TEX-1: where");
}

#[test]
fn tex_1_locks_and_counters_hold_for_all_programs() {
    let ((total, counts), _) = on("quad-sip", Options::default(), |rank| async move {
        let total = rank.zeros([32], DType::F32)?;
        let (counts, lock) = (rank.zeros([4], DType::I32)?, rank.zeros([1], DType::I32)?);
        let arguments = [pointer(&total), pointer(&counts), pointer(&lock)];
        kernel(LOCKED).launch(&rank, &arguments, &[], &grid([9, 1, 1]))?.wait().await?;
        Ok((total.to_vec().await?, counts.to_vec().await?))
    });
    let expected: Vec<f32> = (0_u8..32).map(|at| 9.0 * f32::from(at)).collect();
    assert_eq!(total, expected, "TEX-1");
    assert_eq!(counts, [72.0; 4], "TEX-1");
}

#[test]
fn tex_1_addresses_from_memory_find_their_elements() {
    let (out, _) = on("quad-sip", Options::default(), |rank| async move {
        let source = rank.from_slice(&numbers(100, 4), [100], DType::F32)?;
        let places: Vec<i32> = (0..32).map(|at| (at * 37 + 5) % 100).collect();
        let places = rank.from_buffer(Buffer::I32(places), [32])?;
        let out = rank.zeros([64], DType::F32)?;
        let buffer = Buffer::I64(vec![0, 0x7000_0000_0010, 0]);
        let tables = rank.from_buffer(buffer, [3])?;
        let arguments =
            [pointer(&source), pointer(&places), pointer(&out), pointer(&tables), whole(20)];
        // The second address of the table is the fifth element of the source.
        let mapped = [(0x7000_0000_0000, source.clone())];
        kernel(PLACED).launch(&rank, &arguments, &mapped, &grid([1; 3]))?.wait().await?;
        out.to_vec().await
    });
    let source = numbers(100, 4);
    for at in 0..32 {
        let expected = if at < 20 { source[(at * 37 + 5) % 100] } else { -1.0 };
        assert_eq!(out[31 - at].to_bits(), expected.to_bits(), "TEX-1: element {at}");
        assert_eq!(
            out[32 + at].to_bits(),
            source[4 + at * at % 32].to_bits(),
            "TEX-1: element {at}"
        );
    }
}

#[test]
fn a_run_without_data_says_that_addresses_need_it() {
    let options = Options { data: false, ..Options::default() };
    let words = failure("quad-sip", options, |rank| async move {
        let source = rank.zeros([100], DType::F32)?;
        let places = rank.from_buffer(Buffer::I32(vec![0; 32]), [32])?;
        let out = rank.zeros([64], DType::F32)?;
        let tables = rank.zeros([3], DType::I64)?;
        let arguments =
            [pointer(&source), pointer(&places), pointer(&out), pointer(&tables), whole(20)];
        kernel(PLACED).launch(&rank, &arguments, &[], &grid([1; 3]))?.wait().await
    });
    assert!(words.contains("data is off") && words.contains("kernels.py:"), "{words}");
}

#[test]
fn a_launch_takes_the_same_time_with_lines_and_without() {
    let run = |lines: bool| {
        let options = Options { critical_path: lines, ..Options::default() };
        let mut context = crate::context("hgx-h100", options);
        let results =
            phalanx_torch::multiprocessing::spawn(&mut context, 1, move |_, rank| async move {
                let x = rank.from_slice(&numbers(4096, 1), [4096], DType::F32)?;
                let out = rank.zeros([4096], DType::F32)?;
                let arguments = [pointer(&x), pointer(&x), pointer(&out), whole(4000)];
                let settings = Settings { lines, ..grid([4, 1, 1]) };
                kernel(ADD).launch(&rank, &arguments, &[], &settings)?.wait().await?;
                Ok((rank.now(), out.to_vec().await?))
            });
        (results.unwrap().remove(0), context.report())
    };
    let ((whole, with), (times, without)) = (run(true), run(false));
    assert_eq!(whole, times);
    assert!(!with.lines.is_empty() && without.lines.is_empty(), "{:?}", without.lines);
    assert_eq!(with.simulated, without.simulated);
}

#[test]
fn reports_show_lines_of_the_source() {
    let mut context = crate::context("quad-sip", Options::default());
    let results = phalanx_torch::multiprocessing::spawn(&mut context, 1, |_, rank| async move {
        let x = rank.from_slice(&numbers(4096, 1), [4096], DType::F32)?;
        let out = rank.zeros([4096], DType::F32)?;
        let arguments = [pointer(&x), pointer(&x), pointer(&out), whole(4096)];
        kernel(ADD).launch(&rank, &arguments, &[], &grid([4, 1, 1]))?.wait().await
    });
    results.unwrap();
    let report = context.report();
    let bytes: u64 = report.lines.iter().map(|line| line.bytes).sum();
    assert!(
        report.lines.iter().all(|line| line.kernel == "add" && line.place.contains("kernels.py:"))
    );
    assert!(bytes >= 3 * 4096 * 4, "{:?}", report.lines);
    assert!(report.to_string().contains("lines of kernels"), "{report}");
}

#[test]
fn tex_2_an_access_outside_names_line_program_and_address() {
    let words = failure("quad-sip", Options::default(), |rank| async move {
        let x = rank.zeros([1000], DType::F32)?;
        let out = rank.zeros([2048], DType::F32)?;
        let arguments = [pointer(&x), pointer(&x), pointer(&out), whole(2048)];
        kernel(ADD).launch(&rank, &arguments, &[], &grid([2, 1, 1]))?.wait().await
    });
    for part in ["`add`", "kernels.py:2", "program (0, 0, 0)", "load: address 0x", "1000 x f32"] {
        assert!(words.contains(part), "TEX-2: `{part}` in: {words}");
    }
}

#[test]
fn what_a_kernel_writes_and_takes_is_known() {
    let add = kernel(ADD);
    assert_eq!(add.arguments(), ["*fp32", "*fp32", "*fp32", "i32"]);
    assert_eq!(add.written(), [false, false, true, false]);
    assert!(!add.uses_pointers_from_memory());
}

const ENDLESS: &str = "tt.func public @spin(%n: i32) {
  %out = scf.while (%i = %n) : (i32) -> i32 {
    %same = arith.cmpi eq, %i, %i : i32
    scf.condition(%same) %i : i32
  } do {
  ^bb0(%i: i32):
    scf.yield %i : i32
  }
  tt.return
}";

#[test]
fn tex_3_an_endless_loop_meets_its_limit() {
    let words = failure("quad-sip", Options::default(), |rank| async move {
        let settings = Settings { step_limit: 1000, ..Settings::default() };
        kernel(ENDLESS).launch(&rank, &[whole(1)], &[], &settings)?.wait().await
    });
    assert!(words.contains("more than 1000 rounds of loops"), "TEX-3: {words}");
}

#[test]
fn tex_5_an_interrupt_ends_an_endless_loop() {
    let asked = AtomicU32::new(0);
    let interrupt = move || asked.fetch_add(1, Ordering::Relaxed) >= 100;
    let options = Options { interrupt: Some(Arc::new(interrupt)), ..Options::default() };
    let words = failure("quad-sip", options, |rank| async move {
        let settings = Settings { step_limit: u64::MAX, ..Settings::default() };
        kernel(ENDLESS).launch(&rank, &[whole(1)], &[], &settings)?.wait().await
    });
    assert!(words.contains("interrupted"), "TEX-5: {words}");
}
