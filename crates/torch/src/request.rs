//! Requests: what a rank asks of its SIP. Each is a process of its own, with a handle, and begins when those before
//! it that touch the same memory are over.
//!
//! - **REQ-1 (program order).** Requests of one rank that touch the same storage, one of them writing, take effect in
//!   the order they were made; others do not wait for each other.
//! - **REQ-2 (driven once).** A request runs once, however often and by whomever it is waited for; waiting for one that
//!   is over returns at once, without giving way to anybody.
//! - **REQ-3 (poison).** A request behind a failed one is not begun; its error holds the first one.

use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Storage;
use phalanx_sim::Time;
use phalanx_sim::executor::Signal;
use phalanx_sim::machine::{Cause, Request};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A request that was made: wait for it, or let it be.
#[derive(Clone)]
pub struct Handle {
    state: Rc<State>,
}

struct State {
    number: u64,
    name: String,
    rank: Rank,
    over: Signal<Result<Cause, Error>>,
    failure: RefCell<Option<Error>>,
    /// Whether anybody has looked at how it ended.
    seen: Cell<bool>,
}

impl Handle {
    /// Its number among the requests of its rank, as in the log.
    pub(crate) fn number(&self) -> u64 {
        self.state.number
    }

    /// What it is, in words.
    pub(crate) fn name(&self) -> &str {
        &self.state.name
    }

    /// The name of its process, as reports show it.
    pub(crate) fn process(&self) -> String {
        format!("rank{} #{} {}", self.state.rank.rank(), self.state.number, self.state.name)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.state.over.is_set()
    }

    /// Waits until it is over (REQ-2).
    pub async fn wait(&self) -> Result<(), Error> {
        let result = self.state.over.wait().await;
        self.state.seen.set(true);
        self.state.rank.resumed_by(result.as_ref().copied().unwrap_or_default());
        result.map(|_| ())
    }

    /// How it ended, for requests behind it.
    async fn outcome(&self) -> Result<Cause, Error> {
        self.state.over.wait().await
    }

    /// The error of a request that failed and that nobody has looked at.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        if self.state.seen.get() { None } else { self.state.failure.borrow().clone() }
    }
}

/// How a request touches a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes, or does both.
    Write,
    /// It writes everything, so that it does not matter how those before it ended.
    Overwrite,
}

/// A request that another waits for, and whether that one can begin if this one fails.
struct Before {
    handle: Handle,
    matters: bool,
}

/// Who touched a storage last.
#[derive(Default)]
pub(crate) struct Order {
    writer: Option<Handle>,
    readers: Vec<Handle>,
}

impl Order {
    /// Whom a new access has to wait for; and `handle` is the one to wait for from now on.
    fn enter(&mut self, access: Access, handle: &Handle) -> Vec<Before> {
        let matters = access != Access::Overwrite;
        let before = |handle: &Handle, matters| Before { handle: handle.clone(), matters };
        let mut all: Vec<Before> =
            self.writer.iter().map(|writer| before(writer, matters)).collect();
        match access {
            Access::Read => {
                // Memory is bounded by what is under way.
                self.readers.retain(|reader| !reader.is_over());
                self.readers.push(handle.clone());
            }
            Access::Write | Access::Overwrite => {
                // That a reader failed changes nothing about what it has read.
                all.extend(self.readers.drain(..).map(|reader| before(&reader, false)));
                self.writer = Some(handle.clone());
            }
        }
        all
    }

    /// Who wrote last.
    pub(crate) fn writer(&self) -> Option<Handle> {
        self.writer.clone()
    }
}

/// What a request is about.
pub(crate) struct RequestSpec<'a> {
    /// `map`, `write`, `launch`, ...
    pub(crate) what: &'static str,
    /// Of what.
    pub(crate) subject: String,
    /// What it touches.
    pub(crate) touches: &'a [(&'a Rc<Storage>, Access)],
    /// What it has to wait for besides.
    pub(crate) after: Vec<Handle>,
}

