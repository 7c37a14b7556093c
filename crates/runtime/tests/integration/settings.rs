//! The settings of a worker.

use crate::callables::{NOTHING, PROGRAM};
use phalanx_runtime::{Builder, Call, DType, Error, Worker};
use std::time::Duration;

fn builder() -> Builder {
    Worker::builder(&PROGRAM).threads().sub_workers(1).memory(1 << 16).ring(16, 1 << 16)
}

/// The error of its start.
fn refusal(builder: Builder) -> String {
    builder.init().err().expect("BLD-1: it is refused").to_string()
}

#[test]
fn bld_1_numbers_with_which_nothing_can_run_are_refused_by_name() {
    for (builder, words) in [
        (builder().ring(0, 1 << 16), "`ring` has place for 1 to 2147483648 tasks: 0"),
        (builder().ring(u32::MAX, 0), "`ring` has place for 1 to 2147483648 tasks: 4294967295"),
        (builder().runs(0), "`runs` is at least 1"),
        (builder().depth(usize::MAX), "`depth` is at most 65536: 18446744073709551615"),
        (builder().chips(u32::MAX), "at most 65535 chips, workers and sub workers: 4294967295"),
        (builder().sub_workers(65_536), "at most 65535"),
        (builder().workers(1, |node| node.chips(1).ring(0, 0)), "`ring` has place for"),
        (builder().workers(1, |node| node.chips(1).runs(0)), "`runs` is at least 1"),
        (builder().workers(1, |node| node.chips(1).level(u32::MAX)), "a worker of level"),
        (builder().memory(u64::MAX), "`memory` 18446744073709551615, `ring` 65536 bytes"),
        (builder().memory(1 << 62), "`memory` 4611686018427387904"),
        (builder().ring(16, u64::MAX), "`ring` 18446744073709551615 bytes"),
        (builder().chips(1).window(u64::MAX), "drop buffers or raise `memory` (65536)"),
        (builder().chips(2).device_ids(&[1]), "1 device ids were given for 2 chips"),
    ] {
        let found = refusal(builder);
        assert!(found.contains(words), "BLD-1: {found}");
    }
}

#[test]
fn bld_1_small_and_large_numbers_that_mean_something_work() -> Result<(), Error> {
    let nested = |node: Builder| node.chips(1).memory(0).ring(1, 0);
    for builder in [
        builder().memory(0).ring(1, 0),
        builder().depth(0),
        builder().depth(1 << 16),
        builder().runs(usize::MAX),
        builder().ring(1 << 31, 1 << 16),
        builder().close_within(Duration::MAX),
        builder().workers(1, nested).close_within(Duration::MAX),
        builder().close_within(Duration::ZERO),
    ] {
        let shown = format!("{builder:?}");
        let worker = builder.init()?;
        let finished = worker.run("three", |graph| {
            for _ in 0..3 {
                graph.submit_sub(&Call::new(&NOTHING).expected(Duration::MAX))?;
            }
            Ok(())
        })?;
        assert_eq!(finished.report.completed, 3, "BLD-1: {shown}");
        // Nobody can leave in no time at all.
        let closed = worker.close();
        assert!(closed.is_ok() || matches!(closed, Err(Error::Close { .. })), "BLD-1: {shown}");
    }
    Ok(())
}

#[test]
fn memory_of_a_graph_is_no_task_in_its_report() -> Result<(), Error> {
    let worker = builder().init()?;
    let finished = worker.run("one task", |graph| {
        let scratch = graph.alloc(DType::U8, &[100])?;
        graph.alloc(DType::U8, &[1])?;
        graph.submit_sub(&Call::new(&NOTHING).args([scratch.output()]))?;
        Ok(())
    })?;
    assert_eq!((finished.report.tasks, finished.report.completed), (1, 1));
    worker.close()
}
