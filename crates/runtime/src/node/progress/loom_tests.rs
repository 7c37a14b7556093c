//! Models of the progress lock and the progress thread, beside those of `shm/loom_tests.rs` and run by the same command.
//!
//! The models run the code of the product over a toy core; a thread that sleeps for ever is a deadlock. Each model holds for
//! both sound ways of [`SeqCst`]. A model with a flaw shows that it would find the mistake.

use super::*;
use crate::shm::bell::FOOTPRINT;
use crate::shm::loom_tests::{Flaw, Model};
use crate::sync::{SeqCst, with_seq_cst};
use loom::sync::atomic::AtomicU64 as Flag;
use loom::thread::{self, JoinHandle};
use std::sync::Arc;

/// A core whose one worker has one task; the end of the task is news.
struct Toy {
    /// Set by the worker when its task has ended.
    ended: Arc<Flag>,
    /// Set when the ending was taken in.
    taken: Arc<Flag>,
    has_task: bool,
    is_taken: bool,
    has_news: bool,
}

impl Pump for Toy {
    fn pump(&mut self) -> bool {
        let has_event = !self.is_taken && self.ended.load(Ordering::Acquire) == 1;
        if has_event {
            (self.is_taken, self.has_news) = (true, true);
            self.taken.store(1, Ordering::Release);
        }
        has_event
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn is_busy(&self) -> bool {
        self.has_task && !self.is_taken
    }
}

type Guard<'r> = ProgressGuard<'r, Toy, Model>;

/// The lock around a toy, and its flags.
struct Room {
    lock: ProgressLock<Toy, Model>,
    ended: Arc<Flag>,
    taken: Arc<Flag>,
}

impl Room {
    fn new(flaw: Flaw) -> Arc<Self> {
        Self::of(flaw, false)
    }

    /// A room whose worker is a thread.
    fn of_thread() -> Arc<Self> {
        Self::of(Flaw::Sound, true)
    }

    fn of(flaw: Flaw, has_threads: bool) -> Arc<Self> {
        let [ended, taken] = [(); 2].map(|()| Arc::new(Flag::new(0)));
        let flags = (Arc::clone(&ended), Arc::clone(&taken));
        let (has_task, is_taken, has_news) = (true, false, false);
        let toy = Toy { ended: flags.0, taken: flags.1, has_task, is_taken, has_news };
        let lock = ProgressLock::new(toy, Bell::over(Model::new(flaw, FOOTPRINT), 0), has_threads);
        Arc::new(Self { lock, ended, taken })
    }

    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Self) + 'static) -> JoinHandle<()> {
        let room = Arc::clone(self);
        thread::spawn(move || body(&room))
    }

    /// Ends the worker's task and rings.
    fn end(&self, bell: &Bell<Model>) {
        self.ended.store(1, Ordering::Release);
        bell.ring();
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 1
    }

    fn sleep_until(&self, has_reason: impl Fn(Look) -> bool) {
        let look = |look| has_reason(look).then_some(());
        self.lock.bell.sleep_until(look, |sleeper| sleeper.sleep(None));
    }

    /// Drives until the ending is taken in, as `Node::drive_until` does; `sleep` unlocks and sleeps.
    fn drive(&self, sleep: impl Fn(Guard<'_>)) {
        let driver = self.lock.start_driving();
        let mut core = self.lock.lock();
        loop {
            core.pump();
            core.announce_news();
            if core.is_taken {
                return driver.leave(&mut core);
            }
            sleep(core);
            core = self.lock.lock();
        }
    }

    /// Unlocks and sleeps as the product does.
    fn sleep(&self, core: Guard<'_>) {
        let seen = core.unlock();
        self.sleep_until(|look| self.lock.has_reason(seen, look));
    }

    /// Runs the progress thread until the ending is taken in or the lock is closed.
    fn run_thread(&self) {
        let judge = |core: &mut Toy| {
            if core.is_taken {
                self.lock.close();
            }
        };
        self.lock.run_thread(judge, |(), has_reason| self.sleep_until(has_reason));
    }
}

