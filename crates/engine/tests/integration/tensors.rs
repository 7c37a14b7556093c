//! Views, buffers and the dependencies inferred from them.

use crate::support::{Bench, Random, view};
use phalanx_engine::*;

fn buffer() -> (Bench, BufferId) {
    let mut bench = Bench::new(4);
    let buffer = bench.buffer(1 << 20);
    (bench, buffer)
}

/// The bytes of a view below 64, the slow way.
fn bytes(offset: u64, shape: &[u64], strides: &[u64], element: u64) -> u64 {
    let mut all = vec![offset];
    for (count, stride) in shape.iter().zip(strides) {
        all = all
            .iter()
            .flat_map(|at| (0..*count).map(move |step| at + step * stride * element))
            .collect();
    }
    all.iter()
        .flat_map(|at| (0..element).map(move |byte| at + byte))
        .fold(0, |set, at| set | 1u64 << at)
}

fn random_view(random: &mut Random, buffer: BufferId) -> (View, u64) {
    loop {
        let rank = usize::try_from(random.below(4)).unwrap_or_default();
        let shape: Vec<u64> = (0..rank).map(|_| 1 + random.below(4)).collect();
        let strides: Vec<u64> = (0..rank).map(|_| 1 + random.below(16)).collect();
        let (offset, element) = (random.below(40), 1 + random.below(3));
        let end = shape
            .iter()
            .zip(&strides)
            .map(|(count, stride)| (count - 1) * stride * element)
            .sum::<u64>();
        if offset + end + element <= 64 {
            let view =
                View::strided(buffer, offset, &shape, &strides, element).expect("a small view");
            return (view, bytes(offset, &shape, &strides, element));
        }
    }
}

#[test]
fn view_1_views_overlap_exactly_if_they_share_a_byte() {
    let (_, buffer) = buffer();
    let mut random = Random::new(1);
    let mut both = [0, 0];
    for _ in 0..200_000 {
        let ((a, of_a), (b, of_b)) =
            (random_view(&mut random, buffer), random_view(&mut random, buffer));
        assert_eq!(a.overlaps(&b), of_a & of_b != 0, "{a:?} {of_a:b}\n{b:?} {of_b:b}");
        assert_eq!(a.overlaps(&b), b.overlaps(&a));
        both[usize::from(a.overlaps(&b))] += 1;
    }
    assert!(both[0] > 10_000 && both[1] > 10_000, "{both:?}");
}

#[test]
fn view_3_a_view_that_covers_another_holds_all_its_bytes() {
    let (_, buffer) = buffer();
    let mut random = Random::new(2);
    let mut covering = 0;
    for _ in 0..200_000 {
        let ((a, of_a), (b, of_b)) =
            (random_view(&mut random, buffer), random_view(&mut random, buffer));
        assert!(!a.covers(&b) || of_b & !of_a == 0, "{a:?} {of_a:b}\n{b:?} {of_b:b}");
        assert!(a.covers(&a));
        covering += u32::from(a.covers(&b));
    }
    assert!(covering > 1000, "{covering}");
}

#[test]
fn tiles_of_one_matrix_are_told_apart_at_any_size() {
    let mut bench = Bench::new(1);
    let buffer = bench.buffer(1 << 40);
    let row = 1 << 17;
    let tile = |x: u64, y: u64| {
        View::strided(buffer, y * 4096 * row * 4 + x * 512 * 4, &[4096, 512], &[row, 1], 4)
            .expect("a tile")
    };
    for (x, y) in [(0, 0), (1, 0), (0, 1), (7, 3)] {
        for (u, v) in [(0, 0), (1, 0), (0, 1), (7, 3)] {
            assert_eq!(tile(x, y).overlaps(&tile(u, v)), (x, y) == (u, v));
        }
    }
    let column = View::strided(buffer, 0, &[8192], &[row], 4).expect("a column");
    assert!(column.overlaps(&tile(0, 1)) && !column.overlaps(&tile(1, 0)));
    let whole = View::bytes(buffer, 0, 1 << 40).expect("all of it");
    assert!(whole.covers(&tile(7, 3)) && !tile(7, 3).covers(&whole));
}

