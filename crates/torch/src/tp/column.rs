//! `ColumnParallelLinear`: every rank computes some of the output features.

use super::compute::{Config, LayerContext};
use super::init::{Cut, Init, weight};
use super::kernels::linear::linear;
use super::kernels::rows::{Activation, epilogue};
use super::mappings;
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// The options of a [`ColumnParallelLinear`].
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the options that users of Megatron know")]
pub struct ColumnOptions {
    /// True for a bias, initially 0.
    pub bias: bool,
    /// True if every rank gets all output features.
    pub gather_output: bool,
    /// True if the bias is returned instead of added.
    pub skip_bias_add: bool,
    /// True if each call gives the weight.
    pub skip_weight_param_allocation: bool,
    /// Pieces of the master weight on a rank, interleaved with those of other ranks.
    pub stride: usize,
    /// Initial elements of the master weight.
    pub init: Init,
    /// Settings that all layers share.
    pub config: Config,
}

impl Default for ColumnOptions {
    /// With a bias, which is added; the output stays spread.
    fn default() -> Self {
        Self {
            bias: true,
            gather_output: false,
            skip_bias_add: false,
            skip_weight_param_allocation: false,
            stride: 1,
            init: Init::default(),
            config: Config::default(),
        }
    }
}

/// `y = x W^T + b`, with the rows of `W` (`[out, in]`) and `b` spread over ranks.
pub struct ColumnParallelLinear {
    layer: LayerContext,
    input_size: usize,
    part: [usize; 2],
    weight: Option<Tensor>,
    bias: Option<Tensor>,
    options: ColumnOptions,
}

impl ColumnParallelLinear {
    /// Makes a layer from `input_size` to `output_size` features.
    pub fn new(
        cx: &Rank,
        input_size: usize,
        output_size: usize,
        options: &ColumnOptions,
    ) -> Result<Self, Error> {
        let layer = LayerContext::new(cx, &options.config)?;
        let cut = Cut { shape: [output_size, input_size], dim: 0, stride: options.stride };
        let part = cut.part(layer.ranks)?;
        let policy = layer.compute.weights();
        let weight = if options.skip_weight_param_allocation {
            None
        } else {
            Some(weight(&layer, &options.init, options.config.seed, cut, policy)?)
        };
        let bias = if options.bias { Some(layer.constant(&[part[0]], 0.0)?) } else { None };
        Ok(Self { layer, input_size, part, weight, bias, options: options.clone() })
    }

    /// This rank's part of the weight, `[out / ranks, in]`.
    pub fn weight(&self) -> Option<&Tensor> {
        self.weight.as_ref()
    }

    /// This rank's part of the bias.
    pub fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }

    /// Computes the output; also returns the bias if `skip_bias_add` is set. `x` is `[.., in]`, the same on all ranks, or with
    /// `sequence_parallel` a share of its dimension 0.
    pub fn forward(&self, x: &Tensor) -> Result<(Tensor, Option<Tensor>), Error> {
        self.forward_with(x, None, None)
    }

    /// Does the same with another weight, or another `gather_output`.
    pub fn forward_with(
        &self,
        x: &Tensor,
        weight: Option<&Tensor>,
        gather_output: Option<bool>,
    ) -> Result<(Tensor, Option<Tensor>), Error> {
        let weight = self.weight_or(weight)?;
        let LayerContext { cx, group, compute, .. } = &self.layer;
        let x = if self.layer.sequence_parallel {
            mappings::gather_from_sequence_parallel_region(cx, x, Some(group))?
        } else {
            mappings::copy_to_tensor_model_parallel_region(cx, x, Some(group))?
        };
        let x = dense(&self.layer, &x, self.input_size)?;
        let mut shape = x.shape().to_vec();
        shape[x.shape().len() - 1] = self.part[0];
        let y = self.layer.empty(&shape)?;
        linear(&y, &x, weight, *compute)?;
        let skip = self.options.skip_bias_add;
        epilogue(&y, self.bias.as_ref().filter(|_| !skip), Activation::None, *compute)?;
        let y = if gather_output.unwrap_or(self.options.gather_output) {
            mappings::gather_from_tensor_model_parallel_region(cx, &y, Some(group))?
        } else {
            y
        };
        Ok((y, self.bias.clone().filter(|_| skip)))
    }

    fn weight_or<'a>(&'a self, given: Option<&'a Tensor>) -> Result<&'a Tensor, Error> {
        let Some(given) = given else {
            return self.weight.as_ref().ok_or_else(|| {
                Error::argument(
                    "weight was not supplied to ColumnParallelLinear forward pass and skip_weight_param_allocation is True.",
                )
            });
        };
        if given.shape() != self.part {
            let [rows, columns] = self.part;
            let given: Vec<String> = given.shape().iter().map(ToString::to_string).collect();
            return Err(Error::argument(format!(
                "supplied weight's shape is ({}), not ({rows}, {columns}) as expected",
                given.join(", ")
            )));
        }
        Ok(given)
    }
}

/// An input with its elements adjacent, if it has as many features as the layer takes.
pub(super) fn dense(layer: &LayerContext, x: &Tensor, features: usize) -> Result<Tensor, Error> {
    if x.shape().last() != Some(&features) {
        return Err(Error::argument(format!(
            "{} has another last dimension than the {features} features of the layer",
            x.describe()
        )));
    }
    if x.is_contiguous() {
        return Ok(x.clone());
    }
    let dense = layer.empty(x.shape())?;
    dense.copy_(x)?;
    Ok(dense)
}
