//! Operations on whole tiles, and on lists of elements: what Python passes by name.

use super::op::{ArgumentView, Op, Slot};
use super::running::Running;
use super::tile::{Made, Tile};
use super::tl::Tl;
use super::types::{self, Type};
use super::view::{View, shape_of};
use crate::error::exception;
use crate::fiber::Reply;
use crate::rank::read_dtype;
use phalanx_sim::DType;
use phalanx_sim::kernel::{self, Computing, KernelError, Places, Shape};
use phalanx_sim::value::{Atomic, Reduce};
use pyo3::prelude::*;
use std::rc::Rc;
use std::sync::Arc;

/// An operation on whole tiles.
#[derive(Clone, Debug)]
pub(crate) enum Whole {
    Arange(DType, i64, i64),
    Fma,
    Bitcast(DType),
    BroadcastTo(Shape),
    ExpandDims(usize),
    Permute(Vec<usize>),
    Join,
    Cat(usize),
    Flip(usize),
    Gather(usize),
    ReduceAll(Reduce),
    ArgMax(usize),
    ArgMin(usize),
    Scan(Reduce, usize, bool),
    Sort(usize, bool),
    TopK(usize),
    Histogram(usize),
    RandInt(u64),
    Rand(u64),
    RandN(u64),
    DotTf32,
}

/// A reduction by its name.
fn reduction(name: &str) -> Option<Reduce> {
    Some(match name {
        "sum" => Reduce::Sum,
        "prod" => Reduce::Prod,
        "max" => Reduce::Max,
        "min" => Reduce::Min,
        "and" => Reduce::And,
        "or" => Reduce::Or,
        "xor" => Reduce::Xor,
        _ => return None,
    })
}

/// A whole number that is not negative.
fn count(py: Python<'_>, numbers: &[i64], at: usize) -> PyResult<usize> {
    let number = numbers.get(at).copied().unwrap_or_default();
    usize::try_from(number)
        .map_err(|_| exception(py, "ArgumentError", format!("{number} is negative")))
}

/// A type with these dimensions, if a tile can have them.
fn with_dims(dtype: DType, dims: &[usize]) -> Option<Type> {
    let fits = dims.len() <= 4 && dims.iter().all(|dim| u32::try_from(*dim).is_ok());
    fits.then(|| (dtype, Shape::from(dims)))
}

impl Whole {
    /// The operation of this name; `numbers` are axes, bounds or a seed.
    fn read(py: Python<'_>, name: &str, numbers: &[i64], dtype: Option<&str>) -> PyResult<Self> {
        let (name, how) = name.split_once(' ').unwrap_or((name, ""));
        let first = |at| numbers.get(at).copied().unwrap_or_default();
        let dims =
            || (0..numbers.len()).map(|at| count(py, numbers, at)).collect::<PyResult<Vec<_>>>();
        let dtype = || read_dtype(py, dtype.unwrap_or("i32"));
        let seed = first(0).cast_unsigned();
        let reduce = reduction(how);
        Ok(match (name, reduce) {
            ("arange", _) => Self::Arange(dtype()?, first(0), first(1)),
            ("fma", _) => Self::Fma,
            ("bitcast", _) => Self::Bitcast(dtype()?),
            ("broadcast_to", _) => Self::BroadcastTo(shape_of(py, &dims()?)?),
            ("expand_dims", _) => Self::ExpandDims(count(py, numbers, 0)?),
            ("permute", _) => Self::Permute(dims()?),
            ("join", _) => Self::Join,
            ("cat", _) => Self::Cat(count(py, numbers, 0)?),
            ("flip", _) => Self::Flip(count(py, numbers, 0)?),
            ("gather", _) => Self::Gather(count(py, numbers, 0)?),
            ("reduce", Some(how)) => Self::ReduceAll(how),
            ("argmax", _) => Self::ArgMax(count(py, numbers, 0)?),
            ("argmin", _) => Self::ArgMin(count(py, numbers, 0)?),
            ("scan", Some(how)) => Self::Scan(how, count(py, numbers, 0)?, first(1) != 0),
            ("sort", _) => Self::Sort(count(py, numbers, 0)?, first(1) != 0),
            ("topk", _) => Self::TopK(count(py, numbers, 0)?),
            ("histogram", _) => Self::Histogram(count(py, numbers, 0)?),
            ("randint", _) => Self::RandInt(seed),
            ("rand", _) => Self::Rand(seed),
            ("randn", _) => Self::RandN(seed),
            ("dot_tf32", _) => Self::DotTf32,
            _ => return Err(exception(py, "ArgumentError", format!("no operation `{name}`"))),
        })
    }

