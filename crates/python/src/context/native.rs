//! Rank programs of scripts, run by `async` Rust without greenlets: what tests compare the other ways with.

use super::Context;
use crate::error::{OrRaise, exception};
use phalanx_sim::{DType, Time};
use phalanx_torch::distributed::{self as dist, ReduceOp};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Error, Rank, Tensor};
use pyo3::prelude::*;
use std::rc::Rc;

/// One step of a script; tensors are named by their numbers.
#[derive(Clone, Copy)]
enum Step {
    /// Fills with a number plus that of the rank.
    Fill {
        tensor: usize,
        number: usize,
    },
    Copy {
        to: usize,
        from: usize,
    },
    AllReduce {
        tensor: usize,
        op: ReduceOp,
    },
    /// An all-reduce that nobody waits for.
    Issue {
        tensor: usize,
    },
    Broadcast {
        tensor: usize,
        root: usize,
    },
    /// To the next rank, and from the rank before.
    Shift {
        from: usize,
        to: usize,
    },
    Barrier,
    /// Sleeps longer on later ranks.
    Sleep {
        ps: usize,
    },
    Look {
        tensor: usize,
    },
}

fn read(py: Python<'_>, (name, numbers): &(String, Vec<usize>)) -> PyResult<Step> {
    Ok(match (name.as_str(), numbers.as_slice()) {
        ("fill", &[tensor, number]) => Step::Fill { tensor, number },
        ("copy", &[to, from]) => Step::Copy { to, from },
        ("sum", &[tensor]) => Step::AllReduce { tensor, op: ReduceOp::Sum },
        ("max", &[tensor]) => Step::AllReduce { tensor, op: ReduceOp::Max },
        ("issue", &[tensor]) => Step::Issue { tensor },
        ("broadcast", &[tensor, root]) => Step::Broadcast { tensor, root },
        ("shift", &[from, to]) => Step::Shift { from, to },
        ("barrier", &[]) => Step::Barrier,
        ("sleep", &[ps]) => Step::Sleep { ps },
        ("look", &[tensor]) => Step::Look { tensor },
        _ => return Err(exception(py, "ArgumentError", format!("no step {name} {numbers:?}"))),
    })
}

/// Takes a step; returns what it has seen.
async fn take(cx: &Rank, tensors: &[Tensor], step: Step) -> Result<Option<Vec<f32>>, Error> {
    let (rank, ranks) = (cx.rank(), cx.world_size());
    match step {
        #[expect(clippy::cast_precision_loss, reason = "small numbers of tests")]
        Step::Fill { tensor, number } => drop(tensors[tensor].fill_((number + rank) as f64)?),
        Step::Copy { to, from } => drop(tensors[to].copy_(&tensors[from])?),
        Step::AllReduce { tensor, op } => dist::all_reduce(cx, &tensors[tensor], op, None).await?,
        Step::Issue { tensor } => {
            drop(dist::all_reduce_async(cx, &tensors[tensor], ReduceOp::Sum, None)?);
        }
        Step::Broadcast { tensor, root } => {
            dist::broadcast(cx, &tensors[tensor], root % ranks, None).await?;
        }
        Step::Shift { from, to } => {
            let sent = dist::isend(cx, &tensors[from], (rank + 1) % ranks, 0, None)?;
            let before = (rank + ranks - 1) % ranks;
            let received = dist::irecv(cx, &tensors[to], before, 0, None)?;
            received.wait().await?;
            sent.wait().await?;
        }
        Step::Barrier => dist::barrier(cx, None).await?,
        Step::Sleep { ps } => cx.sleep(Time::ps((ps * (rank + 1)) as u64)).await,
        Step::Look { tensor } => return Ok(Some(tensors[tensor].to_vec().await?)),
    }
    Ok(None)
}

#[pymethods]
impl Context {
    /// Runs a script on so many ranks, each with tensors of `count` elements of f32; returns what each rank has looked at.
    fn spawn_script(
        &self,
        py: Python<'_>,
        ranks: usize,
        tensors: usize,
        count: usize,
        script: Vec<(String, Vec<usize>)>,
    ) -> PyResult<Vec<Vec<Vec<f32>>>> {
        let steps: Vec<Step> = script.iter().map(|step| read(py, step)).collect::<PyResult<_>>()?;
        let steps: Rc<[Step]> = steps.into();
        let ended = self.with(py, |context| {
            spawn(context, ranks, move |_, cx| {
                let steps = steps.clone();
                async move {
                    dist::init_process_group(&cx)?;
                    let make = |_| cx.zeros([count], DType::F32);
                    let tensors: Vec<Tensor> = (0..tensors).map(make).collect::<Result<_, _>>()?;
                    let mut seen = Vec::new();
                    for step in &*steps {
                        seen.extend(take(&cx, &tensors, *step).await?);
                    }
                    Ok(seen)
                }
            })
        })?;
        ended.map_err(|error| Error::argument(error.to_string())).or_raise(py)
    }
}
