//! The process groups of each kind of parallelism.
//!
//! Every rank keeps its own state (PAR-1).
//!
//! - **PST-1 (same groups on all).** Every rank makes all groups of all kinds, in the same order and without waiting, and
//!   keeps those that it is a member of.

mod grid;

pub use grid::RankGrid;

use crate::distributed::{self, ProcessGroup};
use crate::error::Error;
use crate::rank::Rank;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of ranks of each kind of parallelism; the rest is data parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelParallel {
    /// Ranks that share the tensors of a layer.
    pub tensor: usize,
    /// Stages that share the layers of a model.
    pub pipeline: usize,
    /// Ranks that share the tokens of a sequence.
    pub context: usize,
    /// Ranks that share the experts of a layer.
    pub expert: usize,
    /// Ranks that share the tensors of an expert; as many as of other layers if `None`.
    pub expert_tensor: Option<usize>,
    /// The order in which ranks are numbered, fastest-varying first.
    pub order: String,
}

impl Default for ModelParallel {
    /// Pure data parallelism.
    fn default() -> Self {
        let order = "tp-cp-ep-dp-pp".to_owned();
        Self { tensor: 1, pipeline: 1, context: 1, expert: 1, expert_tensor: None, order }
    }
}

impl ModelParallel {
    /// Tensors over `tensor` ranks, layers over `pipeline` stages.
    pub fn new(tensor: usize, pipeline: usize) -> Self {
        Self { tensor, pipeline, ..Self::default() }
    }

    /// The grids of dense layers and of experts.
    fn grids(&self, world: usize) -> Result<[RankGrid; 2], Error> {
        let Self { tensor, pipeline, context, expert, expert_tensor, order } = self;
        let expert_tensor = expert_tensor.unwrap_or(*tensor);
        let dense = tensor * pipeline * context;
        if dense == 0 || !world.is_multiple_of(dense) {
            return Err(Error::argument(format!(
                "world_size ({world}) is not divisible by {dense}"
            )));
        }
        let sparse = expert_tensor * expert * pipeline;
        if sparse == 0 || !world.is_multiple_of(sparse) {
            return Err(Error::argument(format!(
                "world_size ({world}) is not divisible by expert_tensor_model_pipeline_parallel size ({sparse})"
            )));
        }
        let dense = [("tp", *tensor), ("pp", *pipeline), ("cp", *context), ("dp", world / dense)];
        let sparse =
            [("tp", expert_tensor), ("ep", *expert), ("pp", *pipeline), ("dp", world / sparse)];
        Ok([RankGrid::new(&dense, order)?, RankGrid::new(&sparse, order)?])
    }
}

/// A kind of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// Ranks that hold the same weights and process different data.
    Data,
    /// Data parallel ranks, with the ranks that share a sequence.
    DataWithContext,
    /// Ranks that share the tokens of a sequence.
    Context,
    /// Ranks that share one copy of a model.
    Model,
    /// Ranks that share the tensors of a layer.
    Tensor,
    /// The stages of a model.
    Pipeline,
    /// The first and the last stage, which share the embedding.
    Embedding,
    /// Ranks of the same stage and the same part of a sequence.
    TensorAndData,
    /// Ranks that share the tensors of a layer and the tokens of a sequence.
    TensorAndContext,
    /// Ranks that share the experts of a layer.
    Expert,
    /// Ranks that share the tensors of an expert.
    ExpertTensor,
    /// Ranks that hold the same experts.
    ExpertData,
}

impl GroupKind {
    /// Its name in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Data => "data parallel",
            Self::DataWithContext => "data parallel with context parallel combined",
            Self::Context => "context parallel",
            Self::Model => "model parallel",
            Self::Tensor => "tensor model parallel",
            Self::Pipeline => "pipeline_model parallel",
            Self::Embedding => "embedding",
            Self::TensorAndData => "tensor and data parallel",
            Self::TensorAndContext => "tensor and context parallel",
            Self::Expert => "expert model parallel",
            Self::ExpertTensor => "expert tensor parallel",
            Self::ExpertData => "expert data parallel",
        }
    }
}

/// All groups of one kind, each a list of ranks.
pub type GroupList = Vec<Vec<usize>>;

/// Returns the groups of each kind, in the order in which ranks make them.
pub fn rank_groups(
    sizes: &ModelParallel,
    world: usize,
) -> Result<Vec<(GroupKind, GroupList)>, Error> {
    let [dense, sparse] = sizes.grids(world)?;
    let pipelines = dense.groups("pp");
    let ends = |stages: &Vec<usize>| {
        let mut ends = vec![stages[0], stages[stages.len() - 1]];
        ends.dedup();
        ends
    };
    Ok(vec![
        (GroupKind::Data, dense.groups("dp")),
        (GroupKind::DataWithContext, dense.groups("dp-cp")),
        (GroupKind::Context, dense.groups("cp")),
        (GroupKind::Model, dense.groups("tp-pp")),
        (GroupKind::Tensor, dense.groups("tp")),
        (GroupKind::Embedding, pipelines.iter().map(ends).collect()),
        (GroupKind::Pipeline, pipelines),
        (GroupKind::TensorAndData, dense.groups("tp-dp")),
        (GroupKind::TensorAndContext, dense.groups("tp-cp")),
        (GroupKind::Expert, sparse.groups("ep")),
        (GroupKind::ExpertTensor, sparse.groups("tp")),
        (GroupKind::ExpertData, sparse.groups("dp")),
    ])
}

