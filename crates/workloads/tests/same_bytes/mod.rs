//! Runs whose every byte must be the same, wherever their shards are (XCH-1, XCH-3).

#[path = "../../../torch/tests/integration/shards/faults.rs"]
mod faults;

use faults::Fault;
use phalanx_sim::machine::Options;
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, timeline};
use phalanx_torch::ccl::sweep::Sweep;
use phalanx_torch::ccl::{CclConfig, Operation, ReduceOp};
use phalanx_torch::shards::{self, ShardLayout};
use phalanx_trace::{Format, Writer};
use phalanx_workloads::{Outcome, Setup, WorkloadError, find};

/// A machine, and overrides of it.
type Machine = (&'static str, &'static [&'static str]);

/// Something to run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Case {
    /// A workload with parameters.
    Workload(Machine, &'static str, &'static [(&'static str, &'static str)]),
    /// A row of `phalanx ccl`: an operation and its bytes.
    Row(Machine, Operation, u64),
    /// Ranks of which something goes wrong.
    Ranks(Fault),
}

use Case::{Ranks, Row, Workload};

const BARE_8: Machine = ("bare", &["system.sips.count=8"]);
const BARE_9: Machine = ("bare", &["system.sips.count=9"]);
const BARE_64: Machine = ("bare", &["system.sips.count=64"]);
const QUAD: Machine = ("quad-sip", &[]);
const QUAD_SWITCH: Machine = ("quad-sip", &["system.sips.topology=switch"]);
const QUAD_FULL: Machine = ("quad-sip", &["system.sips.topology=fully_connected"]);
const OCTO: Machine = ("octo-ring", &[]);
const TORUS: Machine = ("torus-16", &[]);
const TORUS_CUT: Machine = ("torus-16", &["system.sips.forwarding=cut_through"]);

const GROUPS: Machine = (
    "bare",
    &[
        "system.sips={count: 4, topology: switch, link: {bandwidth: 128 GB/s, latency: 500 ns}}",
        "system.levels=[{name: node, count: 2, topology: switch, nics: 2, link: {bandwidth: 16 GB/s, latency: 2 us}}]",
    ],
);
const MANY_GROUPS: Machine = (
    "bare",
    &[
        "system.sips={count: 2, topology: switch, link: {bandwidth: 128 GB/s, latency: 500 ns}}",
        "system.levels=[{name: node, count: 17, topology: switch, link: {bandwidth: 16 GB/s, latency: 2 us}}]",
    ],
);

const SMALL: (&str, &str) = ("bytes", "16 KiB");

/// All of them.
pub(crate) const CASES: &[Case] = &[
    Workload(BARE_8, "ring", &[SMALL]),
    Workload(BARE_8, "ring", &[SMALL, ("slots", "1")]),
    Workload(BARE_9, "ring", &[("bytes", "72 KiB"), ("slot_size", "512 B")]),
    Workload(BARE_9, "ring", &[("bytes", "9 KiB"), ("dtype", "f16")]),
    Workload(BARE_64, "ring", &[("bytes", "64 KiB")]),
    Workload(QUAD, "ring", &[("bytes", "64 KiB")]),
    Workload(QUAD_FULL, "ring", &[SMALL]),
    Workload(QUAD_SWITCH, "ring", &[SMALL]),
    Workload(OCTO, "ring", &[SMALL]),
    Workload(TORUS, "ring", &[SMALL]),
    Workload(TORUS_CUT, "ring", &[SMALL]),
    Workload(QUAD, "ping", &[("bytes", "64 KiB")]),
    Workload(QUAD_SWITCH, "ping", &[SMALL]),
    Workload(TORUS, "ping", &[SMALL]),
    Workload(QUAD, "queue", &[]),
    Workload(QUAD, "gemm", &[("m", "256"), ("n", "256"), ("k", "256")]),
    Workload(QUAD, "gemm", &[("m", "128"), ("n", "128"), ("k", "64"), ("dtype", "bf16")]),
    Workload(QUAD, "vector-add", &[]),
    Workload(OCTO, "vector-add", &[]),
    Workload(QUAD, "chip-gemm", &[]),
    Workload(QUAD, "all-reduce", &[("bytes", "64 KiB")]),
    Workload(QUAD, "all-reduce", &[SMALL, ("op", "max"), ("dtype", "f16")]),
    Workload(QUAD, "all-reduce", &[SMALL, ("ranks", "2")]),
    Workload(OCTO, "all-reduce", &[SMALL, ("algorithm", "ring")]),
    Workload(OCTO, "all-reduce", &[SMALL, ("algorithm", "recursive_doubling")]),
    Workload(OCTO, "all-reduce", &[SMALL, ("algorithm", "halving_doubling")]),
    Workload(OCTO, "all-reduce", &[SMALL, ("algorithm", "direct")]),
    Workload(TORUS, "all-reduce", &[("bytes", "64 KiB")]),
    Workload(TORUS, "all-reduce", &[SMALL, ("algorithm", "torus_2d")]),
    Workload(TORUS_CUT, "all-reduce", &[SMALL, ("algorithm", "ring")]),
    Workload(QUAD_SWITCH, "all-reduce", &[SMALL]),
    Workload(QUAD_FULL, "all-reduce", &[SMALL, ("ranks", "3")]),
    Workload(QUAD, "tp-mlp", &[("hidden", "64"), ("tokens", "32")]),
    Workload(OCTO, "tp-mlp", &[("hidden", "128"), ("tokens", "16")]),
    Workload(QUAD, "tp-block", &[]),
    Workload(OCTO, "tp-block", &[]),
    Workload(BARE_64, "all-reduce", &[("bytes", "4 KiB"), ("algorithm", "recursive_doubling")]),
    Workload(GROUPS, "ring", &[SMALL]),
    Workload(GROUPS, "all-reduce", &[SMALL]),
    Workload(GROUPS, "all-reduce", &[SMALL, ("algorithm", "two_level")]),
    Workload(MANY_GROUPS, "all-reduce", &[("bytes", "4 KiB"), ("algorithm", "two_level")]),
    // No room: every shard finds that.
    Workload(QUAD, "all-reduce", &[("bytes", "1 TiB")]),
    Row(OCTO, Operation::AllReduce, 4096),
    Row(OCTO, Operation::ReduceScatter, 4096),
    Row(OCTO, Operation::AllGather, 4096),
    Row(OCTO, Operation::Broadcast, 4096),
    Row(OCTO, Operation::Reduce, 1024),
    Row(QUAD, Operation::Scatter, 4096),
    Row(QUAD, Operation::Gather, 4096),
    Row(TORUS, Operation::AllToAll, 16384),
    Ranks(Fault::None),
    Ranks(Fault::Errors),
    Ranks(Fault::Panic),
    Ranks(Fault::Missing),
    Ranks(Fault::Mismatch),
    Ranks(Fault::Unreceived),
    Ranks(Fault::Silence),
    Ranks(Fault::Destructor),
];

fn machine((name, overrides): Machine) -> MachineSpec {
    MachineSpec::preset(name).unwrap().with_all(overrides.iter().copied()).unwrap()
}

/// All that can be seen of a workload.
fn everything(outcome: Result<Outcome, WorkloadError>) -> String {
    let Outcome { report, check, ranks } = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return format!("{error}\n{error:?}"),
    };
    let mut trace = Writer::new(Vec::new(), Format::Chrome).unwrap();
    timeline::write(&report, &mut trace).unwrap();
    let trace = String::from_utf8(trace.finish().unwrap()).unwrap();
    let events = report.events;
    let path = &report.critical_path;
    format!("{report}\n{events} {path:?}\n{check:?} {ranks:?}\n{}\n{trace}", report.op_log())
}