    /// The type of the result, if it is known before; otherwise the operation itself says what does not fit.
    fn made(&self, operands: &[Type]) -> Option<Type> {
        let first = operands.first().copied();
        match self {
            Self::Arange(dtype, start, end) => {
                let len = u32::try_from(end.checked_sub(*start)?).ok()?;
                Some((*dtype, Shape::from(len as usize)))
            }
            Self::Fma => {
                let [a, b, c] = operands else { return None };
                types::broadcast(types::broadcast(*a, *b)?, *c)
            }
            Self::Bitcast(dtype) => {
                let (from, shape) = first?;
                (from.size() == dtype.size()).then_some((*dtype, shape))
            }
            Self::BroadcastTo(shape) => {
                let (dtype, from) = first?;
                let made = types::broadcast((dtype, from), (dtype, *shape))?;
                (made.1 == *shape).then_some(made)
            }
            Self::Gather(_) => Some((first?.0, operands.get(1)?.1)),
            Self::ReduceAll(_) => with_dims(first?.0, &[]),
            Self::Flip(axis) | Self::Scan(_, axis, _) | Self::Sort(axis, _) => {
                first.filter(|(_, shape)| *axis < shape.dims().len())
            }
            Self::Histogram(bins) => with_dims(DType::I32, &[*bins]),
            Self::RandInt(_) => first.map(|(_, shape)| (DType::I32, shape)),
            Self::Rand(_) | Self::RandN(_) => first.map(|(_, shape)| (DType::F32, shape)),
            Self::DotTf32 => types::dot(first?, *operands.get(1)?, operands.get(2).copied()),
            _ => self.reshaped(first?, operands.get(1).copied()),
        }
    }

    /// The type of a result with other dimensions.
    fn reshaped(&self, (dtype, shape): Type, other: Option<Type>) -> Option<Type> {
        let mut dims = shape.dims().to_vec();
        match self {
            Self::ExpandDims(axis) => (*axis <= dims.len()).then(|| dims.insert(*axis, 1))?,
            Self::Permute(order) => {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                sorted.into_iter().eq(0..dims.len()).then_some(())?;
                dims = order.iter().map(|axis| dims[*axis]).collect();
            }
            Self::Join => {
                (other? == (dtype, shape)).then_some(())?;
                dims.push(2);
            }
            Self::Cat(axis) => *dims.get_mut(*axis)? += other?.1.dims().get(*axis)?,
            Self::ArgMax(axis) | Self::ArgMin(axis) => {
                (*axis < dims.len()).then(|| dims.remove(*axis))?;
                return with_dims(DType::I32, &dims);
            }
            Self::TopK(k) => *dims.last_mut().filter(|last| *k <= **last)? = *k,
            _ => return None,
        }
        with_dims(dtype, &dims)
    }

    /// Issues the operation.
    pub(super) fn issue(
        &self,
        tl: &kernel::Tl,
        tiles: &[&kernel::Tile],
    ) -> Result<Computing, KernelError> {
        Ok(match (self, tiles) {
            (Self::Arange(dtype, start, end), _) => tl.arange(*dtype, *start, *end),
            (Self::Fma, [a, b, c]) => tl.fma(a, b, c),
            (Self::Bitcast(dtype), [a]) => tl.bitcast(a, *dtype),
            (Self::BroadcastTo(shape), [a]) => tl.broadcast_to(a, *shape),
            (Self::ExpandDims(axis), [a]) => tl.expand_dims(a, *axis),
            (Self::Permute(order), [a]) => tl.permute(a, order),
            (Self::Join, [a, b]) => tl.join(a, b),
            (Self::Cat(axis), [a, b]) => tl.cat(a, b, *axis),
            (Self::Flip(axis), [a]) => tl.flip(a, *axis),
            (Self::Gather(axis), [a, b]) => tl.gather(a, b, *axis),
            (Self::ReduceAll(how), [a]) => tl.reduce_all(*how, a),
            (Self::ArgMax(axis), [a]) => tl.argmax(a, *axis),
            (Self::ArgMin(axis), [a]) => tl.argmin(a, *axis),
            (Self::Scan(how, axis, reverse), [a]) => tl.scan(*how, a, *axis, *reverse),
            (Self::Sort(axis, descending), [a]) => tl.sort(a, *axis, *descending),
            (Self::TopK(k), [a]) => tl.topk(a, *k),
            (Self::Histogram(bins), [a]) => tl.histogram(a, *bins),
            (Self::RandInt(seed), [a]) => tl.randint(*seed, a),
            (Self::Rand(seed), [a]) => tl.rand(*seed, a),
            (Self::RandN(seed), [a]) => tl.randn(*seed, a),
            (Self::DotTf32, [a, b]) => tl.dot_tf32(a, b, None),
            (Self::DotTf32, [a, b, sum]) => tl.dot_tf32(a, b, Some(sum)),
            (call, tiles) => {
                let text = format!("{call:?} takes another number of tiles than {}", tiles.len());
                return Err(KernelError::Other(text));
            }
        })
    }
}

/// Elements of an argument by a list: the offsets are numbers, or the elements of a tile when the list is played.
#[derive(Clone)]
pub(crate) struct Listed {
    from: Arc<ArgumentView>,
    at: Offsets,
    shape: Shape,
    mask: Option<Rc<[bool]>>,
}

