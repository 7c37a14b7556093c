use super::*;
use crate::signal::Signal;
use std::cell::{Cell, RefCell};

fn log() -> (Rc<RefCell<Vec<String>>>, impl Fn(&str) + Clone + 'static) {
    let lines = Rc::new(RefCell::new(Vec::new()));
    let sink = lines.clone();
    (lines, move |line: &str| sink.borrow_mut().push(line.to_owned()))
}

#[test]
fn sim_1_time_moves_only_forward_and_only_by_running() {
    let mut executor = Executor::new(1);
    let (lines, say) = log();
    for delay in [7, 3, 5, 3] {
        let (sim, say) = (executor.sim(), say.clone());
        executor
            .spawn(Partition(0), format!("p{delay}"), async move {
                sim.sleep(Time::ns(delay)).await;
                say(&sim.now().to_string());
            })
            .detach();
    }
    assert_eq!(executor.sim().now(), Time::ZERO, "SIM-1: spawning does not move time");
    executor.run(|| false).unwrap();
    assert_eq!(*lines.borrow(), ["3 ns", "3 ns", "5 ns", "7 ns"]);
}

/// Each partition sends the next one an event; what each partition saw must not depend on the order of turns.
fn ring_log(order: PartitionOrder) -> Vec<Vec<String>> {
    sliced_ring_log(order, Time::ps(1), &[]).0
}

/// The same, with windows of `lookahead`, and stopped in partitions at these times; also returns the times at which the
/// slices ended.
fn sliced_ring_log(
    order: PartitionOrder,
    lookahead: Time,
    stops: &[(u32, u64)],
) -> (Vec<Vec<String>>, Vec<Time>) {
    struct Node {
        seen: RefCell<Vec<Vec<String>>>,
        me: Cell<Option<DeviceId>>,
    }
    impl Device for Node {
        fn fire(&self, sim: &Sim, payload: u64) {
            let partition = sim.partition();
            self.seen.borrow_mut()[partition.0 as usize].push(format!("{} {payload}", sim.now()));
            if payload % 100 >= 12 {
                return;
            }
            let me = self.me.get().unwrap();
            let (left, right) =
                (Partition((partition.0 + 4) % 5), Partition((partition.0 + 1) % 5));
            sim.schedule(sim.now() + Time::ns(2), right, me, payload + 1);
            sim.schedule(
                sim.now() + Time::ns(2),
                left,
                me,
                payload + 2 + u64::from(partition.0) * 100,
            );
            sim.schedule(sim.now(), partition, me, 99);
        }
    }
    let mut executor = Executor::new(5);
    executor.set_partition_order(order);
    let node = Rc::new(Node { seen: RefCell::new(vec![Vec::new(); 5]), me: Cell::new(None) });
    let id = executor.sim().register(node.clone());
    node.me.set(Some(id));
    for partition in 0..5 {
        executor.sim().schedule(Time::ZERO, Partition(partition), id, u64::from(partition) * 1_000);
    }
    executor.set_lookahead(lookahead);
    for &(partition, at) in stops {
        let sim = executor.sim();
        let stopper = async move {
            sim.sleep_until(Time::ps(at)).await;
            sim.stop_here();
        };
        executor.spawn(Partition(partition), "stopper", stopper).detach();
    }
    let mut ends = Vec::new();
    while executor.run(|| false).unwrap() == Ended::Stopped {
        ends.push(executor.sim().now());
    }
    (node.seen.take(), ends)
}

#[test]
fn sim_9_slices_fire_the_events_of_a_whole_run() {
    let whole = ring_log(PartitionOrder::Queued);
    for order in [PartitionOrder::Queued, PartitionOrder::Shuffled(3), PartitionOrder::Shuffled(8)]
    {
        for lookahead in [Time::ps(1), Time::ps(700), Time::ns(2)] {
            let stops = [(0, 0), (3, 1), (1, 2_000), (4, 3_999), (2, 3_999), (0, 9_500)];
            let (seen, ends) = sliced_ring_log(order, lookahead, &stops);
            assert_eq!(seen, whole, "SIM-9: {order:?}, windows of {lookahead}");
            let expected = [0, 1, 2_000, 3_999, 9_500].map(Time::ps);
            assert_eq!(ends, expected, "SIM-9: each slice ends at its stop");
        }
    }
}

