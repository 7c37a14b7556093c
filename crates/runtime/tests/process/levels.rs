//! Workers inside workers, three deep, as threads and as processes.

use crate::callables::{NOTHING, PROGRAM, wish};
use crate::collectives::ALL_REDUCE;
use crate::levels_below::{ADD_BELOW, DO_BELOW, REDUCE_BELOW, STEAL, WHO_BELOW, WILD, deed};
use crate::support::{
    Leftovers, at_some_scale, budgets, builder, eventually, is_gone, signal, turn,
};
use phalanx_runtime::{Builder, Call, DType, DomainSpec, Error, Target, Worker};
use rustix::process::Signal;
use std::time::Duration;

/// Makes the tests of one kind of worker.
macro_rules! levels {
    ($kind:ident, $make:expr, $($name:ident => $test:ident;)*) => {
        mod $kind {
            $(#[test]
            fn $name() {
                let _turn = super::turn();
                super::$test($make);
            })*
        }
    };
    ($kind:ident, $make:expr) => {
        levels! { $kind, $make,
            lvl_1_graphs_run_on_graphs_run_on_graphs => sums;
            lvl_1_a_graph_that_panics_costs_itself => panics;
            lvl_2_what_is_lent_to_be_read_is_not_written => lent;
            lvl_3_a_domain_at_the_bottom => reduce;
            lvl_3_a_domain_of_workers => reduce_above;
            lvl_4_a_failure_at_the_bottom_fails_the_start => start;
            lvl_5_words_come_up_with_every_level => words;
            lvl_8_a_long_task_far_below_is_no_alarm => nap;
            lvl_8_a_stuck_task_far_below_is_found_below => stuck;
        }
    };
}

levels!(threads, super::Worker::builder(&super::PROGRAM).threads());
levels!(processes, super::builder());

fn small(builder: Builder) -> Builder {
    builder.memory(1 << 22).ring(64, 1 << 20)
}

/// A level 5 worker over two of level 4, over two of level 3 each, with two chips and a sub worker each.
fn tree(top: Builder) -> Builder {
    small(top)
        .level(5)
        .workers(2, |four| small(four).workers(2, |three| small(three).chips(2).sub_workers(1)))
}

fn sums(builder: Builder) {
    let worker = tree(builder).init().expect("a tree");
    assert_eq!(worker.level(), 5);
    let tensor = || worker.tensor(DType::F32, &[1024]).expect("memory");
    let (a, b, sum) = (tensor(), tensor(), tensor());
    let values: Vec<f32> = (0u16..1024).map(f32::from).collect();
    for round in 1u8..=5 {
        worker.write(&a, &values).expect("nobody uses it");
        worker.write(&b, &[f32::from(round); 1024]).expect("nobody uses it");
        let run = worker.run("sums", |graph| {
            // A slab of the topmost level goes all the way down.
            let slab = graph.alloc(DType::F32, &[1024])?;
            for at in 0..2 {
                let part = |tensor: &phalanx_runtime::Tensor| tensor.rows(at * 512, at * 512 + 512);
                let target = Target::Worker(u32::try_from(at)?);
                let call = Call::new(&ADD_BELOW).scalar(1);
                let first = [part(&slab)?.output(), part(&a)?.input(), part(&b)?.input()];
                graph.submit_next_level(target, &call.clone().args(first))?;
                let second = [part(&sum)?.output(), part(&slab)?.input(), part(&b)?.input()];
                graph.submit_next_level(Target::Any, &call.args(second))?;
            }
            Ok(())
        });
        let report = run.expect("LVL-1").report;
        assert_eq!((report.tasks, report.completed), (4, 4), "LVL-1: four graphs");
        let round = f32::from(round);
        // Each graph makes 2 (x + b) + b of its first argument.
        let wanted: Vec<f32> =
            values.iter().map(|x| 2.0 * (2.0 * (x + round) + round + round) + round).collect();
        assert_eq!(worker.read::<f32>(&sum).expect("over"), wanted, "LVL-3: round {round}");
    }
    worker.close().expect("all leave");
}

