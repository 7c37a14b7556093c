//! Two parallel layers with an activation between them: one all-reduce for both.

use super::column::{ColumnOptions, ColumnParallelLinear};
use super::compute::{Compute, Config};
use super::init::Init;
use super::kernels::rows::{Activation, epilogue};
use super::row::{RowOptions, RowParallelLinear};
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_sim::DType;

/// The options of an [`Mlp`].
#[derive(Clone)]
pub struct MlpOptions {
    /// The function between the two layers.
    pub activation: Activation,
    /// True if the layers have biases.
    pub bias: bool,
    /// Initial weights of the two layers.
    pub init: [Init; 2],
    /// Settings that all layers share.
    pub config: Config,
}

impl Default for MlpOptions {
    /// With GELU and biases.
    fn default() -> Self {
        Self {
            activation: Activation::Gelu,
            bias: true,
            init: [Init::default(), Init::default()],
            config: Config::default(),
        }
    }
}

/// `y = f(x W1^T + b1) W2^T + b2`: `W1` is spread by output features, `W2` by input features, so that the inner activations
/// stay on their ranks.
pub struct Mlp {
    up: ColumnParallelLinear,
    down: RowParallelLinear,
    activation: Activation,
    compute: Compute,
    dtype: DType,
}

impl Mlp {
    /// Makes an MLP from `hidden` features to `ffn` and back.
    pub fn new(cx: &Rank, hidden: usize, ffn: usize, options: &MlpOptions) -> Result<Self, Error> {
        let MlpOptions { activation, bias, init: [up, down], config } = options;
        let up = ColumnOptions {
            bias: *bias,
            // One kernel adds the bias and applies the activation.
            skip_bias_add: true,
            init: up.clone(),
            config: config.clone(),
            ..ColumnOptions::default()
        };
        let down = RowOptions {
            init: down.clone(),
            config: config.clone(),
            ..RowOptions::new(*bias, true, false)
        };
        Ok(Self {
            up: ColumnParallelLinear::new(cx, hidden, ffn, &up)?,
            down: RowParallelLinear::new(cx, ffn, hidden, &down)?,
            activation: *activation,
            compute: config.compute.unwrap_or_else(|| Compute::all(cx)),
            dtype: config.dtype,
        })
    }

    /// Returns the type of its activations.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Computes the output, equal on all ranks; `x` is `[.., hidden]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let (y, bias) = self.up.forward(x)?;
        epilogue(&y, bias.as_ref(), self.activation, self.compute)?;
        Ok(self.down.forward(&y)?.0)
    }
}
