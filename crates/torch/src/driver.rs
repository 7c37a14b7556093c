//! The seam for crates that drive the SIP of a rank themselves, such as `phalanx-device`. Programs do not need this module.
//!
//! [`Drive`] gives access to the host of a rank, to the order of its requests and to the storage of its tensors. Requests
//! made through the seam keep the promises REQ-1 to REQ-3.

pub use crate::launch::Caught;
pub use crate::multiprocessing::single::run_on_sip;
pub use crate::multiprocessing::unwind::DropPanic;
pub use crate::request::Access;

use crate::error::Error;

use crate::rank::Rank;
use crate::request::{Handle, RequestSpec, Subject, Touch};
use crate::tensor::Tensor;
use phalanx_sim::machine::{Cause, Host};

/// A request that touches the storage of one tensor.
pub struct Request<'a> {
    /// The kind of request, for reports: `graph`, `launch`, ...
    pub what: &'static str,
    /// The subject of the request, for reports.
    pub subject: String,
    /// The tensor whose storage the request touches.
    pub tensor: &'a Tensor,
    /// The way in which the request touches the storage.
    pub access: Access,
}

/// Direct control of a rank's SIP.
pub trait Drive {
    /// The host side of the rank's SIP: virtual time, launches, transfers.
    fn host(&self) -> &Host;

    /// The end of the critical path that led to the present step of the rank's program.
    fn cause(&self) -> Cause;

    /// Makes `cause` the end of the critical path of the rank's program.
    fn resumed_by(&self, cause: Cause);

    /// The record of a panic in a destructor of the rank's kernels.
    fn drop_panic(&self) -> &DropPanic;

    /// The number of the rank's next request; the number is taken.
    fn next_request(&self) -> u64;

    /// True if `other` is the same rank of the same context.
    fn is(&self, other: &Self) -> bool;

    /// Makes a request; `body` runs when all earlier requests on the storage are over (REQ-1).
    fn request_of<B, F>(&self, request: Request<'_>, body: B) -> Handle
    where
        B: FnOnce(Cause) -> F + 'static,
        F: Future<Output = Result<Cause, Error>> + 'static;
}

impl Drive for Rank {
    fn host(&self) -> &Host {
        Rank::host(self)
    }

    fn cause(&self) -> Cause {
        Rank::cause(self)
    }

    fn resumed_by(&self, cause: Cause) {
        Rank::resumed_by(self, cause);
    }

    fn drop_panic(&self) -> &DropPanic {
        Rank::drop_panic(self)
    }

    fn next_request(&self) -> u64 {
        Rank::next_request(self)
    }

    fn is(&self, other: &Self) -> bool {
        Rank::is(self, other)
    }

    fn request_of<B, F>(&self, request: Request<'_>, body: B) -> Handle
    where
        B: FnOnce(Cause) -> F + 'static,
        F: Future<Output = Result<Cause, Error>> + 'static,
    {
        let Request { what, subject, tensor, access } = request;
        let (subject, touches) =
            (Subject::Words(subject.into()), &[Touch::storage_of(tensor, access)]);
        self.request(RequestSpec { what, subject, touches, after: Vec::new() }, body)
    }
}

/// The allocation that holds the elements of a tensor and of its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// A number that no other allocation of the rank has.
    pub number: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Returns the allocation of a tensor.
pub fn allocation(tensor: &Tensor) -> Allocation {
    let storage = &tensor.storage;
    let bytes = storage.rows * storage.columns * tensor.dtype().size();
    Allocation { number: storage.number, bytes: bytes as u64 }
}
