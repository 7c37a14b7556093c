//! A plain exchange between threads: a lock, and a condition that all have come.

use phalanx_sim::exchange::{Exchange, Notes, Parcel, Standing};
use phalanx_sim::portable::{from_bytes, to_bytes};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};

/// Runs `program` on as many threads as shards; returns the result of shard 0. With `by_bytes`, all that crosses goes as bytes.
pub(crate) fn on_shards<R: Send>(
    shards: usize,
    by_bytes: bool,
    program: impl Fn(Arc<dyn Exchange>) -> R + Sync,
) -> R {
    let team =
        Arc::new(Team { shards, by_bytes, calls: Mutex::default(), changed: Condvar::new() });
    let (program, team) = (&program, &team);
    std::thread::scope(|scope| {
        let start = |shard| {
            let member = Arc::new(Member { team: team.clone(), shard, round: Mutex::new(0) });
            scope.spawn(move || program(member))
        };
        let threads: Vec<_> = (0..shards).map(start).collect();
        let mut results = threads.into_iter().map(|thread| thread.join().unwrap());
        let first = results.next().unwrap();
        results.for_each(drop);
        first
    })
}

struct Team {
    shards: usize,
    by_bytes: bool,
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    /// The parts that shards gave, by call and shard.
    given: BTreeMap<(u64, usize), Given>,
    is_broken: bool,
}

#[derive(Default)]
struct Given {
    standing: Option<Standing>,
    notes: Option<Notes>,
    parcels: Vec<Vec<Parcel>>,
}

struct Member {
    team: Arc<Team>,
    shard: usize,
    round: Mutex<u64>,
}

impl Member {
    /// Gives, waits for all, and looks at what all gave.
    fn call<T>(&self, given: Given, take: impl FnOnce(&mut Calls, u64) -> T) -> T {
        let mut round = self.round.lock().unwrap();
        let (team, number) = (&*self.team, *round);
        *round += 1;
        let mut calls = team.calls.lock().unwrap();
        calls.given.insert((number, self.shard), given);
        team.changed.notify_all();
        let has_all = |calls: &Calls| calls.given.range((number, 0)..(number + 1, 0)).count();
        while has_all(&calls) < team.shards {
            assert!(!calls.is_broken, "another shard has ended");
            calls = team.changed.wait(calls).unwrap();
        }
        // Whoever has come to this call has seen all of the call before the last.
        calls.given.retain(|(round, _), _| round + 2 > number);
        take(&mut calls, number)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Ok(mut calls) = self.team.calls.lock() {
            calls.is_broken = true;
        }
        self.team.changed.notify_all();
    }
}

impl Exchange for Member {
    fn shard(&self) -> usize {
        self.shard
    }

    fn shards(&self) -> usize {
        self.team.shards
    }

    fn meet(&self, own: Standing, out: &mut [Vec<Parcel>], into: &mut [Vec<Parcel>]) -> Standing {
        let cross = |parcels: Vec<Parcel>| {
            if !self.team.by_bytes {
                return parcels;
            }
            from_bytes(&to_bytes(&parcels)).expect("XCH-3: what was written reads back")
        };
        let parcels = out.iter_mut().map(std::mem::take).map(cross).collect();
        let given = Given { standing: Some(own), parcels, ..Given::default() };
        self.call(given, |calls, number| {
            let mut all: Option<Standing> = None;
            for (shard, into) in into.iter_mut().enumerate() {
                let given = calls.given.get_mut(&(number, shard)).unwrap();
                into.append(&mut given.parcels[self.shard]);
                let standing = given.standing.unwrap();
                all = Some(all.map_or(standing, |all| all.join(standing)));
            }
            all.unwrap()
        })
    }

    fn gather(&self, own: Notes) -> Vec<Notes> {
        let given = Given { notes: Some(own), ..Given::default() };
        self.call(given, |calls, number| {
            let all = calls.given.range((number, 0)..(number + 1, 0));
            all.map(|(_, given)| given.notes.clone().unwrap()).collect()
        })
    }

    fn takes_bytes(&self) -> bool {
        self.team.by_bytes
    }

    fn by_turns(&self, work: &mut dyn FnMut()) {
        work();
    }
}
