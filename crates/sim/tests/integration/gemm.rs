//! The fused product: any shape, tile, number of buffers and of PEs gives the reference's bits.

use crate::kernels::dtypes;
use crate::support::{bare, limited, rate, without_data};
use phalanx_sim::kernel::{Gemm, Operand};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::report::Report;
use phalanx_sim::spec::GridSpec;
use phalanx_sim::value::reference::Array;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{MachineSpec, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Problem {
    dims: [usize; 3],
    tile: [usize; 3],
    buffers: u32,
    pes: u32,
    dtype: DType,
}

fn problems() -> impl Strategy<Value = Problem> {
    let dims = prop::array::uniform3(1..40usize);
    (dims, prop::array::uniform3(1..17usize), 1..3u32, 1..6u32, dtypes())
        .prop_map(|(dims, tile, buffers, pes, dtype)| Problem { dims, tile, buffers, pes, dtype })
}

fn numbers(len: usize, step: f32) -> Vec<f32> {
    (0..len).map(|index| ((index * 7919 % 1013) as f32 - 500.0) * step).collect()
}

impl Problem {
    fn machine(&self) -> MachineSpec {
        let mut spec = bare();
        spec.pes = GridSpec { rows: 1, columns: self.pes, ..spec.pes };
        spec.gemm.tile = self.tile.map(|side| u32::try_from(side).unwrap());
        spec
    }

    fn inputs(&self) -> [Vec<f32>; 2] {
        let [m, n, k] = self.dims;
        [numbers(m * k, 0.037), numbers(k * n, 0.11)]
    }

    #[expect(clippy::many_single_char_names, reason = "the names of a product's parts")]
    fn run(&self, spec: MachineSpec, options: Options) -> (Machine, Report, Region) {
        let [m, n, k] = self.dims;
        let mut machine = Machine::new(spec, options);
        let [a, b] = self.inputs().map(|numbers| {
            let value = Value::from_f32(self.dtype, &numbers);
            machine.resident(0, 0, value).unwrap()
        });
        let c = machine.zeros(0, 0, self.dtype, m * n).unwrap();
        let [a, b, c] =
            [(a, k), (b, n), (c, n)].map(|(region, columns)| Operand::row_major(region, columns));
        let gemm = Gemm {
            a,
            b,
            c,
            dims: self.dims,
            tile: self.tile,
            buffers: self.buffers,
            share: (0, 1),
        };
        machine.launch(0, "gemm", &machine.pes(0), move |tl| async move {
            gemm.share(tl.program_id(), tl.num_programs()).run(&tl).await
        });
        let report = machine.run().unwrap_or_else(|error| panic!("{error}"));
        (machine, report, c.region)
    }

    /// Returns the operations, and the smallest number of bytes to load and store, of the busiest PE.
    fn work(&self) -> (u64, u64) {
        let [m, n, k] = self.dims.map(|dim| dim as u64);
        let size = self.dtype.size() as u64;
        (2 * m * n * k, (m * k + k * n + m * n) * size)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_fused_product_equals_the_reference_bit_for_bit(problem in problems()) {
        let [a, b] = problem.inputs().map(|numbers| Array::new(problem.dtype, &numbers));
        let expected = Array::dot(&a, &b, problem.dims, None).cast(problem.dtype);
        let (machine, report, c) = problem.run(problem.machine(), Options::default());
        prop_assert_eq!(Array::of(&machine.read(&c).unwrap().unwrap()), expected);
        let (_, timing, _) = problem.run(problem.machine(), without_data());
        prop_assert_eq!(timing.simulated, report.simulated, "MCH-3");
    }

    #[test]
    fn no_product_is_faster_than_the_roofline(problem in problems(), flops in 1..64u64, bytes in 1..64u64) {
        let mut spec = problem.machine();
        (spec.gemm.rate, spec.hbm.bandwidth) = (rate(flops), rate(bytes));
        let (_, report, _) = problem.run(spec, without_data());
        let (operations, moved) = problem.work();
        let compute = rate(flops * u64::from(problem.pes)).time_for(operations);
        prop_assert!(report.simulated >= compute.max(rate(bytes).time_for(moved)), "{}", report.simulated);
    }
}

#[test]
fn two_buffers_hide_the_shorter_of_loading_and_computing() {
    let problem =
        Problem { dims: [16, 16, 64], tile: [16; 3], buffers: 2, pes: 1, dtype: DType::F32 };
    let mut spec = problem.machine();
    spec.dma = crate::support::wire(16, 0).into();
    spec.gemm.rate = rate(64);
    // A pair of tiles takes 2048/16 = 128 ns to load, 2 * 16^3 / 64 = 128 ns to multiply, 64 ns to store.
    let (_, double, _) = problem.run(spec.clone(), without_data());
    assert_eq!(double.simulated, Time::ns(128 + 4 * 128 + 64));
    let (_, single, _) = Problem { buffers: 1, ..problem }.run(spec, without_data());
    assert_eq!(single.simulated, Time::ns(4 * (128 + 128) + 64));
}

#[test]
fn two_buffers_of_a_product_fit_the_scratch_they_are_meant_for() {
    let problem =
        Problem { dims: [32, 32, 64], tile: [16; 3], buffers: 2, pes: 1, dtype: DType::F16 };
    let mut spec = problem.machine();
    // Two pairs of f16 tiles, an f32 sum and its successor, and the rounded result.
    spec.tcm = limited(4 * 512 + 2 * 1024 + 512);
    problem.run(spec, Options::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_transposed_operand_and_a_second_copy_give_the_same_bits_in_the_same_loads(problem in problems()) {
        let [m, n, k] = problem.dims;
        let [left, right] = problem.inputs();
        let turned: Vec<f32> = (0..n * k).map(|index| right[index % k * n + index / k]).collect();
        let mut machine = Machine::new(problem.machine(), Options::default());
        let [a, b] = [left, turned].map(|numbers| {
            machine.resident(0, 0, Value::from_f32(problem.dtype, &numbers)).unwrap()
        });
        // The copies have room to the left of the product.
        let copies = [0, 3].map(|left| {
            let region = machine.zeros(0, 0, problem.dtype, m * (n + left)).unwrap();
            Operand::row_major(region, n + left).at(left)
        });
        let gemm = Gemm {
            a: Operand::row_major(a, k),
            b: Operand::row_major(b, k).transposed(),
            c: copies[0],
            dims: problem.dims,
            tile: problem.tile,
            buffers: problem.buffers,
            share: (0, 1),
        };
        machine.launch(0, "gemm", &machine.pes(0), move |tl| async move {
            gemm.share(tl.program_id(), tl.num_programs()).run_into(&tl, &copies).await
        });
        let report = machine.run().unwrap();
        let (plain, expected, c) = problem.run(problem.machine(), Options::default());
        let want = Array::of(&plain.read(&c).unwrap().unwrap());
        let [one, other] = copies.map(|copy| machine.read(&copy.region).unwrap().unwrap());
        prop_assert_eq!(Array::of(&one), want.clone());
        prop_assert_eq!(Array::of(&other.strided(3, &[m, n], &[n + 3, 1])), want);
        prop_assert_eq!(report.simulated, expected.simulated);
    }
}
