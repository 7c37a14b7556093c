//! Every number of the closed forms for links, slots, the bounded-slot ring and GEMM, exact, through the public API.

use phalanx_sim::MachineSpec;
use phalanx_sim::machine::Options;
use phalanx_workloads::{self as workload, Outcome};

/// Runs a workload on `bare` with overrides; both lists are `name=value`.
fn bare(name: &str, overrides: &[&str], parameters: &[(&str, &str)], options: Options) -> Outcome {
    let machine = MachineSpec::preset("bare").and_then(|machine| machine.with_all(overrides));
    let machine = machine.unwrap_or_else(|error| panic!("{error}"));
    let workload = workload::find(name).unwrap();
    let settings = workload.settings(&machine, parameters).unwrap();
    workload.run(machine, options, &settings).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The simulated nanoseconds, with and without data, which must be the same (MCH-3).
fn time(name: &str, overrides: &[&str], parameters: &[(&str, &str)]) -> String {
    let off = bare(name, overrides, parameters, Options { data: false, ..Options::default() });
    let on = bare(name, overrides, parameters, Options::default());
    assert_eq!(on.report.simulated, off.report.simulated, "MCH-3");
    assert!(off.check.is_none());
    let check = on.check.expect("data is on");
    assert!(check.correct, "{name} {parameters:?}: {check:?}");
    on.report.simulated.to_string()
}

fn timing(name: &str, overrides: &[&str], parameters: &[(&str, &str)]) -> String {
    let options = Options { data: false, ..Options::default() };
    bare(name, overrides, parameters, options).report.simulated.to_string()
}

#[test]
fn links() {
    assert_eq!(time("ping", &[], &[("bytes", "64 KiB")]), "1012 ns");
    assert_eq!(time("ping", &[], &[("bytes", "4 KiB"), ("messages", "8")]), "756 ns");
    assert_eq!(time("ping", &[], &[("to", "3"), ("bytes", "64 KiB")]), "3036 ns");
    assert_eq!(
        time("ping", &[], &[("to", "3"), ("bytes", "64 KiB"), ("chunk", "4 KiB")]),
        "2076 ns"
    );
}

#[test]
fn links_of_other_topologies() {
    let one = [("to", "5"), ("bytes", "64 KiB")];
    for topology in ["fully_connected", "switch"] {
        assert_eq!(
            time("ping", &[&format!("system.sips.topology={topology}")], &one),
            "1012 ns",
            "{topology}"
        );
    }
    let grid = |kind: &str| {
        format!(
            "system.sips={{count: 16, topology: {kind}, rows: 4, columns: 4, link: {{bandwidth: 128 GB/s, latency: 500 ns}}}}"
        )
    };
    let corner = [("to", "15"), ("bytes", "64 KiB")];
    assert_eq!(time("ping", &[&grid("mesh_2d")], &corner), "6072 ns");
    assert_eq!(time("ping", &[&grid("torus_2d")], &corner), "2024 ns");
}

#[test]
fn slots_and_credits() {
    for (slots, expected) in
        [("1", "71692 ns"), ("4", "17932 ns"), ("9", "8692 ns"), ("16", "8692 ns")]
    {
        let parameters = [("chunks", "64"), ("slot_size", "16 KiB"), ("n_slots", slots)];
        assert_eq!(time("queue", &[], &parameters), expected, "K={slots}");
    }
}

/// `S_j = max(S_{j-1} + ser, R_{j-K} + ac)`; `R_j = max(S_j + ser + a, R_{j-1}) + c`, in nanoseconds.
fn recurrence(chunks: usize, slots: usize, [ser, a, c]: [u64; 3]) -> u64 {
    let (mut sent, mut received) = (Vec::new(), Vec::<u64>::new());
    for j in 0..chunks {
        let wire = if j > 0 { sent[j - 1] + ser } else { 0 };
        let credit = if j >= slots { received[j - slots] + a } else { 0 };
        let start = wire.max(credit);
        let before = if j > 0 { received[j - 1] } else { 0 };
        received.push((start + ser + a).max(before) + c);
        sent.push(start);
    }
    received[chunks - 1]
}

#[test]
fn slots_obey_the_recurrence_for_any_numbers() {
    for (chunks, slots, slot_kib, consume) in [
        (1, 1, 1, 0),
        (7, 2, 16, 100),
        (33, 5, 32, 300),
        (64, 9, 16, 20),
        (20, 3, 64, 1000),
        (50, 50, 4, 33),
    ] {
        let expected = recurrence(chunks, slots, [slot_kib * 8, 500, consume]);
        let text = [
            chunks.to_string(),
            format!("{slot_kib} KiB"),
            slots.to_string(),
            format!("{consume} ns"),
        ];
        let parameters = [
            ("chunks", &*text[0]),
            ("slot_size", &*text[1]),
            ("n_slots", &*text[2]),
            ("consume", &*text[3]),
        ];
        assert_eq!(
            time("queue", &[], &parameters),
            format!("{expected} ns"),
            "IPC-4: {parameters:?}"
        );
    }
}

#[test]
fn ring_all_reduce_step_by_step() {
    let parameters = [("bytes", "1 MiB"), ("slot_size", "128 KiB"), ("n_slots", "2")];
    assert_eq!(time("ring", &[], &parameters), "23128 ns");
}

#[test]
fn ring_all_reduce_through_bounded_slots() {
    let parameters = [("bytes", "16 MiB"), ("slot_size", "16 KiB"), ("n_slots", "4")];
    for (ranks, expected) in [("4", "439180 ns"), ("16", "549004 ns"), ("64", "576460 ns")] {
        let ranks = format!("system.sips.count={ranks}");
        assert_eq!(timing("ring", &[&ranks], &parameters), expected, "{ranks}");
    }
}

#[test]
fn gemm_on_one_pe() {
    let dma =
        |bandwidth: &str| [format!("pe.dma={{bandwidth: {bandwidth} GB/s, latency: 200 ns}}")];
    let run = |bandwidth: &str, buffers: &str| {
        let [dma] = dma(bandwidth);
        timing("gemm", &[&dma], &[("buffers", buffers), ("pes", "1")])
    };
    assert_eq!(run("256", "2"), "262928 ns", "compute-bound");
    assert_eq!(run("64", "2"), "627912 ns", "memory-bound");
    let single = |tl: u64, tm: u64, ts: u64| format!("{} ns", 64 * (8 * (tl + tm) + ts));
    assert_eq!(run("256", "1"), single(200 + 256, 512, 200 + 128));
    assert_eq!(run("64", "1"), single(200 + 1024, 512, 200 + 512));
}
