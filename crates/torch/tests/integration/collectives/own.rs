//! Algorithms of programs: found by name, by `auto`, in files and in sweeps.

use crate::ranks::machine;
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::machine::Options;
use phalanx_torch::ccl::sweep::Sweep;
use phalanx_torch::ccl::{
    Algorithm, CclConfig, CollectiveAlgorithm, LoadFrom, Operation, Part, ReduceOp, Running,
    Stream, side_by_side,
};
use phalanx_torch::{Context, distributed as dist, multiprocessing};

/// An all-gather in both directions of a ring.
struct BothWays(&'static str);

impl CollectiveAlgorithm for BothWays {
    fn name(&self) -> &str {
        self.0
    }

    fn operations(&self) -> &[Operation] {
        &[Operation::AllGather]
    }

    fn run(&self, part: Part, tl: Tl) -> Running<'static> {
        Box::pin(both_ways(part, tl))
    }
}

async fn both_ways(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let steps = [1, part.ranks - 1].into_iter().enumerate();
    let streams = steps.map(|(index, step)| {
        let stream = Stream { index, streams: 2, receivers: 2 };
        around(part.stream(&tl, stream, &(index..index + 1), 2), tl.clone(), step)
    });
    side_by_side(streams.collect()).await
}

fn around(part: Part, tl: Tl, step: usize) -> Running<'static> {
    Box::pin(async move {
        let (rank, ranks, len) = (part.rank, part.ranks, part.output.len);
        let to = part.to(&tl, (rank + step) % ranks, 1)?;
        let from = part.from(&tl, (rank + ranks - step) % ranks, 1)?;
        let mine = part.chunks(&(0..part.input.len));
        for (place, chunk) in part.chunks(&part.segment(len, rank)).zip(mine) {
            let tile = part.load(&tl, &chunk).await?;
            part.send(&tl, &to, &tile);
            part.store(&tl, &place, &tile);
        }
        for distance in 1..ranks {
            let owner = rank + distance * (ranks - step);
            for place in part.chunks(&part.segment(len, owner)) {
                let tile = part.recv(&tl, &from, place.len()).await?;
                if distance + 1 < ranks {
                    part.send(&tl, &to, &tile);
                }
                part.store(&tl, &place, &tile);
            }
        }
        Ok(())
    })
}

/// Gathers the numbers of four ranks; panics unless all get them in the order of ranks.
fn gather(context: &mut Context) {
    let done = multiprocessing::spawn(context, 4, |rank, cx| async move {
        dist::init_process_group(&cx)?;
        #[expect(clippy::cast_precision_loss, reason = "few ranks")]
        let x = cx.full([1001], rank as f64, DType::F32)?;
        let all = cx.zeros([4 * 1001], DType::F32)?;
        dist::all_gather(&cx, &all, &x, None).await?;
        let wanted: Vec<f32> =
            [0.0, 1.0, 2.0, 3.0].into_iter().flat_map(|x| vec![x; 1001]).collect();
        assert_eq!(all.to_vec().await?, wanted);
        Ok(())
    });
    done.unwrap();
}

#[test]
fn own_1_files_and_ranks_use_an_algorithm_of_the_program() {
    let bare = machine("bare", &["system.sips.count=4"]);
    let names = [&*Algorithm::names(), &["both_ways"]].concat();
    let text =
        "defaults: { algorithm: mine }\nalgorithms: { mine: { module: both_ways, channels: 2 } }";
    let ccl = CclConfig::parse("ccl.yaml", text, &names).unwrap();
    let context = || Context::new(bare.clone(), Options::default());
    gather(&mut context().with_ccl(ccl.clone()).with_algorithm(BothWays("both_ways")));
    gather(&mut context().with_algorithm(BothWays("both_ways")).with_ccl(ccl));
    // `auto` has it among its candidates.
    gather(&mut context().with_algorithm(BothWays("both_ways")));
}

/// An all-gather in which every rank copies its own segment with prefetching, and then sends it to all others.
struct Prefetching;

