//! Collectives as kernels alone, with numbers: every algorithm against what it should give.

mod fastest;
mod matrix;
mod mirrors;
mod multi;
mod order;
mod others;
mod own;
mod presets;
mod random;
mod reach;
mod truths;
mod tuned;

use crate::ranks::machine;
use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{DType, Value};
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::{Algorithm, Buffer, Channels, Operation, Part, Peers, ReduceOp, Splits};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// One collective.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) algorithm: &'static str,
    pub(crate) ranks: usize,
    /// The elements of the vector; of one rank's part of it where it is cut into parts.
    pub(crate) elements: usize,
    pub(crate) root: usize,
    pub(crate) combine: ReduceOp,
    pub(crate) dtype: DType,
    pub(crate) edge: EdgeSpec,
    /// The number of elements that each rank sends to each.
    pub(crate) splits: Option<Vec<Vec<usize>>>,
    /// True if an elementwise operation has an output of its own.
    pub(crate) apart: bool,
    /// True if sums are the same in any order.
    pub(crate) exact: bool,
    /// The PEs that take part; those of the algorithm if not given.
    pub(crate) channels: Option<Channels>,
    /// True if rings go in loops.
    pub(crate) in_loops: bool,
}

impl Case {
    pub(crate) fn new(
        operation: Operation,
        algorithm: &'static str,
        ranks: usize,
        elements: usize,
    ) -> Self {
        Self {
            operation,
            algorithm,
            ranks,
            elements,
            root: 0,
            combine: ReduceOp::Sum,
            dtype: DType::F32,
            edge: EdgeSpec { slot_size: 64, ..EdgeSpec::default() },
            splits: None,
            apart: false,
            exact: true,
            channels: None,
            in_loops: false,
        }
    }

    /// Returns the number of elements that a rank has, and gets.
    fn lengths(&self, rank: usize) -> [usize; 2] {
        let (n, all) = (self.elements, self.elements * self.ranks);
        let at_root = |len| if rank == self.root { len } else { 0 };
        match (self.operation, &self.splits) {
            (Operation::AllReduce | Operation::Broadcast | Operation::Reduce, _) => [n, n],
            (Operation::ReduceScatter, _) => [all, n],
            (Operation::Scatter, _) => [at_root(all), n],
            (Operation::AllGather, _) => [n, all],
            (Operation::Gather, _) => [n, at_root(all)],
            (Operation::AllToAll, None) => [all, all],
            (Operation::AllToAll, Some(splits)) => {
                [splits[rank].iter().sum(), splits.iter().map(|row| row[rank]).sum()]
            }
        }
    }

    /// Returns the numbers of a rank: whole numbers, small enough that their sums are exact in every type; or fractions.
    pub(crate) fn input(&self, rank: usize) -> Vec<f32> {
        let small = |index: usize| u8::try_from((rank * 5 + index * 3 + index / 7) % 8).unwrap();
        let one = |index: usize| {
            let number = f32::from(small(index));
            if self.exact { number } else { 1.0 / (1.1 + number + f32::from(small(rank * index))) }
        };
        (0..self.lengths(rank)[0]).map(one).collect()
    }

    /// Returns the numbers that a rank should have afterwards.
    fn expected(&self, rank: usize) -> Vec<f32> {
        let n = self.elements;
        let own = rank * n..(rank + 1) * n;
        match self.operation {
            Operation::AllReduce => self.combined(),
            Operation::ReduceScatter => self.combined()[own].to_vec(),
            Operation::Reduce if rank == self.root => self.combined(),
            Operation::Reduce if self.apart => vec![-1.0; n],
            Operation::Reduce => self.input(rank),
            Operation::Broadcast => self.input(self.root),
            Operation::Scatter => self.input(self.root)[own].to_vec(),
            Operation::Gather if rank != self.root => Vec::new(),
            Operation::AllGather | Operation::Gather => {
                (0..self.ranks).flat_map(|from| self.input(from)).collect()
            }
            Operation::AllToAll => {
                let parts = (0..self.ranks).map(|from| {
                    let Some(splits) = &self.splits else {
                        return self.input(from)[own.clone()].to_vec();
                    };
                    let start: usize = splits[from][..rank].iter().sum();
                    self.input(from)[start..start + splits[from][rank]].to_vec()
                });
                parts.collect::<Vec<_>>().concat()
            }
        }
    }

