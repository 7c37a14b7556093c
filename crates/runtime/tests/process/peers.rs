//! Ranks that wait for a rank that dies, fails or hangs.

use crate::callables::{NOTHING, PROGRAM};
use crate::collectives::{AWAIT, CONSUME, MEET, MEET_ALONE, PRODUCE, deed, way};
use crate::support::{
    Leftovers, PATIENCE, at_some_scale, budgets, builder, eventually, signal, turn,
};
use phalanx_runtime::{
    Builder, Call, DType, Domain, DomainSpec, Error, Finished, Orchestrator, RunHandle, Target,
    Tensor, Worker,
};
use rustix::process::Signal;
use std::cell::Cell;
use std::time::Duration;

/// The number of chips, all of them ranks.
const CHIPS: u32 = 3;
/// Bytes of the words of a rank.
const WORDS: u64 = 1024;
/// Nobody stays away.
const NOBODY: u64 = u64::MAX;

/// A worker, a domain over all its chips, and a place for the words of each.
struct Meeting {
    worker: Worker,
    domain: Domain,
    words: Tensor,
    /// The number of meetings so far.
    count: Cell<u64>,
}

fn allocate(graph: &mut Orchestrator<'_>, chips: &[u32]) -> Result<Domain, Error> {
    let buffers: &[(&str, DType, &[u64])] =
        &[("data", DType::F32, &[4]), ("out", DType::F32, &[4])];
    let spec = DomainSpec { name: "all", chips, window: 256, buffers, signals: 2 };
    graph.allocate_domain(&spec)
}

impl Meeting {
    fn new(builder: Builder) -> Self {
        let builder = builder.chips(CHIPS).memory(1 << 20).ring(64, 1 << 16);
        let worker = builder.init().expect("a worker");
        let words = worker.tensor(DType::U8, &[CHIPS.into(), WORDS]).expect("memory");
        let mut kept = None;
        let run = worker.run("a domain", |graph| {
            kept = Some(allocate(graph, &[0, 1, 2])?);
            Ok(())
        });
        run.expect("it runs");
        let (domain, count) = (kept.expect("a domain"), Cell::new(0));
        Self { worker, domain, words, count }
    }

    /// The calls of all ranks at the next meeting, to which one does not come: who, what it does, how the others wait.
    fn calls(&self, scalars: [u64; 3]) -> Result<Vec<(u32, Call)>, Error> {
        self.count.update(|count| count + 1);
        let scalars = scalars.into_iter().chain([self.count.get()]);
        let call = scalars.fold(Call::new(&MEET).domain(&self.domain), Call::scalar);
        let row = |chip: u32| self.words.rows(chip.into(), u64::from(chip) + 1);
        (0..CHIPS).map(|chip| Ok((chip, call.clone().args([row(chip)?.no_dep()])))).collect()
    }

    fn submit(&self, graph: &mut Orchestrator<'_>, scalars: [u64; 3]) -> Result<(), Error> {
        graph.submit_next_level_group(&self.calls(scalars)?).map(drop)
    }

    fn begin(&self, scalars: [u64; 3]) -> RunHandle {
        self.worker
            .submit("a meeting", |graph| Ok(self.submit(graph, scalars)?))
            .expect("it is open")
    }

    fn hold(&self, scalars: [u64; 3]) -> Result<Finished, Error> {
        self.begin(scalars).wait()
    }

    /// Takes the words of each rank after its wait; all waits are over.
    fn said(&self) -> Vec<String> {
        let bytes = self.worker.read::<u8>(&self.words).expect("its tasks have ended");
        self.worker.write(&self.words, &vec![0u8; bytes.len()]).expect("nobody uses it");
        let text = |row: &[u8]| String::from_utf8_lossy(row).trim_end_matches('\0').to_owned();
        bytes.chunks(usize::try_from(WORDS).expect("small")).map(text).collect()
    }

    /// The other ranks have said that they wait in vain for rank 1, and why.
    fn check_said(&self, words: &[&str]) {
        let said = self.said();
        assert_eq!(said[1], "", "DOM-10: rank 1 waits for nobody");
        for rank in [0, 2] {
            let said = &said[rank];
            let is_named = said.starts_with(&format!("rank {rank} of domain `all` waits in vain"));
            assert!(is_named && said.contains("chip 1"), "DOM-10: rank {rank}: {said}");
            for words in words {
                assert!(said.contains(words), "DOM-10: rank {rank}: {words} in {said}");
            }
        }
    }

