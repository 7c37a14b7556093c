//! Models of the exchange between threads, which run the code of the product.

use super::{Barrier, LeftBehind, Team};
use phalanx_sim::exchange::Standing;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn standing(due: u64) -> Standing {
    Standing {
        due,
        unsure: u64::MAX,
        doze: u64::MAX,
        paused: 0,
        events: 1,
        latest: due,
        live: 1,
        steps: 0,
        is_stopped: false,
        is_interrupted: false,
    }
}

/// Two shards meet twice and gather once: all standings join, and every parcel comes once, in its round.
#[test]
fn loom_team_1_parcels_and_standings_arrive_in_their_round() {
    let mut model = loom::model::Builder::new();
    // Every order with up to two switches of threads that nothing forces.
    model.preemption_bound = Some(2);
    model.check(|| {
        let team = loom::sync::Arc::new(Team::<u64, u64>::new(2));
        let work = |team: &Team<u64, u64>, shard: usize| {
            let other = 1 - shard;
            let (mut out, mut into) = (vec![Vec::new(); 2], vec![Vec::new(); 2]);
            for round in 0..2 {
                out[other].push(10 * round + shard as u64);
                let all =
                    team.meet((shard, round), standing(5 + shard as u64), &mut out, &mut into);
                assert_eq!((all.due, all.latest, all.events), (5, 6, 2), "TEAM-1");
                assert_eq!(into[other], [10 * round + other as u64], "TEAM-1");
                into[other].clear();
            }
            assert_eq!(team.gather((shard, 2), shard as u64), [0, 1], "TEAM-1");
        };
        let second = team.clone();
        let thread = loom::thread::spawn(move || work(&second, 1));
        work(&team, 0);
        thread.join().unwrap();
    });
}

/// A thread that waits for one that leaves goes on in every order.
#[test]
fn loom_bar_2_a_thread_that_leaves_is_not_waited_for() {
    loom::model(|| {
        let barrier = loom::sync::Arc::new(Barrier::new(2));
        let other = barrier.clone();
        let thread = loom::thread::spawn(move || {
            other.wait(0);
            other.leave();
        });
        barrier.wait(0);
        let caught = catch_unwind(AssertUnwindSafe(|| barrier.wait(1)));
        assert!(caught.is_err_and(|panic| panic.is::<LeftBehind>()), "BAR-2");
        thread.join().unwrap();
    });
}
