use super::*;
use crate::{Failure, Program, Task, Worker, register};

#[expect(clippy::unnecessary_wraps, reason = "callables can fail")]
fn nothing(_: &mut Task<'_>) -> Result<(), Failure> {
    Ok(())
}

fn fill(task: &mut Task<'_>) -> Result<(), Failure> {
    let view = task.domain(0)?;
    for peer in 0..view.ranks() {
        view.put(peer, "x", 0, &[7u8; 1000])?;
        view.notify(peer, 0, 9)?;
    }
    Ok(())
}

const NOTHING: crate::Callable = register!(nothing);
const FILL: crate::Callable = register!(fill);
static PROGRAM: Program = Program::new(&[NOTHING, FILL]);

fn worker(chips: u32) -> Worker {
    let builder = Worker::builder(&PROGRAM).threads().chips(chips);
    builder.memory(1 << 16).ring(16, 1 << 12).init().expect("a worker")
}

const X: &[(&str, DType, &[u64])] = &[("x", DType::U8, &[1000])];

fn spec(chips: &[u32]) -> DomainSpec<'_> {
    DomainSpec { name: "d", chips, window: 1000, buffers: X, signals: 1 }
}

fn free(worker: &Worker) -> u64 {
    worker.node.lock().arena.free()
}

#[test]
fn dom_1_what_cannot_be_is_refused_before_anything_is_done() {
    let worker = worker(3);
    let before = free(&worker);
    let many: Vec<u32> = (0..65).collect();
    let twice: &[(&str, DType, &[u64])] = &[("x", DType::U8, &[1]), ("x", DType::F32, &[1])];
    let huge: &[(&str, DType, &[u64])] =
        &[("x", DType::F64, &[u64::MAX / 8]), ("y", DType::F64, &[1])];
    let cases = [
        (spec(&[]), "has no chips"),
        (spec(&[1, 2, 1]), "chip 1 is in domain `d` twice"),
        (spec(&[0, 3]), "there is no chip 3: this worker has 3"),
        (spec(&many), "at most 64 ranks: 65"),
        (DomainSpec { name: "", ..spec(&[0]) }, "1 to 255 bytes: 0"),
        (DomainSpec { signals: 4097, ..spec(&[0]) }, "at most 4096 cells for each rank: 4097"),
        (DomainSpec { buffers: twice, ..spec(&[0]) }, "two buffers of the window are called `x`"),
        (DomainSpec { window: 999, ..spec(&[0]) }, "have 1000 bytes and its window 999"),
        (DomainSpec { buffers: huge, window: u64::MAX, ..spec(&[0]) }, "less than 2^64"),
        (DomainSpec { window: u64::MAX, ..spec(&[0]) }, "less than 2^64"),
        (DomainSpec { window: 1 << 14, ..spec(&[0, 1, 2]) }, ""),
        (DomainSpec { window: 1 << 15, ..spec(&[0, 1, 2]) }, "bytes do not fit"),
    ];
    let run = worker.run("refusals", |graph| {
        for (spec, words) in cases {
            match graph.allocate_domain(&spec) {
                Ok(_) => assert!(words.is_empty(), "DOM-1: {words}"),
                Err(error) => {
                    let found = error.to_string();
                    assert!(!words.is_empty() && found.contains(words), "DOM-1: {found}");
                }
            }
        }
        Ok(())
    });
    run.expect("it runs");
    worker.node.lock().release_dropped();
    assert_eq!(free(&worker), before, "DOM-1: nothing was kept");
}

#[test]
fn dom_3_memory_that_was_used_before_is_zero_again() {
    let worker = worker(2);
    let mut seen = Vec::new();
    for round in 0..8 {
        let mut kept = None;
        let run = worker.run("used", |graph| {
            let domain = graph.allocate_domain(&spec(&[0, 1]))?;
            for rank in 0..2 {
                let zero = worker.read::<u8>(&domain.0.window(rank).expect("a window").whole())?;
                assert!(zero.iter().all(|byte| *byte == 0), "DOM-3: round {round}");
            }
            graph.submit_next_level(crate::Target::Chip(1), &Call::new(&FILL).domain(&domain))?;
            kept = Some(domain);
            Ok(())
        });
        run.expect("it runs");
        let domain = kept.expect("a domain");
        let window =
            worker.read::<u8>(&domain.0.window(0).expect("a window").whole()).expect("over");
        assert_eq!((window[999], window[1000]), (7, 0), "it was used");
        assert!(!seen.contains(&domain.id()), "DOM-4: numbers are not used again");
        seen.push(domain.id());
    }
}

#[test]
fn dom_4_memory_is_freed_after_the_run_and_not_before() {
    let worker = worker(2);
    let before = free(&worker);
    let flag = worker.tensor(DType::U8, &[1]).expect("memory");
    let with_flag = free(&worker);
    let handle = worker.submit("released early", |graph| {
        let domain = graph.allocate_domain(&spec(&[0, 1]))?;
        let id = domain.id();
        graph.submit_next_level(crate::Target::Chip(0), &Call::new(&FILL).domain(&domain))?;
        drop(domain);
        worker.node.lock().release_dropped();
        assert!(free(&worker) < with_flag, "DOM-4: released, not freed");
        let next = graph.allocate_domain(&spec(&[1]))?;
        assert!(next.id() > id, "DOM-4");
        Ok(())
    });
    handle.expect("a run").wait().expect("it runs");
    worker.node.lock().release_dropped();
    assert_eq!(free(&worker), with_flag, "DOM-4: freed");
    drop(flag);
    worker.node.lock().release_dropped();
    assert_eq!(free(&worker), before);
}

