//! Random graphs in which tasks fail, panic and take their process with them, while children are killed and stopped from
//! outside: against the same graphs, one task after the other.
//!
//! A task of a random graph records its worker and the bytes that it saw; they are compared with the expected ones. So
//! whichever process dies, no task runs before its producers have ended well, none runs twice, and each that ran saw
//! the right bytes. `PHALANX_GRAPH_SEED` names one seed to try again.

use crate::count;
use crate::records::{self, ALARM, Fate, INPUT, NO_DEP, OUTPUT, UPDATE, is_written};
use crate::support::{Dice, Leftovers, builder, children, eventually, signal, turn};
use phalanx_runtime::{
    Argument, Call, DType, Error, Orchestrator, RunHandle, Target, TaskId, Tensor, Worker,
};
use rustix::process::Signal;
use std::time::Duration;

/// Buffers that all tasks share.
const BUFFERS: usize = 4;
/// Words of a buffer, and of a slab.
const LENGTH: u64 = 16;
const WORDS: usize = 16;
/// The most tasks of a run.
const TASKS: u64 = 90;
const CHIPS: u32 = 2;

/// Words of a buffer, or of a slab behind the buffers.
#[derive(Clone, Copy, Debug)]
struct Part {
    base: usize,
    from: u64,
    count: u64,
    stride: u64,
    kind: u64,
}

impl Part {
    fn random(dice: &mut Dice, bases: &[usize]) -> Self {
        let base = bases[usize::try_from(dice.below(bases.len() as u64)).expect("few")];
        let (from, stride) = (dice.below(LENGTH), 1 + dice.below(8) / 7);
        let count = 1 + dice.below((LENGTH - from).div_ceil(stride));
        let kinds = [INPUT, INPUT, INPUT, NO_DEP, UPDATE, UPDATE, OUTPUT, OUTPUT];
        let kind = kinds[usize::try_from(dice.below(8)).expect("few")];
        Self { base, from, count, stride, kind }
    }

    fn whole(base: usize, kind: u64) -> Self {
        Self { base, from: 0, count: LENGTH, stride: 1, kind }
    }

    fn words(&self) -> impl Iterator<Item = usize> + use<> {
        let Self { from, count, stride, .. } = *self;
        (0..count).map(move |at| usize::try_from(from + at * stride).expect("few"))
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.base == other.base
            && (is_written(self.kind) || is_written(other.kind))
            && self.words().any(|one| other.words().any(|another| one == another))
    }

    fn argument(&self, bases: &[Tensor]) -> Result<Argument, Error> {
        let buffer = bases[self.base].buffer();
        let start = 8 * self.from;
        let tensor = buffer.strided(start, DType::I64, &[self.count], &[self.stride])?;
        Ok(match self.kind {
            INPUT => tensor.input(),
            UPDATE => tensor.in_out(),
            NO_DEP => tensor.no_dep(),
            _ => tensor.output(),
        })
    }
}

/// One task: each member has its parts.
#[derive(Clone, Debug)]
struct Plan {
    /// Number of the first member; the others follow.
    number: u64,
    members: Vec<Vec<Part>>,
    fate: Fate,
    is_unordered: bool,
    is_idempotent: bool,
    is_manual: bool,
}

impl Plan {
    fn conflicts(&self, other: &Self) -> bool {
        let theirs = || other.members.iter().flatten();
        self.members.iter().flatten().any(|mine| theirs().any(|one| mine.conflicts(one)))
    }

    /// True if the runtime finds an order of this task and others by all of its arguments.
    fn is_ordered(&self) -> bool {
        let is_seen = |part: &Part| part.kind != NO_DEP;
        !self.is_unordered && !self.is_manual && self.members.iter().flatten().all(is_seen)
    }

    fn numbers(&self) -> std::ops::Range<usize> {
        let first = usize::try_from(self.number).expect("few");
        first..first + self.members.len()
    }

    /// The last member has its fate; the others end well.
    fn fate_of(&self, member: usize) -> Fate {
        if member + 1 == self.members.len() { self.fate } else { Fate::Well }
    }
}

/// The graph as it was submitted, and where its tasks leave what they say.
struct Graph<'w> {
    dice: &'w mut Dice,
    fates: &'w [Fate],
    begun: &'w Tensor,
    stamps: &'w Tensor,
    /// Buffers, then slabs.
    bases: Vec<Tensor>,
    plans: Vec<Plan>,
    ids: Vec<TaskId>,
}

