//! Random graphs of several callers, with chips, groups, scopes and failures, against a model of one task after the other.

use phalanx_runtime::{
    Builder, Call, Callable, DType, Failure, Orchestrator, Program, Target, Task, Tensor, Worker,
};
use std::time::Duration;

fn rest(task: &mut Task<'_>) -> Result<(), Failure> {
    let length = task.scalar(0)?;
    if length > 0 {
        std::thread::sleep(Duration::from_millis(length));
    }
    Ok(())
}

const REST: Callable = Callable::new("mixed::rest", rest);
const MIX: Callable = Callable::new("mixed::mix", mix);
static PROGRAM: Program = Program::new(&[REST, MIX]);

fn threads(count: u32) -> Builder {
    let worker = Worker::builder(&PROGRAM).threads().memory(1 << 25).ring(64, 1 << 20);
    worker.sub_workers(count).depth(4)
}

/// The first, element by element, becomes 31 times itself and the sum of the others and of a number.
fn mix(task: &mut Task<'_>) -> Result<(), Failure> {
    let mut sum = task.scalar(0)?;
    for at in 1..task.argument_count() {
        let data = task.argument(at)?;
        if data.layout().is_dense() {
            sum = data.slice::<u64>()?.iter().fold(sum, |sum, one| sum.wrapping_add(*one));
        } else {
            let elements = data.read_elements::<u64>()?;
            sum = elements.iter().fold(sum, |sum, one| sum.wrapping_add(*one));
        }
    }
    if sum == u64::MAX {
        return Err(Failure::new("as it should"));
    }
    let mut first = task.argument(0)?;
    if first.layout().is_dense() {
        for one in first.slice_mut::<u64>()? {
            *one = one.wrapping_mul(31).wrapping_add(sum);
        }
        return Ok(());
    }
    let elements = first.read_elements::<u64>()?;
    let mixed: Vec<u64> =
        elements.iter().map(|one| one.wrapping_mul(31).wrapping_add(sum)).collect();
    Ok(first.write_elements(&mixed)?)
}

const BUFFERS: usize = 5;
const LENGTH: u64 = 12;

/// Some of a buffer: which elements.
#[derive(Clone)]
struct Part {
    buffer: usize,
    from: u64,
    count: u64,
    stride: u64,
}

impl Part {
    fn random(dice: &mut Dice) -> Self {
        let (buffer, stride) = (dice.below(BUFFERS as u64), 1 + dice.below(16) / 15);
        let from = dice.below(LENGTH);
        let count = dice.below((LENGTH - from).div_ceil(stride) + 1);
        Self { buffer: usize::try_from(buffer).expect("few"), from, count, stride }
    }

    fn tensor(&self, buffers: &[Tensor]) -> Tensor {
        let buffer = buffers[self.buffer].buffer();
        buffer.strided(8 * self.from, DType::I64, &[self.count], &[self.stride]).expect("within")
    }

    fn elements(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { from, count, stride, .. } = *self;
        (0..count).map(move |at| usize::try_from(from + at * stride).expect("few"))
    }