#[test]
fn sim_9_processes_that_are_woken_or_started_between_slices_go_on() {
    let mut executor = Executor::new(3);
    executor.set_lookahead(Time::ns(10));
    let go = Signal::new(&executor.sim(), "go", "main");
    let (sim, inner) = (executor.sim(), go.clone());
    let waiter = executor.spawn(Partition(1), "waiter", async move {
        inner.wait().await;
        (sim.partition(), sim.now())
    });
    for (partition, busy_until) in [(0, 9), (1, 9), (2, 4)] {
        let sim = executor.sim();
        let busy = async move {
            sim.sleep_until(Time::ns(1)).await;
            sim.sleep_until(Time::ns(busy_until)).await;
            if partition == 2 {
                sim.stop_here();
            }
        };
        executor.spawn(Partition(partition), "busy", busy).detach();
    }
    assert_eq!(executor.run(|| false), Ok(Ended::Stopped));
    assert_eq!(executor.sim().now(), Time::ns(4), "the time of the stop");
    go.set(());
    let sim = executor.sim();
    let late = executor.spawn(Partition(2), "late", async move { sim.now() });
    assert_eq!(executor.run(|| false), Ok(Ended::Complete));
    // Partition 1 had its turn before the stop and is ahead, up to the end of its window.
    let ahead = Time::ns(11) - Time::ps(1);
    assert_eq!(waiter.take(), Some((Partition(1), ahead)), "SIM-9: in its own partition");
    assert_eq!(late.take(), Some(Time::ns(4)), "SIM-9: at the time of the stop");
}

#[test]
fn a_run_is_interrupted_after_a_window_and_can_go_on() {
    let mut executor = Executor::new(1);
    let sim = executor.sim();
    let ticking = executor.spawn(Partition(0), "ticking", async move {
        for _ in 0..100 {
            sim.sleep(Time::ns(1)).await;
        }
        sim.now()
    });
    let asked = Cell::new(0);
    let third = || asked.replace(asked.get() + 1) == 2;
    assert_eq!(executor.run(third), Ok(Ended::Interrupted));
    assert_eq!((asked.get(), executor.sim().now()), (3, Time::ns(2)));
    assert_eq!(executor.run(|| false), Ok(Ended::Complete));
    assert_eq!(ticking.take(), Some(Time::ns(100)));
}

#[test]
fn sim_2_the_order_of_turns_cannot_be_observed() {
    let ascending = ring_log(PartitionOrder::Queued);
    assert!(ascending.iter().all(|seen| seen.len() > 50));
    for seed in 0..50 {
        assert_eq!(ring_log(PartitionOrder::Shuffled(seed)), ascending, "SIM-2: seed {seed}");
    }
}

#[test]
#[should_panic(expected = "SIM-3")]
fn sim_3_a_partition_cannot_act_on_another_without_delay() {
    struct Nothing;
    impl Device for Nothing {
        fn fire(&self, _: &Sim, _: u64) {}
    }
    let mut executor = Executor::new(2);
    let sim = executor.sim();
    let device = sim.register(Rc::new(Nothing));
    executor
        .spawn(Partition(0), "trespasser", async move {
            sim.schedule(sim.now(), Partition(1), device, 0);
        })
        .detach();
    let _ = executor.run(|| false);
}

#[test]
fn sim_4_a_deadlock_names_who_waits_for_whom() {
    let mut executor = Executor::new(1);
    let sim = executor.sim();
    executor
        .spawn(Partition(0), "parent", async move {
            let inner = sim.clone();
            let child = sim.spawn("child", async move {
                std::future::poll_fn(|_| {
                    inner.waiting(|| Wait {
                        what: "a sign".into(),
                        providers: vec!["parent".into()],
                    });
                    std::task::Poll::<()>::Pending
                })
                .await;
            });
            let _ = child.await;
        })
        .detach();
    let deadlock = executor.run(|| false).unwrap_err();
    assert_eq!(
        deadlock.to_string(),
        "deadlock at 0 ns: 2 processes wait for something that can no longer happen\n  \
         `child` waits for a sign; could come from `parent` (waiting too)\n  \
         `parent` waits for the end of `child`; could come from `child` (waiting too)\n  \
         cycle: child -> parent -> child"
    );
}

#[test]
fn sim_5_dropping_a_handle_runs_the_destructors_of_its_process() {
    struct Bell<F: Fn(&str)>(F);
    impl<F: Fn(&str)> Drop for Bell<F> {
        fn drop(&mut self) {
            (self.0)("dropped");
        }
    }
    let mut executor = Executor::new(1);
    let (lines, say) = log();
    let sim = executor.sim();
    executor
        .spawn(Partition(0), "parent", async move {
            let (inner, bell) = (sim.clone(), Bell(say.clone()));
            let child = sim.spawn("child", async move {
                let _bell = bell;
                inner.sleep(Time::us(1)).await;
            });
            sim.sleep(Time::ns(1)).await;
            drop(child);
            say("cancelled");
            sim.sleep(Time::us(2)).await;
            say("end");
        })
        .detach();
    executor.run(|| false).unwrap();
    assert_eq!(*lines.borrow(), ["cancelled", "dropped", "end"]);
}

