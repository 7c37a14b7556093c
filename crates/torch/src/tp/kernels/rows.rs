//! Kernels that work row by row: bias and activation, residual, softmax, layer norm, and copies of columns.

use super::{Dense, Stream, blocks};
use crate::error::Error;
use crate::launch::Arg;
use crate::request::Handle;
use crate::tensor::Tensor;
use crate::tp::compute::Compute;
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Mask, Tile, Tl};
use phalanx_sim::value::{Binary, Unary};
use std::ops::Range;
use std::rc::Rc;

/// A function of every element between two products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// None: the elements as they are.
    #[default]
    None,
    /// `max(x, 0)`.
    Relu,
    /// The Gaussian error linear unit, in its `tanh` form.
    Gelu,
}

impl Activation {
    /// Every activation, in the order of the manual.
    pub const ALL: [Self; 3] = [Self::None, Self::Relu, Self::Gelu];

    /// Returns the name, as in `gelu`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Relu => "relu",
            Self::Gelu => "gelu",
        }
    }

    /// The function, if there is one.
    pub(crate) fn function(self) -> Option<Unary> {
        match self {
            Self::None => None,
            Self::Relu => Some(Unary::Relu),
            Self::Gelu => Some(Unary::Gelu),
        }
    }
}

/// Adds a bias to every row and applies an activation, in place; launches nothing if there is neither.
pub(crate) fn epilogue(
    y: &Tensor,
    bias: Option<&Tensor>,
    activation: Activation,
    compute: Compute,
) -> Result<(), Error> {
    if bias.is_none() && activation == Activation::None {
        return Ok(());
    }
    let rows = Dense::of(y)?;
    let mut args = vec![Arg::write(y)];
    args.extend(bias.map(Arg::read));
    let bias = bias.map(Dense::of).transpose()?;
    let name = if bias.is_some() { "bias" } else { activation.name() };
    y.owner().launch(name, compute.grid(), &args, move |tl, _| {
        let (rows, bias) = (rows.clone(), bias.clone());
        async move {
            let bias = match &bias {
                Some(bias) => Some(bias.load(&tl, &(0..1)).await?),
                None => None,
            };
            let mut stream =
                Stream::new(blocks(&tl, rows.rows, rows.columns, 8), |block| rows.load(&tl, block));
            while let Some((block, mut tile)) = stream.next().await? {
                if let Some(bias) = &bias {
                    tile = tl.add(&tile, bias).await?;
                }
                if let Some(function) = activation.function() {
                    tile = tl.unary(function, &tile).await?;
                }
                rows.store(&tl, &block, &tile);
            }
            Ok(())
        }
    })?;
    Ok(())
}

/// `out = a + b`, element by element.
pub(crate) fn add(out: &Tensor, a: &Tensor, b: &Tensor, compute: Compute) -> Result<Handle, Error> {
    let [sum, one, other] = [Dense::of(out)?, Dense::of(a)?, Dense::of(b)?];
    let args = [Arg::read(a), Arg::read(b), Arg::write(out)];
    a.owner().launch("add", compute.grid(), &args, move |tl, _| {
        let (sum, one, other) = (sum.clone(), one.clone(), other.clone());
        async move {
            let mut stream =
                Stream::new(blocks(&tl, one.rows, one.columns, 12), |block| one.load(&tl, block));
            while let Some((block, tile)) = stream.next().await? {
                let further = other.load(&tl, &block).await?;
                let tile = tl.add(&tile, &further).await?;
                sum.store(&tl, &block, &tile);
            }
            Ok(())
        }
    })
}

/// The options of a softmax.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax {
    /// The factor of every element.
    pub(crate) scale: f64,
    /// True if row `i` of each `columns` rows uses only its first `i + 1` elements.
    pub(crate) causal: bool,
}

/// The softmax of every row, in place and in f32.
pub(crate) fn softmax(x: &Tensor, how: Softmax, compute: Compute) -> Result<Handle, Error> {
    let rows = Dense::of(x)?;
    x.owner().launch("softmax", compute.grid(), &[Arg::write(x)], move |tl, _| {
        let rows = rows.clone();
        async move {
            let load = |block: &Range<usize>| {
                let view = rows.view(&tl, block);
                if how.causal {
                    let mask = Mask::Each(seen(block, rows.columns));
                    return tl.load_or(&view.masked(mask), f64::NEG_INFINITY);
                }
                tl.load(&view)
            };
            let mut stream = Stream::new(blocks(&tl, rows.rows, rows.columns, 12), load);
            let scale = tl.full(DType::F32, [1, 1], how.scale)?;
            while let Some((block, tile)) = stream.next().await? {
                let dtype = tile.dtype();
                let tile = softmax_of(&tl, tile, &scale).await?;
                let tile = tl.cast(&tile, dtype).await?;
                rows.store(&tl, &block, &tile);
            }
            Ok(())
        }
    })
}

/// The causal mask of some rows: row `i` of each `columns` rows uses its first `i + 1` elements.
fn seen(rows: &Range<usize>, columns: usize) -> Rc<[bool]> {
    rows.clone().flat_map(|row| (0..columns).map(move |column| column <= row % columns)).collect()
}