impl Case {
    /// Returns all that can be seen of it; what process 0 returns counts.
    pub(crate) fn run(&self, layout: &ShardLayout, data: bool) -> String {
        let options = Options { data, record: data, critical_path: true, ..Options::default() };
        self.run_with(layout, options)
    }

    /// Does the same with other options.
    pub(crate) fn run_with(&self, layout: &ShardLayout, options: Options) -> String {
        match *self {
            Workload(spec, name, given) => {
                let (machine, workload) = (machine(spec), find(name).unwrap());
                let settings = match workload.settings(&machine, given) {
                    Ok(settings) => settings,
                    Err(error) => return format!("{error:?}"),
                };
                everything(workload.run_on(layout, &Setup::new(machine, options), &settings))
            }
            Row(spec, operation, bytes) => {
                let sweep = Sweep {
                    machine: machine(spec),
                    options,
                    ccl: CclConfig::builtin(),
                    operation,
                    combine: ReduceOp::Sum,
                    dtype: DType::F32,
                    ranks: None,
                };
                format!("{:?}", sweep.measure_on(layout, bytes, None))
            }
            Ranks(fault) => shards::run_over(&layout.at_most(8), |exchange| {
                faults::run(fault, Options { exchange, ..options.clone() })
            }),
        }
    }
}
