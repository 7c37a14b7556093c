//! One run on several threads: shards that meet between windows of simulated time.
//!
//! [`run`] calls a program once for each shard, each on a thread of its own. The calls differ in the `exchange` of their options alone; every
//! one builds its own machine or context of the same specification, and simulates its own SIPs
//! ([`phalanx_sim::exchange`]). Nothing is shared but the swapped parcels and notes. `shards/README.md` has the
//! protocol.
//!
//! ```
//! use phalanx_sim::{DType, MachineSpec, machine::Options};
//! use phalanx_torch::{Context, multiprocessing::spawn, shards};
//! let quad = MachineSpec::preset("quad-sip").unwrap();
//! let sums = shards::run(2, |exchange| {
//!     let mut context = Context::new(quad.clone(), Options { exchange, ..Options::default() });
//!     assert_eq!(context.own_ranks(4).len(), 2); // the other two are on the other shard
//!     let own = spawn(&mut context, 4, |rank, cx| async move {
//!         let x = cx.full([2, 3], rank as f64, DType::F32)?;
//!         Ok(x.to_vec().await?.iter().sum::<f32>())
//!     });
//!     context.gather(own.unwrap())
//! });
//! assert_eq!(sums, [0.0, 6.0, 12.0, 18.0]);
//! ```
//!
//! - **TEAM-1 (all or none).** A call of the exchange returns when every shard has made it, with the contributions of
//!   all.
//! - **TEAM-3 (processes).** [`run_over`] does the same with threads of several processes, which a [`Link`] connects: every byte is that of one.
//! - **TEAM-2 (no hang).** If a shard ends or panics, the calls of the others end too; the panic reaches the caller of [`run`].

mod barrier;
mod channels;
mod cores;
mod link;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(feature = "mpi")]
pub mod mpi;
mod spread;
mod started;
mod sync;

pub use barrier::LeftBehind;
pub use channels::Channels;
pub use cores::{idle_cores, that_pay};
pub use link::{Farewell, Link, Processes};
pub use started::started;

use barrier::Barrier;
use phalanx_sim::exchange::{Exchange, Notes, Parcel, Standing};
use spread::SpreadMember;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use sync::{Mutex, lock};

/// Stack of a shard's thread: that of a main thread.
const STACK: usize = 8 << 20;

/// Runs `program` on `shards` threads, this one included, and returns what shard 0 returns. With one shard, `program` gets no
/// exchange.
///
/// Every call must make the same calls in the same order on the machines that it builds.
///
/// # Panics
///
/// If a shard panics, or the system refuses a thread.
pub fn run<R>(shards: usize, program: impl Fn(Option<Arc<dyn Exchange>>) -> R + Sync) -> R {
    run_over(&ShardLayout::threads(shards), program)
}

/// The distribution of the shards of a run: so many threads in each process.
#[derive(Clone)]
pub struct ShardLayout {
    /// Threads of this process, and of each other one.
    pub threads: usize,
    /// The processes, if there are others.
    pub processes: Option<Arc<Processes>>,
}

impl ShardLayout {
    /// Returns so many threads of this process alone.
    pub fn threads(threads: usize) -> Self {
        Self { threads, processes: None }
    }

    /// Returns the layout for a run on at most so many SIPs: threads without a SIP are of no use.
    #[must_use]
    pub fn at_most(&self, sips: usize) -> Self {
        let processes = self.processes.clone().filter(|_| sips > 1);
        let count = processes.as_ref().map_or(1, |processes| processes.count());
        Self { threads: self.threads.min(sips / count).max(1), processes }
    }

    fn exchange(&self, thread: usize, member: Option<Member>) -> Option<Arc<dyn Exchange>> {
        match &self.processes {
            Some(processes) => Some(Arc::new(SpreadMember::new(processes, thread, member))),
            None => Some(Arc::new(member?)),
        }
    }
}

/// Runs `program` on each thread of this process, this one included, and returns what the first of them returns. Other processes make
/// the same call; what process 0 returns is the result. Alone, `program` gets no exchange.
///
/// # Panics
///
/// If a shard panics, or the system refuses a thread. With [`LeftBehind`] if another process has ended.
pub fn run_over<R>(
    layout: &ShardLayout,
    program: impl Fn(Option<Arc<dyn Exchange>>) -> R + Sync,
) -> R {
    if layout.threads <= 1 {
        return program(layout.exchange(0, None));
    }
    let team = Arc::new(Team::<Parcel, Notes>::new(layout.threads));
    let (program, team) = (&program, &team);
    thread::scope(|scope| {
        let start = |shard: usize| {
            let exchange = layout.exchange(shard, Some(Member::new(team, shard)));
            let builder = thread::Builder::new().name(format!("phalanx-shard-{shard}"));
            let work = move || drop(program(exchange));
            builder.stack_size(STACK).spawn_scoped(scope, work).expect("a thread")
        };
        let others: Vec<_> = (1..layout.threads).map(start).collect();
        let result = {
            let first = layout.exchange(0, Some(Member::new(team, 0)));
            let _leave = Leave(team);
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program(first)))
        };
        let panics = others.into_iter().filter_map(|other| other.join().err());
        // A shard that others have left is not the one that failed.
        let panics: Vec<_> = panics.filter(|panic| !panic.is::<LeftBehind>()).collect();
        match result {
            Err(panic) if !panic.is::<LeftBehind>() => resume_unwind(panic),
            result => {
                if let Some(panic) = panics.into_iter().next() {
                    resume_unwind(panic);
                }
                result.unwrap_or_else(|left| match layout.processes {
                    Some(_) => resume_unwind(left),
                    None => panic!("the shards of a run made different calls"),
                })
            }
        }
    })
}