    fn meets(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.elements().any(|one| other.elements().any(|x| x == one))
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Returns the effect of a task of these parts, and the task.
fn mixed(dice: &mut Dice, model: &mut [Vec<u64>], buffers: &[Tensor]) -> Call {
    let first = Part::random(dice);
    let others: Vec<_> = (0..dice.below(6) / 4).map(|_| Part::random(dice)).collect();
    let others: Vec<_> = others.into_iter().filter(|other| !other.meets(&first)).collect();
    let mut sum = dice.below(100);
    let mut call = Call::new(&MIX).args([first.tensor(buffers).in_out()]).scalar(sum);
    for other in &others {
        call.push(other.tensor(buffers).input());
        for at in other.elements() {
            sum = sum.wrapping_add(model[other.buffer][at]);
        }
    }
    for at in first.elements() {
        let one = &mut model[first.buffer][at];
        *one = one.wrapping_mul(31).wrapping_add(sum);
    }
    call
}

/// Many short tasks, and now and then something else.
fn submit_mixed(
    graph: &mut Orchestrator<'_>,
    dice: &mut Dice,
    model: &mut [Vec<u64>],
    buffers: &[Tensor],
) -> Result<(), Failure> {
    for _ in 0..dice.below(6) {
        for _ in 0..dice.below(600) {
            graph.submit_sub(&mixed(dice, model, buffers))?;
        }
        let all = buffers.iter().map(Tensor::in_out);
        match dice.below(9) {
            0 => graph.submit_sub(&Call::new(&REST).args(all).scalar(1)).map(drop)?,
            1 => {
                graph.submit_next_level(Target::Chip(0), &mixed(dice, model, buffers))?;
            }
            2 => graph.submit_sub_group(&[mixed(dice, model, buffers)]).map(drop)?,
            3 => {
                let last = graph.submit_sub(&mixed(dice, model, buffers))?;
                graph.submit_sub(&mixed(dice, model, buffers).after(&[last]))?;
            }
            4 => graph.scope("slabs", |graph| {
                let slab = graph.alloc(DType::I64, &[2])?;
                let fill = Call::new(&MIX).args([slab.in_out()]).scalar(1);
                graph.submit_sub(&fill)?;
                graph.submit_sub(&mixed(dice, model, buffers))?;
                graph.submit_sub(&fill).map(drop)
            })?,
            5 => graph.flush(),
            6 => {
                graph.submit_sub(&mixed(dice, model, buffers).bytes(b"blob"))?;
            }
            7 => graph.submit_sub(&mixed(dice, model, buffers).priority(3)).map(drop)?,
            _ => graph.submit_sub(&Call::new(&REST).args(all).scalar(0)).map(drop)?,
        }
    }
    Ok(())
}

/// One caller's graphs, some of which fail.
fn use_it(worker: &Worker, seed: u64) {
    let mut dice = Dice(seed);
    for round in 0..40 {
        let tensor = |_| worker.tensor(DType::I64, &[LENGTH]).expect("memory");
        let buffers: Vec<_> = (0..BUFFERS).map(tensor).collect();
        let mut model = vec![vec![0; 12]; BUFFERS];
        let is_bad = dice.below(5) == 0;
        let run = worker.submit("mixed", |graph| {
            submit_mixed(graph, &mut dice, &mut model, &buffers)?;
            if is_bad {
                let bad = [buffers[0].in_out()];
                graph.submit_sub(&Call::new(&MIX).args(bad).scalar(u64::MAX))?;
                // A task behind the failed one does not run.
                graph.submit_sub(&Call::new(&MIX).args([buffers[0].in_out()]).scalar(1))?;
            }
            Ok(())
        });
        let ended = run.expect("a run").wait();
        assert_eq!(ended.is_err(), is_bad, "{ended:?}");
        if let Err(error) = &ended {
            assert!(error.to_string().contains("as it should"), "{error}");
        }
        for (buffer, model) in buffers.iter().zip(&model) {
            let read = worker.read::<u64>(buffer);
            assert!(read.is_ok() || is_bad, "round {round}: {read:?}");
            if !is_bad {
                assert_eq!(&read.expect("over"), model, "EP-2, seed {seed}, round {round}");
            }
        }
        if is_bad {
            let first = worker.read::<u64>(&buffers[0]).expect("over");
            assert_eq!(first, model[0], "EP-7, seed {seed}, round {round}");
        }
    }
}

#[test]
fn ep_2_ep_7_random_graphs_of_several_callers_end_as_one_after_the_other() {
    for (threads_of_it, runs) in [(1, 1), (2, 1), (2, 3), (3, 2)] {
        let builder = threads(threads_of_it).chips(1).runs(runs).depth(1 + 5 * (runs - 1));
        let worker = builder.init().expect("a worker");
        std::thread::scope(|scope| {
            for caller in 0..=u64::from(threads_of_it) {
                let worker = &worker;
                let seed = 0x9e37_79b9 + 77 * caller + u64::from(threads_of_it);
                scope.spawn(move || use_it(worker, seed));
            }
        });
        worker.close().expect("nothing is left");
    }
}
