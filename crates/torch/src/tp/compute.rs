//! The PEs of a layer, and the placement of its tensors.

use crate::distributed::ProcessGroup;
use crate::error::Error;
use crate::launch::Grid;
use crate::placement::DpPolicy;
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::tp::parallel_state;
use phalanx_sim::DType;

/// The PEs that a layer computes on: the first `pes` of each of the first `cubes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Number of cubes.
    pub cubes: usize,
    /// Number of PEs of each cube.
    pub pes: usize,
}

impl Compute {
    /// Returns the choice of all PEs of a SIP.
    pub fn all(cx: &Rank) -> Self {
        let (cubes, pes) = (cx.machine().cubes.count(), cx.machine().pes.count());
        Self { cubes: cubes as usize, pes: pes as usize }
    }

    /// Returns the choice of one PE.
    pub fn one() -> Self {
        Self { cubes: 1, pes: 1 }
    }

    /// Returns the placement of activations: a copy in every cube.
    pub fn activations(self) -> DpPolicy {
        DpPolicy::replicated(self.cubes)
    }

    /// The placement of weights: some of the output features in every cube.
    pub(crate) fn weights(self) -> DpPolicy {
        DpPolicy::row_wise(self.cubes)
    }

    pub(crate) fn grid(self) -> Grid {
        Grid::Cubes { cubes: self.cubes, pes: self.pes }
    }
}

/// Settings that all parallel layers share.
#[derive(Clone)]
pub struct Config {
    /// The type of weights and activations.
    pub dtype: DType,
    /// True if activations outside of parallel regions are spread over ranks by tokens (dimension 0).
    pub sequence_parallel: bool,
    /// The PEs to compute on; all of the SIP if `None`.
    pub compute: Option<Compute>,
    /// The ranks that share the layer; the tensor parallel group if `None`.
    pub group: Option<ProcessGroup>,
    /// The seed of a layer's weights; `None` for the rank's generator.
    pub seed: Option<u64>,
}

impl Default for Config {
    /// f16 on all PEs, weights from the rank's generator.
    fn default() -> Self {
        Self { dtype: DType::F16, sequence_parallel: false, compute: None, group: None, seed: None }
    }
}

/// The rank, group and PEs of a layer.
#[derive(Clone)]
pub(crate) struct LayerContext {
    pub(crate) cx: Rank,
    pub(crate) group: ProcessGroup,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) compute: Compute,
    pub(crate) dtype: DType,
    pub(crate) sequence_parallel: bool,
}

impl LayerContext {
    pub(crate) fn new(cx: &Rank, config: &Config) -> Result<Self, Error> {
        let group = group_or_tensor(cx, config.group.as_ref())?;
        let ranks = group.size();
        let rank = group.rank().ok_or_else(|| {
            Error::argument(format!("rank {} is not in the layer's group", cx.rank()))
        })?;
        let compute = config.compute.unwrap_or_else(|| Compute::all(cx));
        compute.grid().pes(cx)?;
        Ok(Self {
            cx: cx.clone(),
            group,
            rank,
            ranks,
            compute,
            dtype: config.dtype,
            // A single rank has all tokens.
            sequence_parallel: config.sequence_parallel && ranks > 1,
        })
    }

    /// A tensor for activations.
    pub(crate) fn empty(&self, shape: &[usize]) -> Result<Tensor, Error> {
        self.cx.placed(self.compute.activations()).empty(shape, self.dtype)
    }

    /// Resident activations, all equal to one number.
    pub(crate) fn constant(&self, shape: &[usize], number: f32) -> Result<Tensor, Error> {
        self.cx.placed(self.compute.activations()).resident(shape, self.dtype, |_| number)
    }
}

/// The given group, or the tensor parallel one.
pub(crate) fn group_or_tensor(
    cx: &Rank,
    group: Option<&ProcessGroup>,
) -> Result<ProcessGroup, Error> {
    match group {
        Some(group) => Ok(group.clone()),
        None => parallel_state::get_tensor_model_parallel_group(cx),
    }
}

/// `numerator / denominator`; an error if there is a remainder.
pub(crate) fn divide(numerator: usize, denominator: usize) -> Result<usize, Error> {
    if denominator == 0 || !numerator.is_multiple_of(denominator) {
        return Err(Error::argument(format!("{numerator} is not divisible by {denominator}")));
    }
    Ok(numerator / denominator)
}
