//! Models of who moves the node, beside those of `shm/loom_tests.rs` and run by the same command.
//!
//! What is tried is the code of the product over a toy of a core; a thread that sleeps for good is a deadlock. The checker
//! knows sequential consistency of fences only, so accesses that ask for it are made of fences, in one of two ways
//! (`BEFORE`, `AFTER`) that compilers have too; each model holds for both.

use super::super::named::Named;
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

    fn fetch_or(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_or(value, weaker(ordering, Ordering::AcqRel)))
    }

    fn fetch_and(&self, value: u64, ordering: Ordering) -> u64 {
        self.access(ordering, |number| number.fetch_and(value, weaker(ordering, Ordering::AcqRel)))
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
    errands: usize,
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

    fn errands(&self) -> usize {
        self.errands
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
        let [ended, taken] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let (has_task, is_taken, has_news, errands) = (true, false, false, 0);
        let (said, seen) = (Arc::clone(&ended), Arc::clone(&taken));
        let toy = Toy { ended: said, taken: seen, has_task, is_taken, has_news, errands };
        let desk = Desk::new(toy, Bell::over(Model::new(flaw, FOOTPRINT), 0));
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
            core.tell(|| false);
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

    /// The thread of a worker, from the end of its task until it sleeps; what it does then is nothing.
    fn serve(&self, look: fn(&Self)) {
        self.end(&self.desk.bell.clone());
        let own = Bell::over(Model::new(Flaw::Sound, FOOTPRINT), 0);
        let _asleep = own.lie_down();
        look(self);
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

/// The keeper takes over from somebody who steps aside for as long as that takes.
fn stepping_aside<const WAY: u8>(step: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        room.desk.keeper.be(Where::There);
        room.desk.keeper.arrive();
        let keeper = room.spawn(Room::keep);
        room.end(&room.desk.bell.clone());
        step(&room);
        assert!(room.is_taken(), "KEEP-1");
        keeper.join().expect("the keeper");
    });
}

fn long<const WAY: u8>(room: &Room<WAY>) {
    room.sleep_until(|_| room.is_taken());
}

#[test]
fn loom_keep_1_who_steps_aside_is_replaced() {
    fn step<const WAY: u8>(room: &Room<WAY>) {
        let here = Attendance { desk: &room.desk };
        here.step_aside(|| long(room));
        here.leave(&mut room.desk.enter());
    }
    stepping_aside::<BEFORE>(step);
    stepping_aside::<AFTER>(step);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_keep_1_who_steps_aside_and_calls_nobody_is_not_replaced() {
    stepping_aside::<BEFORE>(|room| {
        room.desk.keeper.leave();
        long(room);
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

/// A task ends whose worker is a thread, and no keeper is there: who attends goes, whatever the worker does.
fn without_keeper<const WAY: u8>(go: fn(&Room<WAY>), look: fn(&Room<WAY>)) {
    check(move || {
        let room = Room::<WAY>::new(Flaw::Sound);
        room.desk.keeper.arrive();
        let worker = room.spawn(move |room| room.serve(look));
        go(&room);
        worker.join().expect("the worker");
        assert!(room.is_taken(), "NODE-1");
    });
}

/// As if its work never ended.
fn step_for_good<const WAY: u8>(room: &Room<WAY>) {
    let here = Attendance { desk: &room.desk };
    here.go();
    std::mem::forget(here);
}

fn last_look<const WAY: u8>(room: &Room<WAY>) {
    room.desk.lend_a_hand_if_wanted(Look::Last);
}

#[test]
fn loom_node_1_threads_look_before_they_sleep_whoever_leaves() {
    without_keeper::<BEFORE>(leave, last_look);
    without_keeper::<AFTER>(leave, last_look);
    without_keeper::<WEAK>(leave, last_look);
    without_keeper::<WEAK>(step_for_good, last_look);
    // Who stays and computes is no help either.
    without_keeper::<WEAK>(|_| {}, last_look);
}

#[test]
#[should_panic(expected = "NODE-1")]
fn loom_node_1_threads_that_rely_on_an_attendant_leave_an_ending() {
    without_keeper::<BEFORE>(leave, |room| {
        if !room.desk.keeper.is_attended() {
            room.desk.lend_a_hand(Look::Last);
        }
    });
}

#[test]
#[should_panic(expected = "NODE-1")]
fn loom_node_1_threads_that_look_in_passing_leave_an_ending() {
    without_keeper::<BEFORE>(leave, |room| {
        room.desk.lend_a_hand_if_wanted(Look::Passing);
    });
}

/// Two callers, and a task for one of them, as `Errands` says it: how many wait, and whether somebody runs some.
struct Callers {
    room: Arc<Room<BEFORE>>,
    count: AtomicU64,
    is_running: AtomicU64,
}

impl Callers {
    fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.is_running.load(Ordering::Acquire) == 0
    }

    /// Waits as a caller that has no other wish than to run the task.
    fn wait(&self) {
        let desk = &self.room.desk;
        loop {
            let mut core = desk.enter();
            if self.has_some() {
                core.core.errands = 0;
                return self.count.store(0, Ordering::Release);
            }
            let seen = core.let_go();
            self.room.sleep_until(|look| self.has_some() || desk.is_there(seen, look));
        }
    }
}

/// One caller waits; the other, who at first runs something or not, does its part.
fn calling(is_running: u64, part: fn(&Callers)) {
    check(move || {
        let (room, running) = (Room::new(Flaw::Sound), AtomicU64::new(is_running));
        let callers = Callers { room, count: AtomicU64::new(is_running), is_running: running };
        let callers = Arc::new(callers);
        let other = {
            let callers = Arc::clone(&callers);
            thread::spawn(move || part(&callers))
        };
        callers.wait();
        other.join().expect("the other");
    });
}

fn submit(callers: &Callers, core: &mut Held<'_, Toy, Model, Checked<BEFORE>>) {
    core.core.errands += 1;
    callers.count.store(1, Ordering::Release);
}

#[test]
fn loom_node_1_who_waits_hears_of_an_errand() {
    calling(0, |callers| submit(callers, &mut callers.room.desk.enter()));
    calling(1, |callers| {
        let mut core = callers.room.desk.enter();
        callers.is_running.store(0, Ordering::Release);
        core.tell(|| callers.has_some());
    });
}

/// What went wrong once: who submitted it did not tell.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_an_errand_that_nobody_tells_of_waits() {
    calling(0, |callers| {
        let mut core = callers.room.desk.enter();
        submit(callers, &mut core);
        core.errands = core.core.errands;
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_node_1_an_errand_told_of_while_others_run_waits() {
    calling(1, |callers| {
        let mut core = callers.room.desk.enter();
        core.tell(|| callers.has_some());
        drop(core);
        callers.is_running.store(0, Ordering::Release);
    });
}

/// Somebody touches a buffer from outside, holding the core, while another names it and runs a task at once.
fn touching<const WAY: u8>(name: fn(&Named<Checked<WAY>>) -> bool) {
    check(move || {
        let named = Arc::new(Named::<Checked<WAY>>::new(None, 64));
        let (core, users) = (Arc::new(Mutex::new(())), Arc::new(AtomicU64::new(0)));
        let (names, its_core, its_users) = (named.clone(), core.clone(), users.clone());
        let submitter = thread::spawn(move || {
            if !name(&names) {
                drop(its_core.lock().expect("nobody panics"));
            }
            assert_eq!(its_users.fetch_add(1, Ordering::AcqRel), 0, "NAM-1");
            its_users.fetch_sub(1, Ordering::AcqRel);
        });
        let held = core.lock().expect("nobody panics");
        let touch = Named::touch(&named);
        if !named.has(7) {
            assert_eq!(users.fetch_add(1, Ordering::AcqRel), 0, "NAM-1");
            users.fetch_sub(1, Ordering::AcqRel);
        }
        drop((touch, held));
        submitter.join().expect("the submitter");
    });
}

#[test]
fn loom_nam_1_a_buffer_is_not_touched_while_a_task_uses_it() {
    touching::<BEFORE>(|named| named.add(7) && !named.is_touched());
    touching::<AFTER>(|named| named.add(7) && !named.is_touched());
}

#[test]
#[should_panic(expected = "NAM-1")]
fn loom_nam_1_a_look_before_naming_sees_nobody() {
    touching::<BEFORE>(|named| {
        let is_touched = named.is_touched();
        named.add(7) && !is_touched
    });
}

#[test]
#[should_panic(expected = "NAM-1")]
fn loom_nam_1_weaker_numbers_miss_each_other() {
    touching::<WEAK>(|named| named.add(7) && !named.is_touched());
}
