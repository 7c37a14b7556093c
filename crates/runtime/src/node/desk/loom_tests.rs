//! Models of who moves the node, beside those of `shm/loom_tests.rs` and run by the same command.
//!
//! What is tried is the code of the product over a toy of a core; a thread that sleeps for good is a deadlock. The checker
//! knows sequential consistency of fences only, so accesses that ask for it are made of fences, in one of two ways
//! (`BEFORE`, `AFTER`) that compilers have too; each model holds for both.

use super::super::parts::{Lock, Number, Parts};
use super::*;
use crate::shm::bell::FOOTPRINT;
use crate::shm::loom_tests::{Flaw, Model};
use loom::sync::atomic::{AtomicU64, fence};
use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle};
use std::sync::Arc;

/// The parts of the checker.
struct Checked<const WAY: u8>;

/// A fence before each access that is to be sequentially consistent.
const BEFORE: u8 = 0;
/// A fence after each.
const AFTER: u8 = 1;
/// A flaw: none, so that they only acquire and release.
const WEAK: u8 = 2;

impl<const WAY: u8> Parts for Checked<WAY> {
    const TRIES: u32 = 0;
    type Number = Checking<WAY>;
    type Lock<T> = Mutex<T>;

    fn fence() {
        if WAY != WEAK && !std::thread::panicking() {
            fence(Ordering::SeqCst);
        }
    }
}

/// A number of the checker.
struct Checking<const WAY: u8>(AtomicU64);

impl<const WAY: u8> Checking<WAY> {
    fn access<T: Default>(&self, ordering: Ordering, access: impl FnOnce(&AtomicU64) -> T) -> T {
        if std::thread::panicking() {
            // The model has failed, and its numbers are gone.
            return T::default();
        }
        let is_fenced = |way| ordering == Ordering::SeqCst && WAY == way;
        if is_fenced(BEFORE) {
            fence(Ordering::SeqCst);
        }
        let value = access(&self.0);
        if is_fenced(AFTER) {
            fence(Ordering::SeqCst);
        }
        value
    }
}

/// What is left of an ordering without its fence.
fn weaker(ordering: Ordering, rest: Ordering) -> Ordering {
    if ordering == Ordering::SeqCst { rest } else { ordering }
}

impl<const WAY: u8> Number for Checking<WAY> {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    fn load(&self, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.load(weaker(ordering, Ordering::Acquire)))
    }

    fn swap(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.swap(value, weaker(ordering, Ordering::AcqRel)))
    }

    fn store(&self, value: u64, ordering: Ordering) {
        self.access(ordering, |number| number.store(value, weaker(ordering, Ordering::Release)));
    }

    fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_add(value, weaker(ordering, Ordering::AcqRel)))
    }

    fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_sub(value, weaker(ordering, Ordering::AcqRel)))
    }
}

impl<T> Lock<T> for Mutex<T> {
    type Held<'a>
        = MutexGuard<'a, T>
    where
        T: 'a;
    type Condition = Condvar;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.lock().expect("nobody panics")
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.try_lock().ok()
    }

    fn wait<'a>(condition: &Condvar, held: MutexGuard<'a, T>) -> MutexGuard<'a, T>
    where
        T: 'a,
    {
        condition.wait(held).expect("nobody panics")
    }

    fn notify(condition: &Condvar) {
        condition.notify_one();
    }
}

/// A core whose one worker has one task, and the end of that is news.
struct Toy {
    /// What the worker says: that it has ended.
    ended: Arc<AtomicU64>,
    /// Whether that was taken in.
    taken: Arc<AtomicU64>,
    has_task: bool,
    is_taken: bool,
    has_news: bool,
}

impl Moves for Toy {
    fn pump(&mut self) -> bool {
        let is_moved = !self.is_taken && self.ended.load(Ordering::Acquire) == 1;
        if is_moved {
            (self.is_taken, self.has_news) = (true, true);
            self.taken.store(1, Ordering::Release);
        }
        is_moved
    }

    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    fn is_busy(&self) -> bool {
        self.has_task && !self.is_taken
    }
}

type Toys<const WAY: u8> = Desk<Toy, Model, Checked<WAY>>;

/// The desk of a toy, and what stands beside it.
struct Room<const WAY: u8> {
    desk: Toys<WAY>,
    ended: Arc<AtomicU64>,
    taken: Arc<AtomicU64>,
}

