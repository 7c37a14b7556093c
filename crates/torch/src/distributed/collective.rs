//! Launching one rank's part of a collective: the choice of the algorithm, the kernel.

use super::group::ProcessGroup;
use crate::ccl::algorithm::Operation;
use crate::ccl::config::{Choice, Plan};
use crate::ccl::job::Job;
use crate::ccl::lanes::{by_piece, spread};
use crate::ccl::layout::Layout;
use crate::ccl::part::{ReduceOp, Splits};
use crate::ccl::trial::Trial;
use crate::error::{Error, Mismatch};
use crate::launch::{Arg, On};
use crate::placement::DpPolicy;
use crate::rank::Rank;
use crate::request::Handle;
use crate::tensor::Tensor;
use phalanx_sim::machine::RunError;
use std::cell::RefCell;
use std::rc::Rc;

/// Assumed elements of an all-to-all with split sizes, for the choice of the algorithm.
const UNEVEN: usize = 1 << 16;

/// A rank's call of a collective.
pub(crate) struct CollectiveCall<'a> {
    pub(crate) operation: Operation,
    /// Its name in messages.
    pub(crate) name: &'static str,
    pub(crate) combine: ReduceOp,
    /// The root, by its number in the group.
    pub(crate) root: usize,
    pub(crate) input: &'a Tensor,
    pub(crate) output: &'a Tensor,
    pub(crate) splits: Option<Splits>,
}

impl<'a> CollectiveCall<'a> {
    /// A call with the default settings.
    pub(crate) fn new(operation: Operation, input: &'a Tensor, output: &'a Tensor) -> Self {
        let (name, combine) = (operation.name(), ReduceOp::Sum);
        Self { operation, name, combine, root: 0, input, output, splits: None }
    }

    /// The topic of the messages: all parameters that ranks have to agree on.
    fn topic(&self, group: &ProcessGroup, sequence: u64, plan: &Plan) -> String {
        let (operation, dtype) = (self.operation, self.input.dtype());
        let size = match self.elements(group.size()) {
            None => " by split sizes".to_owned(),
            // The cut of a tensor matters to other ranks; the shape of a tensor in one piece does not.
            Some(_) if self.input.region().is_err() => self.cut(),
            Some(elements) => format!("[{elements}]"),
        };
        let combine = operation.combines().then(|| format!(", {}", self.combine.name()));
        let root = operation.has_root().then(|| format!(", root {}", group.members()[self.root]));
        format!(
            "{} #{sequence} of {}: {dtype}{size}{}{}, by {}",
            self.name,
            group.describe(),
            combine.unwrap_or_default(),
            root.unwrap_or_default(),
            plan.name
        )
    }

    /// The shape and the cut of a tensor in pieces.
    fn cut(&self) -> String {
        let DpPolicy { cube, pe, num_cubes, num_pes } = self.input.policy();
        format!(
            "{:?}, {} over {num_cubes} cubes and {} over {num_pes} PEs of each",
            self.input.shape(),
            cube.name(),
            pe.name()
        )
    }

    /// The elements of the largest tensor on any rank, the same number on all ranks; `None` if each rank has its own.
    fn elements(&self, ranks: usize) -> Option<usize> {
        match self.operation {
            Operation::Scatter => Some(self.output.numel() * ranks),
            Operation::Gather => Some(self.input.numel() * ranks),
            Operation::AllToAll if self.splits.is_some() => None,
            _ => Some(self.input.numel().max(self.output.numel())),
        }
    }

    /// The parameters that the time of the collective depends on, the same on all ranks.
    fn trial(&self, sips: &[u32]) -> Result<Trial, Error> {
        let lanes = by_piece(self.operation, self.input, self.output)?;
        let layout = Layout::of(self.operation, sips.len(), &lanes);
        let has_splits = self.splits.is_some();
        Ok(Trial {
            operation: self.operation,
            combine: self.combine,
            dtype: self.input.dtype(),
            members: sips.to_vec(),
            root: self.root,
            // Sizes that differ between ranks are replaced by one that is the same for all.
            layout: if has_splits { Layout::single(UNEVEN / sips.len()) } else { layout },
            has_splits,
        })
    }

    /// The accesses of this rank's part.
    fn args(&self, rank: usize) -> Vec<Arg> {
        let is_root = rank == self.root;
        match self.operation {
            Operation::Broadcast if is_root => vec![Arg::read(self.input)],
            Operation::Gather if !is_root => vec![Arg::read(self.input)],
            Operation::Scatter if !is_root => vec![Arg::write(self.output)],
            _ => vec![Arg::read(self.input), Arg::write(self.output)],
        }
    }
}

/// Launches this rank's part of a collective with the configured algorithm.
pub(crate) fn launch(
    cx: &Rank,
    group: &ProcessGroup,
    call: &CollectiveCall<'_>,
) -> Result<Handle, Error> {
    launch_by(cx, group, call, None).map(|(handle, _)| handle)
}

