//! Tensors: shape, type and placement of numbers on a rank's SIP.
//!
//! A tensor is a view of a storage; making one never waits. Only a read returns its numbers, and a read is an await.
//!
//! - **TEN-1 (precise reads).** A read waits for the writers of the tensor's bytes, and for no other request; it moves the
//!   bytes of the tensor, and no others.
//! - **TEN-2 (replicas).** Replicas that differ on a read are an error that names them.
//! - **TEN-3 (bounded).** A storage is freed when the last tensor and the last request that use it are gone.

mod copy;
mod create;
mod read;
mod resident;
mod view;

pub use create::Placed;

use crate::error::{Error, describe};
use crate::placement::{DpPolicy, Shard};
use crate::rank::Rank;
use crate::request::{Handle, Order};
use phalanx_sim::kernel::{Shape, View};
use phalanx_sim::machine::Host;
use phalanx_sim::memory::Region;
use phalanx_sim::value::DType;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The memory of a tensor, in shards.
pub(crate) struct Storage {
    pub(crate) number: u64,
    pub(crate) shards: Vec<Shard>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) policy: DpPolicy,
    pub(crate) order: RefCell<Order>,
    host: Host,
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.shards.iter().for_each(|shard| self.host.free(&shard.region));
    }
}

/// A tensor on a rank's SIP.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) rank: Rank,
    pub(crate) storage: Rc<Storage>,
    dtype: DType,
    shape: Rc<[usize]>,
    strides: Rc<[usize]>,
    offset: usize,
}

impl Tensor {
    /// Returns the type of its elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the distance of neighbours along each dimension, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// The placement of its storage.
    pub(crate) fn policy(&self) -> DpPolicy {
        self.storage.policy
    }

    /// Returns the shards of its storage.
    pub fn shards(&self) -> &[Shard] {
        &self.storage.shards
    }

    /// Returns the rank it belongs to.
    pub fn owner(&self) -> &Rank {
        &self.rank
    }

    /// True if its elements are adjacent, in order.
    pub fn is_contiguous(&self) -> bool {
        is_dense(&self.shape, &self.strides) || self.numel() == 0
    }

    /// True if it is all of its storage, in order.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_contiguous()
            && self.offset == 0
            && self.numel() == self.storage.rows * self.storage.columns
    }

    /// True if the other one is the same view of the same storage.
    pub fn is(&self, other: &Self) -> bool {
        let same_view = self.offset == other.offset && self.dtype == other.dtype;
        let same_shape = self.shape == other.shape && self.strides == other.strides;
        Rc::ptr_eq(&self.storage, &other.storage) && same_view && same_shape
    }

    /// Waits for the last requests that write it.
    pub async fn ready(&self) -> Result<(), Error> {
        let writers: Vec<Handle> = self.storage.order.borrow().writers(self);
        for writer in writers {
            writer.wait().await?;
        }
        Ok(())
    }

    /// Returns type and shape: `f16[2, 3]`.
    pub fn describe(&self) -> String {
        describe(self.dtype, &self.shape)
    }

    /// Its description for later.
    pub(crate) fn words(&self) -> TensorWords {
        let (number, rank) = (self.storage.number, self.rank.rank());
        TensorWords { number, dtype: self.dtype, shape: self.shape.clone(), rank }
    }

    /// A view of its elements for a kernel; its storage must not be cut into different shards.
    pub(crate) fn view(&self) -> Result<View, Error> {
        let region = self.whole_region("view")?;
        if self.shape.len() > 4 {
            return Err(Error::argument(format!(
                "{} has {} dimensions; a kernel's view has at most four: reshape it",
                self.describe(),
                self.shape.len()
            )));
        }
        let (shape, strides) = (Shape::from(&*self.shape), Shape::from(&*self.strides));
        Ok(View::strided(&region, self.offset, shape, strides))
    }

    /// The region that holds all elements of its storage: the first copy if there are several.
    pub(crate) fn region(&self) -> Result<Region, Error> {
        self.whole_region("region")
    }

    fn whole_region(&self, what: &str) -> Result<Region, Error> {
        let first = &self.storage.shards[0];
        if self.storage.shards.iter().all(|shard| shard.is_copy_of(first)) {
            return Ok(first.region);
        }
        Err(Error::argument(format!(
            "{what}: {} is cut into {} shards; use `shards`, or place it with `DpPolicy::default()`",
            self.describe(),
            self.storage.shards.len()
        )))
    }

    /// Returns the first element of its storage that it views.
    pub fn storage_offset(&self) -> usize {
        self.offset
    }
}

impl fmt::Debug for Tensor {
    /// Writes number, type, shape and rank; [`Tensor::show`] reads the elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.words(), f)
    }
}

/// The description of a tensor, which keeps no memory of the SIP.
pub(crate) struct TensorWords {
    number: u64,
    dtype: DType,
    shape: Rc<[usize]>,
    rank: usize,
}

impl fmt::Display for TensorWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, dtype, shape, rank } = self;
        write!(f, "tensor #{number} {} of rank {rank}", describe(*dtype, shape))
    }
}

/// True if elements with these strides are adjacent, in order.
fn is_dense(shape: &[usize], strides: &[usize]) -> bool {
    let mut next = 1_usize;
    shape.iter().zip(strides).rev().all(|(dim, stride)| {
        let expected = next;
        next = next.saturating_mul((*dim).max(1));
        *stride == expected
    })
}

/// The strides of elements that are adjacent, in order.
pub(crate) fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}