impl<const WAY: u8> Room<WAY> {
    fn new(flaw: Flaw) -> Arc<Self> {
        Self::of(flaw, false)
    }

    /// The same, whose worker is a thread.
    fn of_thread() -> Arc<Self> {
        Self::of(Flaw::Sound, true)
    }

    fn of(flaw: Flaw, has_threads: bool) -> Arc<Self> {
        let [ended, taken] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (has_task, is_taken, has_news) = (true, false, false);
        let (said, seen) = (Arc::clone(&ended), Arc::clone(&taken));
        let toy = Toy { ended: said, taken: seen, has_task, is_taken, has_news };
        let desk = Desk::new(toy, Bell::over(Model::new(flaw, FOOTPRINT), 0), has_threads);
        Arc::new(Self { desk, ended, taken })
    }

    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Self) + 'static) -> JoinHandle<()> {
        let room = Arc::clone(self);
        thread::spawn(move || body(&room))
    }

    /// The worker's task ends.
    fn end(&self, bell: &Bell<Model>) {
        self.ended.store(1, Ordering::Release);
        bell.ring();
    }

    fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 1
    }

    fn sleep_until(&self, is_there: impl Fn(Look) -> bool) {
        self.desk
            .bell
            .sleep_until(|look| is_there(look).then_some(()), |asleep| asleep.sleep(None));
    }

    /// Attends until the ending is taken in, as `Node::attend` does; `rest` is how it sleeps.
    fn attend(&self, rest: impl Fn(Held<'_, Toy, Model, Checked<WAY>>)) {
        let here = self.desk.arrive();
        let mut core = self.desk.enter();
        loop {
            core.pump();
            core.tell();
            if core.is_taken {
                return here.leave(&mut core);
            }
            rest(core);
            core = self.desk.enter();
        }
    }

    /// How the product rests.
    fn rest(&self, core: Held<'_, Toy, Model, Checked<WAY>>) {
        let seen = core.let_go();
        self.sleep_until(|look| self.desk.is_there(seen, look));
    }

    /// The keeper, until the ending is taken in or it is dismissed.
    fn keep(&self) {
        let judge = |core: &mut Toy| {
            if core.is_taken {
                self.desk.close();
            }
        };
        self.desk.keep(judge, |(), is_there| self.sleep_until(is_there));
    }
}

/// Tries every order of events.
fn check(model: impl Fn() + Sync + Send + 'static) {
    check_within(None, model);
}

/// Tries those with at most so many interruptions of threads that could go on.
fn check_within(bound: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.check(model);
}

/// The last attendant leaves with work under way, and the keeper is about to park.
fn leaving<const WAY: u8>(leave: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        room.desk.keeper.be(Where::There);
        room.desk.keeper.arrive();
        let keeper = room.spawn(Room::keep);
        let bell = room.desk.bell.clone();
        leave(&room);
        room.end(&bell);
        keeper.join().expect("the keeper");
        assert!(room.is_taken(), "KEEP-1");
    });
}

fn leave<const WAY: u8>(room: &Room<WAY>) {
    let here = Attendance { desk: &room.desk };
    here.leave(&mut room.desk.enter());
}

#[test]
fn loom_keep_1_work_under_way_is_left_to_the_keeper() {
    leaving::<BEFORE>(leave);
    leaving::<AFTER>(leave);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_keep_1_weaker_numbers_leave_work_to_nobody() {
    leaving::<WEAK>(leave);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_keep_1_a_look_before_going_leaves_work_to_nobody() {
    leaving::<BEFORE>(|room| {
        room.desk.keeper.call();
        room.desk.keeper.leave();
    });
}

/// Somebody comes with work and leaves it to a keeper that has none so far; as soon as that judges the work, it goes.
fn dozing<const WAY: u8>(leave: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        room.desk.keeper.be(Where::There);
        room.desk.enter().has_task = false;
        let keeper = room.spawn(|room| {
            let judge = |core: &mut Toy| {
                if core.has_task {
                    room.desk.close();
                }
            };
            room.desk.keep(judge, |(), is_there| room.sleep_until(is_there));
        });
        room.desk.keeper.arrive();
        room.desk.enter().has_task = true;
        leave(&room);
        keeper.join().expect("the keeper");
    });
}

