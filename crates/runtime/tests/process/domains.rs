//! Collectives over the windows of domains, on threads and on processes alike.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "small whole numbers"
)]

use crate::callables::{NOTHING, PROGRAM};
use crate::collectives::{
    AFFINE, ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, AWAIT, BROADCAST, CONSUME, Mode, PRODUCE, RANKS,
    REDUCE_SCATTER, REFUSALS, ROUNDS,
};
use crate::support::{PATIENCE, at_some_scale, budgets, builder, turn};
use phalanx_runtime::{
    Builder, Call, Callable, DType, Domain, DomainSpec, Error, Failure, Orchestrator, Target,
    Worker,
};

/// Makes the tests of one kind of worker.
macro_rules! domains {
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
        domains! { $kind, $make,
            all_reduce_is_the_sum_in_every_mode => all_reduce;
            all_gather_joins => all_gather;
            reduce_scatter_sums_parts => reduce_scatter;
            broadcast_copies => broadcast;
            all_to_all_exchanges => all_to_all;
            dom_2_ranks_are_per_domain_and_others_are_absent => rank_map;
            dom_3_no_leak_between_domains_that_overlap => overlap;
            dom_5_who_is_told_sees_what_was_put => told;
            dom_6_barriers_keep_everybody_in_step => in_step;
            dom_7_a_wait_in_vain_says_what_was_missing => in_vain;
            dom_8_what_a_domain_refuses => refused;
            dom_9_a_missing_peer_is_named => missing;
            dom_9_a_slow_peer_is_no_alarm => slow;
            odd_sizes => odd;
        }
    };
}

domains!(threads, super::Worker::builder(&super::PROGRAM).threads());
domains!(processes, super::builder());

/// A worker with so many chips, small.
fn chips(builder: Builder, chips: u32) -> Worker {
    builder.chips(chips).memory(1 << 24).ring(64, 1 << 20).init().expect("a worker")
}

/// The windows of all collectives: `count` elements of data for each rank.
fn allocate(graph: &mut Orchestrator<'_>, chips: &[u32], count: u64) -> Result<Domain, Error> {
    let ranks = chips.len() as u64;
    let spec = DomainSpec {
        name: "all",
        chips,
        window: 1 << 20,
        buffers: &[
            ("data", DType::F32, &[count]),
            ("inbox", DType::F32, &[4 * ranks * (count + ranks)]),
            ("out", DType::F32, &[ranks * count]),
        ],
        signals: 2,
    };
    graph.allocate_domain(&spec)
}

/// Returns the first numbers of rank `rank`.
fn values(rank: usize, count: u64) -> Vec<f32> {
    (0..count).map(|at| at as f32 + 100.0 * rank as f32).collect()
}

fn stage(worker: &Worker, domain: &Domain, count: u64) -> Result<(), Failure> {
    for rank in 0..domain.ranks() {
        worker.write(&domain.buffer(rank, "data")?, &values(rank, count))?;
    }
    Ok(())
}

/// One call for each rank, as a group.
fn group(graph: &mut Orchestrator<'_>, domain: &Domain, call: &Call) -> Result<(), Failure> {
    let calls: Vec<_> =
        domain.chips().into_iter().map(|chip| (chip, call.clone().domain(domain))).collect();
    graph.submit_next_level_group(&calls)?;
    Ok(())
}

fn read(worker: &Worker, domain: &Domain, rank: usize, name: &str) -> Vec<f32> {
    worker.read(&domain.buffer(rank, name).expect("it has one")).expect("the run is over")
}

/// Runs a collective over `chips`, and gives the domain with the results.
fn collective(worker: &Worker, chips: &[u32], count: u64, call: &Call) -> Domain {
    let mut kept = None;
    let run = worker.run("collective", |graph| {
        let domain = allocate(graph, chips, count)?;
        stage(worker, &domain, count)?;
        group(graph, &domain, call)?;
        kept = Some(domain);
        Ok(())
    });
    run.expect("it runs");
    kept.expect("a domain")
}

/// The sum over ranks, element by element.
fn sum(ranks: usize, count: u64) -> Vec<f32> {
    let of = |at: usize| (0..ranks).map(|rank| values(rank, count)[at]).sum();
    (0..count as usize).map(of).collect()
}