impl Graph<'_> {
    fn next_number(&self) -> u64 {
        self.plans.last().map_or(0, |plan| plan.numbers().end as u64)
    }

    fn submit_all(&mut self, graph: &mut Orchestrator<'_>) -> Result<(), Error> {
        let buffers: Vec<usize> = (0..BUFFERS).collect();
        let most = 1 + self.dice.below(TASKS);
        while self.next_number() < most {
            match self.dice.below(24) {
                0 => graph.scope("slab", |graph| self.use_slab(graph, &buffers))?,
                1 => graph.manual_scope("manual", |graph| {
                    for _ in 0..6 {
                        self.submit(graph, &buffers, true)?;
                    }
                    Ok::<(), Error>(())
                })?,
                2 => graph.flush(),
                _ => self.submit(graph, &buffers, false)?,
            }
        }
        Ok(())
    }

    /// Some tasks with memory of their scope, which the first of them fills.
    fn use_slab(&mut self, graph: &mut Orchestrator<'_>, buffers: &[usize]) -> Result<(), Error> {
        let slab = self.bases.len();
        self.bases.push(graph.alloc(DType::I64, &[LENGTH])?);
        let mut first = self.plan(buffers, false);
        first.members = vec![vec![Part::whole(slab, OUTPUT)]];
        (first.is_unordered, first.is_idempotent) = (false, false);
        self.send(graph, first)?;
        let bases = [buffers, &[slab, slab]].concat();
        for _ in 0..4 {
            self.submit(graph, &bases, false)?;
        }
        Ok(())
    }

    fn submit(
        &mut self,
        graph: &mut Orchestrator<'_>,
        bases: &[usize],
        is_manual: bool,
    ) -> Result<(), Error> {
        let plan = self.plan(bases, is_manual);
        self.send(graph, plan)
    }

    fn plan(&mut self, bases: &[usize], is_manual: bool) -> Plan {
        let number = self.next_number();
        let count = if self.dice.below(12) == 0 { 2 } else { 1 };
        let mut members: Vec<Vec<Part>> = Vec::new();
        for _ in 0..count {
            let mut parts: Vec<Part> = Vec::new();
            for _ in 0..self.dice.below(4) {
                let part = Part::random(self.dice, bases);
                let mut others = members.iter().flatten().chain(&parts);
                if !others.any(|other| part.conflicts(other)) {
                    parts.push(part);
                }
            }
            members.push(parts);
        }
        let is_read = |part: &Part| !is_written(part.kind);
        let is_idempotent = self.dice.below(2) == 0 && members.iter().flatten().all(is_read);
        let fate = usize::try_from(self.dice.below(8 * self.fates.len() as u64)).expect("few");
        let fate = self.fates.get(fate).copied().unwrap_or(Fate::Well);
        let is_unordered = self.dice.below(12) == 0;
        Plan { number, members, fate, is_unordered, is_idempotent, is_manual }
    }

    fn send(&mut self, graph: &mut Orchestrator<'_>, plan: Plan) -> Result<(), Error> {
        let needs = self.plans.iter().zip(&self.ids).filter(|(earlier, _)| {
            let is_hidden = !plan.is_ordered() || !earlier.is_ordered();
            is_hidden && earlier.conflicts(&plan)
        });
        let after: Vec<TaskId> = needs.map(|(_, id)| *id).collect();
        let mut calls = Vec::new();
        for (member, parts) in plan.members.iter().enumerate() {
            let number = plan.number + member as u64;
            let [begun, stamp] = [self.begun, self.stamps].map(|all| all.rows(number, number + 1));
            let mut call = records::call(number, plan.fate_of(member), &begun?, &stamp?);
            for part in parts {
                call.push(part.argument(&self.bases)?);
                call = call.scalar(part.kind);
            }
            call = if plan.is_unordered { call.unordered() } else { call };
            call = if plan.is_idempotent { call.idempotent() } else { call };
            calls.push(if member == 0 { call.after(&after) } else { call });
        }
        let id = self.submit_calls(graph, &calls)?;
        self.ids.push(id);
        self.plans.push(plan);
        Ok(())
    }

    fn submit_calls(
        &mut self,
        graph: &mut Orchestrator<'_>,
        calls: &[Call],
    ) -> Result<TaskId, Error> {
        let chip = u32::try_from(self.dice.below(u64::from(CHIPS))).expect("few");
        match (calls, self.dice.below(8)) {
            ([_, _], 0..4) => graph.submit_sub_group(calls),
            ([one, other], _) => {
                graph.submit_next_level_group(&[(0, one.clone()), (1, other.clone())])
            }
            ([call], 0) => graph.submit_next_level(Target::Chip(chip), call),
            ([call], 1) => graph.submit_next_level(Target::Any, call),
            ([call], 2) => graph.submit_sub(&call.clone().priority(2)),
            _ => graph.submit_sub(&calls[0]),
        }
    }
}