#[test]
fn a_result_can_be_joined_and_zero_delays_are_legal() {
    let mut executor = Executor::new(1);
    let sim = executor.sim();
    let handle = executor.spawn(Partition(0), "main", async move {
        let inner = sim.clone();
        let child = sim.spawn("child", async move {
            inner.sleep(Time::ZERO).await;
            inner.sleep(Time::ns(4)).await;
            7
        });
        let sum = child.await.unwrap() + 1;
        (sum, sim.now())
    });
    executor.run(|| false).unwrap();
    assert_eq!(handle.take(), Some((8, Time::ns(4))));
}

#[test]
fn sim_6_everything_due_at_the_start_happens_before_time_moves() {
    let mut executor = Executor::new(3);
    executor.set_lookahead(Time::ns(100));
    for round in 0..2 {
        let (lines, say) = log();
        let began = executor.sim().now();
        for partition in 0..3 {
            let (sim, say) = (executor.sim(), say.clone());
            executor
                .spawn(Partition(partition), format!("p{partition}"), async move {
                    say(&format!("{partition} begins at {}", sim.now() - began));
                    sim.sleep(Time::ns(1)).await;
                    say(&format!("{partition} goes on"));
                })
                .detach();
        }
        executor.run(|| false).unwrap();
        // Without SIM-6 partition 0 would go through its whole window first.
        let lines = lines.take();
        assert_eq!(
            lines[..3],
            ["0 begins at 0 ns", "1 begins at 0 ns", "2 begins at 0 ns"],
            "SIM-6: round {round}"
        );
    }
}

/// Polls `done`; returns the number of polls.
async fn look(sim: Sim, done: Rc<Cell<bool>>) -> u32 {
    let mut looks = 0;
    while !done.get() {
        looks += 1;
        sim.pause(|| Wait { what: "it to be done".into(), providers: vec!["worker".into()] }).await;
    }
    looks
}

#[test]
fn sim_7_who_looks_goes_on_while_others_do_something() {
    let mut executor = Executor::new(2);
    let done = Rc::new(Cell::new(false));
    let lookers: Vec<_> = (0..2)
        .map(|partition| {
            let looking = look(executor.sim(), done.clone());
            executor.spawn(Partition(partition), format!("looker{partition}"), looking)
        })
        .collect();
    let sim = executor.sim();
    executor
        .spawn(Partition(0), "worker", async move {
            for _ in 0..5 {
                sim.sleep(Time::ns(3)).await;
            }
            done.set(true);
        })
        .detach();
    executor.run(|| false).unwrap();
    let looks: Vec<_> = lookers.iter().filter_map(JoinHandle::take).collect();
    assert!(looks.len() == 2 && looks.iter().all(|looks| (5..10).contains(looks)), "{looks:?}");
    assert_eq!(executor.sim().now(), Time::ns(15), "SIM-7: looking takes no time");
}

#[test]
fn sim_7_looking_does_not_keep_a_run_alive() {
    let mut executor = Executor::new(2);
    for partition in 0..2 {
        let looking = look(executor.sim(), Rc::new(Cell::new(false)));
        executor.spawn(Partition(partition), format!("looker{partition}"), looking).detach();
    }
    let deadlock = executor.run(|| false).unwrap_err();
    assert_eq!(
        deadlock.to_string(),
        "deadlock at 0 ns: 2 processes wait for something that can no longer happen\n  \
         `looker0` waits for it to be done; could come from `worker` (finished or never started)\n  \
         `looker1` waits for it to be done; could come from `worker` (finished or never started)"
    );
}

#[test]
fn a_stuck_executor_can_be_cleared_and_used_again() {
    let mut executor = Executor::new(2);
    let sim = executor.sim();
    executor
        .spawn(Partition(1), "stuck", async move {
            // Ends with its parent, whose handle is dropped.
            let inner = sim.clone();
            let _child = sim.spawn("child", async move { inner.sleep(Time::us(1)).await });
            sim.sleep(Time::ns(3)).await;
            sim.stop();
            look(sim.clone(), Rc::new(Cell::new(false))).await;
        })
        .detach();
    executor.run(|| false).unwrap();
    executor.clear();
    let sim = executor.sim();
    let again = executor.spawn(Partition(0), "again", async move {
        sim.sleep(Time::ns(2)).await;
        sim.now()
    });
    executor.run(|| false).unwrap();
    assert_eq!(again.take(), Some(Time::ns(5)), "time stays where it is");
}