#[derive(Clone)]
enum Offsets {
    List(Rc<[i64]>),
    Tile(Slot),
}

impl Listed {
    pub(super) fn places(&self, running: &Running) -> Result<Places, KernelError> {
        let base = running.view(&self.from);
        let offsets = match &self.at {
            Offsets::List(list) => Rc::clone(list),
            Offsets::Tile(slot) => {
                running.tl.whole_numbers(running.tiles.borrow().get(*slot)?)?.into()
            }
        };
        let (address, dtype) = (base.address, base.dtype);
        Ok(Places { address, dtype, shape: self.shape, offsets, mask: self.mask.clone() })
    }
}

/// An atomic operation by its name.
fn atomic(name: &str) -> Option<Atomic> {
    Atomic::ALL.into_iter().find(|atomic| atomic.name() == name)
}

impl Tl {
    /// The places that Python names: a list, or a tile of whole numbers.
    fn listed(
        &self,
        py: Python<'_>,
        view: &View,
        offsets: &Bound<'_, PyAny>,
        mask: Option<Vec<bool>>,
    ) -> PyResult<Listed> {
        let (at, shape) = if let Ok(tile) = offsets.cast::<Tile>() {
            let (slot, (_, shape)) = self.operand(py, tile.get())?;
            (Offsets::Tile(slot), shape)
        } else {
            let list: Vec<i64> = offsets.extract()?;
            let shape = shape_of(py, &[list.len()])?;
            (Offsets::List(list.into()), shape)
        };
        Ok(Listed { from: view.place.clone(), at, shape, mask: mask.map(Into::into) })
    }
}

#[pymethods]
impl Tl {
    /// Performs an operation on whole tiles, by its name.
    fn whole(
        &self,
        py: Python<'_>,
        name: &str,
        tiles: Vec<Py<Tile>>,
        numbers: Vec<i64>,
        dtype: Option<&str>,
    ) -> Reply {
        let call = Whole::read(py, name, &numbers, dtype)?;
        let operands = tiles.iter().map(|tile| self.operand(py, tile.get()));
        let operands = operands.collect::<PyResult<Vec<_>>>()?;
        let made = call.made(&operands.iter().map(|(_, of)| *of).collect::<Vec<_>>());
        let tiles: Rc<[Slot]> = operands.into_iter().map(|(slot, _)| slot).collect();
        self.make(py, made, |to| Op::Whole { to, call: Rc::new(call), tiles })
    }

    /// Splits a tile along its last dimension of two.
    fn split(&self, py: Python<'_>, tile: &Tile) -> Reply {
        let (tile, (dtype, shape)) = self.operand(py, tile)?;
        let dims = shape.dims();
        let Some((&2, rest)) = dims.split_last() else {
            let text = format!("split: the last dimension of {shape} is not 2");
            return Err(exception(py, "KernelError", text));
        };
        let to = self.pair()?;
        let half = (dtype, Shape::from(rest));
        self.act(py, Op::Split { to, tile }, Made::Pair([(to[0], half), (to[1], half)]))
    }

    /// Loads the elements at a list of offsets from the first element of a view.
    fn load_at(
        &self,
        py: Python<'_>,
        view: &View,
        offsets: &Bound<'_, PyAny>,
        mask: Option<Vec<bool>>,
        other: f64,
    ) -> Reply {
        let from = Box::new(self.listed(py, view, offsets, mask)?);
        let made = (view.dtype, from.shape);
        self.make(py, Some(made), |to| Op::LoadAt { to, from, other })
    }

    /// Stores a tile at a list of offsets from the first element of a view.
    fn store_at(
        &self,
        py: Python<'_>,
        view: &View,
        offsets: &Bound<'_, PyAny>,
        tile: &Tile,
        mask: Option<Vec<bool>>,
    ) -> Reply {
        let to = Box::new(self.listed(py, view, offsets, mask)?);
        let tile = self.operand(py, tile)?.0;
        self.act(py, Op::StoreAt { to, tile }, Made::Nothing)
    }

    /// Updates the elements at a list of offsets; gives what was there.
    fn atomic(
        &self,
        py: Python<'_>,
        name: &str,
        view: &View,
        offsets: &Bound<'_, PyAny>,
        tiles: Vec<Py<Tile>>,
        mask: Option<Vec<bool>>,
    ) -> Reply {
        let Some(op) = atomic(name) else {
            return Err(exception(py, "ArgumentError", format!("no operation `{name}`")));
        };
        let at = Box::new(self.listed(py, view, offsets, mask)?);
        let made = (view.dtype, at.shape);
        let tiles = tiles.iter().map(|tile| Ok(self.operand(py, tile.get())?.0));
        let tiles: Rc<[Slot]> = tiles.collect::<PyResult<Vec<_>>>()?.into();
        self.make(py, Some(made), |to| Op::Atomic { to, op, at, tiles })
    }
}