fn all_reduce(builder: Builder) {
    let worker = chips(builder, 4);
    for ranks in [2, 3, 4] {
        let members: Vec<u32> = (0..ranks).collect();
        for (number, mode) in Mode::ALL.into_iter().enumerate() {
            let call = Call::new(&ALL_REDUCE).scalar(number as u64);
            let domain = collective(&worker, &members, 256, &call);
            for rank in 0..domain.ranks() {
                let found = read(&worker, &domain, rank, "data");
                assert_eq!(found, sum(domain.ranks(), 256), "{mode:?}, {ranks} ranks, {rank}");
            }
        }
    }
    worker.close().expect("all leave");
}

/// Checks a collective at 2 and 4 ranks: `wanted` gives what `out` of a rank begins with.
fn check_out(
    builder: Builder,
    callable: &Callable,
    each: impl Fn(usize) -> u64,
    wanted: impl Fn(usize, usize) -> Vec<f32>,
) {
    let worker = chips(builder, 4);
    for members in [&[0, 1][..], &[2, 0, 3, 1]] {
        let ranks = members.len();
        let domain = collective(&worker, members, each(ranks), &Call::new(callable));
        for rank in 0..ranks {
            let (found, wanted) = (read(&worker, &domain, rank, "out"), wanted(rank, ranks));
            assert_eq!(found[..wanted.len()], wanted, "{} rank {rank} of {ranks}", callable.name());
        }
    }
    worker.close().expect("all leave");
}

fn all_gather(builder: Builder) {
    let joined = |ranks| (0..ranks).flat_map(|rank| values(rank, 64)).collect();
    check_out(builder, &ALL_GATHER, |_| 64, |_, ranks| joined(ranks));
}

fn reduce_scatter(builder: Builder) {
    let part = |rank: usize, ranks: usize| {
        sum(ranks, 64 * ranks as u64)[64 * rank..64 * (rank + 1)].to_vec()
    };
    check_out(builder, &REDUCE_SCATTER, |ranks| 64 * ranks as u64, part);
}

fn broadcast(builder: Builder) {
    check_out(builder, &BROADCAST, |_| 64, |_, _| values(0, 64));
}

fn all_to_all(builder: Builder) {
    let parts = |rank: usize, ranks: usize| {
        let part = |peer| values(peer, 64 * ranks as u64)[64 * rank..64 * (rank + 1)].to_vec();
        (0..ranks).flat_map(part).collect()
    };
    check_out(builder, &ALL_TO_ALL, |ranks| 64 * ranks as u64, parts);
}

/// No domain.
const NONE: u64 = u64::MAX;

fn rank_map(builder: Builder) {
    let worker = chips(builder, 3);
    let found: Vec<_> = (0..3).map(|_| worker.tensor(DType::I64, &[4]).expect("memory")).collect();
    let mut kept = Vec::new();
    let run = worker.run("two domains", |graph| {
        let (left, right) = (allocate(graph, &[0, 2], 64)?, allocate(graph, &[1, 2], 64)?);
        assert_eq!((left.rank_of(2)?, right.rank_of(2)?, right.rank_of(1)?), (1, 1, 0));
        let words = left.rank_of(1).expect_err("DOM-2").to_string();
        assert_eq!(words, "chip 1 is not in domain `all`: its members are chips [0, 2]");
        let stranger = Call::new(&RANKS).args([found[1].output()]).domain(&left);
        let refused = graph.submit_next_level(Target::Chip(1), &stranger).expect_err("DOM-2");
        assert!(refused.to_string().contains("members are chips [0, 2]"), "{refused}");
        let refused = graph.submit_next_level(Target::Any, &stranger).expect_err("DOM-2");
        assert!(refused.to_string().contains("any worker may take"), "{refused}");
        for (chip, domains) in [(0, vec![&left]), (1, vec![&right]), (2, vec![&left, &right])] {
            let call = Call::new(&RANKS).args([found[chip as usize].output()]);
            let call = domains.into_iter().fold(call, Call::domain);
            graph.submit_next_level(Target::Chip(chip), &call)?;
        }
        for domain in [&left, &right] {
            stage(&worker, domain, 64)?;
            group(graph, domain, &Call::new(&ALL_REDUCE).scalar(0))?;
        }
        kept.extend([left, right]);
        Ok(())
    });
    run.expect("it runs");
    let read_ranks = |chip: usize| worker.read::<u64>(&found[chip]).expect("over");
    assert_eq!([0, 1, 2].map(read_ranks), [[0, 2, NONE, NONE], [0, 2, NONE, NONE], [1, 2, 1, 2]]);
    for domain in &kept {
        for rank in 0..2 {
            assert_eq!(read(&worker, domain, rank, "data"), sum(2, 64), "DOM-2");
        }
    }
    assert_ne!(kept[0].id(), kept[1].id(), "DOM-4");
}