/// The state that the shards of a run share.
struct Team<P, N> {
    barrier: Barrier,
    /// The parts that shards give, in turn: while one round is read, the next is written.
    rounds: [Vec<Mutex<Given<P, N>>>; 2],
    turns: Mutex<()>,
}

/// The part that a shard gives for one round.
struct Given<P, N> {
    standing: Option<Standing>,
    notes: Option<N>,
    /// By the shard that it goes to.
    parcels: Vec<Vec<P>>,
}

impl<P, N: Clone> Team<P, N> {
    fn new(shards: usize) -> Self {
        let given = || Given {
            standing: None,
            notes: None,
            parcels: (0..shards).map(|_| Vec::new()).collect(),
        };
        let round = || (0..shards).map(|_| Mutex::new(given())).collect();
        Self { barrier: Barrier::new(shards), rounds: [round(), round()], turns: Mutex::new(()) }
    }

    /// Gives a standing and parcels, and takes what the others give.
    fn meet(
        &self,
        (shard, round): (usize, u64),
        own: Standing,
        out: &mut [Vec<P>],
        into: &mut [Vec<P>],
    ) -> Standing {
        let slots = &self.rounds[(round % 2) as usize];
        {
            let mut given = lock(&slots[shard]);
            given.standing = Some(own);
            for (parcels, out) in given.parcels.iter_mut().zip(out) {
                std::mem::swap(parcels, out);
            }
        }
        self.barrier.wait(round);
        let mut all = own;
        for (other, slot) in slots.iter().enumerate().filter(|(other, _)| *other != shard) {
            let mut given = lock(slot);
            all = given.standing.map_or(all, |standing| all.join(standing));
            // Empty lists keep their memory on both sides.
            std::mem::swap(&mut given.parcels[shard], &mut into[other]);
        }
        all
    }

    /// Gives notes, and returns those of all.
    fn gather(&self, (shard, round): (usize, u64), own: N) -> Vec<N> {
        let slots = &self.rounds[(round % 2) as usize];
        lock(&slots[shard]).notes = Some(own);
        self.barrier.wait(round);
        slots.iter().filter_map(|slot| lock(slot).notes.clone()).collect()
    }
}

/// One shard of a run.
struct Member {
    team: Arc<Team<Parcel, Notes>>,
    shard: usize,
    /// Number of calls so far.
    round: std::sync::atomic::AtomicU64,
}

impl Member {
    fn new(team: &Arc<Team<Parcel, Notes>>, shard: usize) -> Self {
        Self { team: team.clone(), shard, round: std::sync::atomic::AtomicU64::new(0) }
    }

    /// Returns the number of the shard and of its call.
    fn next(&self) -> (usize, u64) {
        (self.shard, self.round.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.team.barrier.leave();
    }
}

/// Leaves a team when it is dropped.
struct Leave<'a>(&'a Team<Parcel, Notes>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.barrier.leave();
    }
}

impl Exchange for Member {
    fn shard(&self) -> usize {
        self.shard
    }

    fn shards(&self) -> usize {
        self.team.rounds[0].len()
    }

    fn meet(&self, own: Standing, out: &mut [Vec<Parcel>], into: &mut [Vec<Parcel>]) -> Standing {
        self.team.meet(self.next(), own, out, into)
    }

    fn gather(&self, own: Notes) -> Vec<Notes> {
        self.team.gather(self.next(), own)
    }

    fn by_turns(&self, work: &mut dyn FnMut()) {
        let _turn = lock(&self.team.turns);
        work();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn team_1_bar_1_every_shard_gets_the_notes_of_all_in_order() {
        for shards in [1, 2, 3, 7] {
            let seen = run(shards, |exchange| {
                let Some(exchange) = exchange else { return vec![vec![0]] };
                let mut rounds = Vec::new();
                for round in 0..200 {
                    let own = exchange.shard() + 10 * round;
                    let all = exchange.gather(Arc::new(own));
                    let all = all.iter().map(|notes| *notes.downcast_ref::<usize>().unwrap());
                    rounds.push(all.map(|note| note - 10 * round).collect::<Vec<_>>());
                }
                rounds
            });
            let expected: Vec<usize> = (0..shards).collect();
            assert!(seen.iter().all(|round| *round == expected), "TEAM-1");
        }
    }

    #[test]
    fn team_2_a_panic_of_any_shard_reaches_the_caller() {
        for failing in 0..3 {
            let caught = catch_unwind(|| {
                run(3, |exchange| {
                    let exchange = exchange.unwrap();
                    exchange.gather(Arc::new(()));
                    assert!(exchange.shard() != failing, "shard {failing} fails");
                    exchange.gather(Arc::new(()));
                });
            });
            let panic = caught.expect_err("TEAM-2");
            let text = panic.downcast_ref::<String>().expect("TEAM-2: the panic of the shard");
            assert_eq!(*text, format!("shard {failing} fails"), "TEAM-2");
        }
    }

    #[test]
    fn team_2_bar_2_shards_that_go_on_alone_do_not_hang() {
        let result = run(3, |exchange| {
            let exchange = exchange.unwrap();
            if exchange.shard() > 0 {
                exchange.gather(Arc::new(()));
            }
            exchange.shard()
        });
        assert_eq!(result, 0, "TEAM-2");
    }
}
