//! Graphs on threads: right answers, order by data, scopes, groups, failures.

use crate::callables::{ADD, FILL, MEET, NOTE, NOTHING, PROGRAM, SCALE, SUM, UNTIL_TOLD, failing};
use crate::callers::soon;
use phalanx_runtime::{Builder, Call, DType, DomainSpec, Error, Target, Worker};
use proptest::prelude::*;

fn threads(count: u32) -> Builder {
    Worker::builder(&PROGRAM).threads().memory(1 << 24).ring(64, 1 << 20).sub_workers(count)
}

#[test]
fn node_1_a_run_goes_on_while_nobody_waits() {
    let worker = threads(2).init().expect("a worker");
    let [gate, data] = [(); 2].map(|()| worker.tensor(DType::F64, &[1]).expect("memory"));
    let handle = worker.submit("in the background", |graph| {
        graph.submit_sub(&Call::new(&ADD).args([gate.in_out()]).real(1.0))?;
        for _ in 0..50 {
            graph.submit_sub(&Call::new(&ADD).args([data.in_out()]).real(1.0))?;
        }
        Ok(())
    });
    let handle = handle.expect("a run");
    // Nobody waits: reading refuses until the run is over.
    assert!(crate::callers::ends_alone(&handle), "NODE-1");
    assert_eq!(worker.read::<f64>(&data).expect("NODE-1"), [50.0]);
}

#[test]
fn node_1_who_waits_for_a_run_hears_that_it_was_cancelled() {
    let worker = threads(1).init().expect("a worker");
    let [flag, data] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    let submit = |label, call: Call| {
        let run = worker.submit(label, |graph| Ok(graph.submit_sub(&call).map(drop)?));
        run.expect("a run")
    };
    let first = submit("first", Call::new(&UNTIL_TOLD).args([flag.no_dep(), data.in_out()]));
    let second = submit("second", Call::new(&NOTHING).args([data.in_out()]));
    let ended = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.wait());
        // Long enough for the waiter to sleep; no worker has anything to say that would wake it.
        std::thread::sleep(std::time::Duration::from_millis(50));
        second.cancel();
        waiter.join().expect("no panic")
    });
    assert!(matches!(ended, Err(Error::Run(_))), "{ended:?}");
    worker.write_unordered(&flag, &[1u64]).expect("it can be told");
    first.wait().expect("NODE-1: the waiter was told while the first run went on");
}

#[test]
fn wrk_1_more_tasks_than_slots_pass_through() {
    let worker = threads(2).init().expect("a worker");
    let tensors: Vec<_> =
        (0..8).map(|_| worker.tensor(DType::F64, &[4]).expect("memory")).collect();
    let run = worker.run("many", |graph| {
        for step in 0..500 {
            let tensor = &tensors[step % 8];
            graph.submit_sub(&Call::new(&ADD).args([tensor.in_out()]).real(1.0))?;
        }
        Ok(())
    });
    assert_eq!(run.expect("WRK-1").report.completed, 500);
    let total: f64 = tensors.iter().map(|one| worker.read::<f64>(one).expect("over")[0]).sum();
    assert!((total - 500.0).abs() < f64::EPSILON);
}

#[test]
fn wrk_2_all_waiters_hear_the_same() {
    let worker = threads(1).init().expect("a worker");
    let handle = worker.submit("fails", |graph| {
        graph.submit_sub(&failing("one"))?;
        Ok(())
    });
    let handle = handle.expect("a run");
    let words: Vec<String> = std::thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..4).map(|_| scope.spawn(|| handle.wait().expect_err("fails").to_string())).collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect()
    });
    assert!(words.iter().all(|one| *one == words[0] && one.contains("one")), "WRK-2: {words:?}");
}

#[test]
fn wrk_3_a_closed_worker_refuses_everything() {
    let worker = threads(1).init().expect("a worker");
    let tensor = worker.tensor(DType::F64, &[4]).expect("memory");
    let other = threads(1).init().expect("another");
    worker.close().expect("everybody leaves");
    assert!(matches!(other.read::<f64>(&tensor), Err(Error::ForeignBuffer(0))));
    let refused = other.call(&Call::new(&ADD).args([tensor.in_out()]).real(1.0));
    let words = refused.expect_err("another's").to_string();
    assert!(words.contains("another worker's memory"), "{words}");
}

#[test]
fn orc_1_refusals_leave_nothing_and_say_why() {
    let worker = threads(1).init().expect("a worker");
    let tensor = worker.tensor(DType::F64, &[4]).expect("memory");
    let run = worker.run("refusals", |graph| {
        let twice = Call::new(&SUM).args([tensor.input(), tensor.output()]);
        let words = graph.submit_sub(&twice).expect_err("aliasing").to_string();
        assert!(words.contains("arguments 0 and 1"), "ORC-1: {words}");
        let words = graph.submit_sub(&Call::new(&MEET)).expect_err("alone").to_string();
        assert!(words.contains("must be a group"), "ORC-1: {words}");
        let group = vec![Call::new(&MEET); 3];
        let words = graph.submit_sub_group(&group).expect_err("too many").to_string();
        assert!(words.contains('3') && words.contains("1 workers"), "ORC-1: {words}");
        let many = Call::new(&NOTHING).args((0..257).map(|_| tensor.input()));
        assert!(matches!(graph.submit_sub(&many), Err(Error::TooMany { .. })), "ORC-1");
        graph.submit_sub(&Call::new(&NOTHING))?;
        Ok(())
    });
    assert_eq!(run.expect("the rest").report.tasks, 1, "ORC-1");
    assert!(tensor.rows(2, 5).is_err());
}

