//! Tables of measurements, their simulation, and figures fitted to them.

mod fitting;
mod reading;

use phalanx_sim::MachineSpec;
use phalanx_sim::machine::Options;
use phalanx_torch::ccl::sweep::Sweep;
use phalanx_torch::ccl::{CclConfig, Operation, ReduceOp};
use phalanx_workloads::truth::{
    Bench, Selection, Size, Subject, Table, compare, read, summary, svg,
};
use phalanx_workloads::{WorkloadError, find};

/// The tables of a text.
fn tables(text: &str) -> Vec<Table> {
    read("mine.csv", text, &Selection::default()).unwrap_or_else(|errors| panic!("{errors}"))
}

const MIXED: &str = "\
# two operations, and numbers of ranks
op,ranks,dtype,size_bytes,time_us
all_reduce,4,float,1024,10
all_gather,2,half,65536,20
all_reduce,4,float,1048576,30
";

#[test]
fn tru_2_a_row_takes_the_time_of_its_call() {
    let machine = MachineSpec::preset("quad-sip").unwrap();
    let compared = compare(&Bench::new(machine.clone()), &tables(MIXED), 2, &|_| {}).unwrap();
    let all_reduce = Sweep {
        machine: machine.clone(),
        options: Options { data: false, ..Options::default() },
        ccl: CclConfig::builtin(),
        operation: Operation::AllReduce,
        combine: ReduceOp::Sum,
        dtype: phalanx_sim::DType::F32,
        ranks: None,
    };
    for point in &compared[0].points {
        let Size::Bytes(bytes) = point.point.size else { panic!("{point:?}") };
        let row = all_reduce.measure(bytes, None).unwrap();
        assert_eq!(point.simulated.time, row.out_of_place.time, "TRU-2: {bytes}");
        assert_eq!(point.simulated.algorithm(), Some(row.algorithm.as_str()), "TRU-2");
    }
    let gemm = "m,n,k,time_us\n256,512,128,7\n";
    let compared = compare(&Bench::new(machine.clone()), &tables(gemm), 1, &|_| {}).unwrap();
    let workload = find("gemm").unwrap();
    let given = [("m", "256"), ("n", "512"), ("k", "128"), ("dtype", "f16")];
    let settings = workload.settings(&machine, &given).unwrap();
    let options = Options { data: false, ..Options::default() };
    let run = || -> Result<_, WorkloadError> { workload.run(machine.clone(), options, &settings) };
    let simulated = run().unwrap().report.simulated;
    assert_eq!(compared[0].points[0].simulated.time, simulated, "TRU-2");
    assert_eq!(compared[0].table.subject, Subject::Gemm);
}

#[test]
fn tru_3_the_number_of_threads_changes_nothing() {
    let bench = Bench::new(MachineSpec::preset("quad-sip").unwrap());
    let tables = tables(MIXED);
    let one = compare(&bench, &tables, 1, &|_| {}).unwrap();
    assert_eq!(compare(&bench, &tables, 5, &|_| {}).unwrap(), one, "TRU-3");
    let of: Vec<(u32, usize)> =
        one.iter().map(|compared| (compared.table.ranks, compared.points.len())).collect();
    assert_eq!(of, [(4, 2), (2, 1)], "in the order of the file");
}

#[test]
fn a_row_with_more_ranks_than_devices_is_named() {
    let text = MIXED.replace("all_gather,2", "all_gather,64") + "all_reduce,8,float,8,1\n";
    let bench = Bench::new(MachineSpec::preset("quad-sip").unwrap());
    for threads in [1, 3] {
        let error = compare(&bench, &tables(&text), threads, &|_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mine.csv:4: all_gather, 64 ranks, half of 65536: `quad-sip` has 4 devices, and the row has 64 ranks"
        );
    }
}

#[test]
fn errors_in_few_numbers() {
    let few = summary([0.1, -0.3, 0.05, 0.0]);
    assert_eq!((few.points, few.worst, few.within_10, few.within_20), (4, 0.3, 0.75, 0.75));
    assert!((few.mean - 0.1125).abs() < 1e-12);
    assert_eq!(summary([]).points, 0);
}

#[test]
fn a_drawing_is_whole_and_escaped() {
    let bench = Bench::new(MachineSpec::preset("quad-sip").unwrap());
    let text = format!(
        "{MIXED}\nop,ranks,dtype,size_bytes,time_us,system\nall_gather,2,half,64,9,<&\"a\n"
    );
    let error = read("x", &text, &Selection::default()).unwrap_err();
    assert!(error.to_string().contains("unknown operation `op`"), "{error}");
    let text = "system,op,ranks,dtype,size_bytes,time_us\n<&b,all_reduce,4,float,64,9\n";
    let compared = compare(&bench, &tables(text), 1, &|_| {}).unwrap();
    let drawn = svg(&compared);
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"), "{drawn}");
    assert!(drawn.contains("&lt;&amp;b") && !drawn.contains("<&b"), "{drawn}");
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    assert_eq!(drawn.matches("<circle").count(), 2, "one point and the legend");
}

/// Times of few bytes on eight H100 that were not fitted to: 9.5 us for an all-reduce of four ranks; 5.4 and 7.2 us for all-gathers of
/// two and four.
#[test]
fn numbers_of_ranks_that_were_not_fitted_are_met() {
    let text = "op,ranks,dtype,size_bytes,time_us\n\
                all_reduce,4,half,512,9.5\nall_gather,2,half,512,5.4\nall_gather,4,half,512,7.2\n";
    let tables = read("small.csv", text, &Selection::default()).expect("a table");
    let bench = Bench::new(MachineSpec::preset("hgx-h100").expect("a preset"));
    for compared in compare(&bench, &tables, 1, &|_| {}).expect("rows that can run") {
        let error = compared.points[0].error;
        assert!(error.abs() < 0.12, "{}: {error}", compared.table.heading());
    }
}
