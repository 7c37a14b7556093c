//! Records of when tasks ran, and the words for bootstraps.

use crate::callables::*;
use phalanx_runtime::{Bootstrap, Call, DType, Error, Failure, Program, Worker};
use phalanx_trace::{Format, Writer};
use std::any::Any;

#[expect(clippy::unnecessary_wraps, reason = "bootstraps can fail")]
fn told(chip: &mut Bootstrap<'_>) -> Result<Box<dyn Any + Send>, Failure> {
    chip.device_ctx(chip.setting().iter().map(|byte| u64::from(*byte)).sum());
    Ok(Box::new(()))
}

static PROGRAM_WITH_CHIPS: Program = Program::new(&[]).chip(told);

#[test]
fn a_bootstrap_is_told_what_the_builder_was() -> Result<(), Error> {
    let builder = || Worker::builder(&PROGRAM_WITH_CHIPS).threads().chips(2);
    for (setting, sum) in [(vec![], 0), (vec![1, 2, 3], 6)] {
        let worker = builder().setting(setting).init()?;
        assert!(worker.chip_contexts().iter().all(|chip| chip.device_ctx == sum));
        worker.close()?;
    }
    Ok(())
}

#[test]
fn tim_1_a_consumer_begins_after_its_producer_and_both_within_their_run() -> Result<(), Error> {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(2).recording().init()?;
    let data = worker.tensor(DType::F64, &[8])?;
    for _ in 0..20 {
        worker.run("chain", |graph| {
            for number in [1.0, 2.0] {
                graph.submit_sub(&Call::new(&ADD).real(number).args([data.in_out()]))?;
            }
            Ok(())
        })?;
    }
    let timeline = worker.timeline();
    assert_eq!((timeline.runs.len(), timeline.tasks.len()), (20, 40), "TIM-2");
    for (run, tasks) in timeline.runs.iter().zip(timeline.tasks.chunks(2)) {
        let ended = run.ended.expect("it is over");
        assert!(run.begun <= run.built && run.built <= ended, "TIM-1: {run:?}");
        let (first, second) = (&tasks[0], &tasks[1]);
        assert_eq!((first.run, second.run), (run.run, run.run));
        assert!(run.begun <= first.begun && second.ended <= ended, "TIM-1: {run:?} {tasks:?}");
        assert!(first.ended <= second.begun, "TIM-1: {tasks:?}");
    }
    assert_eq!(timeline.workers.len(), 2);
    let again = worker.timeline();
    assert!(again.runs.is_empty() && again.tasks.is_empty(), "handed out once");
    worker.close()
}

#[test]
fn tim_2_members_and_failures_are_there_and_nothing_without_being_asked() -> Result<(), Error> {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(2).recording().init()?;
    worker.run("group", |graph| {
        graph.submit_sub_group(&[Call::new(&NOTHING), Call::new(&NOTHING)])?;
        Ok(())
    })?;
    let missing = worker.call(&Call::new(&ADD));
    assert!(missing.is_err());
    let timeline = worker.timeline();
    let members: Vec<_> = timeline.tasks.iter().map(|span| (span.member, span.is_done)).collect();
    assert_eq!(members.len(), 3, "TIM-2: {members:?}");
    assert!(members[..2].contains(&(0, true)) && members[..2].contains(&(1, true)), "TIM-2");
    assert_eq!(members[2], (0, false), "TIM-2");
    worker.close()?;
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).init()?;
    worker.call(&Call::new(&NOTHING))?;
    assert_eq!(worker.timeline().tasks, []);
    worker.close()
}

#[test]
fn runs_that_overlap_are_written_on_tracks_of_their_own() -> Result<(), Error> {
    let worker = Worker::builder(&PROGRAM).threads().sub_workers(2).recording().init()?;
    let flag = worker.tensor(DType::I64, &[1])?;
    let first = worker.submit("first", |graph| {
        graph.submit_sub(&Call::new(&UNTIL_TOLD).args([flag.no_dep()]))?;
        Ok(())
    })?;
    let second = worker.submit("second", |graph| {
        graph.submit_sub(&Call::new(&NOTHING))?;
        Ok(())
    })?;
    worker.write_unordered(&flag, &[1i64])?;
    first.wait()?;
    second.wait()?;
    let mut writer = Writer::new(Vec::new(), Format::Chrome).expect("memory");
    worker.timeline().write(&mut writer).expect("no slices overlap");
    let text = String::from_utf8(writer.finish().expect("memory")).expect("text");
    for name in ["runs 1", "runs 2", "first", "second", "build", "until_told", "sub worker 1"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name}: {text}");
    }
    worker.close()
}
