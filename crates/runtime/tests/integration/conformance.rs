//! The promises of every kind of worker.

use crate::callables::{FAIL, MISBEHAVE, NOTE, NOTHING, PANIC, PROGRAM, UNTIL_TOLD, failing};
use phalanx_runtime::{Builder, Call, DType, Error, Worker};

/// Makes the tests of one kind of worker: `$make` describes one with one sub worker.
macro_rules! conformance {
    ($kind:ident, $make:expr) => {
        mod $kind {
            #[test]
            fn ep_1_every_task_ends_once() {
                super::every_task_ends_once($make);
            }

            #[test]
            fn ep_2_tasks_run_in_order() {
                super::tasks_run_in_order($make);
            }

            #[test]
            fn ep_3_words_arrive_whole() {
                super::words_arrive_whole($make);
            }

            #[test]
            fn ep_4_what_has_not_begun_is_recalled() {
                super::what_has_not_begun_is_recalled($make);
            }

            #[test]
            fn ep_5_a_failure_costs_itself_only() {
                super::a_failure_costs_itself_only($make);
            }

            #[test]
            fn ep_3_ep_5_the_worst_failure_costs_itself_only() {
                super::the_worst_failure_costs_itself_only($make);
            }

            #[test]
            fn ep_7_srv_4_what_is_behind_a_failure_does_not_run() {
                super::what_is_behind_a_failure_does_not_run($make);
            }

            #[test]
            fn ep_6_what_was_sent_before_the_end_is_run() {
                super::what_was_sent_before_the_end_is_run($make);
            }
        }
    };
}

conformance!(thread, super::builder().threads().sub_workers(1));
conformance!(thread_one_by_one, super::builder().threads().sub_workers(1).depth(1));
conformance!(process, super::processes());
conformance!(process_one_by_one, super::processes().depth(1));

fn processes() -> Builder {
    builder().program_path(env!("CARGO_BIN_EXE_phalanx-graph-fixture")).sub_workers(1)
}

fn builder() -> Builder {
    Worker::builder(&PROGRAM).memory(1 << 24).ring(64, 1 << 20)
}

fn every_task_ends_once(builder: Builder) {
    let worker = builder.init().expect("a worker");
    for count in [1, 63, 64, 65, 1000] {
        let finished = worker.run("tasks", |graph| {
            for _ in 0..count {
                graph.submit_sub(&Call::new(&NOTHING))?;
            }
            Ok(())
        });
        let report = finished.expect("EP-1").report;
        assert_eq!((report.tasks, report.completed), (count, count), "EP-1");
    }
    worker.close().expect("everybody leaves");
}

fn tasks_run_in_order(builder: Builder) {
    let worker = builder.init().expect("a worker");
    let list = worker.tensor(DType::I64, &[201]).expect("memory");
    let run = worker.run("list", |graph| {
        for number in 0..200 {
            graph.submit_sub(&Call::new(&NOTE).args([list.in_out()]).scalar(number))?;
        }
        Ok(())
    });
    run.expect("EP-2");
    let found: Vec<u64> = worker.read(&list).expect("it is over");
    assert_eq!(found[0], 200);
    assert!(found[1..].iter().copied().eq(0..200), "EP-2: {found:?}");
}

fn words_arrive_whole(builder: Builder) {
    let worker = builder.init().expect("a worker");
    for length in [1, 255, 256, 4096, 100_000, 1 << 20] {
        let words: String = ('a'..='z').cycle().take(length).collect();
        let Err(Error::Run(error)) = worker.call(&failing(&words)) else {
            panic!("EP-3: it fails");
        };
        let root = error.root().expect("a task");
        assert!(root.words.starts_with(&words), "EP-3: {length} bytes");
        assert_eq!(root.callable, FAIL.name());
    }
    let Err(Error::Run(error)) = worker.call(&Call::new(&FAIL)) else { panic!("it fails") };
    let words = error.to_string();
    assert!(words.contains("the outer error\n  because: invalid digit"), "EP-3: {words}");
}

