//! `VocabParallelEmbedding`: every rank holds the rows of some ids.

use super::compute::{Config, LayerContext, divide};
use super::init::{Cut, Init, weight};
use super::kernels::embedding::lookup;
use super::mappings;
use crate::error::Error;
use crate::placement::DpPolicy;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::DType;

/// The options of a [`VocabParallelEmbedding`].
#[derive(Clone, Default)]
pub struct EmbeddingOptions {
    /// True if every rank gets only its share of the tokens: `[s / ranks, b, h]`.
    pub reduce_scatter_embeddings: bool,
    /// Initial elements of the master weight.
    pub init: Init,
    /// Settings that all layers share.
    pub config: Config,
}

/// A table with a row for each id, its rows spread over ranks.
pub struct VocabParallelEmbedding {
    layer: LayerContext,
    weight: Tensor,
    numbers: usize,
    options: EmbeddingOptions,
}

impl VocabParallelEmbedding {
    /// Makes a table with rows of `embedding_dim` elements for the ids `0..num_embeddings`.
    pub fn new(
        cx: &Rank,
        num_embeddings: usize,
        embedding_dim: usize,
        options: &EmbeddingOptions,
    ) -> Result<Self, Error> {
        let layer = LayerContext::new(cx, &options.config)?;
        divide(num_embeddings, layer.ranks)?;
        let cut = Cut { shape: [num_embeddings, embedding_dim], dim: 0, stride: 1 };
        // In one cube, so that the time of a lookup does not depend on the id.
        let policy = DpPolicy::default();
        let weight = weight(&layer, &options.init, options.config.seed, cut, policy)?;
        Ok(Self { layer, weight, numbers: num_embeddings, options: options.clone() })
    }

    /// This rank's rows.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Looks up the rows of `ids` (`[b, s]`, i32): `[b, s, h]`, or this rank's share of `[s, b, h]` with
    /// `reduce_scatter_embeddings`.
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor, Error> {
        if ids.dtype() != DType::I32 {
            return Err(Error::argument(format!(
                "embedding: numbers must be i32, and these are {}",
                ids.describe()
            )));
        }
        let LayerContext { cx, group, rank, compute, .. } = &self.layer;
        let [rows, width] = [self.weight.shape()[0], self.weight.shape()[1]];
        let mut shape = ids.shape().to_vec();
        shape.push(width);
        let out = self.layer.empty(&shape)?;
        let own = rank * rows..(rank + 1) * rows;
        lookup(&out, &ids.contiguous()?, &self.weight, own, self.numbers, *compute)?;
        if !self.options.reduce_scatter_embeddings {
            return mappings::reduce_from_tensor_model_parallel_region(cx, &out, Some(group));
        }
        if shape.len() != 3 {
            return Err(Error::argument(format!(
                "embedding: numbers {} must be [b, s] to be spread over ranks",
                ids.describe()
            )));
        }
        let turned = out.transpose(0, 1)?;
        let dense = self.layer.empty(turned.shape())?;
        dense.copy_(&turned)?;
        mappings::reduce_scatter_to_sequence_parallel_region(cx, &dense, Some(group))
    }
}