fn overlap(builder: Builder) {
    let worker = chips(builder, 3);
    let mut kept = Vec::new();
    let run = worker.run("overlap", |graph| {
        let domains = [allocate(graph, &[0, 1], 64)?, allocate(graph, &[1, 2], 64)?];
        for domain in &domains {
            for rank in 0..2 {
                let zero = worker.read::<f32>(&domain.buffer(rank, "inbox")?)?;
                assert!(zero.iter().all(|value| *value == 0.0), "DOM-3");
            }
            stage(&worker, domain, 64)?;
        }
        for (number, domain) in domains.iter().enumerate() {
            let chips = domain.chips();
            let call = |rank: usize| {
                // The argument gives the order: first the sum, then the step.
                let data = domain.buffer(rank, "data")?.in_out();
                Ok::<_, Error>(Call::new(&ALL_REDUCE).scalar(0).domain(domain).args([data]))
            };
            let calls = [(chips[0], call(0)?), (chips[1], call(1)?)];
            graph.submit_next_level_group(&calls)?;
            for (rank, chip) in chips.iter().enumerate() {
                let data = domain.buffer(rank, "data")?.in_out();
                let step = Call::new(&AFFINE).args([data]).real(0.5 + number as f64).real(1.0);
                graph.submit_next_level(Target::Chip(*chip), &step)?;
            }
        }
        kept.extend(domains);
        Ok(())
    });
    run.expect("it runs");
    for (number, domain) in kept.iter().enumerate() {
        let affine = |value: f32| (0.5 + number as f32) * value + 1.0;
        let wanted: Vec<f32> = sum(2, 64).into_iter().map(affine).collect();
        for rank in 0..2 {
            assert_eq!(read(&worker, domain, rank, "data"), wanted, "DOM-3: domain {number}");
        }
    }
}

fn told(builder: Builder) {
    let worker = chips(builder, 2);
    for round in 0..20 {
        let mut kept = None;
        let run = worker.run("told", |graph| {
            let domain = allocate(graph, &[0, 1], 1 << 12)?;
            let number = f64::from(round + 1);
            for (from, to) in [(0, 1), (1, 0)] {
                let produce = Call::new(&PRODUCE).domain(&domain).scalar(to).real(number);
                graph.submit_next_level(Target::Chip(from), &produce)?;
            }
            for (at, from) in [(0, 1), (1, 0)] {
                let consume = Call::new(&CONSUME).domain(&domain).scalar(from);
                graph.submit_next_level(Target::Chip(at), &consume)?;
            }
            kept = Some(domain);
            Ok(())
        });
        run.expect("it runs");
        let domain = kept.expect("a domain");
        for rank in 0..2 {
            let out = read(&worker, &domain, rank, "out");
            let is_told = |value: &f32| *value == (round + 1) as f32;
            assert!(out[..1 << 12].iter().all(is_told), "DOM-5: round {round}");
        }
    }
}

fn in_step(builder: Builder) {
    let worker = chips(builder, 3);
    collective(&worker, &[2, 1, 0], 64, &Call::new(&ROUNDS).scalar(200));
}

fn in_vain(builder: Builder) {
    let worker = chips(builder, 3);
    let run = worker.run("in vain", |graph| {
        let domain = allocate(graph, &[2, 0], 8)?;
        let call = Call::new(&AWAIT).domain(&domain);
        let call = [1, 1, 7, 20].into_iter().fold(call, Call::scalar);
        graph.submit_next_level(Target::Chip(2), &call)?;
        Ok(())
    });
    let words = run.expect_err("DOM-7").to_string();
    let wanted = "rank 0 of domain `all` waited 20ms for cell 1 of rank 1 (chip 0): it is 0, and 7 was wanted";
    assert!(words.contains(wanted), "DOM-7: {words}");
}

