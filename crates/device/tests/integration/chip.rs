//! Simulated chips behind the node runtime.

mod callables;

use crate::support::machine;
use callables::*;
use phalanx_device::SimChip;
use phalanx_runtime::{Builder, Call, DType, Error, Finished, Target, Tensor, Worker};
use phalanx_sim::value::{bf16, f16};
use std::time::Duration;

fn builder(chips: u32) -> Builder {
    let setting = SimChip::setting(&machine("pair", &[]));
    Worker::builder(&PROGRAM).threads().chips(chips).setting(setting)
}

/// Runs one call on a chip.
fn on_chip(worker: &Worker, chip: u32, call: &Call) -> Result<Finished, Error> {
    worker.run("one task", |graph| {
        graph.submit_next_level(Target::Chip(chip), call)?;
        Ok(())
    })
}

/// A tensor with these elements.
fn tensor<T: Number>(worker: &Worker, dtype: DType, elements: &[T]) -> Result<Tensor, Error> {
    let tensor = worker.tensor(dtype, &[elements.len() as u64])?;
    worker.write(&tensor, elements)?;
    Ok(tensor)
}

/// The words of the task that failed, without a backtrace.
fn words(result: Result<Finished, Error>) -> String {
    let Err(Error::Run(error)) = result else { panic!("no task failed: {result:?}") };
    let words = error.root().map(|root| root.words.to_string()).unwrap_or_default();
    words.lines().take_while(|line| !line.starts_with("   0: ")).collect::<Vec<_>>().join("\n")
}

fn add_of<T: Number>(dtype: DType, number: impl Fn(u8) -> T) -> Result<(), Error> {
    let worker = builder(2).init()?;
    let elements: Vec<T> = (0..200).map(&number).collect();
    let (a, b) = (tensor(&worker, dtype, &elements)?, tensor(&worker, dtype, &elements)?);
    let sum = worker.tensor(dtype, &[200])?;
    let call = Call::new(&ADD).args([a.input(), b.input(), sum.output()]);
    on_chip(&worker, 1, &call)?;
    let expected: Vec<T> = elements.iter().map(|x| x.doubled()).collect();
    assert_eq!(worker.read::<T>(&sum)?, expected, "CHP-1: {dtype:?}");
    worker.close()
}

#[test]
fn chp_1_every_type_comes_back_bit_for_bit() -> Result<(), Error> {
    add_of(DType::F32, |x| f32::from(x) * 0.1)?;
    add_of(DType::F16, |x| f16::from_f32(f32::from(x) * 0.1))?;
    add_of(DType::BF16, |x| bf16::from_f32(f32::from(x) * 0.1))?;
    add_of(DType::I32, |x| i32::from(x) << 20)?;
    add_of(DType::I64, |x| i64::from(x) << 40)?;
    add_of(DType::U32, |x| u32::from(x) << 20)?;
    add_of(DType::F64, |x| f64::from(x) * 0.1)
}

#[test]
fn chp_1_an_argument_without_order_is_refused() -> Result<(), Error> {
    let worker = builder(1).init()?;
    let said = words(on_chip(
        &worker,
        0,
        &Call::new(&DOUBLE).args([worker.tensor(DType::F32, &[4])?.no_dep()]),
    ));
    assert!(said.starts_with("argument 0 was submitted without order"), "{said}");
    worker.close()
}