/// Checks every order of events.
fn check(way: SeqCst, model: impl Fn() + Sync + Send + 'static) {
    check_within(way, None, model);
}

/// Checks orders of events in which at most `bound` threads are interrupted that could go on.
fn check_within(way: SeqCst, bound: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    with_seq_cst(way, || builder.check(model));
}

/// The last driver leaves with work under way, and the progress thread is about to park.
fn leaving(way: SeqCst, leave: fn(&Room)) {
    check(way, move || {
        let room = Room::new(Flaw::Sound);
        room.lock.thread.set_state(ThreadState::Active);
        room.lock.thread.add_driver();
        let progress = room.spawn(Room::run_thread);
        let bell = room.lock.bell.clone();
        leave(&room);
        room.end(&bell);
        progress.join().expect("the progress thread");
        assert!(room.is_taken(), "PTH-1");
    });
}

fn leave(room: &Room) {
    let driver = Driver { lock: &room.lock };
    driver.leave(&mut room.lock.lock());
}

#[test]
fn loom_pth_1_work_under_way_is_handed_over() {
    leaving(SeqCst::FenceBefore, leave);
    leaving(SeqCst::FenceAfter, leave);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_pth_1_without_sequential_consistency_work_is_handed_to_nobody() {
    leaving(SeqCst::NoFence, leave);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_pth_1_a_look_before_leaving_hands_work_to_nobody() {
    leaving(SeqCst::FenceBefore, |room| {
        room.lock.thread.wake_if_parked();
        room.lock.thread.remove_driver();
    });
}

/// A driver hands work over to a progress thread that dozes; the thread ends when it judges the work.
fn dozing(way: SeqCst, leave: fn(&Room)) {
    check(way, move || {
        let room = Room::new(Flaw::Sound);
        room.lock.thread.set_state(ThreadState::Active);
        room.lock.lock().has_task = false;
        let progress = room.spawn(|room| {
            let judge = |core: &mut Toy| {
                if core.has_task {
                    room.lock.close();
                }
            };
            room.lock.run_thread(judge, |(), has_reason| room.sleep_until(has_reason));
        });
        room.lock.thread.add_driver();
        room.lock.lock().has_task = true;
        leave(&room);
        progress.join().expect("the progress thread");
    });
}

#[test]
fn loom_pth_1_a_thread_that_dozes_is_told_of_work() {
    dozing(SeqCst::FenceBefore, leave);
    dozing(SeqCst::FenceAfter, leave);
}

/// A former mistake: only a parked thread was told.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_pth_1_a_thread_that_dozes_and_is_not_told_sleeps_on() {
    dozing(SeqCst::FenceBefore, |room| {
        room.lock.thread.remove_driver();
        room.lock.thread.wake_if_parked();
    });
}

/// The lock is closed while there is a driver, which leaves no work behind.
fn closing(way: SeqCst, close: fn(&Room)) {
    check(way, move || {
        let room = Room::new(Flaw::Sound);
        room.lock.thread.set_state(ThreadState::Active);
        room.ended.store(1, Ordering::Relaxed);
        let driver = room.lock.start_driving();
        room.lock.lock().pump();
        let progress = room.spawn(Room::run_thread);
        close(&room);
        driver.leave(&mut room.lock.lock());
        progress.join().expect("the progress thread");
    });
}

#[test]
fn loom_pth_1_a_thread_that_is_stopped_ends() {
    closing(SeqCst::FenceBefore, |room| assert!(room.lock.close()));
    closing(SeqCst::FenceAfter, |room| assert!(room.lock.close()));
}

/// A former mistake: the thread was woken if parked, and parked right after that.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_pth_1_a_thread_that_is_only_woken_stays() {
    closing(SeqCst::FenceBefore, |room| {
        room.lock.is_closed.swap(1, Ordering::AcqRel);
        room.lock.announce();
        room.lock.thread.wake_if_parked();
    });
}

