//! `auto` against every algorithm: random rows of a sweep, and random layouts of the tensors of ranks.
//!
//! `PHALANX_AUTO_ROWS` sets the number of rows.

use crate::ranks::{ccl, machine};
use phalanx_sim::machine::Options;
use phalanx_sim::{DType, MachineSpec, Time};
use phalanx_torch::ccl::sweep::Sweep;
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation, ReduceOp};
use phalanx_torch::{
    Context, DpPolicy, Error, Rank, Spread, Tensor, distributed as dist, multiprocessing,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::rc::Rc;

/// The number of random rows of each kind.
pub(super) fn rows() -> u32 {
    let asked = std::env::var("PHALANX_AUTO_ROWS").ok();
    asked.map_or(16, |text| text.parse().expect("PHALANX_AUTO_ROWS is a number"))
}

fn without_data() -> Options {
    Options { data: false, ..Options::default() }
}

fn machines() -> impl Strategy<Value = MachineSpec> {
    let bare = |topology: &str, count: u32| {
        let count = format!("system.sips.count={count}");
        machine("bare", &[&count, &format!("system.sips.topology={topology}")])
    };
    let slow = ["system.sips.link.bandwidth=64 GB/s"];
    select(vec![
        machine("pair", &[]),
        machine("quad-sip", &[]),
        machine("quad-sip", &slow),
        machine("octo-ring", &[]),
        machine("octo-ring", &["system.sips.count=5"]),
        machine("torus-16", &[]),
        machine("torus-16", &slow),
        machine("pod-64", &["system.sips.count=12"]),
        bare("switch", 6),
        bare("fully_connected", 8),
        super::torus(2, 4),
    ])
}

/// Sizes of all magnitudes, most of them odd.
fn sizes() -> impl Strategy<Value = usize> {
    (0..20_u32, any::<usize>()).prop_map(|(bits, drawn)| (1 << bits) + drawn % (1 << bits))
}

fn types() -> impl Strategy<Value = DType> {
    select(vec![DType::F32, DType::F16, DType::Bf16])
}

/// The parameters of a collective that are no size.
type Drawn = (MachineSpec, Operation, ReduceOp, DType);

fn calls() -> impl Strategy<Value = Drawn> {
    let combines = select(vec![ReduceOp::Sum, ReduceOp::Max, ReduceOp::Avg]);
    (machines(), select(Operation::ALL.to_vec()), combines, types())
}

/// A sweep of `phalanx ccl`.
fn sweep((machine, operation, combine, dtype): Drawn) -> Sweep {
    let (options, ccl) = (without_data(), CclConfig::builtin());
    Sweep { machine, options, ccl, operation, combine, dtype, ranks: None }
}

/// Asserts that no algorithm of a sweep beats `auto`.
fn check_sweep(sweep: &Sweep, bytes: usize) {
    let auto = sweep.measure(bytes as u64, None).unwrap();
    for plan in sweep.ccl.plans(&Algorithm::names()) {
        if sweep.fits(&plan).is_err() {
            continue;
        }
        let other = sweep.measure(bytes as u64, Some(&plan)).unwrap();
        let times =
            |row: &phalanx_torch::ccl::sweep::Measured| [row.out_of_place.time, row.in_place.time];
        let ([out, inside], [other_out, other_in]) = (times(&auto), times(&other));
        let row = format!("{} of {bytes} bytes on {}", sweep.operation, sweep.machine.name);
        assert!(out <= other_out, "TUN-1: {row}: {out}, and {other_out} by {}", plan.name);
        assert!(inside <= other_in, "TUN-1: {row}: {inside}, and {other_in} by {}", plan.name);
    }
}

/// Asserts that every algorithm takes the same time alone and by ranks of a program, for the same reason.
fn check_alone(sweep: &Sweep, bytes: u64) {
    let names = Algorithm::names();
    for plan in sweep.ccl.candidates(&names, usize::try_from(bytes).unwrap()) {
        if sweep.fits(&plan).is_err() {
            continue;
        }
        for in_place in [false, true] {
            let alone = sweep.alone(bytes, &plan, in_place);
            let ranks = sweep.of_ranks(bytes, &plan, in_place);
            let row = format!("{} of {bytes} bytes on {}", sweep.operation, sweep.machine.name);
            assert_eq!(alone, ranks, "SWP-3: {row} by {}, in place: {in_place}", plan.name);
        }
    }
}

/// A collective of a program.
#[derive(Clone, Debug)]
struct Row {
    machine: MachineSpec,
    operation: Operation,
    combine: ReduceOp,
    dtype: DType,
    members: Vec<usize>,
    root: usize,
    /// The shape of the smaller of input and output.
    shape: [usize; 2],
    policy: DpPolicy,
}

impl Row {
    /// A row of all SIPs of a machine, with a copy of the tensors in each of `cubes` cubes.
    fn new(machine: MachineSpec, operation: Operation, shape: [usize; 2], cubes: usize) -> Self {
        Self {
            operation,
            combine: ReduceOp::Sum,
            dtype: DType::F32,
            members: (0..machine.sips.count as usize).collect(),
            root: 0,
            shape,
            policy: DpPolicy::replicated(cubes),
            machine,
        }
    }

    /// Input and output of a rank.
    fn tensors(&self, cx: &Rank) -> Result<[Tensor; 2], Error> {
        let [rows, columns] = self.shape;
        let all = [rows * self.members.len(), columns];
        let (has, gets) = match self.operation {
            Operation::ReduceScatter | Operation::Scatter => (all, self.shape),
            Operation::AllGather | Operation::Gather => (self.shape, all),
            Operation::AllToAll => (all, all),
            _ => (self.shape, self.shape),
        };
        let make = |shape| cx.placed(self.policy).empty(shape, self.dtype);
        Ok([make(has)?, make(gets)?])
    }

    async fn call(&self, cx: &Rank, [input, output]: &[Tensor; 2]) -> Result<(), Error> {
        dist::init_process_group(cx)?;
        let group = dist::new_group(cx, &self.members)?;
        let (combine, root, group) = (self.combine, self.members[self.root], Some(&group));
        let at_root = |tensor| (cx.rank() == root).then_some(tensor);
        match self.operation {
            Operation::AllReduce => dist::all_reduce(cx, input, combine, group).await,
            Operation::Reduce => dist::reduce(cx, input, root, combine, group).await,
            Operation::Broadcast => dist::broadcast(cx, input, root, group).await,
            Operation::ReduceScatter => {
                dist::reduce_scatter(cx, output, input, combine, group).await
            }
            Operation::AllGather => dist::all_gather(cx, output, input, group).await,
            Operation::Scatter => dist::scatter(cx, output, at_root(input), root, group).await,
            Operation::Gather => dist::gather(cx, input, at_root(output), root, group).await,
            Operation::AllToAll => dist::all_to_all(cx, output, input, None, None, group).await,
        }
    }

    /// The time by an algorithm, and the number of simulated trials.
    fn time(&self, algorithm: &str) -> (Time, usize) {
        let ccl = ccl(&format!("defaults: {{ algorithm: {algorithm} }}"));
        let mut context = Context::new(self.machine.clone(), without_data()).with_ccl(ccl);
        let ranks = context.default_ranks();
        let own = Rc::new(self.clone());
        let row = own.clone();
        let tensors = multiprocessing::spawn(&mut context, ranks, move |_, cx| {
            let row = row.clone();
            async move { row.tensors(&cx) }
        });
        let (tensors, start) = (Rc::new(tensors.unwrap()), context.now());
        let ends = multiprocessing::spawn(&mut context, ranks, move |rank, cx| {
            let (row, tensors) = (own.clone(), tensors.clone());
            async move {
                row.call(&cx, &tensors[rank]).await?;
                Ok(cx.now())
            }
        });
        let end = ends.unwrap().into_iter().max().unwrap();
        (end - start, context.tuner().simulated())
    }

    /// Asserts that no algorithm beats `auto`; returns the time of `auto`.
    fn check(&self) -> Time {
        let (auto, trials) = self.time("auto");
        assert!(trials > 0, "TUN-1: nothing was simulated");
        let members: Vec<u32> =
            self.members.iter().map(|rank| u32::try_from(*rank).unwrap()).collect();
        for algorithm in Algorithm::ALL {
            if algorithm.check(self.operation, &self.machine, &members).is_err() {
                continue;
            }
            let (other, _) = self.time(algorithm.name);
            assert!(auto <= other, "TUN-1: {self:?}: {auto}, and {other} by {}", algorithm.name);
        }
        auto
    }
}

fn spreads() -> impl Strategy<Value = Spread> {
    select(vec![Spread::Replicate, Spread::RowWise, Spread::ColumnWise])
}

/// Rows with a group of some ranks, any root, and any layout that the operation takes.
fn any_row() -> impl Strategy<Value = Row> {
    let drawn = prop::array::uniform2(any::<Index>());
    let policy = ((spreads(), spreads()), prop::array::uniform2(any::<Index>()));
    let left_out = any::<u64>();
    let shape = (sizes(), 0..8_u32);
    (calls(), drawn, policy, left_out, shape).prop_map(
        |(call, [some, root], ((cube, pe), [cubes, pes]), left_out, (size, rows))| {
            let (machine, operation, combine, dtype) = call;
            let sips = machine.sips.count as usize;
            let all = some.index(2) == 0;
            let members: Vec<usize> =
                (0..sips).filter(|rank| all || *rank < 2 || left_out & (1 << rank) == 0).collect();
            let num_cubes = cubes.index(machine.cubes.count() as usize) + 1;
            let num_pes = pes.index(machine.pes.count() as usize) + 1;
            let policy = if operation.is_elementwise() {
                DpPolicy { cube, pe, num_cubes, num_pes }
            } else {
                DpPolicy::replicated(num_cubes)
            };
            let parts = if operation.is_elementwise() { 1 } else { members.len() };
            let rows = 1 << rows.min(size.ilog2());
            let shape = [rows, (size / rows / parts).max(1)];
            let root = root.index(members.len());
            Row { machine, operation, combine, dtype, members, root, shape, policy }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rows()))]

    #[test]
    fn tun_1_no_algorithm_of_a_sweep_beats_auto(call in calls(), bytes in sizes()) {
        check_sweep(&sweep(call), 4 * bytes);
    }

    #[test]
    fn swp_3_a_collective_alone_is_that_of_ranks(call in calls(), bytes in sizes()) {
        check_alone(&sweep(call), 4 * bytes as u64);
    }

    #[test]
    fn tun_1_no_algorithm_beats_auto_on_any_layout(row in any_row()) {
        row.check();
    }
}