/// Launches this rank's part of a collective with `plan` or the configured algorithm; returns the plan too.
pub(crate) fn launch_by(
    cx: &Rank,
    group: &ProcessGroup,
    call: &CollectiveCall<'_>,
    plan: Option<Plan>,
) -> Result<(Handle, Plan), Error> {
    let rank = group.rank().expect("checked by the caller");
    let sips = group.shared_members().sips.clone();
    let plan = plan.map_or_else(|| choose(cx, call, &sips), Ok)?;
    let algorithm = plan.algorithm().expect("checked when chosen");
    let channels = plan.channels_of(&*algorithm, call.splits.is_some());
    let segments = call.operation.segments(sips.len(), rank == call.root);
    let lanes = by_piece(call.operation, call.input, call.output)?;
    let columns = cx.machine().cubes.columns;
    let lanes = spread(lanes, channels, segments, &cx.host().pes(), columns);
    let edge = channels.queues(plan.edge, lanes.len());
    let sequence = group.next_sequence();
    let topic = call.topic(group, sequence, &plan);
    group.join(sequence, topic.clone());
    let mismatch: Rc<RefCell<Option<Mismatch>>> = Rc::default();
    let job = Rc::new(Job {
        lanes,
        algorithm,
        operation: call.operation,
        combine: call.combine,
        dtype: call.input.dtype(),
        rank,
        root: call.root,
        splits: call.splits.clone().map(Rc::new),
        sips,
        names: group.shared_members().ranks.clone(),
        edge,
        start: plan.start,
        in_loops: plan.in_loops,
        channel: group.channel(edge),
        topic: topic.as_str().into(),
        mismatch: mismatch.clone(),
    });
    let on = On {
        pes: job.pes(),
        axes: None,
        exclusive: true,
        label: Some(format!("{}({})", call.name, plan.name)),
        after: group.last().into_iter().collect(),
    };
    let (own, failed) = (group.clone(), mismatch);
    let handle = cx.launch_mapped(
        call.name,
        on,
        &call.args(rank),
        move |tl, _| job.run(tl),
        move |result| match result {
            Ok(cause) => {
                own.finish(sequence);
                Ok(cause)
            }
            Err(error) => {
                let found = failed.take();
                Err(found.map_or(error, |mismatch| Error::Mismatch(Box::new(mismatch))))
            }
        },
    );
    group.follow(&handle);
    Ok((handle, plan))
}

/// Returns the plan that an all-reduce of `tensor` follows: the configured one, or the fastest that fits.
pub fn all_reduce_plan(cx: &Rank, group: &ProcessGroup, tensor: &Tensor) -> Result<Plan, Error> {
    choose(
        cx,
        &CollectiveCall::new(Operation::AllReduce, tensor, tensor),
        &group.shared_members().sips,
    )
}

/// Launches this rank's part of an all-reduce that follows `plan`.
pub fn all_reduce_by(
    cx: &Rank,
    group: &ProcessGroup,
    tensor: &Tensor,
    combine: ReduceOp,
    plan: Plan,
) -> Result<Handle, Error> {
    let call =
        CollectiveCall { combine, ..CollectiveCall::new(Operation::AllReduce, tensor, tensor) };
    launch_by(cx, group, &call, Some(plan)).map(|(handle, _)| handle)
}

/// The plan for a collective: the configured one, or the fastest that fits.
fn choose(cx: &Rank, call: &CollectiveCall<'_>, sips: &[u32]) -> Result<Plan, Error> {
    let settings = cx.settings();
    let names = settings.ccl.names();
    let auto = || {
        let trial = call.trial(sips)?;
        let mut chosen = None;
        // The first shard that asks simulates the trials, and the others find their times.
        cx.host().by_turns(&mut || chosen = settings.tuner.choose(&settings.ccl, &trial));
        if chosen.is_none() && settings.tuner.was_interrupted() {
            return Err(RunError::Interrupted(cx.now()).into());
        }
        chosen
            .ok_or_else(|| Error::argument(format!("no algorithm can do {} here", call.operation)))
    };
    let Choice::Named(name) = settings.ccl.default_choice() else { return auto() };
    let plan = settings.ccl.plan(&name, &names).ok_or_else(|| {
        Error::argument(format!("there is no algorithm `{name}`; there are {}", names.join(", ")))
    })?;
    let algorithm = plan.algorithm().expect("checked when the file was read");
    // The configured algorithm may not support this operation; `auto` then chooses one that does.
    if !algorithm.operations().contains(&call.operation) {
        return auto();
    }
    match plan.check(call.operation, cx.machine(), sips) {
        Ok(()) => Ok(plan),
        Err(reason) => {
            let placed = settings.ccl.unfit(&plan, &reason).map(|error| error.to_string());
            Err(Error::argument(placed.unwrap_or(reason)))
        }
    }
}
