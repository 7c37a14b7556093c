//! The words of a failure arrive as they were said.

use crate::callables::{CHAIN, EXIT, FAIL, HOOK, LAST_WORDS, PANIC};
use crate::support::{builder, eventually, is_usable, turn};
use phalanx_runtime::{Call, Error, Worker};

/// The words of the task that failed.
fn words_of(worker: &Worker, call: &Call) -> String {
    match worker.call(call) {
        Err(Error::Run(error)) => error.root().map(|root| root.words.to_string()),
        other => panic!("it should have failed: {other:?}"),
    }
    .expect("a root")
}

#[test]
fn words_of_100_kilobytes_arrive_whole() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).init()?;
    let long = "äöü 0123456789 ".repeat(100 << 10 >> 4);
    let words = words_of(&worker, &Call::new(&FAIL).bytes(long.as_bytes()));
    assert!(words.starts_with(&long), "{} of {} bytes", words.len(), long.len());
    is_usable(&worker)?;
    worker.close()
}

#[test]
fn a_panic_says_where_and_an_error_says_why() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).init()?;
    let words = words_of(&worker, &Call::new(&PANIC));
    assert!(words.contains("callables.rs:") && words.contains("met a wall"), "{words}");
    let words = words_of(&worker, &Call::new(&CHAIN));
    assert!(words.contains("the setting is wrong\n  because: invalid digit"), "{words}");
    is_usable(&worker)?;
    worker.close()
}

#[test]
fn a_panic_under_a_hook_of_the_callable_is_a_failure_too() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(1).init()?;
    for _ in 0..2 {
        let words = words_of(&worker, &Call::new(&HOOK));
        assert!(words.contains("it panics under a hook of its own"), "{words}");
    }
    is_usable(&worker)?;
    worker.close()
}

#[test]
fn prc_5_a_lost_worker_is_told_with_its_status_and_its_last_words() -> Result<(), Error> {
    let _turn = turn();
    let worker = builder().sub_workers(2).init()?;
    for (call, words) in [
        (Call::new(&EXIT).scalar(3), "exited with 3"),
        (Call::new(&LAST_WORDS), "killed by signal 6 (SIGABRT)"),
    ] {
        let before = worker.lost().len();
        println!("{}", words_of(&worker, &call));
        // The waiter may have been told before the status was known.
        eventually("the loss is proven", || worker.lost().len() > before);
        let lost = worker.lost();
        assert!(lost.iter().any(|lost| lost.words.contains(words)), "{lost:?}");
    }
    let lost = worker.lost();
    assert!(lost.iter().any(|lost| lost.words.contains("a thread met a wall")), "{lost:?}");
    // Both are lost now, and that is what the next task is told.
    let error = worker.call(&Call::new(&EXIT).scalar(0)).expect_err("nobody is there");
    println!("{error}");
    worker.close()
}
