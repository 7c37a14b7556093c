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

/// What a [`Mlp`] is told.
#[derive(Clone)]
pub struct MlpOptions {
    /// Between the two layers.
    pub activation: Activation,
    /// Whether the layers have biases.
    pub bias: bool,
    /// What the masters of the two layers hold.
    pub init: [Init; 2],
    /// What all layers are told.
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

/// `y = f(x W1^T + b1) W2^T + b2`: `W1` by output features, `W2` by input features, so that what is between them stays
/// where it was computed.
pub struct Mlp {
    up: ColumnParallelLinear,
    down: RowParallelLinear,
    activation: Activation,
    compute: Compute,
    dtype: DType,
}

impl Mlp {
    /// From `hidden` features to `ffn` and back.
    pub fn new(cx: &Rank, hidden: usize, ffn: usize, options: &MlpOptions) -> Result<Self, Error> {
        let MlpOptions { activation, bias, init: [up, down], config } = options;
        let up = ColumnOptions {
            bias: *bias,
            // The bias is added on the way to the activation: one kernel for both.
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

    /// The type of its activations.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The output, which all ranks have alike; `x` is `[.., hidden]`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let (y, bias) = self.up.forward(x)?;
        epilogue(&y, bias.as_ref(), self.activation, self.compute)?;
        Ok(self.down.forward(&y)?.0)
    }
}
