//! Requests of a rank to its SIP. Each request is a process with a handle; it begins when earlier requests on the same memory
//! are over.
//!
//! - **REQ-1 (program order).** Requests of one rank on a common byte, one of them writing, take effect in the order in which
//!   they were made; other requests do not wait for each other, also if they share a storage.
//! - **REQ-2 (driven once).** A request runs once, for any number of waits; waiting for a finished request returns at once,
//!   without running other processes.
//! - **REQ-3 (poison).** A request that depends on a failed one is not begun; its error holds the first failure.

mod order;

pub(crate) use order::{Order, Touch};

use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::{Storage, TensorWords};
use phalanx_sim::Time;
use phalanx_sim::executor::{JoinHandle, Name, Signal, Wait};
use phalanx_sim::machine::{Cause, Request};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// The handle of a request.
#[derive(Clone)]
pub struct Handle {
    state: Rc<State>,
}

struct State {
    number: u64,
    title: Rc<Title>,
    rank: Rank,
    over: Signal<Result<Cause, Error>>,
    failure: RefCell<Option<Error>>,
    /// True if the program has looked at the result.
    seen: Cell<bool>,
}

impl Handle {
    /// Its number among the requests of its rank, as in the log.
    pub(crate) fn number(&self) -> u64 {
        self.state.number
    }

    /// Its description.
    pub(crate) fn name(&self) -> String {
        self.state.title.to_string()
    }

    /// The name of its process in reports.
    pub(crate) fn process(&self) -> String {
        process_name(self.state.rank.rank(), self.state.number, &self.state.title)
    }

    /// Its rank.
    pub(crate) fn rank(&self) -> &Rank {
        &self.state.rank
    }

    /// True if it is over.
    pub fn is_over(&self) -> bool {
        self.state.over.is_set()
    }

    /// True if it is over. Otherwise other processes run first, so that a loop that looks again and again ends.
    pub async fn is_completed(&self) -> bool {
        if self.is_over() {
            return true;
        }
        let describe = || Wait {
            what: format!("`{}` to be completed, looking again and again", self.name()),
            providers: vec![self.process()],
        };
        self.rank().host().sim().pause(describe).await;
        self.is_over()
    }

    /// Waits until it is over (REQ-2).
    pub async fn wait(&self) -> Result<(), Error> {
        let result = self.state.over.wait().await;
        self.state.seen.set(true);
        self.state.rank.resumed_by(result.as_ref().copied().unwrap_or_default());
        result.map(|_| ())
    }

    /// Its result, for dependent requests; does not mark the result as seen.
    async fn outcome(&self) -> Result<Cause, Error> {
        self.state.over.wait().await
    }

    /// Ends a request that will not run: waiting for it returns an error.
    fn give_up(&self) {
        let error = Error::Other(format!("`{}` was cancelled with its program", self.name()));
        *self.state.failure.borrow_mut() = Some(error.clone());
        self.state.seen.set(true);
        self.state.over.set(Err(error));
    }

    /// True if it is over, without an error.
    fn has_succeeded(&self) -> bool {
        self.is_over() && self.state.failure.borrow().is_none()
    }

    /// Its error, if the program has not looked at the result.
    pub(crate) fn unseen_failure(&self) -> Option<Error> {
        if self.state.seen.get() { None } else { self.state.failure.borrow().clone() }
    }
}

/// Returns the name of a request's process.
fn process_name(rank: usize, number: u64, title: &Title) -> String {
    format!("rank{rank} #{number} {title}")
}

/// The access of a request to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A read.
    Read,
    /// A write, or a read and a write.
    Write,
    /// A write of all elements: the results of earlier requests do not matter.
    Overwrite,
}

/// A dependency of a request; if it `matters`, its failure poisons the request.
struct Before {
    handle: Handle,
    matters: bool,
}

/// The subject of a request, whose words are put together when they are asked for.
pub(crate) enum Subject {
    /// A tensor.
    Tensor(TensorWords),
    /// Anything else, in words.
    Words(Rc<str>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(words) => fmt::Display::fmt(words, f),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// The kind of a request and its subject.
struct Title {
    what: &'static str,
    subject: Subject,
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.subject)
    }
}

/// The kind of request that makes memory known to the SIP.
pub(crate) const MAP: &str = "map";

/// The specification of a request.
pub(crate) struct RequestSpec<'a> {
    /// The kind: `map`, `write`, `launch`, ...
    pub(crate) what: &'static str,
    /// The subject.
    pub(crate) subject: Subject,
    /// The bytes it accesses.
    pub(crate) touches: &'a [Touch<'a>],
    /// Further dependencies.
    pub(crate) after: Vec<Handle>,
}