#[test]
fn loom_keep_1_a_keeper_that_dozes_is_told_of_work() {
    dozing::<BEFORE>(leave);
    dozing::<AFTER>(leave);
}

/// What went wrong once: a keeper that is not parked was thought to know.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_keep_1_a_keeper_that_dozes_and_is_not_told_sleeps_on() {
    dozing::<BEFORE>(|room| {
        room.desk.keeper.leave();
        room.desk.keeper.call();
    });
}

/// The node is closed while somebody attends, who then leaves nothing behind.
fn closing<const WAY: u8>(close: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        room.desk.keeper.be(Where::There);
        room.ended.store(1, Ordering::Relaxed);
        let here = room.desk.arrive();
        room.desk.enter().pump();
        let keeper = room.spawn(Room::keep);
        close(&room);
        here.leave(&mut room.desk.enter());
        keeper.join().expect("the keeper");
    });
}

#[test]
fn loom_keep_1_a_keeper_that_is_dismissed_goes() {
    closing::<BEFORE>(|room| assert!(room.desk.close()));
    closing::<AFTER>(|room| assert!(room.desk.close()));
}

/// What went wrong once: a call is for who is parked, and the keeper may park right after it.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_keep_1_a_keeper_that_is_only_called_stays() {
    closing::<BEFORE>(|room| {
        room.desk.is_closed.swap(1, Ordering::AcqRel);
        room.desk.announce();
        room.desk.keeper.call();
    });
}

/// Somebody has looked and goes to sleep while another takes the ending in, and for that no worker rings.
fn resting<const WAY: u8>(
    flaw: Flaw,
    rest: fn(&Room<WAY>, Held<'_, Toy, Model, Checked<WAY>>),
    take_in: fn(&Room<WAY>),
) {
    check(move || {
        let room = Room::<WAY>::new(flaw);
        let other = room.spawn(move |room| {
            room.ended.store(1, Ordering::Relaxed);
            take_in(room);
        });
        room.attend(|core| rest(&room, core));
        other.join().expect("the other");
    });
}

fn take_in<const WAY: u8>(room: &Room<WAY>) {
    room.desk.enter().pump();
}

#[test]
fn loom_node_1_what_others_take_in_is_news() {
    resting::<BEFORE>(Flaw::Sound, Room::rest, take_in);
    resting::<AFTER>(Flaw::Sound, Room::rest, take_in);
}

/// Somebody waits for what happens outside of the core: that a thread has gone.
fn going<const WAY: u8>(tell: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        let gone = Arc::new(AtomicU64::new(0));
        let thread = Arc::clone(&gone);
        let thread = room.spawn(move |room| {
            thread.store(1, Ordering::Release);
            tell(room);
        });
        let mut core = room.desk.enter();
        while gone.load(Ordering::Acquire) == 0 {
            room.rest(core);
            core = room.desk.enter();
        }
        drop(core);
        thread.join().expect("the thread");
    });
}

#[test]
fn loom_node_1_what_happens_outside_of_the_core_is_told() {
    going::<BEFORE>(|room| room.desk.tell_all());
    going::<AFTER>(|room| room.desk.tell_all());
}

/// What went wrong once: who had looked, and held the core, took the sign for one of before.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_what_is_told_without_the_core_is_missed() {
    going::<BEFORE>(|room| room.desk.announce());
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_read_after_letting_go_are_missed() {
    let rest = |room: &Room<BEFORE>, core: Held<'_, Toy, Model, Checked<BEFORE>>| {
        drop(core);
        let seen = Seen(room.desk.news.load(Ordering::Acquire));
        room.sleep_until(|look| room.desk.is_there(seen, look));
    };
    resting::<BEFORE>(Flaw::Sound, rest, take_in);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_without_fences_are_missed() {
    resting::<BEFORE>(Flaw::NoFence, Room::rest, take_in);
}

/// What went wrong once: who took something in on its way did not tell.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_news_that_nobody_tells_are_missed() {
    resting::<BEFORE>(Flaw::Sound, Room::rest, |room| {
        let mut core = room.desk.enter();
        core.pump();
        core.has_news = false;
    });
}

