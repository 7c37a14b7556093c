//! Leases: a tensor that a task names belongs to the graph until the graph is over.
//!
//! A lease is a request of the rank (REQ-1): it begins when all earlier requests on the tensor are over, and later requests
//! wait for its end.

use super::drive::Graph;
use phalanx_engine::{BufferId, Grant, Identity};
use phalanx_sim::executor::Signal;
use phalanx_sim::machine::Cause;
use phalanx_torch::Error;
use phalanx_torch::Handle;
use phalanx_torch::Tensor;
use phalanx_torch::driver::{Access, Allocation, Drive, Request, allocation};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// The lease of a tensor's storage.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) buffer: BufferId,
    handle: Handle,
    /// Set when all earlier requests are over.
    begun: Signal<Cause>,
    /// Set when the graph is over.
    ended: Signal<Result<Cause, Error>>,
}

impl Graph {
    /// Leases a tensor's storage; waits for earlier requests on it.
    pub(super) async fn lease(self: &Rc<Self>, tensor: &Tensor) -> Result<BufferId, Error> {
        let lease = self.find_lease(tensor)?;
        if !lease.begun.is_set()
            && let Some(cause) = lease.begin().await?
        {
            self.rank.resumed_by(cause);
        }
        Ok(lease.buffer)
    }

    fn find_lease(self: &Rc<Self>, tensor: &Tensor) -> Result<Lease, Error> {
        let Allocation { number, bytes } = allocation(tensor);
        if let Some(lease) = self.state.borrow().leases.get(&number) {
            return Ok(lease.clone());
        }
        let identity = Identity { owner: self.rank.rank() as u64, number, generation: 1 };
        let registered = self.state.borrow_mut().engine.register(identity, bytes, Grant::ReadWrite);
        let buffer = registered
            .map_err(|error| Error::argument(format!("graph `{}`: {error}", self.name)))?;
        let sim = self.rank.host().sim();
        let begun = Signal::described(sim, "the beginning of a lease", Vec::new());
        let rank = format!("rank{}", self.rank.rank());
        let what = format!("the end of graph `{}`, which `finish` waits for", self.name);
        let ended = Signal::described(sim, what, vec![rank]);
        let request = Request {
            what: "graph",
            subject: format!("{}: {}", self.name, tensor.describe()),
            tensor,
            access: Access::Write,
        };
        let handle = self.rank.request_of(request, {
            let (begun, ended) = (begun.clone(), ended.clone());
            move |cause| async move {
                begun.set(cause);
                ended.wait().await
            }
        });
        let lease = Lease { buffer, handle, begun, ended };
        self.state.borrow_mut().leases.insert(number, lease.clone());
        Ok(lease)
    }
}

impl Lease {
    /// Waits until earlier requests are over, and returns the cause of that; fails if one of them failed.
    async fn begin(&self) -> Result<Option<Cause>, Error> {
        let (mut begun, mut failed) = (pin!(self.begun.wait()), pin!(self.handle.wait()));
        poll_fn(move |context| {
            if let Poll::Ready(cause) = begun.as_mut().poll(context) {
                return Poll::Ready(Ok(Some(cause)));
            }
            failed.as_mut().poll(context).map_ok(|()| None)
        })
        .await
    }

    /// Ends the lease: later requests on the tensor go on, or fail with the error of the graph.
    pub(super) fn end(&self, result: Result<Cause, Error>) {
        if !self.ended.is_set() {
            self.ended.set(result);
        }
    }

    /// Waits until the request has ended and marks its result as seen.
    pub(super) async fn settle(&self) {
        // The graph reports its failure itself.
        drop(self.handle.wait().await);
    }
}