fn refused(builder: Builder) {
    let worker = chips(builder, 2);
    let run = worker.run("refused", |graph| {
        let domain = allocate(graph, &[1, 0], 8)?;
        let own = domain.buffer(0, "data")?.in_out();
        let call = Call::new(&REFUSALS).domain(&domain).args([own.clone()]);
        let wrong = graph.submit_next_level(Target::Chip(0), &call).expect_err("DOM-8");
        assert!(wrong.to_string().contains("is on chip 1"), "{wrong}");
        let twice = call.clone().args([own]);
        let words = graph.submit_next_level(Target::Chip(1), &twice).expect_err("DOM-8");
        assert!(words.to_string().contains("arguments 0 and 1"), "{words}");
        graph.submit_next_level(Target::Chip(1), &call)?;
        Ok(())
    });
    run.expect("DOM-8");
}

fn missing(builder: Builder) {
    at_some_scale(move |scale| missing_at(scale, builder.clone()));
}

fn missing_at(scale: u32, builder: Builder) {
    let worker = chips(builder.budgets(budgets(100, u64::from(scale) * 700)), 2);
    let run = worker.run("missing", |graph| {
        let domain = allocate(graph, &[0, 1], 8)?;
        let call = Call::new(&AWAIT).domain(&domain);
        let call = [1, 1, 1, 600_000].into_iter().fold(call, Call::scalar);
        graph.submit_next_level(Target::Chip(0), &call)?;
        Ok(())
    });
    let words = run.expect_err("DOM-9").to_string();
    let wanted = "it waits for cell 1 of rank 1 of domain `all`, and that is chip 1";
    assert!(words.contains(wanted) && words.contains("which runs nothing"), "DOM-9: {words}");
    let run = worker.run("the one that waited", |graph| {
        let call = Call::new(&NOTHING).expected(PATIENCE);
        graph.submit_next_level(Target::Chip(0), &call)?;
        Ok(())
    });
    run.expect("DOM-9: its wait has ended, not the worker");
    assert!(worker.lost().is_empty(), "DOM-9: {:?}", worker.lost());
}

fn slow(builder: Builder) {
    at_some_scale(move |scale| slow_at(u64::from(scale), builder.clone()));
}

fn slow_at(scale: u64, builder: Builder) {
    let worker = chips(builder.budgets(budgets(100, scale * 700)), 2);
    let run = worker.run("slow", |graph| {
        let domain = allocate(graph, &[0, 1], 8)?;
        let consume = Call::new(&CONSUME).domain(&domain).scalar(1);
        graph.submit_next_level(Target::Chip(0), &consume)?;
        let sleepy = Call::new(&crate::callables::SLEEP)
            .args([domain.buffer(1, "out")?.buffer().tensor(0, DType::I64, &[1])?.in_out()])
            .scalar(scale * 1_000)
            .expected(PATIENCE);
        graph.submit_next_level(Target::Chip(1), &sleepy)?;
        let produce = Call::new(&PRODUCE).domain(&domain).scalar(0).real(1.0).expected(PATIENCE);
        graph.submit_next_level(Target::Chip(1), &produce)?;
        Ok(())
    });
    run.expect("DOM-9: nobody is stuck");
}

fn odd(builder: Builder) {
    let worker = chips(builder, 2);
    let alone = collective(&worker, &[1], 5, &Call::new(&ALL_REDUCE).scalar(2));
    assert_eq!(read(&worker, &alone, 0, "data"), values(0, 5), "one rank");
    let run = worker.run("empty", |graph| {
        let spec = DomainSpec {
            name: "empty",
            chips: &[1, 0],
            window: 0,
            buffers: &[("inbox", DType::F32, &[0])],
            signals: 0,
        };
        let domain = graph.allocate_domain(&spec)?;
        group(graph, &domain, &Call::new(&ROUNDS).scalar(0))
    });
    run.expect("no bytes");
    for count in [1, 3, 7] {
        for mode in 0..4 {
            let call = Call::new(&ALL_REDUCE).scalar(mode);
            let domain = collective(&worker, &[0, 1], count, &call);
            assert_eq!(read(&worker, &domain, 1, "data"), sum(2, count), "{count} in mode {mode}");
        }
    }
}