fn panics(builder: Builder) {
    let worker = small(builder).workers(1, |node| small(node).sub_workers(1));
    let worker = worker.init().expect("a tree");
    assert_eq!(worker.level(), 4, "counted from the bottom");
    let number = worker.tensor(DType::I64, &[1]).expect("memory");
    for _ in 0..3 {
        let run = worker.run("wild", |graph| {
            let call = Call::new(&WILD).args([number.output()]);
            graph.submit_next_level(Target::Worker(0), &call)?;
            Ok(())
        });
        let words = run.expect_err("LVL-1").to_string();
        assert!(words.contains("panicked at") && words.contains("the graph met a wall"), "{words}");
    }
    let run = worker.run("nothing to run a graph on", |graph| {
        graph.submit_next_level(Target::Worker(0), &Call::new(&NOTHING))?;
        Ok(())
    });
    run.expect("a worker runs functions too");
}

fn lent(builder: Builder) {
    let worker = small(builder).workers(1, |node| small(node).sub_workers(1));
    let worker = worker.init().expect("a tree");
    let number = worker.tensor(DType::I64, &[1]).expect("memory");
    worker.write(&number, &[42i64]).expect("nobody uses it");
    let steal = |argument| {
        let run = worker.run("stolen", |graph| {
            graph.submit_next_level(Target::Any, &Call::new(&STEAL).args([argument]))?;
            Ok(())
        });
        run.expect_err("LVL-2").to_string()
    };
    let words = steal(number.input());
    assert!(words.contains("argument 0 was given to this graph as Read"), "LVL-2: {words}");
    let other = worker.tensor(DType::I64, &[1]).expect("memory");
    let again = [steal(other.output()), steal(number.input())];
    // The first time it is what was only lent, the second what was whole, and both were of another run.
    assert!(
        again[0].contains("as Read") && again[1].contains("no such buffer"),
        "LVL-2: {again:?}"
    );
    assert_eq!(worker.read::<i64>(&number).expect("over"), [42], "LVL-2");
    assert_eq!(worker.read::<i64>(&other).expect("over"), [0], "LVL-2");
}

fn reduce(builder: Builder) {
    let worker = small(builder).workers(2, |node| small(node).chips(3)).init().expect("a tree");
    let data = worker.tensor(DType::F32, &[2, 30]).expect("memory");
    let flat = data.buffer().tensor(0, DType::F32, &[60]).expect("the same");
    let values: Vec<f32> = (0u8..60).map(f32::from).collect();
    worker.write(&flat, &values).expect("nobody uses it");
    let run = worker.run("sums below", |graph| {
        for at in 0..2 {
            let part = flat.rows(at * 30, at * 30 + 30)?;
            let call = Call::new(&REDUCE_BELOW).args([part.in_out()]);
            graph.submit_next_level(Target::Worker(u32::try_from(at)?), &call)?;
        }
        Ok(())
    });
    run.expect("LVL-3");
    let found = worker.read::<f32>(&flat).expect("over");
    for (at, value) in found.iter().enumerate() {
        let begin = at / 30 * 30 + at % 10;
        let wanted = values[begin] + values[begin + 10] + values[begin + 20];
        assert!((value - wanted).abs() < f32::EPSILON, "LVL-3: {at}: {value}, not {wanted}");
    }
}

fn reduce_above(builder: Builder) {
    let worker = small(builder).workers(3, |node| small(node).sub_workers(1));
    let worker = worker.init().expect("a tree");
    let mut kept = None;
    let run = worker.run("sums above", |graph| {
        let chips = [2, 0];
        let spec = DomainSpec {
            name: "above",
            chips: &chips,
            window: 1 << 12,
            buffers: &[("data", DType::F32, &[8]), ("inbox", DType::F32, &[16])],
            signals: 2,
        };
        let domain = graph.allocate_domain(&spec)?;
        for rank in 0..2u8 {
            let data = domain.buffer(rank.into(), "data")?;
            worker.write(&data, &[1.0 + f32::from(rank); 8])?;
        }
        let call = Call::new(&ALL_REDUCE).scalar(0).domain(&domain);
        graph.submit_next_level_group(&chips.map(|chip| (chip, call.clone())))?;
        kept = Some(domain);
        Ok(())
    });
    run.expect("LVL-3");
    let data = kept.expect("a domain").buffer(1, "data").expect("it has one");
    assert_eq!(worker.read::<f32>(&data).expect("over"), [3.0; 8], "LVL-3");
}

