//! Processes that are threads of one process: they exchange bytes all the same, so that a program can be tried without
//! MPI.

use super::link::Link;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The link of one of several threads that stand for processes.
pub struct Channels {
    process: usize,
    /// By process.
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl Channels {
    /// Returns the links of so many processes.
    pub fn new(processes: usize) -> Vec<Self> {
        let mut links: Vec<Self> = (0..processes)
            .map(|process| Self { process, to: Vec::new(), from: Vec::new() })
            .collect();
        for from in 0..processes {
            for to in 0..processes {
                let (sender, receiver) = channel();
                links[from].to.push(sender);
                links[to].from.push(Mutex::new(receiver));
            }
        }
        links
    }
}

impl Link for Channels {
    fn process(&self) -> usize {
        self.process
    }

    fn processes(&self) -> usize {
        self.to.len()
    }

    fn swap(&self, out: &[Option<&[u8]>], is_awaited: &[bool], into: &mut [Vec<u8>]) {
        for (to, frame) in self.to.iter().zip(out) {
            // Nobody is left to read the last frames of a process that has gone.
            let _ = frame.map(|frame| to.send(frame.to_vec()));
        }
        let awaited = self.from.iter().zip(into).zip(is_awaited).filter(|(_, awaited)| **awaited);
        for ((from, into), _) in awaited {
            let from = from.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *into = from.recv().unwrap_or_default();
        }
    }
}