/// A task ends and its worker rings, while somebody holds the core who has looked already, and goes.
fn passing_by<const WAY: u8>(rest: fn(&Room<WAY>, Held<'_, Toy, Model, Checked<WAY>>)) {
    check_within(Some(3), move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        let bell = room.desk.bell.clone();
        let worker = room.spawn(move |room| room.end(&bell));
        let other = room.spawn(|room| {
            room.desk.enter().pump();
        });
        room.attend(|core| rest(&room, core));
        other.join().expect("the other");
        worker.join().expect("the worker");
    });
}

#[test]
fn loom_node_1_an_ending_is_taken_in_whoever_holds_the_core() {
    passing_by::<BEFORE>(Room::rest);
    passing_by::<AFTER>(Room::rest);
}

/// What went wrong once: who finds the core held, and sleeps, trusts a holder that does not look again.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_a_last_look_in_passing_misses_an_ending() {
    passing_by::<BEFORE>(|room, core| {
        let seen = core.let_go();
        room.sleep_until(|_| room.desk.is_there(seen, Look::Passing));
    });
}

/// A thread ends its task and asks, while somebody holds the core who has looked already, and goes.
fn asking<const WAY: u8>(ask: fn(&Room<WAY>), hold: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::of_thread();
        let thread = room.spawn(move |room| {
            room.ended.store(1, Ordering::Release);
            ask(room);
        });
        hold(&room);
        thread.join().expect("the thread");
        assert!(room.is_taken(), "DESK-1");
    });
}

fn ask<const WAY: u8>(room: &Room<WAY>) {
    room.desk.ask();
}

/// Holds the core for something else, and looks at no worker; others may run meanwhile.
fn hold<const WAY: u8>(room: &Room<WAY>) {
    let core = room.desk.enter();
    room.is_taken();
    drop(core);
}

#[test]
fn loom_desk_1_what_a_thread_asks_for_is_done_by_it_or_by_who_holds_the_core() {
    asking::<BEFORE>(ask, hold);
    asking::<AFTER>(ask, hold);
}

#[test]
fn loom_desk_1_two_threads_that_ask_are_both_answered() {
    check_within(Some(3), || {
        let room = Room::<BEFORE>::of_thread();
        let first = room.spawn(|room| room.desk.ask());
        let second = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            room.desk.ask();
        });
        hold(&room);
        for thread in [first, second] {
            thread.join().expect("the thread");
        }
        assert!(room.is_taken(), "DESK-1");
    });
}

/// Who waits for what a thread has ended is told, and does not look itself.
#[test]
fn loom_desk_1_who_waits_hears_of_what_a_thread_has_ended() {
    check_within(Some(3), || {
        let room = Room::<BEFORE>::of_thread();
        let thread = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            room.desk.ask();
        });
        room.attend(|core| room.rest(core));
        thread.join().expect("the thread");
    });
}

/// A submitter is at work and computes: the thread left its ending to that one, and asks before it sleeps.
#[test]
fn loom_desk_1_a_thread_that_left_its_ending_to_a_submitter_asks_before_it_sleeps() {
    check(|| {
        let room = Room::<BEFORE>::of_thread();
        let submitting = room.desk.begin_submitting();
        let thread = room.spawn(|room| {
            room.ended.store(1, Ordering::Release);
            if !room.desk.ask_in_passing() {
                room.desk.ask();
            }
        });
        hold(&room);
        thread.join().expect("the thread");
        assert!(room.is_taken(), "DESK-1");
        drop(submitting);
    });
}

#[test]
#[should_panic(expected = "DESK-1")]
fn loom_desk_1_without_fences_nobody_looks() {
    asking::<WEAK>(ask, hold);
}

#[test]
#[should_panic(expected = "DESK-1")]
fn loom_desk_1_a_holder_that_looks_before_it_lets_go_misses_who_asks() {
    asking::<BEFORE>(ask, |room| {
        let core = room.desk.core.lock();
        room.is_taken();
        let is_asked = room.desk.asked.load(Ordering::Relaxed) != 0;
        drop(core);
        if is_asked {
            room.desk.answer();
        }
    });
}

#[test]
#[should_panic(expected = "DESK-1")]
fn loom_desk_1_a_thread_that_only_tries_misses_a_holder_that_goes() {
    asking::<BEFORE>(
        |room| {
            room.desk.lend_a_hand(Look::Passing);
        },
        hold,
    );
}