#[test]
fn tun_1_a_size_between_powers_of_two_is_measured_itself() {
    let torus = machine("torus-16", &[]);
    let sweep = sweep((torus, Operation::Reduce, ReduceOp::Sum, DType::F32));
    check_sweep(&sweep, 16_640);
}

#[test]
fn tun_1_a_copy_in_each_cube_is_measured_as_such() {
    // The sums of `tp-mlp` and `tp-block` have a copy in every cube, which one PE would have to write.
    for bandwidth in ["64 GB/s", "128 GB/s"] {
        let set = format!("system.sips.link.bandwidth={bandwidth}");
        let spec = machine("quad-sip", &[&set]);
        for shape in [[64, 1024], [128, 256], [16, 512]] {
            let row = |cubes| Row::new(spec.clone(), Operation::AllReduce, shape, cubes);
            let copies = row(4).check();
            assert!(row(1).check() <= copies, "more copies do not take less");
        }
    }
}

#[test]
fn tun_1_large_collectives_are_extrapolated_in_the_right_order() {
    for spec in [machine("quad-sip", &[]), super::torus(2, 2)] {
        for elements in [3 << 20, (1 << 21) + 12_345] {
            for operation in [Operation::AllReduce, Operation::Broadcast] {
                Row::new(spec.clone(), operation, [1, elements], 1).check();
            }
        }
    }
}

#[test]
fn tun_3_many_sizes_take_few_trials() {
    let spec = machine("quad-sip", &[]);
    let mut context = Context::new(spec, without_data());
    let done = multiprocessing::spawn(&mut context, 4, |_, cx| async move {
        dist::init_process_group(&cx)?;
        for elements in (1000..9000).step_by(40) {
            let x = cx.empty([elements], DType::F32)?;
            dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
        }
        Ok(())
    });
    done.unwrap();
    // Seven algorithms fit; a trial of each for each size would be 1400.
    let simulated = context.tuner().simulated();
    assert!(simulated <= 800, "TUN-3: {simulated} trials for 200 sizes");
}