#[test]
fn orc_2_memory_that_only_the_submitter_can_free_is_an_error() {
    let worker = threads(1).init().expect("a worker");
    let run = worker.run("too much", |graph| {
        for _ in 0..40 {
            graph.alloc(DType::U8, &[1 << 16])?;
        }
        Ok(())
    });
    let words = run.expect_err("ORC-2").to_string();
    assert!(words.contains("scope `too much`") && words.contains("Config::bytes"), "{words}");
    let run = worker.run("in scopes", |graph| {
        for _ in 0..40 {
            graph.scope("step", |graph| {
                let scratch = graph.alloc(DType::F64, &[1 << 13])?;
                graph.submit_sub(&Call::new(&FILL).args([scratch.output()]).real(1.0))?;
                graph.submit_sub(&Call::new(&ADD).args([scratch.in_out()]).real(1.0))
            })?;
        }
        Ok(())
    });
    assert_eq!(run.expect("ORC-2: scopes give back").report.tasks, 80);
}

#[test]
fn orc_3_memory_of_one_chip_goes_to_that_chip_only() {
    let worker = threads(1).chips(2).init().expect("a worker");
    let run = worker.run("homes", |graph| {
        let spec = DomainSpec {
            name: "alone",
            chips: &[1],
            window: 4096,
            buffers: &[("data", DType::F64, &[4])],
            signals: 1,
        };
        let domain = graph.allocate_domain(&spec)?;
        let call = Call::new(&FILL).args([domain.buffer(0, "data")?.output()]).real(1.0);
        let words = graph.submit_next_level(Target::Chip(0), &call);
        let words = words.expect_err("ORC-3").to_string();
        assert!(words.contains("on chip 1") && words.contains("chip 0"), "ORC-3: {words}");
        assert!(graph.submit_sub(&call).is_err(), "ORC-3");
        graph.submit_next_level(Target::Chip(1), &call)?;
        Ok(())
    });
    assert_eq!(run.expect("its own chip").report.tasks, 1);
}

#[test]
fn srv_1_srv_2_srv_3_a_worker_serves_in_order_promptly_and_to_the_end() {
    let worker = threads(1).depth(4).init().expect("a worker");
    let list = worker.tensor(DType::I64, &[101]).expect("memory");
    let [first, second] = [(0..50), (50..100)].map(|numbers| {
        worker.submit("some", |graph| {
            for number in numbers {
                graph.submit_sub(&Call::new(&NOTE).args([list.in_out()]).scalar(number))?;
            }
            Ok(())
        })
    });
    // Nothing more is sent, and what has ended is said all the same.
    assert_eq!(first.expect("a run").wait().expect("SRV-3").report.completed, 50);
    let second = second.expect("a run");
    worker.close().expect("SRV-2: it leaves when all is done");
    assert_eq!(second.wait().expect("SRV-2").report.completed, 50);
}

#[test]
fn a_failure_stops_what_depends_on_it_and_nothing_else() {
    let worker = threads(2).init().expect("a worker");
    let [bad, good] = [(); 2].map(|()| worker.tensor(DType::F64, &[4]).expect("memory"));
    let run = worker.run("fails", |graph| {
        graph.submit_sub(&failing("root").args([bad.output()]))?;
        graph.submit_sub(&Call::new(&ADD).args([bad.in_out()]).real(1.0))?;
        Ok(())
    });
    let Err(Error::Run(error)) = run else { panic!("it fails") };
    assert_eq!(error.failures().len(), 1, "only the root failed of itself");
    assert_eq!((error.report().tasks, error.report().completed), (2, 0));
    worker.call(&Call::new(&FILL).args([good.output()]).real(7.0)).expect("the next run");
    assert_eq!(worker.read::<f64>(&good).expect("over"), [7.0; 4]);
}

#[test]
fn the_code_of_a_graph_may_fail_and_nothing_hangs() {
    let worker = threads(1).init().expect("a worker");
    let run = worker.run("no graph", |graph| {
        graph.submit_sub(&Call::new(&NOTHING))?;
        Err(phalanx_runtime::Failure::new("the graph's own words"))
    });
    assert!(run.expect_err("it failed").to_string().contains("the graph's own words"));
    worker.call(&Call::new(&NOTHING)).expect("the next run");
}