#[test]
fn b_73_view_2_sizes_that_do_not_fit_are_refused_and_never_wrapped() {
    let (mut bench, buffer) = buffer();
    let huge = 1 << 16;
    assert_eq!(View::row_major(buffer, 0, &[huge, huge, huge, huge], 1), Err(ViewError::Overflow));
    assert_eq!(View::bytes(buffer, u64::MAX, 2), Err(ViewError::Overflow));
    assert_eq!(View::strided(buffer, 0, &[2], &[u64::MAX], 8), Err(ViewError::Overflow));
    assert_eq!(
        View::strided(buffer, 0, &[1 << 40, 1 << 40], &[1 << 40, 1], 4),
        Err(ViewError::Overflow)
    );
    assert_eq!(View::strided(buffer, 0, &[2], &[0], 1), Err(ViewError::Zero));
    assert_eq!(View::strided(buffer, 0, &[1; 6], &[1; 6], 1), Err(ViewError::Rank(6)));
    let identity = Identity { owner: 9, number: 9, generation: 1 };
    let error = bench.engine.register(identity, u64::MAX, Grant::Read);
    assert_eq!(error, Err(BufferError::TooLarge(u64::MAX)));
    let run = bench.begin();
    let error =
        bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).bytes(u64::MAX));
    assert_eq!(error, Err(SubmitError::TooLarge { bytes: u64::MAX, capacity: 1 << 30 }));
    let beyond = [view(buffer, 0, (1 << 20) + 1).input()];
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&beyond));
    assert_eq!(
        error,
        Err(SubmitError::OutOfBounds {
            member: 0,
            argument: 0,
            end: (1 << 20) + 1,
            bytes: 1 << 20
        })
    );
    assert_eq!(bench.seal_and_finish(run).report.tasks, 0);
}

#[test]
fn b_06_buf_1_identities_that_differ_in_anything_are_different_buffers() {
    let mut bench = Bench::new(2);
    let mut all = Vec::new();
    // These have the same sum, exclusive or and product of their parts; those differ from the first in one part only.
    let alike = [(1, 2, 3), (2, 1, 3), (3, 2, 1), (1, 3, 2), (2, 3, 1), (3, 1, 2)];
    let close = [(4, 2, 3), (1, 4, 3), (1, 2, 4)];
    for (owner, number, generation) in alike.into_iter().chain(close) {
        let identity = Identity { owner, number, generation };
        let id = bench.engine.register(identity, 64, Grant::ReadWrite).expect("new");
        assert_eq!(bench.engine.register(identity, 64, Grant::ReadWrite), Ok(id));
        assert_eq!(
            bench.engine.register(identity, 65, Grant::ReadWrite),
            Err(BufferError::Differs)
        );
        all.push(id);
    }
    let run = bench.begin();
    for (work, buffer) in (0..).zip(&all) {
        let task = bench.task(run, work, &[view(*buffer, 0, 64).in_out()]);
        assert!(bench.engine.why(task).expect("live").dependencies.is_empty());
    }
}

#[test]
fn buf_2_buf_3_a_buffer_goes_when_no_run_names_it_and_its_number_is_never_confused() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    bench.task(run, 1, &[view(buffer, 0, 8).output()]);
    bench.done(1);
    assert_eq!(
        bench.engine.release(buffer),
        Err(BufferError::InUse(buffer)),
        "the run is not finished"
    );
    bench.seal_and_finish(run);
    assert!(bench.engine.knows(buffer), "BUF-2");
    assert_eq!(bench.engine.release(buffer), Ok(()));
    assert!(!bench.engine.knows(buffer), "BUF-2");
    let next = bench.buffer(1 << 20);
    assert_ne!(next, buffer);
    assert!(bench.engine.knows(next) && !bench.engine.knows(buffer), "BUF-2");
    let run = bench.begin();
    let stale = [view(buffer, 0, 8).input()];
    let error = bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&stale));
    assert_eq!(error, Err(SubmitError::StaleBuffer(buffer)));
    assert_eq!(bench.engine.release(buffer), Err(BufferError::Stale(buffer)));
    let no_dep = [Arg { view: view(next, 0, 8), tag: Tag::NoDep }];
    bench.task(run, 1, &no_dep);
    assert_eq!(
        bench.engine.release(next),
        Err(BufferError::InUse(next)),
        "also what is not ordered is in use"
    );
}

#[test]
fn a_buffer_that_may_only_be_read_is_never_written() {
    let mut bench = Bench::new(1);
    let identity = Identity { owner: 1, number: 77, generation: 1 };
    let buffer = bench.engine.register(identity, 64, Grant::Read).expect("new");
    let run = bench.begin();
    for tag in [Tag::Output, Tag::InOut, Tag::OutputExisting] {
        let args = [view(buffer, 0, 1).input(), Arg { view: view(buffer, 8, 16), tag }];
        let error =
            bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&args));
        assert_eq!(error, Err(SubmitError::ReadOnly { member: 0, argument: 1 }));
    }
}

/// The work of those a task waits for.
fn waits(bench: &Bench, task: TaskId) -> Vec<TaskId> {
    match bench.engine.why(task).expect("live").waiting {
        Waiting::Tasks(tasks) => tasks,
        _ => Vec::new(),
    }
}

