//! Tasks that have a name of their own.

use crate::callables::{ADD, NOTHING, PICK, PROGRAM, UNTIL_TOLD, failing};
use phalanx_runtime::{Budgets, Builder, Call, DType, Error, RunError, Worker};
use phalanx_trace::{Format, Writer};
use std::time::Duration;

fn builder() -> Builder {
    Worker::builder(&PROGRAM).threads().sub_workers(2).memory(1 << 16).ring(16, 1 << 16)
}

/// The cause of a failed run.
fn error_of<T>(ended: Result<T, Error>) -> RunError {
    match ended {
        Err(Error::Run(error)) => error,
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("it should fail"),
    }
}

#[test]
fn a_failure_shows_the_name_of_its_task_beside_its_callable() -> Result<(), Error> {
    let worker = builder().init()?;
    let error = error_of(worker.call(&failing("it is wet").named("softmax 3")));
    let words = error.to_string();
    assert!(words.contains(" `softmax 3` (`graphs::fail`, member 0) on sub worker"), "{words}");
    assert_eq!(error.root().expect("a task").name.as_deref(), Some("softmax 3"));
    // A place that is used again has no name of before.
    for _ in 0..40 {
        let error = error_of(worker.call(&failing("it is wet")));
        assert_eq!(error.root().expect("a task").name, None, "{error}");
    }
    worker.close()
}

#[test]
fn each_member_of_a_group_has_its_own_name() -> Result<(), Error> {
    let worker = builder().init()?;
    let ended = worker.run("group", |graph| {
        let bad = Call::new(&PICK).scalar(1).named(String::from("the right half"));
        graph.submit_sub_group(&[Call::new(&PICK).scalar(0), bad])?;
        Ok(())
    });
    let words = error_of(ended).to_string();
    assert!(words.contains("`the right half` (`graphs::pick`, member 1)"), "{words}");
    worker.close()
}

#[test]
fn a_stall_names_the_task_that_is_stuck() -> Result<(), Error> {
    let time = Duration::from_millis;
    let budgets = Budgets { progress: time(40), operation: time(120), ..Budgets::default() };
    let worker = builder().budgets(budgets).init()?;
    let flag = worker.tensor(DType::I64, &[1])?;
    let stuck = Call::new(&UNTIL_TOLD).args([flag.no_dep()]).named("layer 7");
    let words = error_of(worker.call(&stuck)).to_string();
    worker.write_unordered(&flag, &[1u64])?;
    assert!(words.contains(" `layer 7` (`graphs::until_told`) for"), "{words}");
    drop(flag);
    worker.close()
}

#[test]
fn a_timeline_and_its_trace_show_names() -> Result<(), Error> {
    let worker = builder().recording().init()?;
    let data = worker.tensor(DType::F64, &[8])?;
    worker.run("two", |graph| {
        let call = Call::new(&ADD).real(1.0).args([data.in_out()]);
        graph.submit_sub(&call.clone().named("softmax 3"))?;
        graph.submit_sub(&call)?;
        graph.submit_sub(&Call::new(&NOTHING))?;
        Ok(())
    })?;
    let timeline = worker.timeline();
    let named: Vec<_> = timeline.tasks.iter().filter_map(|span| span.name.as_deref()).collect();
    assert_eq!((named, timeline.tasks.len()), (vec!["softmax 3"], 3));
    let mut writer = Writer::new(Vec::new(), Format::Chrome).expect("memory");
    timeline.write(&mut writer).expect("memory");
    let text = String::from_utf8(writer.finish().expect("memory")).expect("text");
    for name in ["\"softmax 3 (add)\"", "\"add\"", "\"nothing\""] {
        assert!(text.contains(name), "{name}: {text}");
    }
    worker.close()
}