/// A driver has looked and goes to sleep while another thread takes the ending in, for which no worker rings.
fn sleeping(way: SeqCst, flaw: Flaw, sleep: fn(&Room, Guard<'_>), take_in: fn(&Room)) {
    check(way, move || {
        let room = Room::new(flaw);
        let other = room.spawn(move |room| {
            room.ended.store(1, Ordering::Relaxed);
            take_in(room);
        });
        room.drive(|core| sleep(&room, core));
        other.join().expect("the other thread");
    });
}

fn take_in(room: &Room) {
    room.lock.lock().pump();
}

#[test]
fn loom_node_1_what_others_take_in_is_news() {
    sleeping(SeqCst::FenceBefore, Flaw::Sound, Room::sleep, take_in);
    sleeping(SeqCst::FenceAfter, Flaw::Sound, Room::sleep, take_in);
}

/// A thread waits for something outside of the core: the end of another thread.
fn ending(way: SeqCst, announce: fn(&Room)) {
    check(way, move || {
        let room = Room::new(Flaw::Sound);
        let gone = Arc::new(Flag::new(0));
        let its_end = Arc::clone(&gone);
        let other = room.spawn(move |room| {
            its_end.store(1, Ordering::Release);
            announce(room);
        });
        let mut core = room.lock.lock();
        while gone.load(Ordering::Acquire) == 0 {
            room.sleep(core);
            core = room.lock.lock();
        }
        drop(core);
        other.join().expect("the other thread");
    });
}

#[test]
fn loom_node_1_what_happens_outside_of_the_core_is_announced() {
    ending(SeqCst::FenceBefore, |room| room.lock.announce_outside());
    ending(SeqCst::FenceAfter, |room| room.lock.announce_outside());
}

/// A former mistake: a waiter that had looked and held the lock counted the announcement as seen.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_what_is_announced_without_the_lock_is_missed() {
    ending(SeqCst::FenceBefore, |room| room.lock.announce());
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_that_are_read_after_the_unlock_are_missed() {
    let sleep = |room: &Room, core: Guard<'_>| {
        drop(core);
        let seen = NewsCount(room.lock.news.load(Ordering::Acquire));
        room.sleep_until(|look| room.lock.has_reason(seen, look));
    };
    sleeping(SeqCst::FenceBefore, Flaw::Sound, sleep, take_in);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_without_fences_are_missed() {
    sleeping(SeqCst::FenceBefore, Flaw::NoFence, Room::sleep, take_in);
}

/// A former mistake: a thread that took an event in on its way did not announce it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_that_nobody_announces_are_missed() {
    sleeping(SeqCst::FenceBefore, Flaw::Sound, Room::sleep, |room| {
        let mut core = room.lock.lock();
        core.pump();
        core.has_news = false;
    });
}

/// A task ends and its worker rings, while a thread that has already looked holds the lock, and leaves.
fn passing_by(way: SeqCst, sleep: fn(&Room, Guard<'_>)) {
    check_within(way, Some(3), move || {
        let room = Room::new(Flaw::Sound);
        let bell = room.lock.bell.clone();
        let worker = room.spawn(move |room| room.end(&bell));
        let other = room.spawn(|room| {
            room.lock.lock().pump();
        });
        room.drive(|core| sleep(&room, core));
        other.join().expect("the other thread");
        worker.join().expect("the worker");
    });
}

#[test]
fn loom_node_1_an_ending_is_taken_in_whoever_holds_the_lock() {
    passing_by(SeqCst::FenceBefore, Room::sleep);
    passing_by(SeqCst::FenceAfter, Room::sleep);
}

/// A former mistake: a thread that found the lock held, and slept, relied on a holder that did not look again.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_a_last_look_in_passing_misses_an_ending() {
    passing_by(SeqCst::FenceBefore, |room, core| {
        let seen = core.unlock();
        room.sleep_until(|_| room.lock.has_reason(seen, Look::Passing));
    });
}

/// A worker thread ends its task and asks, while a thread that has already looked holds the lock, and leaves.
fn asking(way: SeqCst, ask: fn(&Room), hold: fn(&Room)) {
    check(way, move || {
        let room = Room::of_thread();
        let worker = room.spawn(move |room| {
            room.ended.store(1, Ordering::Release);
            ask(room);
        });
        hold(&room);
        worker.join().expect("the worker");
        assert!(room.is_taken(), "PRG-1");
    });
}