#[test]
fn dom_4_a_handle_keeps_a_domain_for_the_next_run() {
    let worker = worker(2);
    let before = free(&worker);
    let mut kept = None;
    let run = worker.run("first", |graph| {
        kept = Some(graph.allocate_domain(&spec(&[0, 1]))?);
        Ok(())
    });
    run.expect("it runs");
    let domain = kept.take().expect("a domain");
    let run = worker.run("second", |graph| {
        graph.submit_next_level(crate::Target::Chip(0), &Call::new(&FILL).domain(&domain))?;
        // The run keeps it now.
        drop(domain);
        Ok(())
    });
    run.expect("it runs");
    worker.node.lock().release_dropped();
    assert_eq!(free(&worker), before, "DOM-4");
}

#[test]
fn dom_4_the_last_window_goes_first() {
    let worker = worker(3);
    let run = worker.run("order", |graph| {
        let first = graph.allocate_domain(&spec(&[0, 1]))?;
        let second = graph.allocate_domain(&spec(&[2]))?;
        let numbers = |domain: &Domain| {
            let windows = (0..domain.ranks()).filter_map(|rank| domain.0.window(rank));
            let windows = windows.map(|window| window.0.offset);
            [domain.0.roster.notices].into_iter().chain(windows).collect::<Vec<_>>()
        };
        let mut wanted = [numbers(&first), numbers(&second)].concat();
        wanted.reverse();
        let mut core = worker.node.lock();
        let list = Arc::clone(&core.arena.dropped);
        let mut kept = core.take_kept(graph.run);
        drop((first, second));
        while kept.pop().is_some() {}
        let dropped = list.lock().expect("no panic");
        let found: Vec<u64> = dropped.iter().map(|one| one.offset).collect();
        assert_eq!(found, wanted, "DOM-4");
        Ok(())
    });
    run.expect("it runs");
}

#[test]
fn dom_2_a_domain_of_another_worker_is_refused() {
    let (ours, theirs) = (worker(1), worker(1));
    let mut kept = None;
    theirs
        .run("theirs", |graph| {
            kept = Some(graph.allocate_domain(&spec(&[0]))?);
            Ok(())
        })
        .expect("it runs");
    let domain = kept.expect("a domain");
    let run = ours.run("ours", |graph| {
        let call = Call::new(&NOTHING).domain(&domain);
        let refused = graph.submit_next_level(crate::Target::Chip(0), &call).expect_err("DOM-2");
        assert_eq!(refused.to_string(), "domain `d` belongs to another worker");
        let own = graph.allocate_domain(&spec(&[0]))?;
        let many = (0..9).fold(Call::new(&NOTHING), |call, _| call.domain(&own));
        let refused = graph.submit_next_level(crate::Target::Chip(0), &many).expect_err("nine");
        assert_eq!(refused.to_string(), "a task has at most 8 domains: 9");
        Ok(())
    });
    run.expect("it runs");
}

#[test]
fn dom_8_a_peer_does_not_write_under_an_argument_in_place() {
    let memory = crate::shm::Segment::create("test", 12288).expect("memory");
    let (parts, data) = plan(&spec(&[0, 1])).expect("it can be");
    let member = |chip: u32| Member { chip, window: u64::from(chip) * 4096 };
    let (id, name, members) = (1, "d".to_owned(), vec![member(0), member(1)]);
    let (memory_0, notices, signals) = (0, 8192, 1);
    let roster = Roster { id, name, memory: memory_0, notices, data, signals, members, parts };
    let membership = Membership { rank: 0, roster: Arc::new(roster) };
    let (waiting, identity) = (crate::shm::Waiting::calibrate(), TaskIdentity::default());
    let view = DomainView::open(&membership, identity, &memory, None, waiting)
        .expect("it lies in the memory");
    let holder = crate::shm::grant::Holder::new();
    let grant = crate::shm::grant::Grant::reading(&holder, &memory, 4096, 100).expect("free");
    let mut byte = [0u8];
    view.get(1, "x", 50, &mut byte).expect("both read");
    view.put(1, "x", 100, &byte).expect("behind it");
    let words = view.put(1, "x", 99, &byte).expect_err("DOM-8").to_string();
    assert!(words.contains("buffer `x` of rank 1 cannot be reached now"), "DOM-8: {words}");
    drop(grant);
    view.put(1, "x", 99, &byte).expect("nobody looks");
    let small = crate::shm::Segment::create("test", 4096).expect("memory");
    assert!(
        DomainView::open(&membership, identity, &small, None, waiting).is_err(),
        "DOM-8: bounds"
    );
}