fn what_has_not_begun_is_recalled(builder: Builder) {
    let worker = builder.init().expect("a worker");
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    let handle = worker.submit("recalled", |graph| {
        graph.submit_sub(&Call::new(&NOTHING))?;
        for _ in 0..20 {
            graph.submit_sub(&Call::new(&NOTHING).args([flag.in_out()]))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    handle.cancel();
    let ended = handle.wait();
    // All may have run before the cancelling; what was said is the same for every waiter.
    assert_eq!(format!("{ended:?}"), format!("{:?}", handle.wait()), "EP-4");
    worker
        .run("after", |graph| {
            graph.submit_sub(&Call::new(&NOTHING))?;
            Ok(())
        })
        .expect("EP-4: the worker goes on");
    worker.close().expect("everybody leaves");
}

fn a_failure_costs_itself_only(builder: Builder) {
    let worker = builder.init().expect("a worker");
    for _ in 0..3 {
        let Err(Error::Run(error)) = worker.call(&Call::new(&PANIC)) else { panic!("it panics") };
        let words = error.to_string();
        assert!(words.contains("panicked at"), "EP-5: {words}");
        assert!(words.contains("callables.rs") && words.contains("a callable that panics"));
        worker.call(&Call::new(&NOTHING)).expect("EP-5");
    }
}

fn the_worst_failure_costs_itself_only(builder: Builder) {
    let worker = builder.init().expect("a worker");
    let said = ["not text", "not text", "cannot be said", "ää", "öö"];
    for (number, said) in (0..).zip(said) {
        let Err(Error::Run(error)) = worker.call(&Call::new(&MISBEHAVE).scalar(number)) else {
            panic!("EP-5: it fails")
        };
        let words = &error.root().expect("EP-5: a task").words;
        let begin: String = words.chars().take(200).collect();
        assert!(words.contains(said), "EP-5: {begin}");
        if number > 2 {
            let is_cut = words.len() < 2 << 20 && words.ends_with("bytes more");
            assert!(is_cut, "EP-3: {} bytes: {begin}", words.len());
        }
        worker.call(&Call::new(&NOTHING)).expect("EP-5: the worker goes on");
    }
    assert!(worker.lost().is_empty(), "EP-5: {:?}", worker.lost());
    worker.close().expect("everybody leaves");
}

fn what_was_sent_before_the_end_is_run(builder: Builder) {
    let worker = builder.init().expect("a worker");
    let flag = worker.tensor(DType::I64, &[1]).expect("memory");
    worker.write(&flag, &[1u64]).expect("nobody uses it");
    let handle = worker.submit("last", |graph| {
        for _ in 0..10 {
            graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.input()]))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    worker.close().expect("everybody leaves");
    assert_eq!(handle.wait().expect("EP-6").report.completed, 10);
}

fn what_is_behind_a_failure_does_not_run(builder: Builder) {
    let worker = builder.init().expect("a worker");
    for at in 0..12 {
        let list = worker.tensor(DType::I64, &[21]).expect("memory");
        let run = worker.run("one of a chain fails", |graph| {
            for number in 0..20 {
                let call = if number == at { failing("the root") } else { Call::new(&NOTE) };
                let result = graph.submit_sub(&call.args([list.in_out()]).scalar(number));
                // Submissions are refused once the failure is known.
                assert!(result.is_ok() || number > at, "EP-7: {result:?}");
            }
            Ok(())
        });
        let Err(Error::Run(error)) = run else { panic!("EP-7: it fails") };
        assert_eq!(error.failures().len(), 1, "EP-7: {error}");
        assert!(error.to_string().contains("the root"), "EP-7: {error}");
        let noted: Vec<u64> = worker.read(&list).expect("it is over");
        assert_eq!(noted[0], at, "EP-7: {noted:?}");
    }
    worker.close().expect("everybody leaves");
}
