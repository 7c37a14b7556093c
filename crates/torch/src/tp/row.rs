//! `RowParallelLinear`: every rank has some of the input features, and the ranks' products are summed.

use super::column::dense;
use super::compute::{Config, LayerContext};
use super::init::{Cut, Init, weight};
use super::kernels::linear::linear;
use super::kernels::rows::{Activation, epilogue};
use super::mappings;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// The options of a [`RowParallelLinear`].
#[derive(Clone)]
pub struct RowOptions {
    /// True for a bias, initially 0.
    pub bias: bool,
    /// True if the input is already spread over ranks.
    pub input_is_parallel: bool,
    /// True if the bias is returned instead of added.
    pub skip_bias_add: bool,
    /// Pieces of the master weight on a rank, interleaved with those of other ranks.
    pub stride: usize,
    /// Initial elements of the master weight.
    pub init: Init,
    /// Settings that all layers share.
    pub config: Config,
}

impl RowOptions {
    /// Options with the three settings that have no default.
    pub fn new(bias: bool, input_is_parallel: bool, skip_bias_add: bool) -> Self {
        Self {
            bias,
            input_is_parallel,
            skip_bias_add,
            stride: 1,
            init: Init::default(),
            config: Config::default(),
        }
    }
}

/// `y = x W^T + b`, with the columns of `W` (`[out, in]`) spread over ranks; every rank has all of `b`.
pub struct RowParallelLinear {
    layer: LayerContext,
    part: [usize; 2],
    weight: Tensor,
    bias: Option<Tensor>,
    options: RowOptions,
}

impl RowParallelLinear {
    /// Makes a layer from `input_size` to `output_size` features.
    pub fn new(
        cx: &Rank,
        input_size: usize,
        output_size: usize,
        options: &RowOptions,
    ) -> Result<Self, Error> {
        if options.config.sequence_parallel && !options.input_is_parallel {
            return Err(Error::argument(
                "To enable `sequence_parallel`, `input_is_parallel` must be `True`",
            ));
        }
        let layer = LayerContext::new(cx, &options.config)?;
        let cut = Cut { shape: [output_size, input_size], dim: 1, stride: options.stride };
        let part = cut.part(layer.ranks)?;
        let policy = layer.compute.weights();
        let weight = weight(&layer, &options.init, options.config.seed, cut, policy)?;
        let bias = if options.bias { Some(layer.constant(&[output_size], 0.0)?) } else { None };
        Ok(Self { layer, part, weight, bias, options: options.clone() })
    }

    /// This rank's part of the weight, `[out, in / ranks]`.
    pub fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// Returns the bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// Computes the output; also returns the bias if `skip_bias_add` is set. `x` is this rank's `[.., in / ranks]`, or all of
    /// `[.., in]` unless `input_is_parallel`. With `sequence_parallel` every rank gets its share of dimension 0.
    pub fn forward(&self, x: &Tensor) -> Result<(Tensor, Option<Tensor>), Error> {
        let LayerContext { cx, group, compute, .. } = &self.layer;
        let x = if self.options.input_is_parallel {
            x.clone()
        } else {
            mappings::scatter_to_tensor_model_parallel_region(cx, x, Some(group))?
        };
        let x = dense(&self.layer, &x, self.part[1])?;
        let mut shape = x.shape().to_vec();
        shape[x.shape().len() - 1] = self.part[0];
        let y = self.layer.empty(&shape)?;
        linear(&y, &x, &self.weight, *compute)?;
        let y = if self.layer.sequence_parallel {
            mappings::reduce_scatter_to_sequence_parallel_region(cx, &y, Some(group))?
        } else {
            mappings::reduce_from_tensor_model_parallel_region(cx, &y, Some(group))?
        };
        let skip = self.options.skip_bias_add;
        epilogue(&y, self.bias.as_ref().filter(|_| !skip), Activation::None, *compute)?;
        Ok((y, self.bias.clone().filter(|_| skip)))
    }
}
