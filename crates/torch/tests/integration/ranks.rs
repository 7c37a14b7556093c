//! Programs of ranks: what the front end promises.

mod arguments;
mod awkward;
mod buffers;
mod bytes;
mod desync;
mod first;
mod foreign;
mod grids;
mod messages;
mod more_messages;
mod reads;
mod requests;
mod slices;
mod spawn;
mod streams;
mod together;
mod waits;

use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::Options;
use phalanx_sim::spec::MachineSpec;
use phalanx_sim::{DType, Time};
use phalanx_torch::ccl::{Algorithm, CclConfig};
use phalanx_torch::{
    Arg, Context, Grid, Handle, Rank, Tensor, distributed as dist, multiprocessing,
};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// A preset with other settings.
pub(crate) fn machine(name: &str, set: &[&str]) -> MachineSpec {
    MachineSpec::preset(name).and_then(|machine| machine.with_all(set)).expect("a machine")
}

/// Collectives set up by this text.
pub(crate) fn ccl(text: &str) -> CclConfig {
    CclConfig::parse("ccl.yaml", text, &Algorithm::names()).expect("a configuration")
}

/// A context over `bare` with so many SIPs.
pub(crate) fn bare(sips: usize, text: &str) -> Context {
    let spec = machine("bare", &[&format!("system.sips.count={sips}")]);
    Context::new(spec, Options::default()).with_ccl(ccl(text))
}

/// A context over `quad-sip`, where everything costs something.
pub(crate) fn quad() -> Context {
    Context::new(machine("quad-sip", &[]), Options::default())
}

/// A context whose logs are kept.
pub(crate) fn recorded() -> Context {
    let options = Options { record: true, ..Options::default() };
    Context::new(machine("quad-sip", &[]), options)
}

/// A small number as a number.
pub(crate) fn number(n: usize) -> f32 {
    f32::from(u16::try_from(n).expect("a small number"))
}

/// Waits for two futures in one process.
pub(crate) async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(move |context| {
        if first.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(context)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(context)
        {
            second = Some(value);
        }
        if first.is_none() || second.is_none() {
            return Poll::Pending;
        }
        Poll::Ready(first.take().zip(second.take()).expect("both are there"))
    })
    .await
}

/// True if a future is over when it is first polled.
pub(crate) async fn is_over_now(future: impl Future) -> bool {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Launches a kernel that keeps a PE busy and writes nothing, though it could.
pub(crate) fn nap(cx: &Rank, tensor: &Tensor, span: Time) -> Handle {
    let kernel = move |tl: Tl, _| async move {
        tl.compute(span).await;
        Ok(())
    };
    cx.launch("nap", Grid::Pes(1), &[Arg::write(tensor)], kernel).expect("a grid")
}

/// Launches a kernel that fails.
pub(crate) fn failing(cx: &Rank, tensor: &Tensor) -> Handle {
    let kernel = |_: Tl, _| async { Err(KernelError::Other("no luck".to_owned())) };
    cx.launch("failing", Grid::Pes(1), &[Arg::write(tensor)], kernel).expect("a grid")
}

/// Shows that a context can be used: all of its ranks add up their numbers.
pub(crate) fn assert_usable(context: &mut Context) {
    let ranks = context.default_ranks();
    let sums = multiprocessing::spawn(context, ranks, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([100], f64::from(number(rank)), DType::F32)?;
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
        x.to_vec().await
    });
    let whole: f32 = (0..ranks).map(number).sum();
    assert_eq!(sums.expect("a usable context"), vec![vec![whole; 100]; ranks], "MPS-3");
}