impl CollectiveAlgorithm for Prefetching {
    fn name(&self) -> &'static str {
        "prefetching"
    }

    fn operations(&self) -> &[Operation] {
        &[Operation::AllGather]
    }

    fn run(&self, part: Part, tl: Tl) -> Running<'static> {
        Box::pin(prefetching(part, tl))
    }
}

async fn prefetching(part: Part, tl: Tl) -> Result<(), KernelError> {
    let (rank, ranks, len) = (part.rank, part.ranks, part.output.len);
    let own = part.segment(len, rank);
    let wanted = part.chunks(&own).zip(part.chunks(&(0..part.input.len)));
    let mut mine = part.prefetch(&tl, LoadFrom::Input, wanted);
    while let Some((to, _, tile)) = mine.next().await? {
        part.store(&tl, &to, &tile);
    }
    for peer in (1..ranks).map(|distance| (rank + distance) % ranks) {
        let to = part.to(&tl, peer, 1)?;
        part.send_all(&tl, &to, LoadFrom::Output, &own).await?;
    }
    for peer in (1..ranks).map(|distance| (rank + ranks - distance) % ranks) {
        let from = part.from(&tl, peer, 1)?;
        for chunk in part.chunks(&part.segment(len, peer)) {
            let tile = part.recv(&tl, &from, chunk.len()).await?;
            part.store(&tl, &chunk, &tile);
        }
    }
    Ok(())
}

#[test]
fn own_1_an_algorithm_of_the_program_prefetches() {
    let bare = machine("bare", &["system.sips.count=4"]);
    let names = [&*Algorithm::names(), &["prefetching"]].concat();
    let text = "defaults: { algorithm: prefetching }";
    let ccl = CclConfig::parse("ccl.yaml", text, &names).unwrap();
    let context = Context::new(bare, Options::default()).with_ccl(ccl);
    gather(&mut context.with_algorithm(Prefetching));
}

fn sweep(ccl: CclConfig) -> Sweep {
    Sweep {
        machine: machine("octo-ring", &[]),
        options: Options { data: false, ..Options::default() },
        ccl,
        operation: Operation::AllGather,
        combine: ReduceOp::Sum,
        dtype: DType::F32,
        ranks: None,
    }
}

#[test]
fn own_1_a_sweep_measures_it_like_the_others() {
    let sweep = sweep(CclConfig::builtin().with_algorithm(BothWays("both_ways")));
    let plan = |name: &str| sweep.ccl.plan(name, &sweep.ccl.names()).unwrap();
    let time = |name: &str| sweep.measure(1 << 20, Some(&plan(name))).unwrap().out_of_place.time;
    assert!(time("both_ways") < time("ring"), "OWN-1: two directions carry more");
    assert!(time("both_ways:8") < time("both_ways"), "OWN-1: over channels");
    assert!(sweep.ccl.plans(&sweep.ccl.names()).iter().any(|plan| plan.name == "both_ways"));
    let auto = sweep.measure(1 << 20, None).unwrap().out_of_place.time;
    assert!(auto <= time("both_ways"), "OWN-1: `auto` knows it");
    let unfit = Sweep { operation: Operation::Gather, ..sweep.clone() }.fits(&plan("both_ways"));
    assert!(unfit.unwrap_err().starts_with("`both_ways` cannot do gather; these can: "));
}

#[test]
fn own_1_auto_takes_it_if_it_is_the_fastest() {
    /// Does nothing, which is hard to beat.
    struct Idle;
    impl CollectiveAlgorithm for Idle {
        fn name(&self) -> &'static str {
            "ring"
        }
        fn operations(&self) -> &[Operation] {
            &[Operation::AllGather]
        }
        fn run(&self, _: Part, _: Tl) -> Running<'static> {
            Box::pin(async { Ok(()) })
        }
    }
    let sweep = sweep(CclConfig::builtin().with_algorithm(Idle));
    assert_eq!(sweep.measure(1 << 16, None).unwrap().algorithm, "ring", "OWN-1: instead of `ring`");
    assert_eq!(sweep.ccl.names(), Algorithm::names(), "OWN-1: one of each name");
}
