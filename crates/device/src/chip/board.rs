//! The board: a chip as a program sees it, with the arguments of its task and the tensors that earlier tasks kept.

use phalanx_runtime::Access;
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::Tensor;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Tensors that outlive the task that made them, by name.
pub(super) type Kept = Rc<RefCell<BTreeMap<String, Tensor>>>;

/// A chip with the arguments of one task on it.
pub struct Board {
    rank: Rank,
    tensors: Vec<(Tensor, Access)>,
    kept: Kept,
}

impl Board {
    pub(super) fn new(rank: Rank, tensors: Vec<(Tensor, Access)>, kept: Kept) -> Self {
        Self { rank, tensors, kept }
    }

    /// Returns the host program of this chip, which makes tensors, launches kernels and opens graphs.
    pub fn rank(&self) -> &Rank {
        &self.rank
    }

    /// Returns argument `index` of the task.
    pub fn tensor(&self, index: usize) -> Result<&Tensor, Error> {
        let count = self.tensors.len();
        let found = self.tensors.get(index).map(|(tensor, _)| tensor);
        found.ok_or_else(|| {
            Error::argument(format!("argument {index} is wanted, {count} were given to the chip"))
        })
    }

    /// All arguments of the task, each with its declared access.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (&Tensor, Access)> {
        self.tensors.iter().map(|(tensor, access)| (tensor, *access))
    }

    /// Keeps a tensor in the chip's memory for later tasks; replaces a tensor kept under that name.
    pub fn keep(&self, name: impl Into<String>, tensor: &Tensor) {
        self.kept.borrow_mut().insert(name.into(), tensor.clone());
    }

    /// Returns the tensor that an earlier task has kept under this name.
    pub fn kept(&self, name: &str) -> Result<Tensor, Error> {
        let kept = self.kept.borrow();
        kept.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = kept.keys().map(String::as_str).collect();
            let has = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            Error::argument(format!("no task has kept `{name}` on this chip; it has {has}"))
        })
    }

    /// Frees a kept tensor. True if a tensor was kept under this name.
    pub fn forget(&self, name: &str) -> bool {
        self.kept.borrow_mut().remove(name).is_some()
    }
}
