//! The processes of a run: frames between them, and the end of each.
//!
//! Every process sends every other a stream of frames, one for each call, and at last a frame that says that it has left. A frame is the
//! [version](phalanx_sim::portable::VERSION) of its form, its kind and the number of the call (11 bytes), then what it carries.
//!
//! - **FRM-1 (all or none).** A call returns when a frame of every other process has come.
//! - **FRM-2 (no hang).** A process that waits for one that has left unwinds with [`LeftBehind`]; a process that ends
//!   tells all others why.

use super::barrier::LeftBehind;
use phalanx_sim::portable::{Malformed, Portable, Reader, VERSION, from_bytes, to_bytes};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The way between the processes of a run. One thread of each process uses it.
pub trait Link: Send + Sync {
    /// Returns the number of this process.
    fn process(&self) -> usize;

    /// Returns the number of processes.
    fn processes(&self) -> usize;

    /// Sends a frame to each process for which `out` has one, and receives the next frame of each process that `is_awaited`.
    fn swap(&self, out: &[Option<&[u8]>], is_awaited: &[bool], into: &mut [Vec<u8>]);
}

/// The purpose of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A meeting of shards.
    Meet,
    /// Notes of shards.
    Notes,
    /// The end of a process.
    Left,
}

phalanx_sim::portable!(enum Kind { 0 => Meet, 1 => Notes, 2 => Left });

/// Number of bytes before what a frame carries.
const HEAD: usize = 11;

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Farewell {
    /// Its exit code.
    pub code: u8,
    /// The error in words; empty if there is none.
    pub words: String,
}

phalanx_sim::portable!(struct Farewell { code, words });

/// The processes of a run, as one of them sees them.
pub struct Processes {
    link: Box<dyn Link>,
    state: Mutex<State>,
}

struct State {
    /// Number of calls so far.
    round: u64,
    /// The ends of other processes.
    left: Vec<Option<Farewell>>,
    /// Frames that leave, and frames that come.
    out: Vec<Vec<u8>>,
    into: Vec<Vec<u8>>,
}

impl Processes {
    /// Returns the processes that a link connects.
    pub fn new(link: impl Link + 'static) -> Arc<Self> {
        let count = link.processes();
        let state = State {
            round: 0,
            left: vec![None; count],
            out: vec![Vec::new(); count],
            into: vec![Vec::new(); count],
        };
        Arc::new(Self { link: Box::new(link), state: Mutex::new(state) })
    }

    /// Returns the number of this process.
    pub fn process(&self) -> usize {
        self.link.process()
    }

    /// Returns the number of processes.
    pub fn count(&self) -> usize {
        self.link.processes()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives every process the same bytes, and returns those of all, the own ones included.
    pub fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        let mut all = self.call(Kind::Notes, |_, out| out.extend_from_slice(own));
        all[self.process()] = own.to_vec();
        all
    }

    /// Sends each other process the bytes that `write` writes for it, and returns the bytes that each of them sends.
    pub(super) fn call(
        &self,
        kind: Kind,
        mut write: impl FnMut(usize, &mut Vec<u8>),
    ) -> Vec<Vec<u8>> {
        let own = self.process();
        let mut state = self.state();
        let State { round, left, out, into } = &mut *state;
        for (process, out) in out.iter_mut().enumerate().filter(|(process, _)| *process != own) {
            out.clear();
            head(kind, *round, out);
            write(process, out);
        }
        let others: Vec<bool> = (0..left.len()).map(|process| process != own).collect();
        let frames: Vec<Option<&[u8]>> =
            out.iter().zip(&others).map(|(out, is_other)| is_other.then_some(&**out)).collect();
        self.link.swap(&frames, &others, into);
        let mut bodies = vec![Vec::new(); left.len()];
        for (process, frame) in into.iter_mut().enumerate().filter(|(process, _)| others[*process])
        {
            match read(frame, kind, *round) {
                Ok(None) => bodies[process] = frame.split_off(HEAD),
                Ok(Some(farewell)) => left[process] = Some(farewell),
                Err(error) => panic!("process {process} sent what cannot be read: {error}"),
            }
        }
        *round += 1;
        if left.iter().any(Option::is_some) {
            drop(state);
            std::panic::resume_unwind(Box::new(LeftBehind));
        }
        bodies
    }

    /// Tells all others how this process ends, waits until they end, and returns how each has ended.
    pub fn end(&self, own: Farewell) -> Vec<Farewell> {
        let mut state = self.state();
        let State { round, left, out, into } = &mut *state;
        let number = self.process();
        let mut frame = Vec::new();
        head(Kind::Left, *round, &mut frame);
        own.put(&mut frame);
        let mut frames: Vec<Option<&[u8]>> =
            (0..out.len()).map(|process| (process != number).then_some(&*frame)).collect();
        left[number] = Some(own);
        loop {
            let awaited: Vec<bool> = left.iter().map(Option::is_none).collect();
            self.link.swap(&frames, &awaited, into);
            frames.fill(None);
            let waited = (0..awaited.len()).filter(|process| awaited[*process]);
            for process in waited {
                left[process] = farewell(&into[process]);
            }
            if left.iter().all(Option::is_some) {
                break;
            }
        }
        left.iter().flatten().cloned().collect()
    }
}

fn head(kind: Kind, round: u64, to: &mut Vec<u8>) {
    VERSION.put(to);
    kind.put(to);
    round.put(to);
}

