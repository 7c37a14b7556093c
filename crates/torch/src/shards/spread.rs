//! Shards in several processes, each with several threads.

use super::Member;
use super::link::{Kind, Processes, join, split};
use phalanx_sim::exchange::{Exchange, Notes, Parcel, Standing};
use phalanx_sim::portable::{Malformed, Portable, Reader};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// One shard of a run in several processes. Thread 0 of a process speaks for all of its threads.
pub(super) struct SpreadMember {
    processes: Arc<Processes>,
    /// The own thread among those of this process, if there are others.
    member: Option<Member>,
    thread: usize,
    threads: usize,
}

/// The contribution of a thread to a meeting.
struct Given {
    standing: Standing,
    /// By thread of this process.
    near: Vec<Mutex<Vec<Parcel>>>,
    /// By process: the parcels for each of its threads.
    far: Vec<Vec<u8>>,
}

/// The frames of the other processes, joined.
struct Come {
    standing: Standing,
    /// By process.
    bodies: Vec<Vec<u8>>,
}

impl SpreadMember {
    pub(super) fn new(processes: &Arc<Processes>, thread: usize, member: Option<Member>) -> Self {
        let threads = member.as_ref().map_or(1, Exchange::shards);
        Self { processes: processes.clone(), member, thread, threads }
    }

    /// Returns what each thread of this process gives.
    fn share<T: Any + Send + Sync>(&self, own: T) -> Vec<Arc<T>> {
        let own: Notes = Arc::new(own);
        let all = match &self.member {
            Some(member) => member.gather(own),
            None => vec![own],
        };
        all.into_iter().map(|notes| notes.downcast().expect("TEAM-1: the same call")).collect()
    }

    /// Lets thread 0 act, and returns what it has found.
    fn by_first<T: Any + Send + Sync>(&self, act: impl FnOnce() -> T) -> Arc<T> {
        let found = (self.thread == 0).then(act);
        let mut all = self.share(Mutex::new(found.map(Arc::new)));
        let first = all.swap_remove(0);
        let first = first.lock().unwrap_or_else(PoisonError::into_inner);
        first.clone().expect("TEAM-1: thread 0 has acted")
    }

    /// Sorts parcels into those of this process and those of others.
    fn give(&self, standing: Standing, out: &mut [Vec<Parcel>]) -> Given {
        let own = self.processes.process();
        let mut given = Given { standing, near: Vec::new(), far: Vec::new() };
        for (process, out) in out.chunks_mut(self.threads).enumerate() {
            if process == own {
                given.near = out.iter_mut().map(|out| Mutex::new(std::mem::take(out))).collect();
                given.far.push(Vec::new());
                continue;
            }
            let mut bytes = Vec::new();
            for out in out {
                out.put(&mut bytes);
                out.clear();
            }
            given.far.push(bytes);
        }
        given
    }

    /// Meets the other processes for all threads of this one.
    fn meet_others(&self, given: &[Arc<Given>]) -> Come {
        let mut standings = given.iter().map(|given| given.standing);
        let first = standings.next().expect("a thread");
        let mut standing = standings.fold(first, Standing::join);
        let mut bodies = self.processes.call(Kind::Meet, |process, to| {
            standing.put(to);
            for given in given {
                to.extend_from_slice(&given.far[process]);
            }
        });
        for (process, body) in bodies.iter_mut().enumerate().filter(|(_, body)| !body.is_empty()) {
            let mut reader = Reader::new(body);
            let other = readable(process, Standing::take(&mut reader));
            standing = standing.join(other);
        }
        Come { standing, bodies }
    }

    /// Adds the parcels of another process that are for this thread.
    fn take_far(&self, body: &[u8], into: &mut [Vec<Parcel>]) -> Result<(), Malformed> {
        let mut reader = Reader::new(body);
        Standing::take(&mut reader)?;
        for into in into {
            for thread in 0..self.threads {
                let count = reader.length()?;
                for _ in 0..count {
                    let parcel = Parcel::take(&mut reader)?;
                    if thread == self.thread {
                        into.push(parcel);
                    }
                }
            }
        }
        reader.finish()
    }

    /// Returns the notes of all shards, as this process is told of them; `is_told` says which processes are.
    fn gather_for(&self, own: Notes, is_told: impl Fn(usize) -> bool) -> Vec<Notes> {
        let own: Arc<Vec<u8>> = own.downcast().expect("XCH-3: bytes");
        let parts = self.share(own);
        let come = self.by_first(|| {
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| (***part).clone()).collect();
            let bytes = join(&parts);
            let mut bodies = self.processes.call(Kind::Notes, |process, to| {
                if is_told(process) {
                    to.extend_from_slice(&bytes);
                }
            });
            bodies[self.processes.process()] = bytes;
            bodies
        });
        let told = come.iter().enumerate().filter(|(_, body)| !body.is_empty());
        let parts = told.flat_map(|(process, body)| readable(process, split(body)));
        parts.map(|part| Arc::new(part) as Notes).collect()
    }
}

/// Returns what was read, or ends the run.
fn readable<T>(process: usize, read: Result<T, Malformed>) -> T {
    read.unwrap_or_else(|error| panic!("process {process} sent what cannot be read: {error}"))
}

impl Exchange for SpreadMember {
    fn shard(&self) -> usize {
        self.processes.process() * self.threads + self.thread
    }

    fn shards(&self) -> usize {
        self.processes.count() * self.threads
    }

    fn meet(&self, own: Standing, out: &mut [Vec<Parcel>], into: &mut [Vec<Parcel>]) -> Standing {
        let given = self.share(self.give(own, out));
        let come = self.by_first(|| self.meet_others(&given));
        let own = self.processes.process();
        for (process, into) in into.chunks_mut(self.threads).enumerate() {
            if process == own {
                for (given, into) in given.iter().zip(into) {
                    let near = &given.near[self.thread];
                    into.append(&mut near.lock().unwrap_or_else(PoisonError::into_inner));
                }
            } else {
                readable(process, self.take_far(&come.bodies[process], into));
            }
        }
        come.standing
    }

    fn gather(&self, own: Notes) -> Vec<Notes> {
        self.gather_for(own, |_| true)
    }

    fn gather_first(&self, own: Notes) -> Vec<Notes> {
        self.gather_for(own, |process| process == 0)
    }

    fn takes_bytes(&self) -> bool {
        true
    }

    fn by_turns(&self, work: &mut dyn FnMut()) {
        match &self.member {
            Some(member) => member.by_turns(work),
            None => work(),
        }
    }
}