async fn softmax_of(tl: &Tl, tile: Tile, scale: &Tile) -> Result<Tile, KernelError> {
    let tile = tl.cast(&tile, DType::F32).await?;
    let tile = tl.mul(&tile, scale).await?;
    let most = column(tl.max(&tile, 1).await?)?;
    let tile = tl.sub(&tile, &most).await?;
    let tile = tl.exp(&tile).await?;
    let sum = column(tl.sum(&tile, 1).await?)?;
    tl.div(&tile, &sum).await
}

/// One number for each row, as a column.
fn column(tile: Tile) -> Result<Tile, KernelError> {
    let rows = tile.shape().elements();
    tile.reshape([rows, 1])
}

/// `out = (x - mean) / sqrt(variance + epsilon) * gain + bias`, row by row and in f32.
pub(crate) fn layer_norm(
    out: &Tensor,
    x: &Tensor,
    gain: &Tensor,
    bias: &Tensor,
    epsilon: f64,
    compute: Compute,
) -> Result<Handle, Error> {
    let args = [Arg::read(x), Arg::read(gain), Arg::read(bias), Arg::write(out)];
    let [from, to] = [Dense::of(x)?, Dense::of(out)?];
    let [gain, bias] = [Dense::of(gain)?, Dense::of(bias)?];
    x.owner().launch("layer_norm", compute.grid(), &args, move |tl, _| {
        let (from, to, gain, bias) = (from.clone(), to.clone(), gain.clone(), bias.clone());
        async move {
            let gain = tl.cast(&gain.load(&tl, &(0..1)).await?, DType::F32).await?;
            let bias = tl.cast(&bias.load(&tl, &(0..1)).await?, DType::F32).await?;
            #[expect(clippy::cast_precision_loss, reason = "a number of columns")]
            let width = tl.full(DType::F32, [1, 1], from.columns as f64)?;
            let epsilon = tl.full(DType::F32, [1, 1], epsilon)?;
            let blocks = blocks(&tl, from.rows, from.columns, 12);
            let mut stream = Stream::new(blocks, |block| from.load(&tl, block));
            while let Some((block, tile)) = stream.next().await? {
                let dtype = tile.dtype();
                let tile = normalised(&tl, tile, &width, &epsilon).await?;
                let tile = tl.mul(&tile, &gain).await?;
                let tile = tl.add(&tile, &bias).await?;
                let tile = tl.cast(&tile, dtype).await?;
                to.store(&tl, &block, &tile);
            }
            Ok(())
        }
    })
}

async fn normalised(
    tl: &Tl,
    tile: Tile,
    width: &Tile,
    epsilon: &Tile,
) -> Result<Tile, KernelError> {
    let tile = tl.cast(&tile, DType::F32).await?;
    let mean = tl.div(&column(tl.sum(&tile, 1).await?)?, width).await?;
    let tile = tl.sub(&tile, &mean).await?;
    let square = tl.mul(&tile, &tile).await?;
    let variance = tl.div(&column(tl.sum(&square, 1).await?)?, width).await?;
    let deviation = tl.binary(Binary::Add, &variance, epsilon).await?;
    let deviation = tl.unary(Unary::Sqrt, &deviation).await?;
    tl.div(&tile, &deviation).await
}

/// Copies blocks of columns to blocks of rows, or back: `wide` is `[n, parts · c]`, `tall` is `[parts · n, c]`.
pub(crate) fn fold(
    wide: &Tensor,
    tall: &Tensor,
    parts: usize,
    to_tall: bool,
    compute: Compute,
) -> Result<Handle, Error> {
    let args = if to_tall {
        [Arg::read(wide), Arg::write(tall)]
    } else {
        [Arg::read(tall), Arg::write(wide)]
    };
    let all = 0..parts;
    copy_columns(wide, tall, all, to_tall, &args, compute)
}

/// Copies block `part` of the columns of `wide` to `kept`, which has the width of a block.
pub(crate) fn keep_columns(
    kept: &Tensor,
    wide: &Tensor,
    part: usize,
    compute: Compute,
) -> Result<Handle, Error> {
    let args = [Arg::read(wide), Arg::write(kept)];
    copy_columns(wide, kept, part..part + 1, true, &args, compute)
}

/// Copies the blocks `parts` of columns of `wide` to or from consecutive rows of `tall`.
fn copy_columns(
    wide: &Tensor,
    tall: &Tensor,
    parts: Range<usize>,
    to_tall: bool,
    args: &[Arg],
    compute: Compute,
) -> Result<Handle, Error> {
    let cx = wide.owner().clone();
    let (wide, tall) = (Dense::of(wide)?, Dense::of(tall)?);
    cx.launch("columns", compute.grid(), args, move |tl, _| {
        let (wide, tall, parts) = (wide.clone(), tall.clone(), parts.clone());
        async move {
            let (height, width) = (wide.rows, tall.columns);
            for block in blocks(&tl, height, width, 16) {
                for (number, part) in parts.clone().enumerate() {
                    let columns = part * width..(part + 1) * width;
                    let rows = number * height + block.start..number * height + block.end;
                    if to_tall {
                        let tile = wide.load_block(&tl, &block, &columns).await?;
                        tall.store(&tl, &rows, &tile);
                    } else {
                        let tile = tall.load(&tl, &rows).await?;
                        wide.store_block(&tl, &block, &columns, &tile);
                    }
                }
            }
            Ok(())
        }
    })
}
