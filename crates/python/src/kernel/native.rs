//! Kernels of scripts, run by `async` Rust without lists and greenlets: what tests compare the other ways with.

use crate::error::{OrRaise, exception};
use crate::rank::Rank;
use crate::tensor::Tensor;
use crate::work::Work;
use phalanx_sim::kernel::{KernelError, Loading, Tile, Tl, View};
use phalanx_sim::value::{Binary, Reduce, Unary};
use phalanx_sim::{DType, Time};
use phalanx_torch::{Arg, Args, Grid};
use pyo3::prelude::*;
use std::rc::Rc;

/// One step of a script.
enum Step {
    Load { arg: usize, start: usize, len: usize },
    Begin { arg: usize, start: usize, len: usize },
    Wait { issued: usize },
    Store { arg: usize, start: usize, tile: usize },
    Full { len: usize, number: f64 },
    Binary { op: Binary, left: usize, right: usize },
    Unary { op: Unary, tile: usize },
    Sum { tile: usize },
    Compute { ps: u64 },
    Barrier,
    Free { tile: usize },
}

fn read(py: Python<'_>, (name, numbers): &(String, Vec<usize>)) -> PyResult<Step> {
    Ok(match (name.as_str(), numbers.as_slice()) {
        ("load", &[arg, start, len]) => Step::Load { arg, start, len },
        ("begin", &[arg, start, len]) => Step::Begin { arg, start, len },
        ("wait", &[issued]) => Step::Wait { issued },
        ("store", &[arg, start, tile]) => Step::Store { arg, start, tile },
        #[expect(clippy::cast_precision_loss, reason = "small numbers of tests")]
        ("full", &[len, number]) => Step::Full { len, number: number as f64 },
        ("add", &[left, right]) => Step::Binary { op: Binary::Add, left, right },
        ("mul", &[left, right]) => Step::Binary { op: Binary::Mul, left, right },
        ("maximum", &[left, right]) => Step::Binary { op: Binary::Max, left, right },
        ("neg", &[tile]) => Step::Unary { op: Unary::Neg, tile },
        ("relu", &[tile]) => Step::Unary { op: Unary::Relu, tile },
        ("sum", &[tile]) => Step::Sum { tile },
        ("compute", &[ps]) => Step::Compute { ps: ps as u64 },
        ("barrier", &[]) => Step::Barrier,
        ("free", &[tile]) => Step::Free { tile },
        _ => return Err(exception(py, "ArgumentError", format!("no step {name} {numbers:?}"))),
    })
}

async fn run(tl: Tl, args: Args, script: Rc<[Step]>) -> Result<(), KernelError> {
    let mut tiles: Vec<Option<Tile>> = Vec::new();
    let mut issued: Vec<Option<Loading<Tile>>> = Vec::new();
    let view = |arg: usize, start: usize, len: usize| -> Result<View, KernelError> {
        let mut view = args.view(arg)?;
        view.address += (start * view.dtype.size()) as u64;
        (view.shape, view.strides) = (len.into(), 1.into());
        Ok(view)
    };
    let gone = || KernelError::Other("a tile that is gone".to_owned());
    for step in script.iter() {
        let get = |index: usize| tiles.get(index).and_then(Option::as_ref).ok_or_else(gone);
        let made = match *step {
            Step::Load { arg, start, len } => tl.load(&view(arg, start, len)?).await?,
            Step::Begin { arg, start, len } => {
                issued.push(Some(tl.load(&view(arg, start, len)?)));
                continue;
            }
            Step::Wait { issued: index } => issued[index].take().ok_or_else(gone)?.await?,
            Step::Store { arg, start, tile } => {
                let tile = get(tile)?;
                tl.store(&view(arg, start, tile.shape().elements())?, tile).await?;
                continue;
            }
            Step::Full { len, number } => tl.full(DType::F32, len, number)?,
            Step::Binary { op, left, right } => tl.binary(op, get(left)?, get(right)?).await?,
            Step::Unary { op, tile } => tl.unary(op, get(tile)?).await?,
            Step::Sum { tile } => tl.reduce(Reduce::Sum, get(tile)?, 0).await?.reshape(1)?,
            Step::Compute { ps } => {
                tl.compute(Time::ps(ps)).await;
                continue;
            }
            Step::Barrier => {
                tl.barrier().await;
                continue;
            }
            Step::Free { tile } => {
                tiles[tile] = None;
                continue;
            }
        };
        tiles.push(Some(made));
    }
    Ok(())
}

#[pymethods]
impl Rank {
    /// Runs a script as a native kernel; all tensors are written.
    fn launch_script(
        &self,
        py: Python<'_>,
        pes: usize,
        tensors: Vec<Py<Tensor>>,
        script: Vec<(String, Vec<usize>)>,
    ) -> PyResult<Work> {
        let steps: Vec<Step> = script.iter().map(|step| read(py, step)).collect::<PyResult<_>>()?;
        let steps: Rc<[Step]> = steps.into();
        let args: Vec<Arg> = tensors
            .iter()
            .map(|tensor| Ok(Arg::write(tensor.get().get()?)))
            .collect::<PyResult<_>>()?;
        let kernel = move |tl, args| run(tl, args, steps.clone());
        let handle = self.get()?.launch("script", Grid::Pes(pes), &args, kernel);
        handle.or_raise(py).map(Work::of_handle)
    }
}
