//! kill -9 of a rank in the middle of barriers: the others learn it at once, and live on.

use crate::collectives::ROUNDS;
use crate::count;
use crate::support::{Dice, Leftovers, builder, describe, eventually, signal, turn};
use phalanx_runtime::{
    Call, DType, Domain, DomainSpec, Error, Failure, Orchestrator, RunHandle, Worker,
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const CHIPS: u32 = 4;

/// So many barriers of these chips, in a domain of their own or in this one.
fn meet(
    graph: &mut Orchestrator<'_>,
    chips: &[u32],
    domain: Option<&Domain>,
    rounds: u64,
) -> Result<Domain, Failure> {
    let buffers: &[(&str, DType, &[u64])] = &[("inbox", DType::F32, &[CHIPS.into()])];
    let spec = DomainSpec { name: "all", chips, window: 256, buffers, signals: 1 };
    let domain = domain.cloned().map_or_else(|| graph.allocate_domain(&spec), Ok)?;
    let call = Call::new(&ROUNDS).scalar(rounds).domain(&domain);
    let calls: Vec<_> = chips.iter().map(|chip| (*chip, call.clone())).collect();
    graph.submit_next_level_group(&calls)?;
    Ok(domain)
}

fn begin(worker: &Worker, is_kept: bool) -> Result<(RunHandle, Option<Domain>), Error> {
    let mut kept = None;
    let run = worker.submit("rounds", |graph| {
        let all: Vec<u32> = (0..CHIPS).collect();
        kept = Some(meet(graph, &all, None, 1 << 40)?).filter(|_| is_kept);
        Ok(())
    })?;
    Ok((run, kept))
}

/// One kill; how long it took until the waiter knew.
fn kill_once(seed: u64, is_replaced: bool) -> Result<Duration, Error> {
    let mut dice = Dice::new(seed);
    let small = builder().chips(CHIPS).memory(1 << 20).ring(64, 1 << 16);
    let worker = if is_replaced { small.restart() } else { small }.init()?;
    let (run, kept) = begin(&worker, is_replaced)?;
    let victim = u32::try_from(dice.below(CHIPS.into())).expect("few");
    let process = worker.startup().children[victim as usize].process;
    std::thread::sleep(Duration::from_micros(dice.below(20_000)));
    let begun = Instant::now();
    signal(process, Signal::KILL);
    let Err(Error::Run(error)) = run.wait() else { panic!("seed {seed}: it cannot end well") };
    let time = begun.elapsed();
    let name = format!("chip {victim} (process {process})");
    let root = error.root().expect("a root");
    assert!(root.worker == name && root.words.contains("SIGKILL"), "seed {seed}: {error}");
    let others: Vec<u32> = (0..CHIPS).filter(|chip| is_replaced || *chip != victim).collect();
    let again = worker.run("the others", |graph| {
        meet(graph, &others, kept.as_ref(), 20)?;
        Ok(())
    });
    again.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let gone = || if is_replaced { worker.replaced() } else { worker.lost() };
    eventually("the loss is proven", || !gone().is_empty());
    assert!(gone().len() == 1 && gone()[0].worker == name, "seed {seed}: {:?}", gone());
    assert_eq!(worker.lost().len(), usize::from(!is_replaced), "seed {seed}");
    drop((run, kept));
    worker.close()?;
    Ok(time)
}

#[test]
fn dom_10_dom_11_a_kill_among_barriers_costs_the_run_and_nobody_else() -> Result<(), Error> {
    let _turn = turn();
    let left = Leftovers::before();
    for is_replaced in [false, true] {
        let seeds = count(8, 200);
        let mut times = Vec::new();
        for seed in 0..seeds {
            times.push(kill_once(seed, is_replaced)?);
            left.check();
        }
        let what = if is_replaced { "replaced" } else { "lost" };
        println!("{seeds} kills, {what}: known: {}", describe(&mut times));
    }
    Ok(())
}
