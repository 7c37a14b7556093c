//! Our side of `benches/peers/run sim`: one case a run, one JSON object on standard output.
//!
//! ```text
//! sim_bench ring --ranks P [--machine PRESET] [--data on|off] [--path on|off] [--trace FILE] [--repeat N]
//! sim_bench slot-reduce | dot | gemm
//! sim_bench build --sips N --pes N
//! ```
#![expect(clippy::cast_precision_loss, reason = "small numbers")]

use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::kernel::{Gemm, Operand};
use phalanx_sim::machine::{Machine, Options};
use phalanx_sim::report::Report;
use phalanx_sim::spec::Efficiency;
use phalanx_sim::topology::PeId;
use phalanx_sim::value::{Binary, DType, Evaluator, Inline, Value};
use phalanx_sim::{MachineSpec, Time, timeline};
use phalanx_torch::Pool;
use phalanx_trace::{Format, Writer};
use phalanx_workloads::ring;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let options = Arguments::new(arguments)?;
    let result = match case.as_str() {
        "ring" => ring(&options)?,
        "slot-reduce" => json!({ "us": slot_reduce() }),
        "dot" => json!({ "us": dot() }),
        "gemm" => gemm()?,
        "build" => build(&options)?,
        _ => return Err("a case is wanted: ring, slot-reduce, dot, gemm or build".into()),
    };
    #[expect(clippy::print_stdout, reason = "the result is what this program is for")]
    {
        println!("{result}");
    }
    Ok(())
}

