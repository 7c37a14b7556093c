//! Tables in CSV and as nccl-tests prints them, good and bad.

use super::tables;
use phalanx_sim::DType;
use phalanx_torch::ccl::Operation;
use phalanx_workloads::truth::{Selection, Size, Subject, Table, read};
use proptest::prelude::*;

/// Returns the error of a text.
fn refused(text: &str) -> String {
    match read("my.csv", text, &Selection::default()) {
        Ok(tables) => panic!("accepted: {tables:?}"),
        Err(errors) => errors.to_string(),
    }
}

/// Sizes and times of a table.
fn points(table: &Table) -> Vec<(u64, f64)> {
    let of = |size| match size {
        Size::Bytes(bytes) => bytes,
        Size::Gemm([m, n, k]) => m * n * k,
    };
    table.points.iter().map(|point| (of(point.size), point.measured_us)).collect()
}

#[test]
fn tru_1_csv_with_comments_quotes_and_other_columns() {
    let text = "\u{feff}# source: made up\r\nop,ranks,dtype,size_bytes,time_us,busbw_GBps,in_place_us,note\r\n\
                all_reduce, 8 ,float,1024,10.5,0.1,9.5,\"a, b\"\r\n\r\nalltoall,8,half,2048,12,0.1,,\r\n";
    let read = tables(text);
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].subject, Subject::Collective(Operation::AllReduce));
    assert_eq!(
        (read[0].ranks, read[0].dtype, points(&read[0])),
        (8, DType::F32, vec![(1024, 9.5)])
    );
    assert_eq!(read[1].subject, Subject::Collective(Operation::AllToAll));
    assert_eq!(points(&read[1]), [(2048, 12.0)], "without a time in place");
    assert_eq!(read[1].points[0].line, 5);
}

#[test]
fn tru_1_systems_and_joined_files_are_tables_of_their_own() {
    let names = "system,op,ranks,dtype,size_bytes,time_us\n";
    let text = format!(
        "{names}A x8,all_reduce,8,half,8,1\nB x8,all_reduce,8,half,8,2\n{names}A x8,all_reduce,8,half,16,3\n"
    );
    let read = tables(&text);
    let of: Vec<_> = read.iter().map(|table| (table.system.as_deref(), points(table))).collect();
    assert_eq!(of, [(Some("A x8"), vec![(8, 1.0), (16, 3.0)]), (Some("B x8"), vec![(8, 2.0)])]);
    let choice = Selection { system: Some("B x8".into()), ..Selection::default() };
    assert_eq!(choice.apply(read.clone()).unwrap().len(), 1);
    let none = Selection { ranks: Some(3), ..Selection::default() };
    let there = none.apply(read).unwrap_err();
    assert_eq!(there, "all_reduce, 8 ranks, half, A x8; all_reduce, 8 ranks, half, B x8");
}

#[test]
fn tru_1_matrix_products_take_their_type_from_a_column_or_the_choice() {
    let plain = "m,n,k,time_us,TFLOPs\n2,3,4,5.5,0\n";
    assert_eq!((tables(plain)[0].dtype, points(&tables(plain)[0])), (DType::F16, vec![(24, 5.5)]));
    let choice = Selection { dtype: Some(DType::F32), ..Selection::default() };
    assert_eq!(read("x", plain, &choice).unwrap()[0].dtype, DType::F32);
    let typed = "m,n,k,dtype,time_us\n2,3,4,bfloat16,5.5\n";
    assert_eq!(tables(typed)[0].dtype, DType::Bf16);
}