fn start(builder: Builder) {
    let leftovers = Leftovers::before();
    let broken = small(builder.clone()).workers(2, |four| {
        small(four).workers(1, |three| small(three).chips(2).device_ids(&[0, wish::FAIL + 7]))
    });
    let Err(error) = broken.init() else { panic!("LVL-4: it cannot start") };
    let words = error.to_string();
    for part in ["level 4 worker", "level 3 worker 0", "chip 1", "device 107 is on fire"] {
        assert!(words.contains(part), "LVL-4: {part}: {words}");
    }
    leftovers.check();
    let slow = small(builder).workers(1, |four| {
        small(four).workers(1, |three| small(three).chips(2).device_ids(&[0, wish::SLOW]))
    });
    let (worker, took) = crate::support::timed(|| slow.init().expect("LVL-4"));
    assert!(took >= Duration::from_millis(300), "LVL-4: ready before the slowest");
    worker.close().expect("all leave");
    leftovers.check();
}

/// Sends something down a path.
fn send(worker: &Worker, path: [u64; 3], deed: u64) -> Result<(), Error> {
    let number = worker.tensor(DType::I64, &[1])?;
    let run = worker.run("down a path", |graph| {
        let call = Call::new(&DO_BELOW).args([number.output()]);
        let call = path[1..].iter().chain([&deed]).fold(call, |call, number| call.scalar(*number));
        graph.submit_next_level(Target::Worker(u32::try_from(path[0])?), &call)?;
        Ok(())
    });
    run.map(drop)
}

fn words(builder: Builder) {
    let worker = tree(builder).init().expect("a tree");
    let words = send(&worker, [1, 0, 1], deed::FAIL).expect_err("LVL-5").to_string();
    let mut rest = &words[..];
    let path =
        ["fixture::do_below", "level 4 worker 1", "level 3 worker 0", "fixture::fail", "chip 1"];
    for part in path.into_iter().chain(["the bottom is wet"]) {
        let at = rest.find(part).unwrap_or_else(|| panic!("LVL-5: {part}: {words}"));
        rest = &rest[at + part.len()..];
    }
    assert_eq!(words.matches("the bottom is wet").count(), 1, "LVL-5: said once: {words}");
    send(&worker, [1, 0, 1], deed::WHO).expect("it goes on");
    worker.close().expect("all leave");
}

fn nap(builder: Builder) {
    at_some_scale(move |scale| {
        let worker = tree(builder.clone().budgets(budgets(100, u64::from(scale) * 700)));
        let worker = worker.init().expect("a tree");
        let nap = deed::NAP + u64::from(scale) * 1_000;
        send(&worker, [0, 1, 0], nap).expect("LVL-8: nobody is stuck");
    });
}

fn stuck(builder: Builder) {
    let is_process = format!("{builder:?}").contains("isolation: None");
    if !is_process {
        // A thread that hangs cannot be ended.
        return;
    }
    at_some_scale(move |scale| {
        let worker = tree(builder.clone().budgets(budgets(100, u64::from(scale) * 700)));
        let worker = worker.init().expect("a tree");
        let words = send(&worker, [0, 1, 0], deed::HANG).expect_err("LVL-8").to_string();
        for part in ["level 4 worker 0", "level 3 worker 1", "chip 0", "has shown no progress"] {
            assert!(words.contains(part), "LVL-8: {part}: {words}");
        }
        assert!(!words.contains("(`fixture::do_below`) for"), "LVL-8: only the bottom: {words}");
        send(&worker, [1, 1, 0], deed::WHO).expect("the rest goes on");
    });
}

/// The processes below a worker, by those right below it.
fn processes(worker: &Worker) -> Vec<(u32, Vec<u32>)> {
    let children = worker.startup().children.iter();
    children.map(|child| (child.process, child.descendants.clone())).collect()
}

