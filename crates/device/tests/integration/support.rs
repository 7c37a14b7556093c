//! Shared pieces of these tests.

use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::{DType, MachineSpec, Time};
use phalanx_torch::{
    Arg, Context, Grid, Handle, Rank, Tensor, distributed as dist, multiprocessing,
};

/// A preset with other settings.
pub(crate) fn machine(name: &str, set: &[&str]) -> MachineSpec {
    let preset = MachineSpec::preset(name).expect("a preset");
    preset.with_all(set).expect("a machine")
}

/// Launches a kernel that keeps a PE busy and declares a write that it does not make.
pub(crate) fn nap(cx: &Rank, tensor: &Tensor, span: Time) -> Handle {
    let kernel = move |tl: Tl, _| async move {
        tl.compute(span).await;
        Ok(())
    };
    cx.launch("nap", Grid::Pes(1), &[Arg::write(tensor)], kernel).expect("a grid")
}

/// Shows that a context can be used: all of its ranks add up ones.
pub(crate) fn assert_usable(context: &mut Context) {
    let ranks = context.default_ranks();
    let sums = multiprocessing::spawn(context, ranks, |_, cx| async move {
        dist::init_process_group(&cx)?;
        let x = cx.full([100], 1.0, DType::F32)?;
        dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
        x.to_vec().await
    });
    let whole = number(ranks);
    assert_eq!(sums.expect("a usable context"), vec![vec![whole; 100]; ranks], "MPS-3");
}

/// Launches a kernel that fails.
pub(crate) fn failing(cx: &Rank, tensor: &Tensor) -> Handle {
    let kernel = |_: Tl, _| async { Err(KernelError::Other("no luck".to_owned())) };
    cx.launch("failing", Grid::Pes(1), &[Arg::write(tensor)], kernel).expect("a grid")
}

/// A small number as a number.
pub(crate) fn number(n: usize) -> f32 {
    f32::from(u16::try_from(n).expect("a small number"))
}
