//! Our side of `benches/peers/run ranks`: one case a run, one JSON object on standard output.
//!
//! ```text
//! ranks_bench front RANKS ROUNDS    an all-reduce by ranks and, in turns, by its kernels alone
//! ranks_bench ranks RANKS ROUNDS    an all-reduce by ranks alone, for the CPU time of the whole program
//! ranks_bench preset NAME ROUNDS    an all-reduce by the ranks of a preset, where everything costs time
//! ranks_bench bus                   a large ring all-reduce with enough slots: its share of the bound
//! ```

use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::value::DType;
use phalanx_sim::{MachineSpec, Time};
use phalanx_torch::ccl::sweep::Sweep;
use phalanx_torch::ccl::trial::{Trial, launch};
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation, Plan, ReduceOp};
use phalanx_torch::{Context, distributed, multiprocessing};
use serde_json::{Value as Json, json};
use std::error::Error;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ELEMENTS: usize = 4 << 20;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match *words {
        ["front", ranks, rounds] => front(ranks.parse()?, rounds.parse()?)?,
        ["ranks", ranks, rounds] => ranks_alone(ranks.parse()?, rounds.parse()?)?,
        ["preset", name, rounds] => preset(name, rounds.parse()?)?,
        ["bus"] => bus()?,
        _ => return Err(
            "a case is wanted: front RANKS ROUNDS, ranks RANKS ROUNDS, preset NAME ROUNDS, or bus"
                .into(),
        ),
    };
    #[expect(clippy::print_stdout, reason = "the result is what this program is for")]
    {
        println!("{result}");
    }
    Ok(())
}

fn machine(ranks: u32) -> Outcome<MachineSpec> {
    Ok(MachineSpec::preset("bare")?.with(&format!("system.sips.count={ranks}"))?)
}

fn timing_only() -> Options {
    Options { data: false, ..Options::default() }
}

/// The same ring all-reduce of 16 MiB, by ranks and by kernels; the least time of each.
fn front(ranks: u32, rounds: u32) -> Outcome<Json> {
    let spec = machine(ranks)?;
    let ccl = CclConfig::parse("ccl.yaml", "defaults: { algorithm: ring }", &Algorithm::names())?;
    let plan = ccl.plan("ring", &Algorithm::names()).ok_or("there is no ring")?;
    let mut least = [Duration::MAX; 2];
    for _ in 0..rounds {
        let (start, by_ranks) = (Instant::now(), by_ranks(&spec, &ccl)?);
        least[0] = least[0].min(start.elapsed());
        let (start, by_kernels) = (Instant::now(), by_kernels(&spec, &plan)?);
        least[1] = least[1].min(start.elapsed());
        if by_ranks != by_kernels {
            return Err(format!("{by_ranks} by ranks, {by_kernels} by kernels").into());
        }
    }
    let [front, kernels] = least.map(|time| time.as_secs_f64() * 1e3);
    Ok(json!({ "front_ms": front, "kernels_ms": kernels }))
}

/// The ring all-reduce of 16 MiB by ranks, so many times.
fn ranks_alone(ranks: u32, rounds: u32) -> Outcome<Json> {
    let spec = machine(ranks)?;
    let ccl = CclConfig::parse("ccl.yaml", "defaults: { algorithm: ring }", &Algorithm::names())?;
    for _ in 0..rounds {
        by_ranks(&spec, &ccl)?;
    }
    Ok(json!({ "rounds": rounds }))
}

/// The ring all-reduce of 16 MiB by all ranks of a preset; the least time.
fn preset(name: &str, rounds: u32) -> Outcome<Json> {
    let spec = MachineSpec::preset(name)?;
    let ccl = CclConfig::parse("ccl.yaml", "defaults: { algorithm: ring }", &Algorithm::names())?;
    let mut least = Duration::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        by_ranks(&spec, &ccl)?;
        least = least.min(start.elapsed());
    }
    Ok(json!({ "ms": least.as_secs_f64() * 1e3 }))
}

fn by_ranks(spec: &MachineSpec, ccl: &CclConfig) -> Outcome<Time> {
    let mut context = Context::new(spec.clone(), timing_only()).with_ccl(ccl.clone());
    let ranks = context.default_ranks();
    multiprocessing::spawn(&mut context, ranks, |_, cx| async move {
        distributed::init_process_group(&cx)?;
        let x = cx.empty([ELEMENTS], DType::F32)?;
        distributed::all_reduce(&cx, &x, ReduceOp::Sum, None).await
    })?;
    Ok(context.report().simulated)
}

fn by_kernels(spec: &MachineSpec, plan: &Plan) -> Outcome<Time> {
    let mut machine = Machine::new(spec.clone(), timing_only());
    let members = (0..spec.sips.count).collect();
    let trial = Trial::new(Operation::AllReduce, members, ELEMENTS);
    launch(&mut machine, &trial, plan)?;
    Ok(machine.run()?.simulated)
}

/// A ring all-reduce of 256 MiB over 8 SIPs with 16 slots: its bus bandwidth by that of the link.
fn bus() -> Outcome<Json> {
    let text = "defaults: { algorithm: ring, n_slots: 16 }";
    let sweep = Sweep {
        machine: machine(8)?,
        options: timing_only(),
        ccl: CclConfig::parse("ccl.yaml", text, &Algorithm::names())?,
        operation: Operation::AllReduce,
        combine: ReduceOp::Sum,
        dtype: DType::F32,
        ranks: None,
    };
    let row = sweep.measure(256 << 20, None)?;
    // A lower bound of `2(P-1)/P · n/b` is a bus bandwidth of `b`.
    let link = 128.0;
    Ok(json!({ "percent": row.out_of_place.busbw / link * 100.0 }))
}