#[test]
fn b_09_tm_1_a_writer_waits_for_readers_and_a_reader_for_the_writer() {
    let (mut bench, buffer) = buffer();
    // In parts, which need a tree, and always the same bytes, which do not.
    for [(from, to), (start, end)] in [[(0, 4), (2, 6)], [(0, 8), (0, 8)]] {
        let run = bench.begin();
        let write = bench.task(run, 1, &[view(buffer, 0, 8).output()]);
        let reads = [2, 3].map(|work| bench.task(run, work, &[view(buffer, from, to).input()]));
        let again = bench.task(run, 4, &[view(buffer, start, end).output()]);
        assert_eq!(waits(&bench, reads[0]), [write]);
        let mut all = [write, reads[0], reads[1]];
        all.sort_unstable();
        assert_eq!(waits(&bench, again), all);
        bench.done(1);
        assert_eq!(bench.works(), [2, 3], "readers run together");
        bench.done(2);
        assert_eq!(bench.works(), [3]);
        bench.done(3);
        assert_eq!(bench.works(), [4]);
        bench.seal_and_finish(run);
    }
}

#[test]
fn tm_1_a_writer_waits_for_however_many_readers() {
    let mut bench = Bench::new(1);
    let buffer = bench.buffer(64);
    // Seven readers stand in the buffer's record; more go to a tree, and tasks that have ended make room for others.
    for (ended, count) in [(0, 6), (0, 7), (0, 8), (0, 40), (5, 6), (5, 40)] {
        let run = bench.begin();
        for work in 0..ended {
            bench.task(run, work, &[view(buffer, 0, 64).input()]);
            bench.done(work);
        }
        let reads: Vec<TaskId> = (100..100 + count)
            .map(|work| bench.task(run, work, &[view(buffer, 0, 64).input()]))
            .collect();
        let write = bench.task(run, 1000, &[view(buffer, 0, 64).output()]);
        let mut waited = waits(&bench, write);
        waited.sort_unstable();
        let mut reads = reads;
        reads.sort_unstable();
        assert_eq!(waited, reads, "{count} readers after {ended} that had ended");
        assert_eq!(bench.seal_and_finish(run).report.completed, ended + count + 1);
        bench.assert_empty();
    }
}

#[test]
fn b_08_tm_2_disjoint_tiles_and_slices_are_independent() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    let tile = |x: u64, y: u64| {
        View::strided(buffer, (y * 4 * 64 + x * 4) * 4, &[4, 4], &[64, 1], 4)
            .expect("a tile")
            .in_out()
    };
    for work in 0..4 {
        let task = bench.task(run, work, &[tile(work % 2, work / 2)]);
        assert_eq!(bench.engine.why(task).expect("live").dependencies, []);
    }
    assert_eq!(bench.works(), [0, 1, 2, 3], "none waits: they could be meeting each other");
    let even = View::strided(buffer, 65536, &[100], &[2], 8).expect("even").output();
    let odd = View::strided(buffer, 65536 + 8, &[100], &[2], 8).expect("odd").output();
    bench.task(run, 5, &[even]);
    let odd = bench.task(run, 6, &[odd]);
    assert_eq!(waits(&bench, odd), []);
}

#[test]
fn b_05_tm_3_a_partial_write_hides_nobody() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    let whole = bench.task(run, 1, &[view(buffer, 0, 100).output()]);
    let part = bench.task(run, 2, &[view(buffer, 10, 20).output()]);
    let (left, inside, both) = (
        bench.task(run, 3, &[view(buffer, 0, 5).input()]),
        bench.task(run, 4, &[view(buffer, 12, 14).input()]),
        bench.task(run, 5, &[view(buffer, 15, 25).input()]),
    );
    assert_eq!(waits(&bench, part), [whole]);
    assert_eq!(waits(&bench, left), [whole]);
    assert!(waits(&bench, inside).contains(&part));
    assert_eq!(waits(&bench, both), [whole, part]);
    bench.seal_and_finish(run);
    bench.assert_empty();
}

#[test]
fn b_05_tm_4_the_end_of_an_older_writer_keeps_the_newer_one() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    bench.task(run, 1, &[view(buffer, 0, 64).output()]);
    let newer = bench.task(run, 2, &[view(buffer, 0, 64).output()]);
    bench.done(1);
    let reader = bench.task(run, 3, &[view(buffer, 0, 64).input()]);
    assert_eq!(waits(&bench, reader), [newer]);
}

