//! Runs no-op tasks on the engine alone, for counting instructions: `benches/instructions/run` does.
//!
//! ```text
//! cargo run --release -p phalanx-engine --example engine_alone [repeats [tasks [pattern]]]
//! ```
//!
//! Patterns: `independent` (each its own datum), `chain` (one datum), `stencil` (64 wide, 3 reads and a write, two
//! buffers), `wavefront` (2 reads), `random` (3 producers among the last 256). Each fills the ring of 1024 and then runs all
//! that is ready, so that every edge is a real one. The benchmark, with times and threads, is `engine_bench` of
//! `phalanx-runtime`.
#![expect(clippy::print_stdout, reason = "it says what it did")]

use phalanx_engine::{
    Action, Arg, Begin, BufferId, Config, Ending, Engine, Event, Grant, Identity, Place, PoolId,
    RunSpec, Start, Submit, Tag, TaskSpec, Time, View,
};

/// The data that tasks touch, one task after the other: the first of each it writes, the others it reads; of a chain it
/// does both.
#[derive(Default)]
struct Tasks {
    data: Vec<u32>,
    /// Where in `data` each task ends.
    ends: Vec<u32>,
}

impl Tasks {
    fn add(&mut self, data: impl IntoIterator<Item = usize>) {
        let number = |count: usize| u32::try_from(count).expect("a small number");
        self.data.extend(data.into_iter().map(number));
        self.ends.push(number(self.data.len()));
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let task = &self.data[begin as usize..*end as usize];
            begin = *end;
            task
        })
    }
}

struct Inline {
    engine: Engine,
    pool: PoolId,
    starts: Vec<Start>,
    ran: usize,
}

impl Inline {
    fn new() -> Self {
        let mut engine =
            Engine::new(Config { slots: 1024, bytes: 1 << 20, depth: 2, is_recording: false });
        let pool = engine.add_pool();
        let worker = engine.add_worker(Some(pool), 1024);
        engine.step(Time(0), Event::Ready(worker));
        Self { engine, pool, starts: Vec::new(), ran: 0 }
    }

    fn data(&mut self, count: usize) -> Vec<BufferId> {
        let identity = |number| Identity { owner: 1, number, generation: 1 };
        let buffers = (0..)
            .take(count)
            .map(|number| self.engine.register(identity(number), 4096, Grant::ReadWrite));
        buffers.collect::<Result<_, _>>().expect("identities differ")
    }

    /// Runs what is ready, until nothing is.
    fn drain(&mut self) {
        loop {
            let starts = self.engine.actions().filter_map(|action| match action {
                Action::Start(start) => Some(start),
                _ => None,
            });
            self.starts.extend(starts);
            if self.starts.is_empty() {
                return;
            }
            self.ran += self.starts.len();
            let done = self.starts.drain(..).map(|Start { worker, dispatch, .. }| {
                Event::Finished { worker, dispatch, ending: Ending::Done, took: 1 }
            });
            self.engine.step_all(Time(0), done);
        }
    }

    fn run(&mut self, data: &[BufferId], tasks: &Tasks) {
        let Begin::Started(run) = self.engine.begin(&RunSpec::new("bench")) else {
            unreachable!("runs are forgotten")
        };
        self.ran = 0;
        let is_chain = tasks.iter().all(|task| task == [0]);
        let written = if is_chain { Tag::InOut } else { Tag::Output };
        let mut args: Vec<Arg> = Vec::new();
        for task in tasks.iter() {
            args.clear();
            for (at, datum) in task.iter().enumerate() {
                let view = View::bytes(data[*datum as usize], 0, 4096).expect("a small view");
                args.push(Arg { view, tag: if at == 0 { written } else { Tag::Input } });
            }
            let spec = TaskSpec::new(Place::Pool(self.pool)).args(&args);
            while let Submit::Blocked { .. } =
                self.engine.submit(run, &spec).expect("a correct task")
            {
                self.drain();
            }
        }
        self.engine.seal(run).expect("no scope is open");
        self.drain();
        assert_eq!(self.ran, tasks.ends.len(), "every task ran once");
        assert!(
            self.engine.outcome(run).is_some_and(|outcome| outcome.error.is_none()),
            "the run ended well"
        );
        self.engine.forget(run);
    }
}

fn patterns(count: usize) -> Vec<(&'static str, Tasks)> {
    let side = count.isqrt().max(1);
    let mut seed = 1u64;
    let mut patterns = ["independent", "chain", "stencil", "wavefront", "random"]
        .map(|name| (name, Tasks::default()));
    let [independent, chain, stencil, wavefront, random] = &mut patterns;
    for at in 0..count {
        independent.1.add([at]);
        chain.1.add([0]);
        let (step, cell) = (at / 64, at % 64);
        let (from, to) = (step % 2 * 64, (step + 1) % 2 * 64);
        let read = cell.saturating_sub(1)..(cell + 2).min(64);
        stencil.1.add(std::iter::once(to + cell).chain(read.map(|cell| from + cell)));
        let left = (at % side > 0).then(|| at - 1);
        wavefront.1.add(std::iter::once(at).chain(left).chain(at.checked_sub(side)));
        let mut producers: Vec<usize> =
            (0..3.min(at)).map(|_| at - 1 - draw(&mut seed, at.min(256))).collect();
        producers.sort_unstable();
        producers.dedup();
        random.1.add(std::iter::once(at).chain(producers));
    }
    patterns.into()
}

fn draw(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or_default() % below.max(1)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (repeats, count) = (number(20), number(50_000));
    let wanted = arguments.next();
    let mut inline = Inline::new();
    let data = inline.data(count.max(128));
    let patterns = patterns(count);
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
    for (pattern, tasks) in patterns.iter().filter(|(name, _)| is_wanted(name)) {
        for _ in 0..repeats {
            inline.run(&data, tasks);
        }
        println!("{pattern}: {repeats} times {count} tasks");
    }
}
