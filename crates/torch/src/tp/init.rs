//! Initial weights.
//!
//! Every rank draws the same whole weight (the *master*) from its own generator and keeps its part, so that a layer computes
//! the same over any number of ranks. Without data nothing is drawn.

use crate::error::Error;
use crate::placement::DpPolicy;
use crate::random::Generator;
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::tp::compute::{LayerContext, divide};
use std::fmt;
use std::rc::Rc;

/// The initial elements of a master weight.
#[derive(Clone)]
pub enum Init {
    /// Zeros.
    Zeros,
    /// Normal numbers with mean 0 and this standard deviation.
    Normal(f32),
    /// Uniform numbers between minus and plus this bound.
    Uniform(f32),
    /// A function of an element's index in the row-major master.
    Of(Rc<dyn Fn(usize) -> f32>),
}

impl Default for Init {
    /// Normal with a standard deviation of 0.02.
    fn default() -> Self {
        Self::Normal(0.02)
    }
}

impl fmt::Debug for Init {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("Zeros"),
            Self::Normal(deviation) => write!(f, "Normal({deviation})"),
            Self::Uniform(bound) => write!(f, "Uniform({bound})"),
            Self::Of(_) => f.write_str("Of(..)"),
        }
    }
}

impl Init {
    /// A master weight of `elements` elements.
    fn master(&self, elements: usize, generator: &mut Generator) -> Vec<f32> {
        match self {
            Self::Zeros => vec![0.0; elements],
            Self::Normal(deviation) => {
                (0..elements).map(|_| generator.normal() * deviation).collect()
            }
            Self::Uniform(bound) => {
                (0..elements).map(|_| (generator.uniform() * 2.0 - 1.0) * bound).collect()
            }
            Self::Of(number) => (0..elements).map(|index| number(index)).collect(),
        }
    }
}

/// The cut of a master weight over ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Rows and columns of the master.
    pub(crate) shape: [usize; 2],
    /// The dimension that is cut.
    pub(crate) dim: usize,
    /// Pieces of that dimension on a rank: with more than one, the pieces of ranks are interleaved.
    pub(crate) stride: usize,
}

impl Cut {
    /// The shape of a part.
    pub(crate) fn part(&self, ranks: usize) -> Result<[usize; 2], Error> {
        let mut part = self.shape;
        part[self.dim] = divide(part[self.dim], ranks)?;
        divide(part[self.dim], self.stride)?;
        Ok(part)
    }

    /// The index in the master of element `index` of this rank's part.
    fn source(&self, part: [usize; 2], layer: &LayerContext, index: usize) -> usize {
        let mut at = [index / part[1], index % part[1]];
        let piece = part[self.dim] / self.stride;
        let number = at[self.dim] / piece;
        at[self.dim] = (number * layer.ranks + layer.rank) * piece + at[self.dim] % piece;
        at[0] * self.shape[1] + at[1]
    }
}

/// This rank's part of a weight, resident: loading it takes no simulated time.
pub(crate) fn weight(
    layer: &LayerContext,
    init: &Init,
    seed: Option<u64>,
    cut: Cut,
    policy: DpPolicy,
) -> Result<Tensor, Error> {
    let part = cut.part(layer.ranks)?;

    let placed = layer.cx.placed(policy);
    if let Init::Of(number) = init {
        // A function needs no master.
        return placed.resident(part, layer.dtype, |index| number(cut.source(part, layer, index)));
    }
    let master =
        if layer.cx.has_data() { drawn(&layer.cx, init, seed, cut.shape) } else { Vec::new() };
    placed.resident(part, layer.dtype, |index| master[cut.source(part, layer, index)])
}

fn drawn(cx: &Rank, init: &Init, seed: Option<u64>, [rows, columns]: [usize; 2]) -> Vec<f32> {
    match seed {
        Some(seed) => init.master(rows * columns, &mut Generator::new(seed)),
        None => init.master(rows * columns, &mut cx.generator().borrow_mut()),
    }
}
