use super::{bare, refusal};
use phalanx_torch::tp::ModelParallel;
use phalanx_torch::tp::parallel_state::{self as state, GroupKind, RankGrid};
use phalanx_torch::{distributed as dist, multiprocessing};
use std::collections::BTreeMap;

/// The groups of some kinds, by walking over all ranks: those whose other coordinates are equal belong together.
fn oracle(sizes: &[(&str, usize)], kinds: &[&str]) -> Vec<Vec<usize>> {
    let world: usize = sizes.iter().map(|(_, size)| size).product();
    let mut order = Vec::new();
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for rank in 0..world {
        let (mut rest, mut key) = (rank, Vec::new());
        for (kind, size) in sizes {
            if !kinds.contains(kind) {
                key.push(rest % size);
            }
            rest /= size;
        }
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        groups.entry(key).or_default().push(rank);
    }
    order.iter().map(|key| groups[key].clone()).collect()
}

fn groups_of(sizes: &ModelParallel, world: usize, kind: GroupKind) -> Vec<Vec<usize>> {
    let all = state::rank_groups(sizes, world).unwrap();
    all.into_iter().find(|(other, _)| *other == kind).unwrap().1
}

#[test]
fn t1_groups_are_those_of_the_examples() {
    let sizes = ModelParallel::new(2, 4);
    let pairs: Vec<Vec<usize>> = (0..8).map(|group| vec![2 * group, 2 * group + 1]).collect();
    assert_eq!(groups_of(&sizes, 16, GroupKind::Tensor), pairs);
    let data = [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]];
    assert_eq!(groups_of(&sizes, 16, GroupKind::Data), data.map(Vec::from));
    let stages = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
    assert_eq!(groups_of(&sizes, 16, GroupKind::Pipeline), stages.map(Vec::from));
    let models = [[0, 1, 4, 5, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 14, 15]];
    assert_eq!(groups_of(&sizes, 16, GroupKind::Model), models.map(Vec::from));
    let ends = [[0, 12], [1, 13], [2, 14], [3, 15]];
    assert_eq!(groups_of(&sizes, 16, GroupKind::Embedding), ends.map(Vec::from));
}

#[test]
fn t1_groups_are_those_of_the_oracle_on_a_grid_of_sizes_and_orders() {
    for order in ["tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-cp-tp-ep", "tp-pp-dp-cp"] {
        for (tp, pp) in [1, 2, 3, 4].into_iter().flat_map(|tp| [1, 2, 4].map(|pp| (tp, pp))) {
            for (cp, dp) in [1, 2, 3].into_iter().flat_map(|cp| [1, 2, 5].map(|dp| (cp, dp))) {
                let sizes = [("tp", tp), ("pp", pp), ("cp", cp), ("dp", dp)];
                let grid = RankGrid::new(&sizes, order).unwrap();
                let size_of = |name: &str| {
                    sizes.iter().find(|(kind, _)| *kind == name).map_or(1, |(_, size)| *size)
                };
                let ordered: Vec<(&str, usize)> =
                    order.split('-').map(|name| (name, size_of(name))).collect();
                for kinds in
                    ["tp", "pp", "dp", "cp", "tp-pp", "dp-cp", "tp-dp", "tp-cp", "tp-dp-cp"]
                {
                    let names: Vec<&str> = kinds.split('-').collect();
                    assert_eq!(grid.groups(kinds), oracle(&ordered, &names), "{order} {sizes:?}");
                }
                let model = ModelParallel {
                    tensor: tp,
                    pipeline: pp,
                    context: cp,
                    order: order.to_owned(),
                    ..ModelParallel::default()
                };
                let world = tp * pp * cp * dp;
                assert_eq!(groups_of(&model, world, GroupKind::Data), oracle(&ordered, &["dp"]));
            }
        }
    }
}

#[test]
fn t1_experts_have_groups_of_their_own() {
    let sizes =
        ModelParallel { tensor: 2, expert: 2, expert_tensor: Some(1), ..ModelParallel::default() };
    assert_eq!(
        groups_of(&sizes, 8, GroupKind::Expert),
        [[0, 1], [2, 3], [4, 5], [6, 7]].map(Vec::from)
    );
    assert_eq!(
        groups_of(&sizes, 8, GroupKind::ExpertData),
        [[0, 2, 4, 6], [1, 3, 5, 7]].map(Vec::from)
    );
    assert_eq!(
        groups_of(&sizes, 8, GroupKind::ExpertTensor),
        (0..8).map(|r| vec![r]).collect::<Vec<_>>()
    );
}

