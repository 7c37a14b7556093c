//! Ranks of which something goes wrong. The comparison of runs in several processes (`workloads/tests/same_bytes`) uses them too.

use phalanx_sim::machine::Options;
use phalanx_sim::{DType, MachineSpec, Time};
use phalanx_torch::distributed::{self as dist, ReduceOp};
use phalanx_torch::multiprocessing::spawn;
use phalanx_torch::{Context, Error, Rank};

/// The fault of a program of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    None,
    /// Two ranks fail at different times within a window, and one later.
    Errors,
    Panic,
    /// A rank returns without the last collective.
    Missing,
    /// A rank calls another collective.
    Mismatch,
    /// A rank sends a message that nobody receives.
    Unreceived,
    /// A rank waits for a message that nobody sends.
    Silence,
    /// The destructor of a cancelled rank panics.
    Destructor,
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor panics");
    }
}

/// The end of a rank, and its numbers if the run computes any.
async fn program(
    rank: usize,
    cx: Rank,
    (fault, data): (Fault, bool),
) -> Result<(Time, Vec<f32>), Error> {
    dist::init_process_group(&cx)?;
    let x = cx.full([300], f64::from(u32::try_from(rank).unwrap()), DType::F32)?;
    dist::all_reduce(&cx, &x, ReduceOp::Sum, None).await?;
    let _bomb = (matches!(fault, Fault::Destructor) && rank == 2).then(|| Bomb);
    match (fault, rank) {
        (Fault::Errors, 1 | 6) => return Err(Error::other(format!("rank {rank} gives up"))),
        (Fault::Errors | Fault::Destructor, 4) => {
            cx.sleep(Time::us(50)).await;
            return Err(Error::other("too late"));
        }
        (Fault::Panic, 5) => panic!("rank 5 panics"),
        (Fault::Missing, 3) => return Ok((cx.now(), Vec::new())),
        (Fault::Mismatch, 7) => {
            dist::all_reduce(&cx, &x.narrow(0, 0, 200)?, ReduceOp::Sum, None).await?;
        }
        (Fault::Unreceived, 2) => drop(dist::send(&cx, &x, 6, 9, None).await),
        (Fault::Silence, 6) => drop(dist::recv(&cx, &x, 1, 3, None).await?),
        _ => {}
    }
    dist::all_reduce(&cx, &x, ReduceOp::Max, None).await?;
    let numbers = if data { x.to_vec().await? } else { Vec::new() };
    Ok((cx.now(), numbers))
}

/// All that can be seen of two runs in one context: the second shows that the context is usable after the first.
pub(crate) fn run(fault: Fault, options: Options) -> String {
    let data = options.data;
    let mut context = Context::new(MachineSpec::preset("octo-ring").unwrap(), options);
    let mut seen = Vec::new();
    for fault in [fault, Fault::None] {
        let result = spawn(&mut context, 8, move |rank, cx| program(rank, cx, (fault, data)));
        seen.push(match result {
            Ok(own) => format!("{:?}", context.gather(own)),
            Err(error) => format!("{error}\n{error:#?}"),
        });
        seen.push(context.now().to_string());
    }
    let report = context.report();
    format!("{}\n{report}\n{}", seen.join("\n"), report.op_log())
}