/// The groups of a rank, and the overrides of its getters.
#[derive(Default)]
pub(crate) struct ParallelState {
    groups: RefCell<BTreeMap<GroupKind, ProcessGroup>>,
    tensor_rank: Cell<Option<usize>>,
    tensor_world_size: Cell<Option<usize>>,
    pipeline_rank: Cell<Option<usize>>,
    pipeline_world_size: Cell<Option<usize>>,
}

/// The state of a rank; makes an empty one if there is none.
fn state(cx: &Rank) -> Rc<ParallelState> {
    cx.parallel().borrow_mut().get_or_insert_default().clone()
}

/// Makes all groups. Every rank calls this after `init_process_group`; no rank waits (PST-1).
///
/// # Errors
///
/// If the ranks cannot be divided like this, if there is no process group, or if groups exist already.
pub fn initialize_model_parallel(cx: &Rank, sizes: &ModelParallel) -> Result<(), Error> {
    distributed::get_world_size(cx, None)?;
    let groups = rank_groups(sizes, cx.world_size())?;
    let state = state(cx);
    if let Some(kind) = state.groups.borrow().keys().next() {
        return Err(Error::argument(format!("{} group is already initialized", kind.name())));
    }
    for (kind, lists) in groups {
        for ranks in lists {
            let group = distributed::new_group(cx, &ranks)?;
            if group.rank().is_some() {
                state.groups.borrow_mut().insert(kind, group);
            }
        }
    }
    Ok(())
}

/// True if groups were made.
pub fn is_initialized(cx: &Rank) -> bool {
    state(cx).groups.borrow().contains_key(&GroupKind::Data)
}

/// True if the groups of tensors, stages and data were made.
pub fn model_parallel_is_initialized(cx: &Rank) -> bool {
    let state = state(cx);
    let groups = state.groups.borrow();
    [GroupKind::Tensor, GroupKind::Pipeline, GroupKind::Data]
        .iter()
        .all(|kind| groups.contains_key(kind))
}

/// Forgets all groups and overrides.
pub fn destroy_model_parallel(cx: &Rank) {
    cx.parallel().borrow_mut().take();
}

/// This rank's group of a kind.
fn get_group(cx: &Rank, kind: GroupKind) -> Result<ProcessGroup, Error> {
    let missing = || {
        // Inner stages have no part in the embedding; of all other kinds every rank has a group.
        Error::argument(format!("{} group is not initialized", kind.name()))
    };
    state(cx).groups.borrow().get(&kind).cloned().ok_or_else(missing)
}

fn rank_in(cx: &Rank, kind: GroupKind) -> Result<usize, Error> {
    Ok(get_group(cx, kind)?.rank().expect("kept because it is a member"))
}

/// A group, the rank's number in it and its size, of one kind.
macro_rules! of_kind {
    ($kind:ident, $what:literal, $group:ident, $rank:ident, $size:ident) => {
        #[doc = concat!("The ", $what, " group.")]
        pub fn $group(cx: &Rank) -> Result<ProcessGroup, Error> {
            get_group(cx, GroupKind::$kind)
        }

        #[doc = concat!("This rank's number in the ", $what, " group.")]
        pub fn $rank(cx: &Rank) -> Result<usize, Error> {
            rank_in(cx, GroupKind::$kind)
        }

        #[doc = concat!("The size of the ", $what, " group.")]
        pub fn $size(cx: &Rank) -> Result<usize, Error> {
            Ok(get_group(cx, GroupKind::$kind)?.size())
        }
    };
}

of_kind!(
    Data,
    "data parallel",
    get_data_parallel_group,
    get_data_parallel_rank,
    get_data_parallel_world_size
);
of_kind!(
    Context,
    "context parallel",
    get_context_parallel_group,
    get_context_parallel_rank,
    get_context_parallel_world_size
);
of_kind!(
    Expert,
    "expert model parallel",
    get_expert_model_parallel_group,
    get_expert_model_parallel_rank,
    get_expert_model_parallel_world_size
);
of_kind!(
    ExpertTensor,
    "expert tensor parallel",
    get_expert_tensor_parallel_group,
    get_expert_tensor_parallel_rank,
    get_expert_tensor_parallel_world_size
);

/// Returns the group of one copy of the model.
pub fn get_model_parallel_group(cx: &Rank) -> Result<ProcessGroup, Error> {
    get_group(cx, GroupKind::Model)
}