#[test]
fn tru_1_every_error_of_a_table_at_its_place() {
    let text = "op,ranks,dtype,size_bytes,time_us\nall_reduc,8,float,1024,10\nall_reduce,0,floot,1 KiB,-3\nall_reduce,8\n";
    insta::assert_snapshot!(refused(text), @r#"
    error: unknown operation `all_reduc`
     --> my.csv:2:1
      |
    2 | all_reduc,8,float,1024,10
      | ^^^^^^^^^ did you mean `all_reduce`?
      |
      = help: allowed: all_reduce, reduce_scatter, all_gather, broadcast, reduce, scatter, gather, all_to_all, gemm

    error: ranks cannot be `0`
     --> my.csv:3:12
      |
    3 | all_reduce,0,floot,1 KiB,-3
      |            ^ here
      |
      = help: allowed: ranks, a whole number from 1 to 65536

    error: unknown type `floot`
     --> my.csv:3:14
      |
    3 | all_reduce,0,floot,1 KiB,-3
      |              ^^^^^ did you mean `float`?
      |
      = help: allowed: float, half, bfloat16, int32, f32, f16, bf16, i32

    error: size_bytes cannot be `1 KiB`
     --> my.csv:3:20
      |
    3 | all_reduce,0,floot,1 KiB,-3
      |                    ^^^^^ here
      |
      = help: allowed: bytes, a whole number from 1 to 1099511627776

    error: time_us cannot be `-3`
     --> my.csv:3:26
      |
    3 | all_reduce,0,floot,1 KiB,-3
      |                          ^^ here
      |
      = help: allowed: microseconds, more than zero, at most an hour

    error: time_us is empty
     --> my.csv:4:13
      |
    4 | all_reduce,8
      |             ^ here
      |
      = help: allowed: microseconds, more than zero, at most an hour

    error: unknown type ``
     --> my.csv:4:13
      |
    4 | all_reduce,8
      |             ^ no such type
      |
      = help: allowed: float, half, bfloat16, int32, f32, f16, bf16, i32

    error: size_bytes is empty
     --> my.csv:4:13
      |
    4 | all_reduce,8
      |             ^ here
      |
      = help: allowed: bytes, a whole number from 1 to 1099511627776
    "#);
}

#[test]
fn tru_1_a_missing_column_and_a_file_without_rows() {
    insta::assert_snapshot!(refused("op,ranks,dtype,size_byte,time_us\nall_reduce,8,float,8,1\n"), @r#"
    error: no column `size_bytes`
     --> my.csv:1:16
      |
    1 | op,ranks,dtype,size_byte,time_us
      |                ^^^^^^^^^ did you mean `size_bytes`?
      |
      = help: allowed: CSV with the columns `op,ranks,dtype,size_bytes,time_us` or `m,n,k,time_us`, or the text output of nccl-tests or rccl-tests
    "#);
    for nothing in ["", "# only a comment\n", "hello\n", "op,ranks,dtype,size_bytes,time_us\n"] {
        let text = refused(nothing);
        assert!(text.starts_with("error: no row of measurements in this file"), "{text}");
    }
    let product = refused("op,ranks,dtype,size_bytes,time_us\ngemm,1,half,8,1\n");
    assert!(product.contains("a matrix product has `m`, `n` and `k`"), "{product}");
    let twice = refused("op,op,ranks,dtype,size_bytes,time_us\nall_reduce,all_reduce,8,half,8,1\n");
    assert!(twice.contains("column `op` twice"), "{twice}");
}

/// A log in the form of a recent nccl-tests, with the lines that launchers and the library put between.
const RECENT: &str = "\
[1,0]<stdout>:# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
[1,0]<stdout>:# Collective test starting: reduce_scatter_perf
[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 64 maxBytes 128 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
[1,0]<stdout>:#
[1,0]<stdout>:# Using devices
[1,0]<stdout>:#  Rank  0 Group  0 Pid   1887 on       here device  0 [0000:18:00] Some Accelerator
[1,0]<stdout>:#  Rank  1 Group  0 Pid   1888 on       here device  1 [0000:2a:00] Some Accelerator
[1,0]<stdout>:here:1887:1901 [0] NCCL INFO Bootstrap: Using eth0
[1,0]<stdout>:#
[1,0]<stdout>:#                                                              out-of-place                       in-place
[1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
[1,0]<stdout>:#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
[1,0]<stdout>:           0             0      half     sum      -1     0.12    0.00    0.00       0     0.11    0.00    0.00       0
[1,0]<stdout>:          64            16      half     sum      -1    10.25    0.01    0.01       0    10.12    0.01    0.01       0
[1,0]<stdout>:         128            32      half     sum      -1    10.50    0.01    0.01       0    1e+01    0.01    0.01     N/A
[1,0]<stdout>:# Out of bounds values : 0 OK
[1,0]<stdout>:# Avg bus bandwidth    : 0.0125
";

#[test]
fn tru_1_the_output_of_nccl_tests() {
    let read = tables(RECENT);
    assert_eq!(read.len(), 1);
    assert_eq!(read[0].subject, Subject::Collective(Operation::ReduceScatter));
    assert_eq!((read[0].ranks, read[0].dtype), (2, DType::F16));
    assert_eq!(points(&read[0]), [(64, 10.12), (128, 10.0)], "times in place");
    let two = RECENT.to_owned()
        + &RECENT.replace("reduce_scatter_perf", "all_gather_perf").replace("1,0", "1,7");
    let both = tables(&two);
    assert_eq!((both.len(), both[1].ranks), (2, 2), "ranks of the second test are counted anew");
    assert_eq!(both[1].subject, Subject::Collective(Operation::AllGather));
}

/// A log in the form of an old rccl-tests: no name of the operation, no root.
const OLD: &str = "\
# nThread: 1 nGpus: 3 minBytes: 48 maxBytes: 96 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid  14 on  h device  0 [0x32] Some Accelerator
#   Rank  1 Pid  14 on  h device  1 [0x35] Some Accelerator
#   Rank  2 Pid  14 on  h device  2 [0x11] Some Accelerator
#
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
          48            12     float     sum    17.10    0.00    0.00  0e+00    16.53    0.00    0.00  0e+00
";

#[test]
fn tru_1_rows_that_end_before_a_named_column_are_refused() {
    let late = "#  Rank  0 device\n# all_reduce_perf\n# size count time redop root type\n 1024 256 5.5 sum -1\n";
    let error = refused(late);
    assert!(error.contains("a row without a time, size or type"), "{error}");
}

#[test]
fn tru_1_an_old_log_says_its_operation_by_its_columns_or_the_choice() {
    assert_eq!(tables(OLD)[0].subject, Subject::Collective(Operation::AllReduce));
    assert_eq!((tables(OLD)[0].ranks, points(&tables(OLD)[0])), (3, vec![(48, 16.53)]));
    let scattered = OLD.replace("  48            12", "  48             4");
    assert_eq!(tables(&scattered)[0].subject, Subject::Collective(Operation::ReduceScatter));
    let gathered = OLD.replace("  sum ", " none ");
    let error = refused(&gathered);
    assert!(error.contains("my.csv:9:") && error.contains("say it by `--op`"), "{error}");
    let subject = Subject::Collective(Operation::AllGather);
    let choice = Selection { subject: Some(subject), ..Selection::default() };
    assert_eq!(read("x", &gathered, &choice).unwrap()[0].subject, subject);
    let named = format!("$ mpirun -np 3 ./build/alltoall_perf -g 1\n{gathered}");
    assert_eq!(tables(&named)[0].subject, Subject::Collective(Operation::AllToAll));
    let error = refused(&OLD.replace("Rank", "Rang"));
    assert!(error.contains("the file does not list its ranks"), "{error}");
    let error = refused(&format!("$ ./sendrecv_perf\n{OLD}"));
    assert!(error.starts_with("error: `sendrecv` is not simulated"), "{error}");
    let error = refused(&OLD.replace("float     sum    17.10", "float\n# "));
    assert!(error.starts_with("error: a row without a time"), "{error}");
}

proptest! {
    #[test]
    fn tru_1_any_mutilated_table_is_read_or_refused(
        which in 0..3_usize,
        edits in prop::collection::vec((any::<usize>(), 0_usize..12, "[-,:#\"'. \t\n\r0-9a-z]{0,4}|\\PC{0,2}"), 1..6),
    ) {
        let csv = "op,ranks,dtype,size_bytes,time_us,in_place_us\nall_reduce,8,half,1024,10.5,\nreduce,2,float,8,1,2\n";
        let mut chars: Vec<char> = [RECENT, OLD, csv][which].chars().collect();
        for (at, length, put) in &edits {
            let start = at % (chars.len() + 1);
            let end = (start + length).min(chars.len());
            chars.splice(start..end, put.chars());
        }
        let text: String = chars.into_iter().collect();
        match read("mutilated", &text, &Selection::default()) {
            Ok(tables) => {
                prop_assert!(!tables.is_empty() && tables.iter().all(|table| !table.points.is_empty()));
                prop_assert!(tables.iter().flat_map(|table| &table.points).all(|point| point.measured_us > 0.0));
            }
            Err(errors) => prop_assert!(errors.to_string().contains("mutilated:"), "{}", errors),
        }
    }

    #[test]
    fn tru_1_any_text_is_read_or_refused(text in "(?s).{0,200}|(op|m|n|k|ranks|time_us|,|\n|[0-9]|\"){0,60}") {
        if let Err(errors) = read("any", &text, &Selection::default()) {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