/// The remains of a run.
struct Found {
    begun: Vec<u64>,
    stamps: Vec<u64>,
    buffers: Vec<Vec<u64>>,
}

/// Compares a run with the same tasks, one after the other; `is_exact` if nothing died.
fn check(plans: &[Plan], slabs: usize, found: &Found, is_exact: bool) {
    let mut model = vec![[0; WORDS]; BUFFERS + slabs];
    let mut is_unknown = vec![[false; WORDS]; BUFFERS + slabs];
    let is_done = |plan: &Plan| plan.numbers().all(|number| found.stamps[number] != 0);
    let mut is_poisoned = vec![false; plans.len()];
    for (at, plan) in plans.iter().enumerate() {
        let needs = || (0..at).filter(|before| plans[*before].conflicts(plan));
        is_poisoned[at] = !plan.fate.is_good() || needs().any(|before| is_poisoned[before]);
        for (member, number) in plan.numbers().enumerate() {
            let begun = found.begun[number];
            assert_ne!(begun, ALARM, "{plan:?} was not alone where it worked");
            assert!(begun <= 1 || plan.is_idempotent, "{plan:?} ran {begun} times");
            if begun == 0 {
                continue;
            }
            for before in needs() {
                assert!(
                    is_done(&plans[before]),
                    "{plan:?} began before {:?} was done",
                    plans[before]
                );
            }
            let parts = &plan.members[member];
            let read = parts.iter().filter(|part| part.kind != OUTPUT);
            let words = read.flat_map(|part| part.words().map(|word| model[part.base][word]));
            let digest = words.fold(records::fresh(number as u64), records::seen);
            let stamp = found.stamps[number];
            assert!(stamp == 0 || stamp == digest, "{plan:?} saw other bytes than in sequence");
            for part in parts.iter().filter(|part| is_written(part.kind)) {
                for (at, word) in part.words().enumerate() {
                    model[part.base][word] = records::truth(digest, at);
                    is_unknown[part.base][word] = stamp == 0;
                }
            }
        }
        let is_wrong = is_exact && is_done(plan) == is_poisoned[at];
        assert!(!is_wrong, "{plan:?}: poisoned {}", is_poisoned[at]);
    }
    for (base, words) in found.buffers.iter().enumerate() {
        for (at, word) in words.iter().enumerate().filter(|(at, _)| !is_unknown[base][*at]) {
            assert_eq!(*word, model[base][at], "buffer {base}, word {at}");
        }
    }
}

/// Kills or stops children while a run goes on.
fn disturb(dice: &mut Dice) {
    std::thread::sleep(Duration::from_micros(dice.below(2500)));
    let all: Vec<u32> = children().into_iter().collect();
    let Some(victim) =
        usize::try_from(dice.below(all.len().max(1) as u64)).ok().and_then(|at| all.get(at))
    else {
        return;
    };
    if dice.below(3) > 0 {
        return signal(*victim, Signal::KILL);
    }
    signal(*victim, Signal::STOP);
    std::thread::sleep(Duration::from_micros(dice.below(8000)));
    signal(*victim, Signal::CONT);
}

/// Waits for the end of a run and for the tasks that it left; whether it ended well.
fn await_end(worker: &Worker, run: Result<RunHandle, Error>, buffer: &Tensor) -> bool {
    let ended = run.and_then(|run| run.wait_for(Duration::from_secs(600)).map(drop));
    assert!(!matches!(ended, Err(Error::TimedOut(_))), "nobody was told");
    eventually("memory is free", || worker.read::<u64>(buffer).is_ok());
    if let Err(error) = &ended {
        println!("    {}", error.to_string().lines().next().unwrap_or_default());
    }
    ended.is_ok()
}