#[test]
fn t1_what_cannot_be_divided_or_ordered_is_refused() {
    let refused = |sizes: &ModelParallel| refusal(state::rank_groups(sizes, 16));
    assert_eq!(refused(&ModelParallel::new(3, 1)), "world_size (16) is not divisible by 3");
    assert_eq!(refused(&ModelParallel::new(0, 1)), "world_size (16) is not divisible by 0");
    let experts = ModelParallel { expert: 3, ..ModelParallel::default() };
    let text = "world_size (16) is not divisible by expert_tensor_model_pipeline_parallel size (3)";
    assert_eq!(refused(&experts), text);
    let order = |order: &str| ModelParallel { order: order.to_owned(), ..ModelParallel::new(2, 1) };
    assert_eq!(
        refused(&order("dp-pp")),
        "The size of (tp) is (2), but you haven't specified the order (dp-pp)."
    );
    assert!(refused(&order("tp-dp-tp")).contains("`tp` twice"));
    assert!(refused(&order("tp-dp-xp")).contains("`xp`"));
}

#[test]
fn t1_and_pst_1_every_rank_of_one_process_has_its_own_answers() {
    let mut context = bare(8, "");
    let answers = multiprocessing::spawn(&mut context, 8, |rank, cx| async move {
        assert!(!state::is_initialized(&cx));
        assert_eq!(
            refusal(state::get_tensor_model_parallel_group(&cx)),
            "tensor model parallel group is not initialized"
        );
        assert_eq!(
            refusal(state::get_data_parallel_rank(&cx)),
            "data parallel group is not initialized"
        );
        let sizes = ModelParallel::new(2, 2);
        assert!(
            refusal(state::initialize_model_parallel(&cx, &sizes)).contains("init_process_group")
        );
        dist::init_process_group(&cx)?;
        state::initialize_model_parallel(&cx, &sizes)?;
        assert!(state::is_initialized(&cx) && state::model_parallel_is_initialized(&cx));
        assert_eq!(
            refusal(state::initialize_model_parallel(&cx, &sizes)),
            "data parallel group is already initialized"
        );
        assert_eq!(state::get_tensor_model_parallel_rank(&cx)?, rank % 2);
        assert_eq!(state::get_tensor_model_parallel_world_size(&cx)?, 2);
        assert_eq!(state::get_tensor_model_parallel_src_rank(&cx)?, rank / 2 * 2);
        assert_eq!(state::get_data_parallel_world_size(&cx)?, 2);
        assert_eq!(state::get_data_parallel_src_rank(&cx)?, rank / 4 * 4 + rank % 2);
        assert_eq!(state::get_context_parallel_world_size(&cx)?, 1);
        assert_eq!(state::get_expert_model_parallel_rank(&cx)?, 0);
        assert_eq!(state::get_expert_tensor_parallel_world_size(&cx)?, 2);
        assert_eq!(state::get_pipeline_model_parallel_rank(&cx)?, rank / 4);
        assert_eq!(state::is_pipeline_first_stage(&cx)?, rank < 4);
        assert_eq!(state::is_pipeline_last_stage(&cx)?, rank >= 4);
        assert_eq!(state::get_pipeline_model_parallel_first_rank(&cx)?, rank % 4);
        assert_eq!(state::get_pipeline_model_parallel_last_rank(&cx)?, rank % 4 + 4);
        assert_eq!(state::get_pipeline_model_parallel_next_rank(&cx)?, (rank + 4) % 8);
        assert_eq!(state::get_pipeline_model_parallel_prev_rank(&cx)?, (rank + 4) % 8);
        let model = state::get_model_parallel_group(&cx)?;
        let first = rank % 4 / 2 * 2;
        assert_eq!(model.members(), [first, first + 1, first + 4, first + 5]);
        Ok(state::get_data_parallel_group(&cx)?.members().to_vec())
    });
    let expected = [[0, 2], [1, 3], [0, 2], [1, 3], [4, 6], [5, 7], [4, 6], [5, 7]];
    assert_eq!(answers.unwrap(), expected.map(Vec::from));
}

#[test]
fn t1_answers_can_be_overridden_and_everything_forgotten() {
    let mut context = bare(2, "");
    let done = multiprocessing::spawn(&mut context, 2, |_, cx| async move {
        state::set_tensor_model_parallel_rank(&cx, 7);
        state::set_tensor_model_parallel_world_size(&cx, 8);
        state::set_pipeline_model_parallel_rank(&cx, 2);
        state::set_pipeline_model_parallel_world_size(&cx, 3);
        assert!(!state::is_initialized(&cx));
        assert_eq!(state::get_tensor_model_parallel_rank(&cx)?, 7);
        assert_eq!(state::get_tensor_model_parallel_world_size(&cx)?, 8);
        assert!(state::is_pipeline_last_stage(&cx)?);
        state::destroy_model_parallel(&cx);
        assert!(state::get_tensor_model_parallel_rank(&cx).is_err());
        dist::init_process_group(&cx)?;
        state::initialize_model_parallel(&cx, &ModelParallel::new(2, 1))?;
        state::destroy_model_parallel(&cx);
        state::initialize_model_parallel(&cx, &ModelParallel::new(1, 2))?;
        state::get_pipeline_model_parallel_world_size(&cx)
    });
    assert_eq!(done.unwrap(), [2, 2]);
}
