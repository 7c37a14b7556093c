//! A transformer block: attention with the heads spread over ranks, then an [`Mlp`], each behind a layer norm and
//! beside a residual.

use super::column::{ColumnOptions, ColumnParallelLinear};
use super::compute::{Config, LayerContext, divide};
use super::init::Init;
use super::kernels::attention::{Sizes, scores, weigh};
use super::kernels::rows::{Activation, Softmax, add, layer_norm, softmax};
use super::mlp::{Mlp, MlpOptions};
use super::row::{RowOptions, RowParallelLinear};
use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;

/// The options of a [`TransformerBlock`].
#[derive(Clone)]
pub struct BlockOptions {
    /// Heads of the attention, over all ranks.
    pub heads: usize,
    /// Inner features of the MLP.
    pub ffn: usize,
    /// The MLP's activation.
    pub activation: Activation,
    /// True if a token attends only to itself and earlier tokens.
    pub causal: bool,
    /// True if layers have biases.
    pub bias: bool,
    /// The number added to a variance before the square root.
    pub epsilon: f64,
    /// Initial weights: queries, keys and values; the projection; the MLP's two layers.
    pub init: [Init; 4],
    /// Settings that all layers share.
    pub config: Config,
}

impl BlockOptions {
    /// Options with these heads and inner features; GELU, biases, not causal.
    pub fn new(heads: usize, ffn: usize) -> Self {
        Self {
            heads,
            ffn,
            activation: Activation::Gelu,
            causal: false,
            bias: true,
            epsilon: 1e-5,
            init: [const { Init::Normal(0.02) }; 4],
            config: Config::default(),
        }
    }
}

/// `x + attention(norm(x))`, then `x + mlp(norm(x))`.
///
/// The rows of the weight of queries, keys and values are ordered `[head, query | key | value, width]`, so that ranks
/// get whole heads. A forward pass has two named ranges, `attention` and `mlp`, each with its layer norm and its residual.
pub struct TransformerBlock {
    layer: LayerContext,
    norms: [[Tensor; 2]; 2],
    mixed: ColumnParallelLinear,
    projection: RowParallelLinear,
    mlp: Mlp,
    heads: usize,
    width: usize,
    options: BlockOptions,
}

impl TransformerBlock {
    /// Makes a block of `hidden` features.
    pub fn new(cx: &Rank, hidden: usize, options: &BlockOptions) -> Result<Self, Error> {
        let layer = LayerContext::new(cx, &options.config)?;
        let [mixed, projection, up, down] = options.init.clone();
        let config = options.config.clone();
        let column = ColumnOptions {
            bias: options.bias,
            init: mixed,
            config: config.clone(),
            ..ColumnOptions::default()
        };
        let row = RowOptions {
            init: projection,
            config: config.clone(),
            ..RowOptions::new(options.bias, true, false)
        };
        let inner = MlpOptions {
            activation: options.activation,
            bias: options.bias,
            init: [up, down],
            config,
        };
        let norm = || -> Result<[Tensor; 2], Error> {
            Ok([layer.constant(&[hidden], 1.0)?, layer.constant(&[hidden], 0.0)?])
        };
        Ok(Self {
            heads: divide(options.heads, layer.ranks)?,
            width: divide(hidden, options.heads)?,
            norms: [norm()?, norm()?],
            mixed: ColumnParallelLinear::new(cx, hidden, 3 * hidden, &column)?,
            projection: RowParallelLinear::new(cx, hidden, hidden, &row)?,
            mlp: Mlp::new(cx, hidden, options.ffn, &inner)?,
            options: options.clone(),
            layer,
        })
    }

    /// Computes the output, equal on all ranks; `x` is `[s, b, hidden]`, or with `sequence_parallel` a share of its dimension 0.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let &[_, _, _] = x.shape() else {
            return Err(Error::argument(format!("{} must be [s, b, hidden]", x.describe())));
        };
        let x = self.attend(x)?;
        let _range = self.layer.cx.range("mlp");
        let mixed = self.mlp.forward(&self.norm(1, &x)?)?;
        self.sum(&x, &mixed)
    }

    /// The first half of the block: `x + attention(norm(x))`.
    fn attend(&self, x: &Tensor) -> Result<Tensor, Error> {
        let _range = self.layer.cx.range("attention");
        let attended = self.attention(&self.norm(0, x)?)?;
        self.sum(x, &attended)
    }

    fn norm(&self, which: usize, x: &Tensor) -> Result<Tensor, Error> {
        let [gain, bias] = &self.norms[which];
        let out = self.layer.empty(x.shape())?;
        layer_norm(&out, x, gain, bias, self.options.epsilon, self.layer.compute)?;
        Ok(out)
    }

    fn sum(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
        let out = self.layer.empty(a.shape())?;
        add(&out, a, b, self.layer.compute)?;
        Ok(out)
    }

    fn attention(&self, x: &Tensor) -> Result<Tensor, Error> {
        let compute = self.layer.compute;
        let (mixed, _) = self.mixed.forward(x)?;
        let (length, sequences) = (mixed.shape()[0], mixed.shape()[1]);
        let sizes = Sizes { length, sequences, heads: self.heads, width: self.width };
        let weights = self.layer.empty(&[sizes.matrices() * length, length])?;
        scores(&weights, &mixed, sizes, compute)?;
        #[expect(clippy::cast_precision_loss, reason = "a number of features")]
        let scale = 1.0 / (self.width as f64).sqrt();
        softmax(&weights, Softmax { scale, causal: self.options.causal }, compute)?;
        let values = self.layer.empty(&[length, sequences, self.heads * self.width])?;
        weigh(&values, &weights, &mixed, sizes, compute)?;
        Ok(self.projection.forward(&values)?.0)
    }
}