/// One run; whether it ended well.
fn run_once(
    worker: &Worker,
    dice: &mut Dice,
    fates: &[Fate],
    is_disturbed: bool,
    is_exact: bool,
) -> Result<bool, Error> {
    let tensor = |words: u64| worker.tensor(DType::I64, &[words]);
    let buffers = (0..BUFFERS).map(|_| tensor(LENGTH)).collect::<Result<Vec<_>, _>>()?;
    let [begun, stamps] = [tensor(TASKS + 20)?, tensor(TASKS + 20)?];
    for (all, words) in buffers
        .iter()
        .map(|buffer| (buffer, LENGTH))
        .chain([(&begun, TASKS + 20), (&stamps, TASKS + 20)])
    {
        worker.write(all, &vec![0u64; usize::try_from(words).expect("few")])?;
    }
    let mut other = Dice::new(dice.below(u64::MAX));
    let (bases, plans, ids) = (buffers.clone(), Vec::new(), Vec::new());
    let mut graph = Graph { dice, fates, begun: &begun, stamps: &stamps, bases, plans, ids };
    let is_good = std::thread::scope(|scope| {
        if is_disturbed {
            scope.spawn(|| disturb(&mut other));
        }
        let run = worker.submit("random", |orchestrator| match graph.submit_all(orchestrator) {
            // Earlier submissions go on.
            Err(Error::RunFailed(_)) => Ok(()),
            other => Ok(other?),
        });
        await_end(worker, run, &begun)
    });
    let slabs = graph.bases.len() - BUFFERS;
    let found = Found {
        begun: worker.read(&begun)?,
        stamps: worker.read(&stamps)?,
        buffers: buffers.iter().map(|buffer| worker.read(buffer)).collect::<Result<_, _>>()?,
    };
    check(&graph.plans, slabs, &found, is_exact);
    let is_whole = graph.plans.iter().all(|plan| plan.numbers().all(|at| found.stamps[at] != 0));
    assert!(is_whole || !is_good, "a run ended well whose tasks did not");
    Ok(is_good)
}

/// The kind of workers that run the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Threads,
    Processes,
    Restarted,
}

/// Some runs on one worker, as long as it has workers for all; how many, and how many ended well.
fn use_worker(kind: Kind, seed: u64) -> Result<(u64, u64), Error> {
    let mut dice = Dice::new(seed);
    let slots = 8 << dice.below(4);
    let small = builder().memory(1 << 22).ring(slots, 1 << 16).chips(CHIPS).sub_workers(3);
    let small = small.depth(1 + usize::try_from(dice.below(8)).expect("few"));
    let worker = match kind {
        Kind::Threads => small.threads(),
        Kind::Processes => small,
        Kind::Restarted => small.restart(),
    };
    let worker = worker.init()?;
    let (mut runs, mut good, mut is_exact) = (0, 0, true);
    while runs < 6 && worker.lost().is_empty() {
        let fates = match dice.below(4) {
            0 => &Fate::ALL[..2],
            1 | 2 => &Fate::ALL[..5],
            _ if kind == Kind::Threads => &Fate::ALL[..5],
            _ => &Fate::ALL,
        };
        let is_disturbed = kind != Kind::Threads && dice.below(3) == 0;
        // A death may become known in the next run.
        is_exact &= !is_disturbed && !fates.iter().any(|fate| fate.is_deadly());
        runs += 1;
        good += u64::from(run_once(&worker, &mut dice, fates, is_disturbed, is_exact)?);
    }
    eventually("every dispatch ends", || {
        let now = worker.stats();
        now.tasks == 0 && now.running == 0 && now.queued == 0 && now.groups == 0
    });
    assert_eq!(worker.stats().stale, 0, "a dispatch ended twice");
    worker.close()?;
    Ok((runs, good))
}

#[test]
fn random_graphs_with_dying_tasks_give_the_bytes_of_one_task_after_the_other() -> Result<(), Error>
{
    let _turn = turn();
    let left = Leftovers::before();
    let first = std::env::var("PHALANX_GRAPH_SEED").ok().and_then(|seed| seed.parse().ok());
    for kind in [Kind::Threads, Kind::Processes, Kind::Restarted] {
        let (mut runs, mut good) = (0, 0);
        let seeds = first.map_or(0..count(5, 250), |seed: u64| seed..seed + 1);
        for seed in seeds {
            println!("{kind:?}, seed {seed}");
            let (more, well) = use_worker(kind, seed)?;
            (runs, good) = (runs + more, good + well);
            left.check();
        }
        println!("{runs} random graphs on {kind:?}: {good} ended well, none with other bytes");
    }
    Ok(())
}
