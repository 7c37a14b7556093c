//! Processes that `mpirun` has started, over MPI.
//!
//! A frame goes as messages of at most [`PART`] bytes, the first of which begins with the length of the whole. Nothing but
//! [`Link::swap`] talks to MPI, on the thread that has called [`start`].

use super::link::{Link, Processes};
use mpi::Threading;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source};
use mpi::request::{LocalScope, WaitGuard};
use mpi::topology::{Communicator, SimpleCommunicator};
use std::sync::Arc;

/// Longest message, in bytes: lengths of messages are 32 bits of MPI.
const PART: usize = 1 << 28;
/// Number of bytes of a length.
const LENGTH: usize = 8;

/// The connection of this process to the others; MPI ends when it is dropped.
pub struct World {
    /// The processes of the run.
    pub processes: Arc<Processes>,
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

/// Starts MPI; `None` if it was started before, or there is no other process.
pub fn start() -> Option<World> {
    let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
    let world = universe.world();
    let [process, processes] =
        [world.rank(), world.size()].map(|number| number.unsigned_abs() as usize);
    let link = MpiLink { process, processes };
    (processes > 1).then(|| World { processes: Processes::new(link), _universe: universe })
}

impl World {
    /// Returns the name of this host.
    pub fn host(&self) -> String {
        mpi::environment::processor_name().unwrap_or_else(|_| "a host without a name".to_owned())
    }

    /// Returns what the library of MPI says of itself, in one line.
    pub fn library(&self) -> String {
        let text = mpi::environment::library_version().unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        line.trim_end_matches('\0').to_owned()
    }
}

struct MpiLink {
    process: usize,
    processes: usize,
}

impl Link for MpiLink {
    fn process(&self) -> usize {
        self.process
    }

    fn processes(&self) -> usize {
        self.processes
    }

    fn swap(&self, out: &[Option<&[u8]>], is_awaited: &[bool], into: &mut [Vec<u8>]) {
        let world = SimpleCommunicator::world();
        let heads: Vec<Vec<u8>> = out.iter().map(|frame| head(*frame)).collect();
        mpi::request::scope(|scope| {
            let mut sends = Vec::new();
            for (process, (frame, head)) in out.iter().zip(&heads).enumerate() {
                if let Some(frame) = frame {
                    send(&world, scope, process, frame, head, &mut sends);
                }
            }
            let awaited = into.iter_mut().zip(is_awaited).enumerate();
            for (process, (into, _)) in awaited.filter(|(_, (_, awaited))| **awaited) {
                receive(&world, process, into);
            }
            drop(sends);
        });
    }
}

/// The first message of a frame: its length, and as much of it as fits.
fn head(frame: Option<&[u8]>) -> Vec<u8> {
    let Some(frame) = frame else { return Vec::new() };
    let mut head = Vec::with_capacity(LENGTH + frame.len().min(PART));
    head.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    head.extend_from_slice(&frame[..frame.len().min(PART)]);
    head
}

type Sends<'a, 's> = Vec<WaitGuard<'a, [u8], &'s LocalScope<'a>>>;

fn send<'a, 's>(
    world: &SimpleCommunicator,
    scope: &'s LocalScope<'a>,
    process: usize,
    frame: &'a [u8],
    head: &'a [u8],
    sends: &mut Sends<'a, 's>,
) {
    let to = world.process_at_rank(rank(process));
    sends.push(WaitGuard::from(to.immediate_send(scope, head)));
    for part in frame.get(PART..).unwrap_or_default().chunks(PART) {
        sends.push(WaitGuard::from(to.immediate_send(scope, part)));
    }
}

fn receive(world: &SimpleCommunicator, process: usize, into: &mut Vec<u8>) {
    let from = world.process_at_rank(rank(process));
    let (first, _) = from.receive_vec::<u8>();
    into.clear();
    let Some((length, start)) = first.split_first_chunk::<LENGTH>() else { return };
    let length = u64::from_le_bytes(*length);
    into.extend_from_slice(start);
    while (into.len() as u64) < length {
        let (part, _) = from.receive_vec::<u8>();
        if part.is_empty() {
            return;
        }
        into.extend_from_slice(&part);
    }
}

fn rank(process: usize) -> i32 {
    i32::try_from(process).expect("MPI has numbered the processes")
}