#[test]
fn lvl_4_a_tree_of_processes_leaves_whole() {
    let _turn = turn();
    let leftovers = Leftovers::before();
    let worker = tree(builder()).init().expect("a tree");
    let all = processes(&worker);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|(_, below)| below.len() == 2 + 2 * 3), "LVL-4: {all:?}");
    let found = worker.tensor(DType::I64, &[8]).expect("memory");
    let run = worker.run("who", |graph| {
        for at in 0..2 {
            let part = found.rows(at * 4, at * 4 + 4)?;
            let call = Call::new(&WHO_BELOW).scalar(1).args([part.output()]);
            graph.submit_next_level(Target::Worker(u32::try_from(at)?), &call)?;
        }
        Ok(())
    });
    run.expect("it runs");
    let mut numbers = worker.read::<i64>(&found).expect("over");
    let is_known = |number: &i64| {
        all.iter().any(|(_, below)| below.iter().any(|one| i64::from(*one) == *number))
    };
    assert!(numbers.iter().all(is_known), "LVL-4: {numbers:?} of {all:?}");
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 8, "LVL-4: each chip is a process");
    worker.close().expect("all leave");
    let everybody = || all.iter().flat_map(|(child, below)| below.iter().chain([child]));
    assert!(everybody().all(|process| is_gone(*process)), "LVL-4: {all:?}");
    leftovers.check();
}

#[test]
fn lvl_7_who_is_lost_is_lost_with_all_below() {
    let _turn = turn();
    let leftovers = Leftovers::before();
    for round in 0..4 {
        let worker = tree(builder()).init().expect("a tree");
        let all = processes(&worker);
        let (middle, below) = &all[1];
        let number = worker.tensor(DType::I64, &[1]).expect("memory");
        let handle = worker.submit("down a path", |graph| {
            let call = Call::new(&DO_BELOW).args([number.output()]);
            let call = call.scalar(0).scalar(1).scalar(deed::HANG);
            graph.submit_next_level(Target::Worker(1), &call)?;
            Ok(())
        });
        let handle = handle.expect("a run");
        eventually("the bottom has begun", || {
            worker.read_unordered::<i64>(&number).is_ok_and(|number| number[0] != 0)
        });
        std::thread::sleep(Duration::from_millis(round));
        signal(*middle, Signal::KILL);
        let words = handle.wait().expect_err("LVL-7").to_string();
        assert!(words.contains("level 4 worker 1"), "LVL-7: {words}");
        eventually("it is lost", || !worker.lost().is_empty());
        // None of them can touch memory any more; the kernel may still be clearing up behind them.
        eventually("all below are gone", || below.iter().all(|process| is_gone(*process)));
        send(&worker, [0, 1, 1], deed::WHO).expect("LVL-7: the others go on");
        drop(handle);
        worker.close().expect("the others leave");
        leftovers.check();
    }
}

#[test]
fn lvl_7_a_whole_subtree_is_started_again() {
    let _turn = turn();
    let leftovers = Leftovers::before();
    let worker = tree(builder().restart()).init().expect("a tree");
    let (middle, below) = processes(&worker)[0].clone();
    let number = worker.tensor(DType::I64, &[1]).expect("memory");
    let handle = worker.submit("twice", |graph| {
        let call = Call::new(&DO_BELOW).args([number.in_out()]).idempotent();
        let call = call.scalar(0).scalar(1).scalar(deed::HANG_ONCE);
        graph.submit_next_level(Target::Worker(0), &call)?;
        Ok(())
    });
    let handle = handle.expect("a run");
    let is_begun = || worker.read_unordered::<i64>(&number).is_ok_and(|number| number[0] == 1);
    eventually("the bottom has begun", is_begun);
    signal(middle, Signal::KILL);
    handle.wait().expect("LVL-7: the second time nobody is killed");
    assert_eq!(worker.read::<i64>(&number).expect("over"), [2], "LVL-7: it has begun twice");
    assert!(below.iter().all(|process| is_gone(*process)), "LVL-7: nobody of before is left");
    drop(handle);
    worker.close().expect("all leave");
    leftovers.check();
}