#[test]
fn tm_5_runs_do_not_see_each_others_accesses() {
    let mut bench = Bench::new(2);
    let buffer = bench.buffer(64);
    let first = [bench.workers[0]];
    let second = [bench.workers[1]];
    let one = bench
        .begin_with(&RunSpec { resources: Resources::Only(&first, &[]), ..RunSpec::new("one") });
    let two = bench
        .begin_with(&RunSpec { resources: Resources::Only(&second, &[]), ..RunSpec::new("two") });
    for (work, (run, worker)) in
        (0..).zip([(one, first[0]), (two, second[0]), (one, first[0]), (two, second[0])])
    {
        let args = [view(buffer, 0, 64).in_out()];
        let task =
            bench.spec(run, &TaskSpec::new(Placement::Worker(worker)).args(&args).work(work));
        let dependencies = bench.engine.why(task).expect("live").dependencies;
        assert_eq!(dependencies.len(), usize::from(work >= 2), "only on the task of the same run");
    }
    bench.look();
    let task = bench.running[0].task;
    let error =
        bench.engine.submit(two, &TaskSpec::new(Placement::Worker(second[0])).after(&[task]));
    assert_eq!(error, Err(SubmitError::OtherRun(task)));
}

#[test]
fn b_07_ranges_that_begin_elsewhere_are_ordered_too() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    let wide = bench.task(run, 1, &[view(buffer, 0, 4096).output()]);
    let inner = bench.task(run, 2, &[view(buffer, 1024, 2048).input()]);
    assert_eq!(waits(&bench, inner), [wide]);
}

#[test]
fn b_71_aliasing_arguments_are_refused_in_any_order() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    let arg = |tag: Tag, start: u64| Arg { view: view(buffer, start, start + 8), tag };
    for (tags, is_refused) in [
        ([Tag::Input, Tag::Output], true),
        ([Tag::Input, Tag::InOut], true),
        ([Tag::Output, Tag::Output], true),
        ([Tag::OutputExisting, Tag::Input], true),
        ([Tag::Input, Tag::Input], false),
        ([Tag::NoDep, Tag::Output], false),
    ] {
        let (a, b, c) = (arg(tags[0], 0), arg(tags[1], 4), arg(Tag::Input, 100));
        let orders =
            [[&a, &b, &c], [&b, &a, &c], [&c, &a, &b], [&c, &b, &a], [&a, &c, &b], [&b, &c, &a]];
        for order in orders {
            let args = order.map(Clone::clone);
            let before = bench.engine.stats();
            let answer =
                bench.engine.submit(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&args));
            assert_eq!(
                matches!(answer, Err(SubmitError::Aliasing { member: 0, .. })),
                is_refused,
                "{order:?}"
            );
            assert!(!is_refused || bench.engine.stats() == before, "a refusal leaves nothing");
        }
    }
}

#[test]
fn b_10_writers_left_unordered_on_request_are_counted() {
    let (mut bench, buffer) = buffer();
    let run = bench.begin();
    let write = [view(buffer, 0, 8).output()];
    let first = bench.task(run, 1, &write);
    let second = bench
        .spec(run, &TaskSpec::new(Placement::Pool(bench.pool)).args(&write).work(2).unordered());
    assert_eq!(bench.works(), [1, 2], "they run together");
    let reader = bench.task(run, 3, &[view(buffer, 0, 8).input()]);
    assert_eq!(waits(&bench, reader), [first, second], "and whoever comes later waits for both");
    assert_eq!(bench.seal_and_finish(run).report.unordered, 1);
    let run = bench.begin();
    bench.task(run, 1, &write);
    let ordered = bench.task(run, 2, &write);
    assert_eq!(waits(&bench, ordered).len(), 1, "by default they are ordered");
}

#[test]
fn tm_6_a_hundred_thousand_disjoint_slices_cost_no_more_each_than_a_few() {
    // Counts comparisons of regions by their effect: a cost that grew with live slices took minutes here.
    let slots = 100_001;
    let mut bench = Bench::with(1, Config { slots, ..Config::default() });
    let buffer = bench.buffer(1 << 30);
    let run = bench.begin();
    for work in 0..100_000 {
        let slice = (work * 48_271 % 100_003) * 64;
        let task = bench.task(run, work, &[view(buffer, slice, slice + 64).in_out()]);
        assert!(work % 1000 > 0 || bench.engine.why(task).expect("live").dependencies.is_empty());
    }
    assert_eq!(bench.engine.stats().regions, 100_000);
    let all = bench.task(run, 1 << 40, &[view(buffer, 0, 1 << 30).input()]);
    assert_eq!(waits(&bench, all).len(), 100_000);
    bench.seal_and_finish(run);
    bench.assert_empty();
}