    fn combined(&self) -> Vec<f32> {
        let inputs: Vec<Vec<f32>> = (0..self.ranks).map(|rank| self.input(rank)).collect();
        let columns = (0..inputs[0].len()).map(|at| inputs.iter().map(move |input| input[at]));
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let ranks = self.ranks as f32;
        let one = |column: &mut dyn Iterator<Item = f32>| match self.combine {
            ReduceOp::Sum => column.sum(),
            ReduceOp::Product => column.product(),
            ReduceOp::Min => column.fold(f32::INFINITY, f32::min),
            ReduceOp::Max => column.fold(f32::NEG_INFINITY, f32::max),
            ReduceOp::Avg => column.sum::<f32>() / ranks,
        };
        columns.map(|mut column| one(&mut column)).collect()
    }

    /// Simulates it on `spec`: when it was over, and what every rank has.
    pub(crate) fn run(&self, spec: &MachineSpec) -> (Time, Vec<Value>) {
        let algorithm = Algorithm::find(self.algorithm).expect("an algorithm");
        let members: Vec<u32> = (0..u32::try_from(self.ranks).unwrap()).collect();
        algorithm
            .check(self.operation, spec, &members)
            .unwrap_or_else(|why| panic!("{self}: {why}"));
        let mut machine = Machine::new(spec.clone(), Options::default());
        let outputs: Vec<Region> =
            (0..self.ranks).map(|rank| self.launch(&mut machine, algorithm, rank)).collect();
        let report = machine.run().unwrap_or_else(|error| panic!("{self}: {error}"));
        let read = |region| machine.read(region).unwrap_or_else(|error| panic!("{self}: {error}"));
        let values = outputs.iter().map(|region| read(region).expect("data is on")).collect();
        (report.simulated, values)
    }

    fn launch(&self, machine: &mut Machine, algorithm: &'static Algorithm, rank: usize) -> Region {
        let sip = u32::try_from(rank).unwrap();
        let place = |values: &[f32]| {
            machine.resident(sip, 0, Value::from_f32(self.dtype, values)).expect("room")
        };
        let input = place(&self.input(rank));
        let output = if self.operation.is_elementwise() && !self.apart {
            input
        } else {
            place(&vec![-1.0; self.lengths(rank)[1]])
        };
        let mut pes = machine.pes(sip);
        let channels = self.channels.unwrap_or(algorithm.channels);
        match channels {
            _ if self.splits.is_some() => pes.truncate(1),
            Channels::Number(number) => pes.truncate(number as usize),
            Channels::All => {}
        }
        let (case, lanes) = (self.clone(), pes.len());
        machine.launch(sip, self.operation.name(), &pes, move |tl| {
            let segments = case.operation.segments(case.ranks, rank == case.root);
            let [in_input, in_output] = if case.splits.is_some() { [1, 1] } else { segments };
            let own = tl.program_id()..tl.program_id() + 1;
            let cut = |region, segments| Buffer::of(region).strip(segments, &own, lanes);
            let part = case.part(rank, tl.pe(), [cut(input, in_input), cut(output, in_output)]);
            (algorithm.run)(part, tl)
        });
        output
    }

    fn part(&self, rank: usize, pe: PeId, [input, output]: [Buffer; 2]) -> Part {
        let splits = self.splits.as_ref().map(|splits| {
            let received = splits.iter().map(|row| row[rank]).collect();
            Rc::new(Splits { sent: splits[rank].clone(), received })
        });
        Part {
            operation: self.operation,
            combine: self.combine,
            rank,
            ranks: self.ranks,
            root: self.root,
            dtype: self.dtype,
            input,
            output,
            splits,
            in_loops: self.in_loops,
            lane: 0,
            lanes: 1,
            peers: Peers {
                sips: (0..u32::try_from(self.ranks).unwrap()).collect(),
                pe,
                names: (0..self.ranks).collect(),
                edge: self.edge,
                channel: 0,
                topic: "a test".into(),
                mismatch: Rc::default(),
            },
        }
    }

