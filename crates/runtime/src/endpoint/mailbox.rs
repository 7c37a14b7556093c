//! A worker behind a mailbox, whether it is a thread or a process.

use super::WorkerEvent;
use crate::message::{Ended, Sent};
use crate::serve::RECALL;
use crate::shm::mailbox::Evidence;
use crate::shm::{ParentSide, PushError};
use std::collections::VecDeque;

/// The parent's end of a mailbox.
pub(crate) struct MailboxClient {
    pub(crate) side: ParentSide,
    bytes: Vec<u8>,
    /// Messages that the ring had no room for.
    unsent: VecDeque<Vec<u8>>,
}

impl MailboxClient {
    pub(crate) fn new(side: ParentSide) -> Self {
        Self { side, bytes: Vec::new(), unsent: VecDeque::new() }
    }

    pub(crate) fn send(
        &mut self,
        dispatch: u64,
        behind: &[u64],
        message: &[u8],
    ) -> Result<(), Box<str>> {
        if behind.is_empty() {
            return self.send_with(bytemuck::bytes_of(&Sent::plain_head(dispatch)), message);
        }
        self.send_with(bytemuck::cast_slice(&Sent::head(dispatch, behind)), message)
    }

    #[inline]
    fn send_with(&mut self, head: &[u8], message: &[u8]) -> Result<(), Box<str>> {
        if self.unsent.is_empty() && self.push(head, message)? {
            return Ok(());
        }
        self.unsent.push_back([head, message].concat());
        Ok(())
    }

    fn push(&mut self, head: &[u8], message: &[u8]) -> Result<bool, Box<str>> {
        match self.side.tasks.push(head, message) {
            Ok(()) => Ok(true),
            Err(PushError::Full { .. }) => Ok(false),
            Err(error) => Err(format!("the task cannot be sent: {error}").into()),
        }
    }

    /// Sends what there was no room for.
    fn catch_up(&mut self) -> Result<(), Box<str>> {
        while let Some(message) = self.unsent.pop_front() {
            if !self.push(&[], &message)? {
                self.unsent.push_front(message);
                break;
            }
        }
        self.flush();
        Ok(())
    }

    pub(crate) fn recall(&mut self, dispatch: u64) {
        // A recall that cannot be sent is not one: the task ends as it ends.
        let _ = self.side.controls.push(&[RECALL], &dispatch.to_le_bytes());
        self.side.controls.publish();
        self.side.ring();
    }

    pub(crate) fn flush(&mut self) {
        if self.side.tasks.publish() {
            self.side.ring();
        }
    }

    /// Adds what the worker has said; an error if it is none.
    pub(crate) fn poll(&mut self, events: &mut Vec<WorkerEvent>) -> Result<(), Box<str>> {
        if self.side.tasks.is_pending() || !self.unsent.is_empty() {
            self.catch_up()?;
        }
        if self.side.events.is_empty() {
            return Ok(());
        }
        let mut result = Ok(());
        loop {
            match self.side.events.next(&mut self.bytes) {
                Ok(true) => {}
                Ok(false) => break,
                Err(corrupt) => {
                    result = Err(format!("its mailbox is damaged: {corrupt}").into());
                    break;
                }
            }
            match Ended::decode(&self.bytes) {
                Ok((ended, words)) => events.push(WorkerEvent::Ended(ended, text(words))),
                Err(bad) => {
                    result = Err(format!("it said what is no message: {bad}").into());
                    break;
                }
            }
        }
        if self.side.events.release() {
            self.side.ring();
        }
        result
    }

    pub(crate) fn evidence(&self) -> Evidence {
        self.side.evidence()
    }

    pub(crate) fn stop(&mut self) {
        self.flush();
        self.side.shut_down();
    }
}

fn text(words: &[u8]) -> Option<Box<str>> {
    (!words.is_empty()).then(|| String::from_utf8_lossy(words).into())
}