    /// Only chip 1 is lost, and the others take tasks.
    fn check_losses(&self) {
        eventually("the loss is proven", || !self.worker.lost().is_empty());
        let lost: Vec<String> = self.worker.lost().into_iter().map(|one| one.worker).collect();
        assert!(lost.len() == 1 && lost[0].starts_with("chip 1"), "DOM-10: {lost:?}");
        let run = self.worker.run("the others", |graph| {
            for chip in [0, 2] {
                let call = Call::new(&NOTHING).expected(PATIENCE);
                graph.submit_next_level(Target::Chip(chip), &call)?;
            }
            Ok(())
        });
        run.expect("DOM-10: its chips live on");
    }

    /// Nobody is lost, and all meet.
    fn check_in_step(&self) {
        assert!(self.worker.lost().is_empty(), "{:?}", self.worker.lost());
        for round in 0..3 {
            let run = self.hold([NOBODY, 0, way::BARRIER]);
            run.unwrap_or_else(|error| panic!("DOM-11: round {round}: {error}"));
        }
        assert_eq!(self.said(), ["", "", ""], "DOM-11");
    }
}

fn threads() -> Builder {
    Worker::builder(&PROGRAM).threads()
}

#[test]
fn dom_10_a_peer_that_dies_ends_all_waits_for_it_and_its_chips_live_on() {
    let _turn = turn();
    let left = Leftovers::before();
    let ends = [(deed::EXIT, "exited with 5"), (deed::ABORT, "SIGABRT")];
    for (what, end) in ends {
        for how in [way::BARRIER, way::CELL, way::RING] {
            let meeting = Meeting::new(builder());
            let process = meeting.worker.startup().children[1].process;
            let Err(Error::Run(error)) = meeting.hold([1, what, how]) else { panic!("DOM-10") };
            let root = error.root().expect("a root");
            assert_eq!(root.worker, format!("chip 1 (process {process})"), "DOM-10: {error}");
            assert!(root.words.contains(end) || root.words.contains("torn down"), "{error}");
            meeting.check_said(&[&format!("chip 1 (process {process})"), end]);
            meeting.check_losses();
            meeting.worker.close().expect("the others leave");
        }
    }
    left.check();
}

#[test]
fn dom_10_dom_11_a_peer_that_fails_ends_all_waits_for_it_and_comes_to_the_next_run() {
    let _turn = turn();
    for make in [threads, builder] {
        let meeting = Meeting::new(make());
        for (what, end) in
            [(deed::FAIL, "the bridge is up"), (deed::PANIC, "the bridge met a wall")]
        {
            for how in [way::BARRIER, way::CELL, way::RING] {
                let Err(Error::Run(error)) = meeting.hold([1, what, how]) else { panic!("DOM-10") };
                let root = error.root().expect("a root");
                let is_named = root.worker.starts_with("chip 1") && root.words.contains(end);
                assert!(is_named, "DOM-10: {error}");
                meeting.check_said(&["task t", "(`fixture::meet`, member 1) on chip 1", end]);
                meeting.check_in_step();
            }
        }
    }
}

#[test]
fn dom_11_who_has_failed_comes_to_no_more_barriers_of_that_run() {
    let _turn = turn();
    for make in [threads, builder] {
        let meeting = Meeting::new(make());
        let run = meeting.worker.run("two meetings", |graph| {
            meeting.submit(graph, [1, deed::FAIL, way::BARRIER])?;
            // Nothing says that the second depends on the first. If it begins, it is not in step.
            let second = meeting.submit(graph, [NOBODY, 0, way::BARRIER]);
            assert!(
                second.is_ok()
                    || second.is_err_and(|error| error.to_string().contains("its run has failed"))
            );
            Ok(())
        });
        let words = run.expect_err("DOM-11").to_string();
        assert!(words.contains("the bridge is up"), "DOM-11: {words}");
        let said = meeting.said();
        let is_told = |words: &String| words.contains("in vain") || words.contains("cannot come");
        assert!(is_told(&said[0]) && is_told(&said[2]), "DOM-11: {said:?}");
        assert!(said[1].is_empty() || said[1].contains("cannot come to a barrier"), "{said:?}");
        meeting.check_in_step();
    }
}

#[test]
fn dom_10_a_peer_that_hangs_is_the_one_that_is_ended() {
    let _turn = turn();
    for make in [threads, builder] {
        at_some_scale(|scale| end_who_hangs(make().budgets(budgets(100, u64::from(scale) * 700))));
    }
}