    /// Runs it and compares with what it should give; where all ranks get the same, bit by bit with each other.
    pub(crate) fn check(&self, spec: &MachineSpec) -> Time {
        let (time, values) = self.run(spec);
        self.compare(&values);
        time
    }

    /// Compares what every rank has with what it should have.
    fn compare(&self, values: &[Value]) {
        for (rank, value) in values.iter().enumerate() {
            let wanted = Value::from_f32(self.dtype, &self.expected(rank));
            assert_eq!(value.len(), wanted.len(), "{self}: the length on rank {rank}");
            for at in 0..value.len() {
                let (got, wanted) = (value.get(at), wanted.get(at));
                assert_eq!(got.to_bits(), wanted.to_bits(), "{self}: rank {rank}, element {at}");
            }
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, algorithm, ranks, elements, root, combine, dtype, edge, .. } = self;
        write!(
            f,
            "{operation} by {algorithm}, {ranks} ranks, {dtype}[{elements}], root {root}, {combine:?}, {edge} in {:?}, \
             splits {:?}, apart {}",
            edge.buffer_kind, self.splits, self.apart
        )
    }
}

fn share(len: usize, index: usize, count: usize) -> Range<usize> {
    len * index / count..len * (index + 1) / count
}

/// Algorithms that need a machine of a certain kind.
pub(crate) const GRIDS: [&str; 5] = ["torus_2d", "multi_ring", "two_level", "nvls", "two_hop"];

/// A machine that `algorithm` fits: `bare`, or a grid for those that need one.
pub(crate) fn machine_for(algorithm: &str, ranks: usize) -> MachineSpec {
    let count = format!("system.sips.count={ranks}");
    match algorithm {
        "torus_2d" => torus(rows_of(ranks), ranks / rows_of(ranks)),
        "two_level" => groups((ranks / rows_of(ranks)).max(2), rows_of(ranks)),
        "nvls" => {
            let able = ["system.sips.multicast={}", "system.sips.reduction={}"];
            machine("bare", &[&count, "system.sips.topology=switch", able[0], able[1]])
        }
        "two_hop" => machine("bare", &[&count, "system.sips.topology=fully_connected"]),
        _ => machine("bare", &[&count]),
    }
}

/// The rows of the grid of so many that is closest to a square.
fn rows_of(ranks: usize) -> usize {
    (1..=ranks).rfind(|rows| ranks.is_multiple_of(*rows) && rows * rows <= ranks).unwrap()
}

/// `bare` as groups of SIPs.
pub(crate) fn groups(groups: usize, each: usize) -> MachineSpec {
    let levels = format!(
        "system.levels=[{{name: node, count: {groups}, topology: switch, \
         link: {{bandwidth: 16 GB/s, latency: 2 us}}}}]"
    );
    let count = format!("system.sips.count={each}");
    machine("bare", &[&count, "system.sips.topology=switch", &levels])
}

/// `bare` as a torus.
pub(crate) fn torus(rows: usize, columns: usize) -> MachineSpec {
    let sips = format!(
        "system.sips={{count: {}, topology: torus_2d, rows: {rows}, columns: {columns}, \
         link: {{bandwidth: 128 GB/s, latency: 500 ns}}}}",
        rows * columns
    );
    machine("bare", &[&sips])
}

/// Those that can do it.
pub(crate) fn able(operation: Operation) -> impl Iterator<Item = &'static str> {
    let all = Algorithm::ALL.iter();
    all.filter(move |algorithm| algorithm.operations.contains(&operation)).map(|one| one.name)
}
