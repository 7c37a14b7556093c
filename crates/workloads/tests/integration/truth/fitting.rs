//! Figures fitted to tables that a machine with known figures has made.

use phalanx_sim::MachineSpec;
use phalanx_sim::config::{parse_machine, preset};
use phalanx_torch::ccl::CclConfig;
use phalanx_workloads::truth::{
    Bench, Fit, FitError, Selection, Table, Unclear, compare, fit, read,
};

/// The default machine with these figures marked.
fn marked(figures: &[&str]) -> String {
    let lines: Vec<String> =
        figures.iter().map(|figure| format!("  {figure}: fitted  # by hand\n")).collect();
    format!("{}sources:\n{}", preset("quad-sip").unwrap().text, lines.concat())
}

/// A table of what `machine` does.
fn table(machine: &MachineSpec, sizes: &[u64]) -> Vec<Table> {
    let rows: Vec<String> =
        sizes.iter().map(|size| format!("all_reduce,4,half,{size},1\n")).collect();
    let text = format!("op,ranks,dtype,size_bytes,time_us\n{}", rows.concat());
    let mut tables = read("made.csv", &text, &Selection::default()).unwrap();
    let compared = compare(&Bench::new(machine.clone()), &tables, 2, &|_| {}).unwrap();
    for (point, simulated) in tables[0].points.iter_mut().zip(&compared[0].points) {
        point.measured_us = simulated.simulated.us();
    }
    tables
}

fn fitted(text: &str, tables: &[Table], threads: usize) -> Fit {
    let fit = fit(("mine.yaml", text), &CclConfig::builtin(), tables, threads, &|_| {});
    fit.unwrap_or_else(|error| panic!("{error}"))
}

fn mean(tables: &[phalanx_workloads::truth::Compared]) -> f64 {
    tables[0].summary().mean
}

const SIZES: [u64; 6] = [64, 1024, 16 << 10, 256 << 10, 1 << 20, 4 << 20];
const LINK: [&str; 2] = ["system.sips.link.bandwidth", "system.sips.link.latency"];

#[test]
fn fit_1_known_figures_are_found_again_by_any_number_of_threads() {
    let text = marked(&LINK);
    let set = ["system.sips.link.bandwidth=80 GB/s", "system.sips.link.latency=900 ns"];
    let truth = parse_machine("mine.yaml", &text).unwrap().with_all(set).unwrap();
    let tables = table(&truth, &SIZES);
    let one = fitted(&text, &tables, 1);
    assert!(mean(&one.before) > 0.2, "{:?}", one.before);
    assert!(mean(&one.after) < 0.01, "FIT-3: {:?}", one.changes);
    let number =
        |at: usize| -> f64 { one.changes[at].after.split(' ').next().unwrap().parse().unwrap() };
    assert!((number(0) / 80.0 - 1.0).abs() < 0.05, "{:?}", one.changes);
    assert!((number(1) / 900.0 - 1.0).abs() < 0.05, "{:?}", one.changes);
    let other = fitted(&text, &tables, 3);
    assert_eq!((&other.text, &other.changes), (&one.text, &one.changes), "FIT-1");
    assert_eq!(other.after, one.after, "FIT-1");
}

#[test]
fn fit_2_only_marked_figures_change() {
    let text = marked(&LINK[1..]);
    let truth = parse_machine("m", &text).unwrap().with("system.sips.link.latency=750 ns").unwrap();
    let fit = fitted(&text, &table(&truth, &SIZES[..4]), 2);
    let [change] = fit.changes.as_slice() else { panic!("{:?}", fit.changes) };
    assert_eq!(change.before, "500 ns");
    assert_eq!(
        text.replacen("latency: 500 ns", &format!("latency: {}", change.after), 1),
        fit.text,
        "FIT-2"
    );
    let again = parse_machine("again", &fit.text).unwrap();
    assert_eq!(again.sources, parse_machine("m", &text).unwrap().sources, "FIT-2: still marked");
}