impl Rank {
    /// Makes a request; `body` runs when its dependencies are over (REQ-1).
    pub(crate) fn request<B, F>(&self, asked: RequestSpec<'_>, body: B) -> Handle
    where
        B: FnOnce(Cause) -> F + 'static,
        F: Future<Output = Result<Cause, Error>> + 'static,
    {
        let RequestSpec { what, subject, touches, after } = asked;
        let number = self.next_request();
        let title = Rc::new(Title { what, subject });
        let (rank, known) = (self.rank(), title.clone());
        let over = Signal::explained(self.host().sim(), move || Wait {
            what: format!("the end of `{known}`"),
            providers: vec![process_name(rank, number, &known)],
        });
        let state = State {
            number,
            title: title.clone(),
            rank: self.clone(),
            over,
            failure: RefCell::new(None),
            seen: Cell::new(false),
        };
        let handle = Handle { state: Rc::new(state) };
        if !self.can_ask() {
            self.refuse(&handle);
            return handle;
        }
        let mut before: Vec<Before> =
            after.into_iter().map(|handle| Before { handle, matters: true }).collect();
        for touch in touches {
            before.extend(touch.storage.order.borrow_mut().enter(touch, &handle));
        }
        if what != MAP {
            before.extend(self.follow_on_stream(&handle));
        }
        before.retain(|other| !Rc::ptr_eq(&other.handle.state, &handle.state));
        let kept: Vec<Rc<Storage>> = touches.iter().map(|touch| touch.storage.clone()).collect();
        let (rank, own, asked, cause) =
            (self.clone(), handle.clone(), self.host().sim().now(), self.cause());
        let ranges = if what == MAP { Vec::new() } else { self.open_ranges() };
        let process = async move {
            let result = begin(&before, &own, cause).await;
            let begun = rank.now();
            let result = match result {
                Ok(cause) => body(cause).await,
                Err(error) => Err(error),
            };
            drop(kept);
            if let Ok(cause) = &result {
                for range in &ranges {
                    range.cover(begun, *cause);
                }
            }
            drop(ranges);
            rank.finished(&own, asked, result);
        };
        let number_of_rank = self.rank();
        let name = Name::later(move || process_name(number_of_rank, number, &title));
        let process = self.host().spawn(name, process);
        self.keep(&handle, Some(process));
        handle
    }

    /// Makes a request the last one of the stream that is entered; returns those that it waits for (STR-1).
    fn follow_on_stream(&self, handle: &Handle) -> Vec<Before> {
        let stream = self.streams().borrow().last().cloned();
        let Some(stream) = stream else { return Vec::new() };
        let before = stream.last();
        stream.follow(handle);
        // Order only: the failure of one request does not poison the next (STR-3).
        before.into_iter().map(|handle| Before { handle, matters: false }).collect()
    }

    /// True if requests can be made: the rank is not being cancelled, and its own program asks.
    pub(crate) fn can_ask(&self) -> bool {
        !self.is_closed() && self.host().is_here()
    }

    /// Ends a request that cannot be made.
    fn refuse(&self, handle: &Handle) {
        if self.is_closed() {
            return handle.give_up();
        }
        let error = Error::argument(format!(
            "`{}` of rank {} was asked for by the program of rank {}; a rank uses its own tensors only",
            handle.name(),
            self.rank(),
            self.host().sim().partition().0
        ));
        *handle.state.failure.borrow_mut() = Some(error.clone());
        handle.state.over.set(Err(error));
        self.keep(handle, None);
    }

    fn finished(&self, handle: &Handle, asked: Time, result: Result<Cause, Error>) {
        let Title { what, subject } = &*handle.state.title;
        self.host().log(|| Request {
            sip: self.host().sip(),
            handle: handle.number(),
            what,
            subject: subject.to_string(),
            asked,
            over: self.host().sim().now(),
        });
        *handle.state.failure.borrow_mut() = result.as_ref().err().cloned();
        handle.state.over.set(result);
    }
}

/// Waits for the dependencies; returns the latest of their causes.
async fn begin(before: &[Before], own: &Handle, mut cause: Cause) -> Result<Cause, Error> {
    for other in before {
        match other.handle.outcome().await {
            Ok(led) => cause = cause.later(led),
            Err(_) if !other.matters => {}
            Err(error) => {
                let cause = Box::new(error.root().clone());
                return Err(Error::After { what: own.name(), cause });
            }
        }
    }
    Ok(cause)
}

/// The open requests of a rank.
#[derive(Default)]
pub(crate) struct Requests {
    list: RefCell<Vec<(Handle, Option<JoinHandle<()>>)>>,
}

impl Requests {
    pub(crate) fn keep(&self, handle: &Handle, process: Option<JoinHandle<()>>) {
        let mut list = self.list.borrow_mut();
        // A failed request stays until the program has looked at it.
        if list.len() == list.capacity() {
            list.retain(|(handle, process)| {
                let is_open = process.as_ref().is_some_and(|process| !process.is_finished());
                is_open || handle.unseen_failure().is_some()
            });
        }
        list.push((handle.clone(), process));
    }

    /// Open requests and unseen failures, oldest first.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.list.borrow().iter().map(|(handle, _)| handle.clone()).collect()
    }

    /// Drops the open requests; a later wait for one of them returns an error.
    pub(crate) fn cancel(&self) {
        for (handle, process) in self.list.take() {
            drop(process);
            if !handle.is_over() {
                handle.give_up();
            }
        }
    }
}