/// `--name value` pairs.
struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn new(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut pairs = BTreeMap::new();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{name}` wants a value"))?;
            pairs.insert(name, value);
        }
        Ok(Self(pairs))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str, default: usize) -> Outcome<usize> {
        Ok(self.text(name).map_or(Ok(default), str::parse)?)
    }
}

fn bare(overrides: &[String]) -> Outcome<MachineSpec> {
    Ok(MachineSpec::preset("bare")?.with_all(overrides)?)
}

/// The vector of each rank, and the slots it travels in.
const VECTOR: usize = 16 << 20;
const EDGE: EdgeSpec = EdgeSpec {
    n_slots: 4,
    slot_size: 16 << 10,
    buffer_kind: phalanx_sim::ipcq::BufferKind::Tcm,
    backpressure: phalanx_sim::ipcq::Backpressure::Sleep,
    vc_chunk_size: 0,
    ipcq_credit_size_bytes: 0,
    delay: Time::ZERO,
    efficiency: Efficiency::FULL,
};

fn ring(arguments: &Arguments) -> Outcome<Json> {
    let ranks = arguments.number("--ranks", 64)?;
    let data = arguments.text("--data") == Some("on");
    let critical_path = arguments.text("--path") == Some("on");
    let trace = arguments.text("--trace").map(Path::new);
    let spec = match arguments.text("--machine") {
        Some(name) => MachineSpec::preset(name)?.with(&format!("system.sips.count={ranks}"))?,
        None => bare(&[format!("system.sips.count={ranks}")])?,
    };
    let inputs = if data { Some(vectors(ranks)) } else { None };
    let evaluator: Arc<dyn Evaluator> =
        if data { Arc::new(Pool::new(2)) } else { Arc::new(Inline) };
    let (mut cpu, mut wall, mut report, mut exact) = (Vec::new(), Vec::new(), None, true);
    for _ in 0..arguments.number("--repeat", 1)? {
        let (started, cpu_before) = (Instant::now(), cpu_seconds());
        let options = Options {
            data,
            record: trace.is_some(),
            critical_path,
            evaluator: evaluator.clone(),
            ..Options::default()
        };
        let (run, results) = ring_once(&spec, options, inputs.as_deref())?;
        write_trace(&run, trace)?;
        cpu.push(cpu_seconds() - cpu_before);
        wall.push(started.elapsed().as_secs_f64());
        exact &= inputs.as_deref().is_none_or(|inputs| is_exact(&results, inputs));
        report = Some(run);
    }
    let report = report.ok_or("`--repeat` wants at least 1")?;
    let chunks: u64 = report.edges.iter().map(|edge| edge.messages).sum();
    Ok(json!({
        "simulated_ps": report.simulated.as_ps(), "ready_ps": report.simulated.as_ps(), "hops": chunks,
        "cpu_s": median(&mut cpu), "wall_s": median(&mut wall), "events": report.events,
        "max_rss_bytes": max_rss(), "bit_exact": if data { Json::from(exact) } else { Json::Null },
    }))
}

/// One ring, and every rank's result, computed.
fn ring_once(
    spec: &MachineSpec,
    options: Options,
    inputs: Option<&[Value]>,
) -> Outcome<(Report, Vec<Value>)> {
    let evaluator = options.evaluator.clone();
    let mut machine = Machine::new(spec.clone(), options);
    let vector = |rank: u32| {
        inputs
            .map_or_else(|| Value::zeros(DType::F32, VECTOR / 4), |all| all[rank as usize].clone())
    };
    let regions = ring::place(&machine, spec.sips.count, vector)?;
    ring::launch(&mut machine, &regions, EDGE);
    let report = machine.run()?;
    let mut results = Vec::new();
    for region in &regions {
        results.extend(machine.read(region)?);
    }
    let parts: Vec<Value> = results.first().map(Value::pending_parts).unwrap_or_default();
    evaluator.force(&parts);
    Ok((report, results))
}

/// Numbers whose sums are not exact, so that the order of additions shows.
fn vectors(ranks: usize) -> Vec<Value> {
    let element = |rank: usize, index: usize| {
        let x = (rank * 0x9E37_79B9 + index).wrapping_mul(0x85EB_CA6B) >> 7;
        (x & 0xFFFF) as f32 / 65_536.0
    };
    let vector =
        |rank| Value::from_vec_f32((0..VECTOR / 4).map(|index| element(rank, index)).collect());
    (0..ranks).map(vector).collect()
}

/// True if results are the sums in ring order: the segment of rank `r` starts with `r` and goes up.
fn is_exact(results: &[Value], inputs: &[Value]) -> bool {
    let (ranks, elements) = (inputs.len(), VECTOR / 4);
    let inputs: Vec<Vec<f32>> = inputs.iter().map(Value::to_f32).collect();
    let got: Vec<f32> = results[0].to_f32();
    let same = (0..elements).step_by(97).all(|index| {
        let segment = (0..ranks).find(|s| index < elements * (s + 1) / ranks).unwrap_or(0);
        let sum = (1..ranks).fold(inputs[segment][index], |sum, step| {
            sum + inputs[(segment + step) % ranks][index]
        });
        sum.to_bits() == got[index].to_bits()
    });
    same && results[ranks - 1].slice(0, 4096).to_f32() == got[..4096]
}

fn write_trace(report: &Report, path: Option<&Path>) -> Outcome<()> {
    let Some(path) = path else { return Ok(()) };
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut writer = Writer::new(file, Format::from_path(path)?)?;
    timeline::write(report, &mut writer)?;
    writer.finish()?;
    Ok(())
}

/// Microseconds for one 16 KiB f16 slot: recording the sum and computing it.
fn slot_reduce() -> f64 {
    let slot = |seed: usize| {
        Value::from_f32(
            DType::F16,
            &(0..8192).map(|i| ((i * seed) % 101) as f32).collect::<Vec<_>>(),
        )
    };
    let (a, b) = (slot(3), slot(7));
    microseconds(2000, || Inline.force(&[Value::binary(Binary::Add, &a, &b)]))
}

/// Microseconds for one 128³ product of f16 tiles.
fn dot() -> f64 {
    let tile = |seed: usize| {
        Value::from_f32(
            DType::F16,
            &(0..128 * 128).map(|i| ((i * seed) % 17) as f32 / 8.0).collect::<Vec<_>>(),
        )
    };
    let (a, b) = (tile(3), tile(7));
    microseconds(500, || Inline.force(&[Value::dot(&a, &b, [128, 128, 128], None)]))
}

fn microseconds(repeats: usize, mut work: impl FnMut()) -> f64 {
    let mut times = Vec::new();
    for _ in 0..repeats {
        let started = Instant::now();
        work();
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    median(&mut times)
}

/// A simulated 2048³ f16 product with its numbers, on one thread, against the library's f32 product of that size.
fn gemm() -> Outcome<Json> {
    const SIDE: usize = 2048;
    let flops = 2.0 * (SIDE as f64).powi(3);
    let ours = (0..3).map(|_| simulated_product(SIDE)).collect::<Outcome<Vec<f64>>>()?;
    let matrix = ndarray::Array2::from_shape_fn((SIDE, SIDE), |(i, j)| ((i * 3 + j) % 17) as f32);
    let library = microseconds(3, || drop(std::hint::black_box(matrix.dot(&matrix)))) / 1e6;
    Ok(json!({
        "ours_gflops": flops / median(&mut ours.clone()) / 1e9,
        "library_gflops": flops / library / 1e9,
        "library": "matrixmultiply (ndarray)",
    }))
}

/// Seconds from launch to the last number.
fn simulated_product(side: usize) -> Outcome<f64> {
    let mut machine = Machine::new(bare(&[])?, Options::default());
    let numbers: Vec<f32> = (0..side * side).map(|i| ((i * 7) % 17) as f32 - 8.0).collect();
    let place = || machine.resident(0, 0, Value::from_f32(DType::F16, &numbers));
    let (a, b) = (place()?, place()?);
    let c = machine.zeros(0, 0, DType::F16, side * side)?;
    let operand = |region| Operand::row_major(region, side);
    let [a, b, out] = [operand(a), operand(b), operand(c)];
    let gemm = Gemm { a, b, c: out, dims: [side; 3], tile: [128; 3], buffers: 2, share: (0, 1) };
    let started = Instant::now();
    machine.launch(0, "gemm", &[PeId::first(0)], move |tl| async move { gemm.run(&tl).await });
    machine.run()?;
    let result = machine.read(&c)?.ok_or("no data")?;
    Inline.force(&result.pending_parts());
    Ok(started.elapsed().as_secs_f64())
}

fn build(arguments: &Arguments) -> Outcome<Json> {
    let (sips, pes) = (arguments.number("--sips", 1024)?, arguments.number("--pes", 64)?);
    let started = Instant::now();
    let grid = format!(
        "cube.pes={{rows: {pes}, columns: 1, link: {{bandwidth: 256 GB/s, latency: 5 ns}}}}"
    );
    let spec = bare(&[format!("system.sips.count={sips}"), grid])?;
    let machine = Machine::new(spec, Options::default());
    let wall = started.elapsed().as_secs_f64();
    let built: usize = (0..machine.spec().sips.count).map(|sip| machine.pes(sip).len()).sum();
    Ok(json!({ "wall_s": wall, "max_rss_bytes": max_rss(), "pes": built }))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The time this process has spent on a processor.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory this process has held.
fn max_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    kib * 1024
}