#[test]
fn fit_3_a_perfect_machine_stays_as_it_is() {
    let text = marked(&LINK);
    let truth = parse_machine("m", &text).unwrap();
    let fit = fitted(&text, &table(&truth, &SIZES[..3]), 2);
    assert_eq!(fit.text, text, "FIT-3");
    assert!(mean(&fit.after) <= mean(&fit.before), "FIT-3");
}

#[test]
fn fit_4_points_whose_runs_differ_count_less() {
    let text = marked(&LINK[1..]);
    let truth = parse_machine("m", &text).unwrap().with("system.sips.link.latency=750 ns").unwrap();
    let mut tables = table(&truth, &[64, 128, 256, 512]);
    // Three of four points are a third too long.
    for point in &mut tables[0].points[1..] {
        point.measured_us *= 4.0 / 3.0;
    }
    let found = |tables: &[Table]| -> f64 {
        let change = &fitted(&text, tables, 1).changes[0];
        change.after.split(' ').next().unwrap().parse().unwrap()
    };
    let trusting = found(&tables);
    for point in &mut tables[0].points[1..] {
        point.spread = 0.3;
    }
    let doubting = found(&tables);
    assert!((doubting - 750.0).abs() < (trusting - 750.0).abs(), "FIT-4: {doubting}, {trusting}");
    assert!((doubting / 750.0 - 1.0).abs() < 0.05, "FIT-4: {doubting}");
}

#[test]
fn fit_4_a_table_says_how_far_runs_differ() {
    let text = "op,ranks,dtype,size_bytes,time_us,min_us,max_us\nall_reduce,4,half,64,10,9,16\nall_reduce,4,half,128,10,,\n";
    let tables = read("made.csv", text, &Selection::default()).unwrap();
    let spreads: Vec<f64> = tables[0].points.iter().map(|point| point.spread).collect();
    assert!((spreads[0] - (4.0f64 / 3.0).ln()).abs() < 1e-9 && spreads[1].abs() < 1e-9, "FIT-4");
}

#[test]
fn what_the_points_cannot_tell_is_said() {
    // Small messages alone say nothing of bandwidths and matrix engines; two latencies of one way are one latency.
    let figures =
        ["system.host.link.latency", "pe.gemm.rate", "cube.hbm.latency", "pe.dma.latency"];
    let text = marked(&figures);
    let truth = parse_machine("m", &text).unwrap().with("pe.dma.latency=80 ns").unwrap();
    let fit = fitted(&text, &table(&truth, &[64, 128, 256]), 2);
    assert!(fit.unclear.contains(&Unclear::NoEffect("pe.gemm.rate".into())), "{:?}", fit.unclear);
    let together = |unclear: &Unclear| matches!(unclear, Unclear::Together(figures) if figures.contains(&"pe.dma.latency".to_owned()));
    assert!(fit.unclear.iter().any(together), "{:?}", fit.unclear);
}

#[test]
fn nothing_to_fit_is_said() {
    let ccl = CclConfig::builtin();
    let tables = table(&MachineSpec::preset("quad-sip").unwrap(), &[64]);
    let of = |text: &str| fit(("mine.yaml", text), &ccl, &tables, 1, &|_| {}).unwrap_err();
    let none = of(preset("quad-sip").unwrap().text);
    assert!(matches!(none, FitError::NothingMarked(_)), "{none}");
    assert_eq!(
        none.to_string(),
        "no figure of `mine.yaml` is marked `fitted` in its section `sources`"
    );
    let free = format!(
        "{}sources: {{ system.host.link.latency: fitted }}\n",
        preset("bare").unwrap().text
    );
    assert_eq!(
        of(&free).to_string(),
        "`system.host.link.latency` cannot be fitted: its value is `0 ns`"
    );
    assert!(matches!(of("name: x"), FitError::Invalid(_)));
}
