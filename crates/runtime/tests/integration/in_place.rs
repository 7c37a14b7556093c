//! Memory that a task sees in place: nobody else changes it, and the task has it no longer than the task runs.

use crate::callables::{ADD, FILL, FORGET, PROGRAM, TELL, WATCH};
use phalanx_runtime::*;

/// Workers of each kind, with two sub workers.
pub(crate) fn kinds() -> [Builder; 2] {
    let builder = || Worker::builder(&PROGRAM).memory(1 << 24).ring(64, 1 << 20).sub_workers(2);
    [builder().threads(), builder().program_path(env!("CARGO_BIN_EXE_phalanx-graph-fixture"))]
}

/// Looks until `is_true`, for a long time.
fn eventually(mut is_true: impl FnMut() -> bool) {
    for _ in 0..600_000 {
        if is_true() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("it did not happen");
}

/// A task that has something in place.
pub(crate) struct Watched<'w> {
    worker: &'w Worker,
    told: Tensor,
    run: RunHandle,
}

impl<'w> Watched<'w> {
    /// The task has begun.
    pub(crate) fn begin(
        worker: &'w Worker,
        data: impl FnOnce(&mut Orchestrator<'_>) -> Result<Argument, Error>,
    ) -> Self {
        let [begun, told] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
        let run = worker.submit("watched", |graph| {
            let arguments = [begun.no_dep(), told.no_dep(), data(graph)?];
            graph.submit_sub(&Call::new(&WATCH).args(arguments))?;
            Ok(())
        });
        let run = run.expect("a run");
        eventually(|| worker.read_unordered::<u64>(&begun).is_ok_and(|begun| begun == [1]));
        Self { worker, told, run }
    }

    /// The end of the task.
    pub(crate) fn end(self) -> Result<Finished, Error> {
        self.worker.write_unordered(&self.told, &[1u64]).expect("it can be told");
        self.run.wait()
    }
}

#[test]
fn tsk_4_a_caller_does_not_write_what_a_task_sees_in_place() {
    for builder in kinds() {
        let worker = builder.init().expect("a worker");
        let data = worker.tensor(DType::I64, &[8]).expect("memory");
        let [seen, beside] = [data.rows(0, 4), data.rows(4, 8)].map(|rows| rows.expect("rows"));
        let watched = Watched::begin(&worker, |_| Ok(seen.input()));
        for (tensor, count) in [(&seen, 4), (&data, 8), (&data.rows(3, 5).expect("rows"), 2)] {
            let words = worker.write_unordered(tensor, &vec![7u64; count]).expect_err("TSK-4");
            assert!(words.to_string().contains("in place: they cannot be written"), "{words}");
        }
        worker.write_unordered(&beside, &[7u64; 4]).expect("nobody sees it");
        assert_eq!(worker.read_unordered::<u64>(&data).expect("both read")[3..5], [0, 7]);
        watched.end().expect("TSK-4");
        worker.write_unordered(&seen, &[7u64; 4]).expect("TSK-4: it has ended");
        assert_eq!(worker.read::<u64>(&data).expect("over"), [7; 8]);
        worker.close().expect("all leave");
    }
}

#[test]
fn tsk_4_a_caller_does_not_read_what_a_thread_changes_in_place() {
    let [threads, processes] = kinds();
    for (builder, is_thread) in [(threads, true), (processes, false)] {
        let worker = builder.init().expect("a worker");
        let data = worker.tensor(DType::I64, &[8]).expect("memory");
        let watched = Watched::begin(&worker, |_| Ok(data.in_out()));
        let found = worker.read_unordered::<u64>(&data);
        assert_eq!(found.is_err(), is_thread, "TSK-4: {found:?}");
        let written = worker.write_unordered(&data, &[7u64; 8]).expect_err("TSK-4").to_string();
        assert!(written.contains("`no_dep`"), "TSK-4: {written}");
        watched.end().expect("TSK-4");
        assert_eq!(worker.read_unordered::<u64>(&data).expect("over"), [0; 8]);
        worker.close().expect("all leave");
    }
}

/// Runs `body` as code of a graph while a thread sees `seen` in place; what each of its calls does is over when it returns.
fn while_seen(worker: &Worker, seen: &Tensor, calls: &[Call]) -> Result<Finished, Error> {
    let [begun, told] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    worker.run("while it is seen", |graph| {
        let watch = Call::new(&WATCH).args([begun.no_dep(), told.no_dep(), seen.input()]);
        graph.submit_sub(&watch)?;
        graph.flush();
        eventually(|| worker.read_unordered::<u64>(&begun).is_ok_and(|begun| begun == [1]));
        for call in calls {
            graph.submit_sub(call)?;
            graph.flush();
            eventually(|| worker.stats().tasks == 1);
        }
        Ok(worker.write_unordered(&told, &[1u64])?)
    })
}

#[test]
fn tsk_4_a_task_without_order_does_not_write_what_another_thread_sees_in_place() {
    let [threads, _] = kinds();
    let worker = threads.init().expect("a worker");
    let data = worker.tensor(DType::I64, &[1]).expect("memory");
    let tell = Call::new(&TELL).args([data.no_dep()]);
    let Err(Error::Run(error)) = while_seen(&worker, &data, std::slice::from_ref(&tell)) else {
        panic!("TSK-4: it was written")
    };
    let words = error.to_string();
    assert!(words.contains("bytes of argument 0 in place, so they cannot be written"), "{words}");
    assert_eq!(error.failures().len(), 1, "TSK-4: nothing changed for the other: {words}");
    worker.call(&tell).expect("TSK-4: it has ended");
    assert_eq!(worker.read::<u64>(&data).expect("over"), [1]);
}

#[test]
fn tsk_4_elements_with_gaps_are_written_around_what_another_thread_sees_in_place() {
    let [threads, _] = kinds();
    let worker = threads.init().expect("a worker");
    let buffer = worker.buffer(4 * 4 * 8).expect("memory");
    let seen = buffer.tensor((4 + 2) * 8, DType::I64, &[2]).expect("of the second row");
    let fill = |columns: u64, number: f64| {
        let columns = buffer.strided(0, DType::F64, &[4, columns], &[4, 1]).expect("inside");
        Call::new(&FILL).args([columns.no_dep()]).real(number)
    };
    let ended = while_seen(&worker, &seen, &[fill(2, 1.0), fill(3, 2.0)]);
    let Err(Error::Run(error)) = ended else { panic!("TSK-4: it was written") };
    let words = error.to_string();
    assert!(words.contains("`graphs::fill`") && words.contains("in place"), "TSK-4: {words}");
    assert_eq!((error.failures().len(), error.report().completed), (1, 2), "TSK-4: {words}");
    let all = buffer.tensor(0, DType::F64, &[16]).expect("all");
    let all = worker.read::<f64>(&all).expect("over");
    let row = [1.0, 1.0, 0.0, 0.0];
    assert_eq!(all.chunks(4).collect::<Vec<_>>(), [row; 4], "TSK-4: around it, and nothing of it");
}

#[test]
fn tsk_3_what_a_task_forgot_hinders_no_later_one() {
    for builder in kinds() {
        let worker = builder.init().expect("a worker");
        let data = worker.tensor(DType::F64, &[4]).expect("memory");
        for end in 0..3 {
            for argument in [data.input(), data.in_out()] {
                let ended = worker.call(&Call::new(&FORGET).args([argument]).scalar(end));
                assert_eq!(ended.is_ok(), end == 0, "{ended:?}");
            }
            let add = Call::new(&ADD).args([data.in_out()]).real(1.0);
            let run = worker.run("later ones", |graph| {
                for _ in 0..8 {
                    graph.submit_sub(&Call::new(&FORGET).args([data.in_out()]).scalar(0))?;
                    graph.submit_sub(&add)?;
                }
                Ok(())
            });
            run.expect("TSK-3");
        }
        assert_eq!(worker.read::<f64>(&data).expect("TSK-3"), [24.0; 4]);
        worker.close().expect("all leave");
    }
}