impl Rank {
    /// Makes a request; `body` runs when everything before it is over (REQ-1).
    pub(crate) fn request<B, F>(&self, asked: RequestSpec<'_>, body: B) -> Handle
    where
        B: FnOnce(Cause) -> F + 'static,
        F: Future<Output = Result<Cause, Error>> + 'static,
    {
        let RequestSpec { what, subject, touches, after } = asked;
        let number = self.next_request();
        let name = format!("{what} {subject}");
        let provider = format!("rank{} #{number} {name}", self.rank());
        let over = Signal::described(
            self.host().sim(),
            format!("the end of `{name}`"),
            vec![provider.clone()],
        );
        let state = State {
            number,
            name,
            rank: self.clone(),
            over,
            failure: RefCell::new(None),
            seen: Cell::new(false),
        };
        let handle = Handle { state: Rc::new(state) };
        let mut before: Vec<Before> =
            after.into_iter().map(|handle| Before { handle, matters: true }).collect();
        for (storage, access) in touches {
            before.extend(storage.order.borrow_mut().enter(*access, &handle));
        }
        before.retain(|other| !Rc::ptr_eq(&other.handle.state, &handle.state));
        let kept: Vec<Rc<Storage>> =
            touches.iter().map(|(storage, _)| (*storage).clone()).collect();
        let (rank, own, asked, cause) =
            (self.clone(), handle.clone(), self.host().sim().now(), self.cause());
        let process = async move {
            let result = begin(&before, &own, cause).await;
            let result = match result {
                Ok(cause) => body(cause).await,
                Err(error) => Err(error),
            };
            drop(kept);
            rank.finished(&own, what, subject, asked, result);
        };
        let process = self.host().sim().spawn(provider, process);
        self.keep(&handle, process);
        handle
    }

    fn finished(
        &self,
        handle: &Handle,
        what: &'static str,
        subject: String,
        asked: Time,
        result: Result<Cause, Error>,
    ) {
        self.host().log(|| Request {
            sip: self.host().sip(),
            handle: handle.number(),
            what,
            subject,
            asked,
            over: self.host().sim().now(),
        });
        *handle.state.failure.borrow_mut() = result.as_ref().err().cloned();
        handle.state.over.set(result);
    }
}

/// Waits for those before; the latest of what led to their ends leads on.
async fn begin(before: &[Before], own: &Handle, mut cause: Cause) -> Result<Cause, Error> {
    for other in before {
        match other.handle.outcome().await {
            Ok(led) => cause = cause.later(led),
            Err(_) if !other.matters => {}
            Err(error) => {
                let cause = Box::new(error.root().clone());
                return Err(Error::After { what: own.name().to_owned(), cause });
            }
        }
    }
    Ok(cause)
}

/// The requests of a rank that are under way.
#[derive(Default)]
pub(crate) struct Requests {
    list: RefCell<Vec<(Handle, phalanx_sim::executor::JoinHandle<()>)>>,
}

impl Requests {
    pub(crate) fn keep(&self, handle: &Handle, process: phalanx_sim::executor::JoinHandle<()>) {
        let mut list = self.list.borrow_mut();
        // Failed ones stay until somebody has looked at them.
        if list.len() == list.capacity() {
            list.retain(|(handle, process)| {
                !process.is_finished() || handle.unseen_failure().is_some()
            });
        }
        list.push((handle.clone(), process));
    }

    /// Those that are under way, or that failed unseen, oldest first.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.list.borrow().iter().map(|(handle, _)| handle.clone()).collect()
    }

    /// Drops those that are under way; whoever asks for them later is told so.
    pub(crate) fn cancel(&self) {
        for (handle, process) in self.list.take() {
            drop(process);
            if !handle.is_over() {
                let text = format!("`{}` was cancelled with its program", handle.name());
                handle.state.over.set(Err(Error::Other(text)));
            }
        }
    }
}
