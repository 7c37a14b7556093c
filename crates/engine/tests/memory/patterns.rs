//! The five patterns of the benchmark, and one of many regions, in one run that never ends.

use phalanx_engine::{
    Action, Arg, Begin, BufferId, Config, Ending, Engine, Event, Grant, Identity, Placement,
    PoolId, RunId, RunSpec, Start, Stats, Submit, Tag, TaskSpec, Time, View,
};

/// The pattern of dependencies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// Nobody.
    Independent,
    /// Each for the one before.
    Chain,
    /// Three neighbours of the step before.
    Stencil,
    /// The neighbours to the left and above.
    Wavefront,
    /// Three of the last 256.
    Random,
    /// Parts of one buffer that overlap.
    Slices,
}

pub(crate) const PATTERNS: [Pattern; 6] = [
    Pattern::Independent,
    Pattern::Chain,
    Pattern::Stencil,
    Pattern::Wavefront,
    Pattern::Random,
    Pattern::Slices,
];

/// Buffers, of which data are used one after the other.
const BUFFERS: u64 = 32_768;
const SIDE: u64 = 181;
const BYTES: u64 = 1 << 24;

/// An engine with a run that is built for ever, whose tasks end in order when there is no room.
pub(crate) struct Driver {
    engine: Engine,
    run: RunId,
    pool: PoolId,
    data: Vec<BufferId>,
    args: Vec<Arg>,
    starts: Vec<Start>,
    count: u64,
    seed: u64,
    /// The number of times that the ring was full.
    pub(crate) blocked: u64,
}

impl Driver {
    pub(crate) fn new(slots: u32) -> Self {
        let config = Config { slots, bytes: 1 << 20, depth: 2, is_recording: false };
        let mut engine = Engine::new(config);
        let pool = engine.add_pool();
        let worker = engine.add_worker(Some(pool), slots as usize);
        engine.step(Time(0), Event::Ready(worker));
        let data = (0..BUFFERS).map(|number| {
            let identity = Identity { owner: 1, number, generation: 1 };
            engine.register(identity, BYTES, Grant::ReadWrite).expect("a new identity")
        });
        let data = data.collect();
        let Begin::Started(run) = engine.begin(&RunSpec::new("patterns")) else {
            panic!("nothing else runs")
        };
        let (args, starts) = (Vec::with_capacity(8), Vec::with_capacity(slots as usize));
        Self { engine, run, pool, data, args, starts, count: 0, seed: 1, blocked: 0 }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
        (self.seed >> 33) % below.max(1)
    }

    fn add(&mut self, datum: u64, tag: Tag, (start, bytes): (u64, u64)) {
        let datum = usize::try_from(datum % BUFFERS).expect("small");
        let view = View::bytes(self.data[datum], start, bytes).expect("a small view");
        self.args.push(Arg { view, tag });
    }

    /// The arguments of the next task.
    fn arguments(&mut self, pattern: Pattern) {
        let (at, all) = (self.count, (0, BYTES));
        match pattern {
            Pattern::Independent => self.add(at, Tag::Output, all),
            Pattern::Chain => self.add(0, Tag::InOut, all),
            Pattern::Stencil => {
                let (cell, from, to) = (at % 64, at / 64 % 2 * 64, (at / 64 + 1) % 2 * 64);
                self.add(to + cell, Tag::Output, all);
                for cell in cell.saturating_sub(1)..(cell + 2).min(64) {
                    self.add(from + cell, Tag::Input, all);
                }
            }
            Pattern::Wavefront => {
                self.add(at, Tag::Output, all);
                self.add(at + BUFFERS - 1, Tag::Input, all);
                self.add(at + BUFFERS - SIDE, Tag::Input, all);
            }
            Pattern::Random => {
                self.add(at, Tag::Output, all);
                for third in 0..3 {
                    let before = 1 + third * 85 + self.draw(85);
                    self.add(at + BUFFERS - before, Tag::Input, all);
                }
            }
            Pattern::Slices => {
                let start = self.draw(4096) * 1024;
                let bytes = 1 + self.draw(4096);
                self.add(0, Tag::InOut, (start, bytes));
            }
        }
    }

    pub(crate) fn submit(&mut self, pattern: Pattern, tasks: u64) {
        for _ in 0..tasks {
            self.args.clear();
            self.arguments(pattern);
            self.submit_one();
        }
    }

    /// Tasks that write parts of one buffer that do not overlap, in no order.
    pub(crate) fn submit_slices(&mut self, count: u64) {
        self.slices(count, Tag::Output);
    }

    /// Tasks that read what those have written, while they are all there.
    pub(crate) fn read_slices(&mut self, count: u64) {
        self.slices(count, Tag::Input);
    }

    fn slices(&mut self, count: u64, tag: Tag) {
        for at in 0..count {
            self.args.clear();
            let slice = at * 48_271 % 100_003 * 64;
            self.add(0, tag, (slice, 64));
            self.submit_one();
        }
    }

    fn submit_one(&mut self) {
        loop {
            let spec = TaskSpec::new(Placement::Pool(self.pool)).args(&self.args).work(self.count);
            if let Submit::Accepted { .. } =
                self.engine.submit(self.run, &spec).expect("a correct task")
            {
                break;
            }
            self.blocked += 1;
            self.end_ready();
        }
        self.count += 1;
    }

    /// Ends what is with the worker now.
    fn end_ready(&mut self) {
        let starts = self.engine.actions().filter_map(|action| match action {
            Action::Start(start) => Some(start),
            _ => None,
        });
        self.starts.extend(starts);
        let done = self.starts.drain(..).map(|Start { worker, dispatch, .. }| Event::Finished {
            worker,
            dispatch,
            ending: Ending::Done,
            took: 1,
        });
        self.engine.step_all(Time(0), done);
    }

    /// Seals the run while its last tasks are under way, and begins another one.
    pub(crate) fn next_run(&mut self) {
        self.engine.seal(self.run).expect("no scope is open");
        let Begin::Started(next) = self.engine.begin(&RunSpec::new("patterns")) else {
            panic!("one of two is sealed")
        };
        let before = std::mem::replace(&mut self.run, next);
        while !self.engine.forget(before) {
            self.end_ready();
        }
    }

    /// Ends everything.
    pub(crate) fn finish(&mut self) {
        while self.engine.stats().tasks > 0 {
            self.end_ready();
        }
    }
}