fn end_who_hangs(builder: Builder) {
    let meeting = Meeting::new(builder);
    let run = meeting.hold([1, deed::HANG, way::BARRIER]);
    let Err(Error::Run(error)) = run else { panic!("DOM-10: {run:?}") };
    assert!(error.stall().is_some(), "{error}");
    assert!(error.to_string().starts_with("chip 1"), "DOM-9: it is named: {error}");
    meeting.check_losses();
    // A thread cannot be ended: it is let go now, and it stays lost.
    let mut flag = vec![0u8; usize::try_from(WORDS).expect("small")];
    flag[0] = 1;
    let row = meeting.words.rows(1, 2).expect("a row");
    meeting.worker.write_unordered(&row, &flag).expect("it is ours");
    let said = meeting.worker.read_unordered::<u8>(&meeting.words).expect("it is ours");
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("waits in vain for the barrier of rank 1: chip 1"), "DOM-10: {said}");
    assert!(said.contains("has shown no progress"), "DOM-10: {said}");
}

#[test]
fn dom_10_waits_for_the_lost_end_and_those_among_the_others_go_on() {
    let _turn = turn();
    let meeting = Meeting::new(builder());
    let (worker, domain) = (&meeting.worker, &meeting.domain);
    let tell = |from: u32, to: u64| (from, Call::new(&PRODUCE).domain(domain).scalar(to).real(1.0));
    let hear = |at: u32, from: u64| (at, Call::new(&CONSUME).domain(domain).scalar(from));
    let run = |calls: &[(u32, Call)]| {
        worker.run("calls", |graph| {
            for (chip, call) in calls {
                graph.submit_next_level(Target::Chip(*chip), call)?;
            }
            Ok(())
        })
    };
    run(&[tell(1, 0)]).expect("rank 1 lives");
    signal(worker.startup().children[1].process, Signal::KILL);
    eventually("the loss is proven", || worker.lost().len() == 1);
    run(&[hear(0, 1)]).expect("DOM-10: what was written before counts");
    run(&[tell(0, 2), tell(2, 0), hear(0, 2), hear(2, 0)]).expect("DOM-10: among the others");
    let more = |wanted: u64| {
        let call = Call::new(&AWAIT).domain(domain);
        (0, [1, 0, wanted, 600_000].into_iter().fold(call, Call::scalar))
    };
    run(&[more(1)]).expect("DOM-10: it is there");
    let words = run(&[more(2)]).expect_err("DOM-10").to_string();
    let wanted = "rank 0 of domain `all` waits in vain for cell 0 of rank 1: chip 1 (process ";
    assert!(words.contains(wanted) && words.contains("SIGKILL"), "DOM-10: {words}");
    // A domain that is made later knows it too, and one without the lost rank is as any other.
    let fresh = worker.run("later", |graph| {
        let (with, without) = (allocate(graph, &[2, 1])?, allocate(graph, &[2, 0])?);
        let call = [1, 0, 1, 600_000].into_iter().fold(Call::new(&AWAIT), Call::scalar);
        graph.submit_next_level(Target::Chip(2), &call.domain(&with))?;
        let meet = [NOBODY, 0, way::BARRIER].into_iter().fold(Call::new(&MEET), Call::scalar);
        let meet = meet.domain(&without);
        graph.submit_next_level_group(&[(0, meet.clone()), (2, meet)])?;
        Ok(())
    });
    let Err(Error::Run(error)) = fresh else { panic!("DOM-10") };
    assert!(error.to_string().contains("waits in vain for cell 0 of rank 1"), "DOM-10: {error}");
    assert_eq!((error.report().completed, error.failures().len()), (1, 1), "DOM-10: {error}");
    meeting.check_losses();
}

#[test]
fn dom_10_single_tasks_are_told_too() {
    let _turn = turn();
    for (make, what) in [(threads as fn() -> Builder, deed::PANIC), (builder, deed::EXIT)] {
        let meeting = Meeting::new(make());
        let run = meeting.worker.run("single tasks", |graph| {
            for chip in 0..CHIPS {
                let row = meeting.words.rows(chip.into(), u64::from(chip) + 1)?;
                let call = Call::new(&MEET_ALONE).args([row.no_dep()]).domain(&meeting.domain);
                let call = [1, what, way::BARRIER].into_iter().fold(call, Call::scalar);
                graph.submit_next_level(Target::Chip(chip), &call)?;
            }
            Ok(())
        });
        let words = run.expect_err("DOM-10").to_string();
        assert!(words.contains("chip 1"), "DOM-10: {words}");
        meeting.check_said(&["waits in vain for the barrier of rank 1"]);
        if what == deed::EXIT {
            meeting.check_losses();
        } else {
            meeting.check_in_step();
        }
    }
}

