//! `auto`: the fastest is chosen, by all ranks alike, and nothing is measured twice.

use super::GRIDS;
use super::truths::{timed, wired};
use crate::ranks::ccl;
use phalanx_sim::DType;
use phalanx_sim::machine::{Options, RunError};
use phalanx_torch::ccl::Plan;
use phalanx_torch::ccl::trial::Trial;
use phalanx_torch::ccl::tuner::Tuner;
use phalanx_torch::ccl::{Algorithm, CclConfig, Operation};
use phalanx_torch::{Context, Error, distributed as dist, multiprocessing};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn trial(ranks: u32, elements: usize) -> Trial {
    Trial::new(Operation::AllReduce, (0..ranks).collect(), elements)
}

fn plans() -> Vec<Plan> {
    CclConfig::builtin().plans(&Algorithm::names())
}

#[test]
fn the_fastest_is_chosen_for_a_size() {
    for (topology, large) in [("fully_connected", 1 << 22), ("switch", 1 << 22)] {
        let spec = wired(topology, 8);
        let tuner = Tuner::new(spec.clone());
        for elements in [1, 16, 1 << 12, 1 << 16, 1 << 20] {
            let chosen = tuner.fastest(&trial(8, elements), &plans()).expect("one fits");
            let time = timed(Operation::AllReduce, &spec, &chosen, elements * 4);
            for plan in plans().iter().filter(|plan| !GRIDS.contains(&&*plan.module)) {
                let other = timed(Operation::AllReduce, &spec, plan, elements * 4);
                assert!(time <= other, "{topology}, {elements}: {} and {}", chosen.name, plan.name);
            }
        }
        // Few steps for little, little traffic for much.
        let tiny = tuner.fastest(&trial(8, 1), &plans()).expect("one fits").module;
        let few = ["direct", "recursive_doubling", "tree", "halving_doubling"];
        assert!(few.contains(&&*tiny), "{topology}: {tiny}");
        let much = tuner.fastest(&trial(8, large), &plans()).expect("one fits").module;
        let least = [
            "ring",
            "bidirectional_ring",
            "direct",
            "halving_doubling",
            "hierarchical",
            "double_tree",
            "two_hop",
        ];
        assert!(least.contains(&&*much), "{topology}: {much}");
    }
}

#[test]
fn between_few_steps_and_little_traffic() {
    let two: Vec<Plan> = plans()
        .into_iter()
        .filter(|plan| ["ring", "recursive_doubling"].contains(&&*plan.module))
        .collect();
    let tuner = Tuner::new(wired("switch", 8));
    let chosen = |elements| tuner.fastest(&trial(8, elements), &two).expect("one fits").module;
    assert_eq!(chosen(4), "recursive_doubling");
    assert_eq!(chosen(1 << 22), "ring");
    assert_eq!(chosen(1 << 24), "ring", "extrapolated");
}

#[test]
fn tun_3_nothing_is_measured_twice() {
    let tuner = Tuner::new(wired("fully_connected", 4));
    let first = tuner.fastest(&trial(4, 1000), &plans());
    let simulated = tuner.simulated();
    assert!(simulated > 0);
    assert_eq!(tuner.fastest(&trial(4, 1000), &plans()), first);
    assert_eq!(tuner.simulated(), simulated);
    // 896 is 1000 with three significant bits: its trials have been made.
    assert!(tuner.fastest(&trial(4, 896), &plans()).is_some());
    assert_eq!(tuner.simulated(), simulated);
    assert!(tuner.fastest(&trial(4, 2000), &plans()).is_some());
    assert!(tuner.simulated() > simulated);
}

#[test]
fn tun_2_every_rank_chooses_the_same() {
    // Messages say by which algorithm they are sent: ranks that chose differently would fail.
    for elements in [1, 3, 1000, 1 << 18] {
        let spec = wired("fully_connected", 4);
        let mut context =
            Context::new(spec, Options::default()).with_ccl(ccl("defaults: { algorithm: auto }"));
        let ends = multiprocessing::spawn(&mut context, 4, move |rank, cx| async move {
            dist::init_process_group(&cx)?;
            #[expect(clippy::cast_precision_loss, reason = "few ranks")]
            let x = cx.full([elements], rank as f64, DType::F32)?;
            dist::all_reduce(&cx, &x, dist::ReduceOp::Sum, None).await?;
            assert_eq!(x.to_vec().await?, vec![6.0; elements]);
            Ok(cx.now())
        });
        ends.unwrap();
    }
}