/// Returns the group that shares the tensors of a layer.
pub fn get_tensor_model_parallel_group(cx: &Rank) -> Result<ProcessGroup, Error> {
    get_group(cx, GroupKind::Tensor)
}

/// This rank's number among those that share the tensors of a layer.
pub fn get_tensor_model_parallel_rank(cx: &Rank) -> Result<usize, Error> {
    told(state(cx).tensor_rank.get(), || rank_in(cx, GroupKind::Tensor))
}

/// Returns the number of ranks that share the tensors of a layer.
pub fn get_tensor_model_parallel_world_size(cx: &Rank) -> Result<usize, Error> {
    told(state(cx).tensor_world_size.get(), || Ok(get_group(cx, GroupKind::Tensor)?.size()))
}

/// Returns the first of the ranks that share the tensors of a layer, by its number in the world.
pub fn get_tensor_model_parallel_src_rank(cx: &Rank) -> Result<usize, Error> {
    Ok(get_group(cx, GroupKind::Tensor)?.members()[0])
}

/// Returns the first of the ranks that hold the same weights, by its number in the world.
pub fn get_data_parallel_src_rank(cx: &Rank) -> Result<usize, Error> {
    Ok(get_group(cx, GroupKind::Data)?.members()[0])
}

/// Overrides [`get_tensor_model_parallel_rank`].
pub fn set_tensor_model_parallel_rank(cx: &Rank, rank: usize) {
    state(cx).tensor_rank.set(Some(rank));
}

/// Overrides [`get_tensor_model_parallel_world_size`].
pub fn set_tensor_model_parallel_world_size(cx: &Rank, size: usize) {
    state(cx).tensor_world_size.set(Some(size));
}

/// Returns the stages of this rank's model.
pub fn get_pipeline_model_parallel_group(cx: &Rank) -> Result<ProcessGroup, Error> {
    get_group(cx, GroupKind::Pipeline)
}

/// This rank's stage.
pub fn get_pipeline_model_parallel_rank(cx: &Rank) -> Result<usize, Error> {
    told(state(cx).pipeline_rank.get(), || rank_in(cx, GroupKind::Pipeline))
}

/// Returns the number of stages.
pub fn get_pipeline_model_parallel_world_size(cx: &Rank) -> Result<usize, Error> {
    told(state(cx).pipeline_world_size.get(), || Ok(get_group(cx, GroupKind::Pipeline)?.size()))
}

/// Overrides [`get_pipeline_model_parallel_rank`].
pub fn set_pipeline_model_parallel_rank(cx: &Rank, rank: usize) {
    state(cx).pipeline_rank.set(Some(rank));
}

/// Overrides [`get_pipeline_model_parallel_world_size`].
pub fn set_pipeline_model_parallel_world_size(cx: &Rank, size: usize) {
    state(cx).pipeline_world_size.set(Some(size));
}

/// Returns the rank of the first stage, by its number in the world.
pub fn get_pipeline_model_parallel_first_rank(cx: &Rank) -> Result<usize, Error> {
    Ok(get_group(cx, GroupKind::Pipeline)?.members()[0])
}

/// Returns the rank of the last stage, by its number in the world.
pub fn get_pipeline_model_parallel_last_rank(cx: &Rank) -> Result<usize, Error> {
    let group = get_group(cx, GroupKind::Pipeline)?;
    Ok(group.members()[group.size() - 1])
}

/// Returns the rank of the next stage, by its number in the world; the first stage follows the last.
pub fn get_pipeline_model_parallel_next_rank(cx: &Rank) -> Result<usize, Error> {
    stage_after(cx, 1)
}

/// Returns the rank of the previous stage, by its number in the world; the last stage precedes the first.
pub fn get_pipeline_model_parallel_prev_rank(cx: &Rank) -> Result<usize, Error> {
    stage_after(cx, get_group(cx, GroupKind::Pipeline)?.size() - 1)
}

fn stage_after(cx: &Rank, steps: usize) -> Result<usize, Error> {
    let group = get_group(cx, GroupKind::Pipeline)?;
    let stage = get_pipeline_model_parallel_rank(cx)?;
    Ok(group.members()[(stage + steps) % group.size()])
}

/// True if this rank is in the first stage.
pub fn is_pipeline_first_stage(cx: &Rank) -> Result<bool, Error> {
    Ok(get_pipeline_model_parallel_rank(cx)? == 0)
}

/// True if this rank is in the last stage.
pub fn is_pipeline_last_stage(cx: &Rank) -> Result<bool, Error> {
    let last = get_pipeline_model_parallel_world_size(cx)? - 1;
    Ok(get_pipeline_model_parallel_rank(cx)? == last)
}

fn told(told: Option<usize>, known: impl FnOnce() -> Result<usize, Error>) -> Result<usize, Error> {
    told.map_or_else(known, Ok)
}