/// Starts a process when it is dropped, which holds a guard that starts one process less.
struct StartsMore {
    sim: Sim,
    left: u32,
    dropped: Rc<Cell<u32>>,
}

impl Drop for StartsMore {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        if self.left > 0 {
            let (sim, left, dropped) = (self.sim.clone(), self.left - 1, self.dropped.clone());
            let more = StartsMore { sim: sim.clone(), left, dropped };
            sim.spawn("late", async move {
                let _more = more;
                std::future::pending::<()>().await;
            })
            .detach();
        }
    }
}

#[test]
fn sim_5_processes_that_destructors_start_are_dropped_too() {
    let dropped = Rc::new(Cell::new(0));
    let mut executor = Executor::new(1);
    let guard =
        |executor: &Executor| StartsMore { sim: executor.sim(), left: 3, dropped: dropped.clone() };
    let first = guard(&executor);
    let stuck = async move {
        let _first = first;
        std::future::pending::<()>().await;
    };
    executor.spawn(Partition(0), "stuck", stuck).detach();
    executor.run(|| false).unwrap_err();
    executor.clear();
    assert_eq!(dropped.get(), 4, "SIM-5: cleared");
    assert_eq!(executor.run(|| false), Ok(Ended::Complete), "nothing is left");
    let second = guard(&executor);
    executor.spawn(Partition(0), "unstarted", async move { drop(second) }).detach();
    drop(executor);
    assert_eq!(dropped.get(), 8, "SIM-5: dropped with the executor");
}

#[test]
fn sim_8_dozing_ends_at_its_instant_and_keeps_no_run_alive() {
    let mut executor = Executor::new(1);
    let woken = Rc::new(std::cell::RefCell::new(Vec::new()));
    let (sim, noted) = (executor.sim(), woken.clone());
    let watching = async move {
        loop {
            sim.doze_until(sim.now() + Time::ns(10)).await;
            noted.borrow_mut().push(sim.now());
        }
    };
    let watcher = executor.spawn(Partition(0), "watcher", watching);
    let sim = executor.sim();
    let worker = async move {
        sim.sleep(Time::ns(25)).await;
        drop(watcher);
    };
    executor.spawn(Partition(0), "worker", worker).detach();
    executor.run(|| false).unwrap();
    assert_eq!(*woken.borrow(), [Time::ns(10), Time::ns(20)], "SIM-8");
    assert_eq!(executor.sim().now(), Time::ns(25), "SIM-8: watching takes no time");
}

#[test]
fn sim_8_a_deadlock_is_reported_immediately_and_without_the_one_who_dozes() {
    let mut executor = Executor::new(1);
    let sim = executor.sim();
    executor
        .spawn(Partition(0), "watcher", async move { sim.doze_until(Time::us(1)).await })
        .detach();
    let (sim, never) = (executor.sim(), Signal::<()>::new(&executor.sim(), "go", "nobody"));
    executor
        .spawn(Partition(0), "stuck", async move {
            sim.sleep(Time::ns(3)).await;
            never.wait().await;
        })
        .detach();
    let deadlock = executor.run(|| false).unwrap_err();
    assert_eq!(
        deadlock.to_string(),
        "deadlock at 3 ns: 1 process waits for something that can no longer happen\n  \
         `stuck` waits for `go` to be set; could come from `nobody` (finished or never started)",
        "SIM-8"
    );
}

#[test]
fn looking_at_processes_says_what_they_wait_for_and_changes_nothing() {
    let mut executor = Executor::new(1);
    let go = Signal::new(&executor.sim(), "go", "watcher");
    let (sim, inner) = (executor.sim(), go.clone());
    let waiter = executor.spawn(Partition(0), "waiter", async move {
        inner.wait().await;
        sim.now()
    });
    let sim = executor.sim();
    let sleeper = executor.spawn(Partition(0), "sleeper", async move {
        sim.sleep(Time::ns(9)).await;
        sim.now()
    });
    let sim = executor.sim();
    let watcher = executor.spawn(Partition(0), "watcher", async move {
        sim.sleep(Time::ns(5)).await;
        let names = ["waiter", "sleeper", "nobody"].map(str::to_owned).to_vec();
        let found = sim.look_at(names).await;
        go.set(());
        found.into_iter().map(|one| (one.process, one.waits.len())).collect::<Vec<_>>()
    });
    executor.run(|| false).unwrap();
    let seen = watcher.take().expect("an answer");
    assert_eq!(seen, [("waiter".to_owned(), 1), ("sleeper".to_owned(), 0)]);
    assert_eq!((waiter.take(), sleeper.take()), (Some(Time::ns(5)), Some(Time::ns(9))));
}
