//! The engine alone, driven by the thread that submits.

use crate::patterns::Tasks;
use phalanx_engine::{
    Action, Arg, Begin, BufferId, Config, Ending, Engine, Event, Grant, Identity, Placement,
    PoolId, RunSpec, Start, Submit, Tag, TaskSpec, Time, View,
};

/// An engine whose tasks end as soon as they are started.
pub(crate) struct Inline {
    engine: Engine,
    pool: PoolId,
    starts: Vec<Start>,
    ran: usize,
}

impl Inline {
    pub(crate) fn new() -> Self {
        let mut engine =
            Engine::new(Config { slots: 1024, bytes: 1 << 20, depth: 2, is_recording: false });
        let pool = engine.add_pool();
        let worker = engine.add_worker(Some(pool), 1024);
        engine.step(Time(0), Event::Ready(worker));
        Self { engine, pool, starts: Vec::new(), ran: 0 }
    }

    pub(crate) fn data(&mut self, count: usize) -> Vec<BufferId> {
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

    pub(crate) fn run(&mut self, data: &[BufferId], tasks: &Tasks, batch: usize) {
        let Begin::Started(run) = self.engine.begin(&RunSpec::new("bench")) else {
            unreachable!("runs are forgotten")
        };
        self.ran = 0;
        let is_chain = tasks.iter().all(|task| task == [0]);
        let written = if is_chain { Tag::InOut } else { Tag::Output };
        let mut args: Vec<Arg> = Vec::new();
        for (count, task) in tasks.iter().enumerate() {
            args.clear();
            for (at, datum) in task.iter().enumerate() {
                let view = View::bytes(data[*datum as usize], 0, 4096).expect("a small view");
                args.push(Arg { view, tag: if at == 0 { written } else { Tag::Input } });
            }
            let spec = TaskSpec::new(Placement::Pool(self.pool)).args(&args);
            while let Submit::Blocked { .. } =
                self.engine.submit(run, &spec).expect("a correct task")
            {
                self.drain();
            }
            if count % batch == batch - 1 {
                self.drain();
            }
        }
        self.engine.seal(run).expect("no scope is open");
        self.drain();
        assert_eq!(self.ran, tasks.count(), "every task ran once");
        assert!(
            self.engine.outcome(run).is_some_and(|outcome| outcome.error.is_none()),
            "the run ended well"
        );
        self.engine.forget(run);
    }
}