#[test]
fn members_of_a_group_meet() {
    let worker = threads(3).init().expect("a worker");
    let cells: Vec<_> = (0..3).map(|_| worker.tensor(DType::I64, &[1]).expect("memory")).collect();
    let call = Call::new(&MEET).args(cells.iter().map(phalanx_runtime::Tensor::no_dep));
    for _ in 0..20 {
        for cell in &cells {
            worker.write(cell, &[0u64]).expect("nobody uses it");
        }
        let group = vec![call.clone(); 3];
        let run = worker.run("meeting", |graph| {
            graph.submit_sub_group(&group)?;
            Ok(())
        });
        run.expect("all come");
    }
}

#[test]
fn wrk_4_a_wait_with_a_time_limit_keeps_its_time_and_changes_nothing() {
    assert!(soon(wait_for_a_moment).is_some(), "WRK-4: the wait has an end");
}

fn wait_for_a_moment() {
    let worker = threads(1).init().expect("a worker");
    let [flag, data] = [(); 2].map(|()| worker.tensor(DType::I64, &[1]).expect("memory"));
    let handle = worker.submit("slow", |graph| {
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        graph.submit_sub(&Call::new(&NOTHING).args([data.in_out()]))?;
        Ok(())
    });
    let handle = handle.expect("a run");
    let early = handle.wait_for(std::time::Duration::from_millis(5));
    assert!(matches!(early, Err(Error::TimedOut(_))), "{early:?}");
    worker.write_unordered(&flag, &[1u64]).expect("it can be told");
    assert_eq!(handle.wait().expect("it goes on").report.completed, 2);
}

/// One task of a random program: what it does, to which rows of which tensor, with which number.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, (u64, u64), f64),
    Scale(usize, (u64, u64), f64),
    Sum(usize, usize, usize),
    Column(usize, u64, f64),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = (0u64..8, 1u64..=8).prop_map(|(from, count)| (from, (from + count).min(8)));
    prop_oneof![
        (0usize..3, rows.clone(), -4i32..4).prop_map(|(t, rows, x)| Step::Add(t, rows, x.into())),
        (0usize..3, rows, -2i32..3).prop_map(|(t, rows, x)| Step::Scale(t, rows, x.into())),
        Just(Step::Sum(0, 1, 2)),
        Just(Step::Sum(2, 0, 1)),
        (0usize..3, 0u64..4, -4i32..4).prop_map(|(t, column, x)| Step::Column(t, column, x.into())),
    ]
}

/// The truth: one step after the other on plain arrays of 8 rows and 4 columns.
fn execute(steps: &[Step]) -> [[f64; 32]; 3] {
    let index = |row: u64| usize::try_from(row).expect("small");
    let mut data = [[1.0; 32]; 3];
    for step in steps {
        match *step {
            Step::Add(t, (from, to), x) => {
                data[t][index(from) * 4..index(to) * 4].iter_mut().for_each(|one| *one += x);
            }
            Step::Scale(t, (from, to), x) => {
                data[t][index(from) * 4..index(to) * 4].iter_mut().for_each(|one| *one *= x);
            }
            Step::Sum(a, b, c) => {
                let (a, b) = (data[a], data[b]);
                for ((c, a), b) in data[c].iter_mut().zip(a).zip(b) {
                    *c = a + b;
                }
            }
            Step::Column(t, column, x) => {
                data[t].iter_mut().skip(index(column)).step_by(4).for_each(|one| *one = x);
            }
        }
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn random_programs_over_threads_give_the_bytes_of_the_oracle(
        steps in prop::collection::vec(step(), 1..60), count in 1u32..4, depth in 1usize..9,
    ) {
        let worker = threads(count).depth(depth).ring(16, 1 << 16).init().expect("a worker");
        let data: Vec<_> =
            (0..3).map(|_| worker.tensor(DType::F64, &[8, 4]).expect("memory")).collect();
        for tensor in &data {
            worker.write(tensor, &[1.0f64; 32]).expect("nobody uses it");
        }
        let run = worker.run("random", |graph| {
            for step in &steps {
                let call = match step {
                    Step::Add(t, (from, to), x) => {
                        Call::new(&ADD).args([data[*t].rows(*from, *to)?.in_out()]).real(*x)
                    }
                    Step::Scale(t, (from, to), x) => {
                        Call::new(&SCALE).args([data[*t].rows(*from, *to)?.in_out()]).real(*x)
                    }
                    Step::Sum(a, b, c) => {
                        Call::new(&SUM).args([data[*a].input(), data[*b].input(), data[*c].output()])
                    }
                    Step::Column(t, column, x) => {
                        let column = data[*t].buffer().strided(column * 8, DType::F64, &[8], &[4])?;
                        Call::new(&FILL).args([column.output()]).real(*x)
                    }
                };
                graph.submit_sub(&call)?;
            }
            Ok(())
        });
        run.expect("it runs");
        for (tensor, expected) in data.iter().zip(execute(&steps)) {
            prop_assert_eq!(worker.read::<f64>(tensor).expect("over"), expected);
        }
    }
}