/// Checks the head of a frame; returns the farewell of a process that has left.
fn read(frame: &[u8], kind: Kind, round: u64) -> Result<Option<Farewell>, Malformed> {
    let mut reader = Reader::new(frame);
    if u16::take(&mut reader)? != VERSION {
        return Err(Malformed("it has the form of another version of this program"));
    }
    let (found, number) = (Kind::take(&mut reader)?, u64::take(&mut reader)?);
    if found == Kind::Left {
        return from_bytes(&frame[HEAD..]).map(Some);
    }
    if (found, number) != (kind, round) {
        return Err(Malformed("it is from another call: the processes do not do the same"));
    }
    Ok(None)
}

/// Returns the farewell that a frame is, if it is one or cannot be read at all.
fn farewell(frame: &[u8]) -> Option<Farewell> {
    let mut reader = Reader::new(frame);
    let read = (u16::take(&mut reader), Kind::take(&mut reader), u64::take(&mut reader));
    match read {
        (Ok(VERSION), Ok(Kind::Meet | Kind::Notes), Ok(_)) => None,
        (Ok(VERSION), Ok(Kind::Left), Ok(_)) => {
            Some(from_bytes(&frame[HEAD..]).unwrap_or_else(|error| Farewell {
                code: 1,
                words: format!("its last words cannot be read: {error}"),
            }))
        }
        _ => Some(Farewell { code: 1, words: "it sent what cannot be read".to_owned() }),
    }
}

/// Returns the bytes of a list of parts.
pub(super) fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = to_bytes(&parts.len());
    for part in parts {
        part.len().put(&mut bytes);
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Returns the parts that [`join`] has joined.
pub(super) fn split(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut reader = Reader::new(bytes);
    let count = reader.length()?;
    let mut parts = Vec::with_capacity(count.min(256));
    for _ in 0..count {
        let length = reader.length()?;
        parts.push(reader.bytes(length)?.to_vec());
    }
    reader.finish()?;
    Ok(parts)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{Channels, LeftBehind, ShardLayout, run_over};
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Runs something in so many processes that are threads; returns how each ended, by what each was told.
    fn processes<R: Send>(
        count: usize,
        act: impl Fn(&Arc<Processes>) -> R + Sync,
    ) -> Vec<(Option<R>, Vec<Farewell>)> {
        let act = &act;
        std::thread::scope(|scope| {
            let start = |link| {
                scope.spawn(move || {
                    let all = Processes::new(link);
                    let result = catch_unwind(AssertUnwindSafe(|| act(&all)));
                    let code = match &result {
                        Err(panic) if !panic.is::<LeftBehind>() => 101,
                        _ => 0,
                    };
                    let words = if code == 0 { String::new() } else { "it panicked".to_owned() };
                    (result.ok(), all.end(Farewell { code, words }))
                })
            };
            let all: Vec<_> = Channels::new(count).into_iter().map(start).collect();
            all.into_iter().map(|process| process.join().expect("it ends")).collect()
        })
    }

    #[test]
    fn frm_1_team_3_every_process_gets_the_bytes_of_all_in_order() {
        let ended = processes(4, |all| {
            let own = all.process();
            for round in 0..50_u8 {
                let bytes = all.gather(&[u8::try_from(own).expect("few"), round]);
                let expected: Vec<Vec<u8>> = (0..4).map(|process| vec![process, round]).collect();
                assert_eq!(bytes, expected, "FRM-1");
            }
        });
        assert!(ended.iter().all(|(result, _)| result.is_some()), "FRM-1");
    }

    #[test]
    fn frm_2_a_process_that_panics_or_leaves_early_is_not_waited_for() {
        for (failing, panics) in [(0, true), (2, true), (1, false)] {
            let ended = processes(3, |all| {
                all.gather(&[1]);
                assert!(!panics || all.process() != failing, "process {failing} fails");
                if all.process() != failing {
                    all.gather(&[2]);
                }
            });
            for (process, (result, left)) in ended.iter().enumerate() {
                assert_eq!(result.is_some(), process == failing && !panics, "FRM-2");
                let code = if panics { 101 } else { 0 };
                assert_eq!((left.len(), left[failing].code), (3, code), "FRM-2: all know");
            }
        }
    }

    #[test]
    fn frm_2_a_panic_of_a_thread_ends_all_processes() {
        let ended = processes(2, |all| {
            let layout = ShardLayout { threads: 3, processes: Some(all.clone()) };
            run_over(&layout, |exchange| {
                let exchange = exchange.expect("a shard");
                let notes = || Arc::new(vec![0_u8]) as phalanx_sim::exchange::Notes;
                assert_eq!(exchange.gather(notes()).len(), 6, "TEAM-3");
                assert!(exchange.shard() != 4, "a thread of process 1 fails");
                exchange.gather(notes());
            });
        });
        assert!(ended.iter().all(|(result, _)| result.is_none()), "FRM-2");
        assert_eq!(ended[0].1[1].code, 101, "FRM-2: process 0 is told");
    }

    #[test]
    fn frm_1_frames_of_other_calls_and_versions_are_refused() {
        let mut frame = Vec::new();
        head(Kind::Notes, 3, &mut frame);
        assert_eq!(read(&frame, Kind::Notes, 3), Ok(None));
        assert!(read(&frame, Kind::Meet, 3).is_err() && read(&frame, Kind::Notes, 4).is_err());
        assert!(read(&frame[..5], Kind::Notes, 3).is_err(), "FRM-1");
        frame[0] ^= 0x55;
        let error = read(&frame, Kind::Notes, 3).expect_err("FRM-1").to_string();
        assert_eq!(error, "it has the form of another version of this program");
        assert!(split(&[1, 2, 3]).is_err() && split(&join(&[vec![1], Vec::new()])).is_ok());
    }
}