#[test]
fn what_does_not_fit_says_what_it_needs() {
    let torus = Algorithm::find("torus_2d").unwrap();
    let why = torus.check(Operation::AllReduce, &wired("switch", 4), &[0, 1, 2, 3]);
    assert_eq!(
        why.unwrap_err(),
        "`torus_2d` needs SIPs in a grid (torus_2d or mesh_2d), and this machine is switch"
    );
    let grid = super::torus(2, 2);
    let why = torus.check(Operation::AllReduce, &grid, &[0, 1, 2]);
    assert_eq!(
        why.unwrap_err(),
        "`torus_2d` needs a group of all 4 SIPs in their order, and this one has 3 members"
    );
    let why = torus.check(Operation::AllReduce, &grid, &[0, 2, 1, 3]);
    assert_eq!(
        why.unwrap_err(),
        "`torus_2d` needs a group of all 4 SIPs in their order, and this one has another order"
    );
    let why = torus.check(Operation::Gather, &grid, &[0, 1, 2, 3]).unwrap_err();
    assert_eq!(
        why,
        "`torus_2d` cannot do gather; these can: ring, direct, hierarchical, multi_ring, two_level"
    );
}

#[test]
fn something_fits_every_operation() {
    let tuner = Tuner::new(crate::ranks::machine("quad-sip", &[]));
    for operation in Operation::ALL {
        for elements in [0, 1, 100_000, 1 << 22] {
            let trial = Trial::new(operation, (0..4).collect(), elements);
            assert!(tuner.fastest(&trial, &plans()).is_some(), "{operation} of {elements}");
        }
    }
}

#[test]
fn tun_4_a_choice_depends_neither_on_history_nor_on_threads() {
    let machines =
        [wired("switch", 8), crate::ranks::machine("octo-ring", &[]), super::torus(2, 4)];
    let sizes = [1, 96, 1 << 12, 100_000, 3 << 19, 5 << 20];
    for spec in machines {
        let choice = |tuner: &Tuner, elements: usize| {
            tuner.fastest(&trial(8, elements), &plans()).map(|plan| plan.name)
        };
        let alone: Vec<_> =
            sizes.iter().map(|size| choice(&Tuner::new(spec.clone()), *size)).collect();
        let one = Tuner::new(spec.clone()).with_threads(NonZero::<usize>::MIN);
        let many = Tuner::new(spec.clone()).with_threads(NonZero::new(3).unwrap());
        let forth: Vec<_> = sizes.iter().map(|size| choice(&one, *size)).collect();
        let mut back: Vec<_> = sizes.iter().rev().map(|size| choice(&many, *size)).collect();
        back.reverse();
        assert_eq!((&alone, &alone), (&forth, &back), "{}", spec.name);
    }
}

/// A context that is interrupted by the answer to its question of this number, and the number that is left.
fn interrupted_after(machine: &str, questions: usize) -> (Context, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(questions));
    let asked = left.clone();
    let interrupt = move || asked.fetch_sub(1, Ordering::Relaxed) == 0;
    let options = Options { interrupt: Some(Arc::new(interrupt)), ..Options::default() };
    (Context::new(crate::ranks::machine(machine, &[]), options), left)
}

#[test]
fn tun_5_an_interrupt_ends_a_search_and_changes_no_choice() {
    let search = |machine: &str, elements: usize, questions: usize| {
        let (mut context, left) = interrupted_after(machine, questions);
        let cx = context.ranks(4).unwrap().remove(0);
        let group = dist::init_process_group(&cx).unwrap();
        let x = cx.zeros([elements], DType::F32).unwrap();
        let choice = || dist::all_reduce_plan(&cx, &group, &x).map(|plan| plan.name);
        (choice(), left.load(Ordering::Relaxed), choice())
    };
    // Trials of the larger machine are shared among threads, and the number of questions depends on who takes which.
    for (machine, parts) in [("quad-sip", &[0, 1, 2, 3][..]), ("octo-ring", &[0])] {
        for elements in [1000, 1 << 21] {
            let (expected, left, _) = search(machine, elements, usize::MAX);
            let questions = usize::MAX - left;
            assert!(expected.is_ok() && questions >= parts.len(), "TUN-5: {questions} questions");
            for part in parts {
                let (ended, left, again) = search(machine, elements, questions / 4 * part);
                let is_interrupted = matches!(ended, Err(Error::Run(RunError::Interrupted(_))));
                assert!(is_interrupted, "TUN-5: {ended:?}");
                assert_eq!(left, usize::MAX, "TUN-5: nobody asks after the answer");
                assert_eq!(again, expected, "TUN-5");
            }
        }
    }
}