fn ask(room: &Room) {
    room.lock.ask(1);
}

/// Holds the lock and looks at no worker; other threads may run meanwhile.
fn hold(room: &Room) {
    let core = room.lock.lock();
    room.is_taken();
    drop(core);
}

#[test]
fn loom_prg_1_a_request_is_answered_by_the_asker_or_the_holder() {
    asking(SeqCst::FenceBefore, ask, hold);
    asking(SeqCst::FenceAfter, ask, hold);
}

#[test]
fn loom_prg_1_two_threads_that_ask_are_both_answered() {
    check_within(SeqCst::FenceBefore, Some(3), || {
        let room = Room::of_thread();
        let first = room.spawn(|room| room.lock.ask(1));
        let second = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            room.lock.ask(2);
        });
        hold(&room);
        for worker in [first, second] {
            worker.join().expect("a worker");
        }
        assert!(room.is_taken(), "PRG-1");
    });
}

/// A driver of worker threads is told of an ending, and does not look itself.
#[test]
fn loom_prg_1_a_driver_hears_of_what_a_thread_has_ended() {
    check_within(SeqCst::FenceBefore, Some(3), || {
        let room = Room::of_thread();
        let worker = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            room.lock.ask(1);
        });
        room.drive(|core| room.sleep(core));
        worker.join().expect("the worker");
    });
}

/// A submitter computes: the worker left its ending to the submitter, and asks before it sleeps.
#[test]
fn loom_prg_1_a_thread_that_left_its_ending_to_a_submitter_asks_before_it_sleeps() {
    check(SeqCst::FenceBefore, || {
        let room = Room::of_thread();
        let submitting = room.lock.start_submitting();
        let worker = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            assert_eq!(room.lock.ask_in_passing(1), Asked::Not, "PRG-1: a thread submits");
            room.lock.ask(1);
        });
        hold(&room);
        worker.join().expect("the worker");
        assert!(room.is_taken(), "PRG-1");
        drop(submitting);
    });
}

/// A worker leaves its ending to the attendant, which looks once more and sleeps; `insist` is the worker's last look.
fn leaving_it(insist: fn(&Room)) {
    check(SeqCst::FenceBefore, move || {
        let room = Room::of_thread();
        room.lock.ask(1);
        let worker = room.spawn(move |room| {
            room.ended.store(1, Ordering::Release);
            if room.lock.ask_or_leave(2) == Asked::Left {
                insist(room);
            }
        });
        room.lock.attend(1);
        room.lock.resign(1);
        worker.join().expect("the worker");
        assert!(room.is_taken(), "PRG-1");
    });
}

#[test]
fn loom_prg_1_what_was_left_to_the_attendant_is_answered_by_it_or_asked_for_again() {
    leaving_it(|room| {
        if !room.lock.is_answered() {
            room.lock.ask(2);
        }
    });
}

#[test]
#[should_panic(expected = "PRG-1")]
fn loom_prg_1_what_was_only_left_to_the_attendant_may_be_left_forever() {
    leaving_it(|_| {});
}

#[test]
#[should_panic(expected = "PRG-1")]
fn loom_prg_1_without_fences_nobody_answers() {
    asking(SeqCst::NoFence, ask, hold);
}

#[test]
#[should_panic(expected = "PRG-1")]
fn loom_prg_1_a_holder_that_looks_before_it_unlocks_misses_a_request() {
    asking(SeqCst::FenceBefore, ask, |room| {
        let core = room.lock.core.lock();
        room.is_taken();
        let serves_children = room.lock.asked.load(Ordering::Relaxed) != 0;
        drop(core);
        if serves_children {
            room.lock.answer();
        }
    });
}

#[test]
#[should_panic(expected = "PRG-1")]
fn loom_prg_1_a_thread_that_only_tries_misses_a_holder_that_leaves() {
    asking(
        SeqCst::FenceBefore,
        |room| {
            room.lock.pump(Look::Passing);
        },
        hold,
    );
}