#[test]
fn dom_10_a_death_while_the_code_of_the_graph_sleeps_costs_nobody_else() {
    let _turn = turn();
    at_some_scale(|scale| {
        let meeting = Meeting::new(builder().budgets(budgets(100, u64::from(scale) * 500)));
        let run = meeting.worker.run("asleep", |graph| {
            meeting.submit(graph, [1, deed::ABORT, way::BARRIER])?;
            graph.flush();
            // Nobody looks at the node meanwhile, for longer than every budget.
            std::thread::sleep(scale * Duration::from_millis(1_200));
            Ok(())
        });
        let words = run.expect_err("DOM-10").to_string();
        assert!(words.contains("on chip 1") && words.contains("SIGABRT"), "DOM-10: {words}");
        meeting.check_said(&["SIGABRT", "its last words: "]);
        meeting.check_losses();
    });
}

#[test]
fn dom_10_a_death_while_nobody_waits_is_told_by_the_progress_thread() {
    let _turn = turn();
    let meeting = Meeting::new(builder());
    let path = format!("{}/peers-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let _ = std::fs::remove_file(&path);
    let run = meeting.worker.submit("left alone", |graph| {
        let named =
            |(chip, call): (u32, Call)| (chip, call.bytes(format!("{path}-{chip}").as_bytes()));
        let calls = meeting.calls([1, deed::ABORT, way::BARRIER])?;
        graph.submit_next_level_group(&calls.into_iter().map(named).collect::<Vec<_>>())?;
        Ok(())
    });
    let run = run.expect("it is open");
    for chip in [0, 2] {
        let path = format!("{path}-{chip}");
        eventually("its wait ends", || std::fs::metadata(&path).is_ok());
        std::fs::remove_file(&path).expect("it is there");
    }
    // The progress thread tells the peers first.
    eventually("the run is over", || run.is_done());
    meeting.check_said(&["SIGABRT"]);
    meeting.check_losses();
}

#[test]
fn dom_10_dom_11_a_peer_that_is_replaced_comes_to_the_next_run() {
    let _turn = turn();
    let meeting = Meeting::new(builder().restart());
    for how in [way::BARRIER, way::CELL, way::RING] {
        let Err(Error::Run(error)) = meeting.hold([1, deed::EXIT, how]) else { panic!("DOM-10") };
        assert!(error.root().is_some_and(|root| root.worker.starts_with("chip 1")), "{error}");
        meeting.check_said(&["chip 1 (process ", "exited with 5"]);
        meeting.check_in_step();
    }
    assert_eq!(meeting.worker.replaced().len(), 3);
}

#[test]
fn dom_11_a_task_that_runs_again_comes_to_a_barrier_only_if_it_had_not() {
    let _turn = turn();
    let meeting = Meeting::new(builder().restart());
    let hold = |what: u64| {
        meeting.worker.run("again", |graph| {
            for rank in 0..meeting.domain.ranks() {
                let data = meeting.domain.buffer(rank, "data")?;
                meeting.worker.write(&data, &[0.0f32; 4])?;
            }
            let calls = meeting.calls([1, what, way::BARRIER])?.into_iter();
            let calls: Vec<_> = calls.map(|(chip, call)| (chip, call.idempotent())).collect();
            graph.submit_next_level_group(&calls)?;
            Ok(())
        })
    };
    for _ in 0..2 {
        hold(deed::DIE_BEFORE).expect("DOM-11: it had not come, and comes when it is sent again");
        assert_eq!(meeting.said(), ["", "", ""], "DOM-11");
        // The others come when rank 1 has died within.
        let words = hold(deed::DIE_WITHIN).expect_err("DOM-11").to_string();
        assert!(words.contains("came to one with this task before it died"), "DOM-11: {words}");
        let said = meeting.said();
        assert!(said[1].starts_with("rank 1 of domain `all` cannot come to a barrier"), "{said:?}");
        meeting.check_in_step();
    }
}

#[test]
fn lvl_7_dom_10_a_worker_that_dies_or_fails_below_ends_the_waits_of_its_peers() {
    let _turn = turn();
    for (make, what) in [(threads as fn() -> Builder, deed::FAIL), (builder, deed::ABORT)] {
        let small = |builder: Builder| builder.memory(1 << 20).ring(64, 1 << 16);
        let pod = small(make()).workers(2, |node| small(node).chips(1)).init().expect("a tree");
        let run = pod.run("workers meet", |graph| {
            let domain = allocate(graph, &[0, 1])?;
            let call = [1, what, way::BARRIER].into_iter().fold(Call::new(&MEET), Call::scalar);
            let call = call.domain(&domain);
            graph.submit_next_level_group(&[(0, call.clone()), (1, call)])?;
            Ok(())
        });
        let words = run.expect_err("DOM-10").to_string();
        assert!(words.contains("worker 1"), "DOM-10: {words}");
        let lost = usize::from(what == deed::ABORT);
        eventually("the loss is proven", || pod.lost().len() == lost);
        pod.close().expect("DOM-10: the other is well");
    }
}