#[test]
fn chp_1_strided_arguments_keep_what_lies_between() -> Result<(), Error> {
    let worker = builder(1).init()?;
    let all = tensor(&worker, DType::F32, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let odd = all.buffer().strided(4, DType::F32, &[3], &[2])?;
    on_chip(&worker, 0, &Call::new(&DOUBLE).args([odd.in_out()]))?;
    assert_eq!(worker.read::<f32>(&all)?, [1.0, 4.0, 3.0, 8.0, 5.0, 12.0], "CHP-1");
    worker.close()
}

#[test]
fn chp_2_an_output_that_nobody_wrote_fails_the_task() -> Result<(), Error> {
    let worker = builder(1).init()?;
    let data = worker.tensor(DType::F32, &[4])?;
    let said = words(on_chip(&worker, 0, &Call::new(&NOTHING).args([data.output()])));
    assert!(said.starts_with("on SIP 0 of `pair`: "), "CHP-2: {said}");
    assert!(said.contains("never written"), "CHP-2: {said}");
    on_chip(&worker, 0, &Call::new(&NOTHING).args([data.in_out()]))?;
    on_chip(&worker, 0, &Call::new(&NOTHING).args([data.input()]))?;
    worker.close()
}

#[test]
fn chp_3_the_time_of_a_task_is_that_of_its_chip() -> Result<(), Error> {
    let worker = builder(2).init()?;
    let data = tensor(&worker, DType::F32, &[1.0f32; 64])?;
    let call = Call::new(&NAP).scalar(1_000).args([data.in_out()]);
    let one = on_chip(&worker, 0, &call)?.simulated;
    let longer = Call::new(&NAP).scalar(5_000).args([data.in_out()]);
    let two = on_chip(&worker, 1, &longer)?.simulated;
    assert_eq!(two - one, 4_000_000, "CHP-3: 4000 ns longer, in picoseconds");
    assert_eq!(on_chip(&worker, 0, &call)?.simulated, one, "CHP-3: the same again");
    let both = worker.run("both", |graph| {
        graph.submit_next_level(Target::Chip(0), &call)?;
        graph.submit_next_level(Target::Chip(1), &longer)?;
        Ok(())
    })?;
    assert_eq!(both.simulated, one + two, "CHP-3: a run adds up its tasks");
    worker.close()
}

#[test]
fn chp_4_what_a_task_keeps_a_later_one_finds() -> Result<(), Error> {
    let worker = builder(2).init()?;
    let weight = tensor(&worker, DType::F32, &[10.0f32, 20.0])?;
    let data = tensor(&worker, DType::F32, &[1.0f32, 2.0])?;
    on_chip(&worker, 0, &Call::new(&KEEP).args([weight.input()]))?;
    for times in [10.0f32, 100.0] {
        let call = Call::new(&TIMES_KEPT).args([data.in_out()]);
        let took = on_chip(&worker, 0, &call)?.simulated;
        assert!(took > 0, "CHP-3");
        assert_eq!(worker.read::<f32>(&data)?[..1], [times], "CHP-4");
    }
    on_chip(&worker, 0, &Call::new(&FORGET))?;
    for chip in [0, 1] {
        let said = words(on_chip(&worker, chip, &Call::new(&TIMES_KEPT).args([data.in_out()])));
        let expected = format!(
            "on SIP {chip} of `pair`: no task has kept `weight` on this chip; it has nothing"
        );
        assert_eq!(said, expected, "CHP-4: forgotten on chip 0, never kept on chip 1");
    }
    worker.close()
}

#[test]
fn chp_4_a_task_that_fails_costs_itself_only() -> Result<(), Error> {
    let worker = builder(1).init()?;
    let data = tensor(&worker, DType::F32, &[1.0f32; 8])?;
    for (call, expected) in [
        (&FAIL, "the kernel does not like it"),
        (&PANIC, "panicked: the kernel met a wall"),
        (&PROGRAM_PANIC, "panicked: the program met a wall"),
        (&DEADLOCK, "which never comes"),
        (&FAR_AWAY, "argument 7 is wanted, 1 were given to the chip"),
    ] {
        let said = words(on_chip(&worker, 0, &Call::new(call).args([data.in_out()])));
        assert!(said.contains(expected), "CHP-4: {said}");
        on_chip(&worker, 0, &Call::new(&DOUBLE).args([data.in_out()]))?;
    }
    assert_eq!(worker.read::<f32>(&data)?, [32.0; 8], "CHP-4");
    worker.close()
}

#[test]
fn chp_4_a_device_that_the_machine_does_not_have_fails_the_start() {
    let error = builder(3).init().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("there is no device 2: `pair` has 2 SIPs"), "{error}");
    let error = builder(1).setting("name: [").init().err().expect("no machine").to_string();
    assert!(error.contains("the worker's setting:1:"), "{error}");
}

#[test]
fn chp_5_a_simulation_that_gets_on_is_not_stuck() {
    // A host that pauses a process for longer than a budget spoils one scale; moves that do not count spoil all of them.
    let mut errors = Vec::new();
    let gets_on = |scale| get_on(scale).map_err(|error| errors.push(error.to_string())).is_ok();
    assert!([1, 4, 16].into_iter().any(gets_on), "CHP-5: {errors:?}");
}

/// Runs a simulation for longer than the budget in which a worker must say something.
fn get_on(scale: u32) -> Result<(), Error> {
    use phalanx_runtime::Budgets;
    let milliseconds = |number| scale * Duration::from_millis(number);
    let ladder = Budgets {
        progress: milliseconds(250),
        operation: milliseconds(500),
        wait: Duration::from_secs(120),
        guard: milliseconds(1),
        ..Budgets::default()
    };
    let worker = builder(1).budgets(ladder).init()?;
    let data = tensor(&worker, DType::F32, &[1.0f32; 1024])?;
    let handle = worker.submit("long", |graph| {
        let call = Call::new(&LONG).scalar(u64::from(scale) * 1_200).args([data.in_out()]);
        graph.submit_next_level(Target::Chip(0), &call)?;
        Ok(())
    })?;
    handle.wait_for(Duration::from_secs(600))?;
    worker.close()
}

#[test]
fn a_graph_of_the_chips_own_runs_behind_a_task() -> Result<(), Error> {
    let worker = builder(1).init()?;
    let data = worker.tensor(DType::F32, &[4, 16])?;
    worker.write(&data, &[1.0f32; 64])?;
    on_chip(&worker, 0, &Call::new(&ROWS).args([data.in_out()]))?;
    let rows = worker.read::<f32>(&data)?;
    assert!(rows.chunks(16).all(|row| row == [4.0; 16]), "{rows:?}");
    worker.close()
}
