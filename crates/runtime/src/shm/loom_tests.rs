//! Models of the protocols, tried in every order of events and with every value that a load may see:
//! `RUSTFLAGS="--cfg loom" cargo test -p phalanx-runtime --release --lib loom_ --target-dir target/loom`.
//!
//! The protocols are those of the product; only the memory is the checker's. A memory that is weaker than asked for
//! (`Flaw`) shows that each model would find the mistake it is there for.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread::{self, Thread};

use super::bell::{ASLEEP, Bell, COUNT, FOOTPRINT, TICKET};
use super::mailbox::{GO, SHUTDOWN, is_said, say};
use super::memory::Memory;
use super::ring::{HEADER, PushError, Receiver, Sender, footprint};
use super::segment::{WORD, word_of};

/// A mistake of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// None.
    Sound,
    /// Publishing stores that publish nothing.
    NoRelease,
    /// Loads that see what was published, and not what came before it.
    NoAcquire,
    /// Fences that order nothing.
    NoFence,
}

/// Words of the checker.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    flaw: Flaw,
    words: Arc<Vec<AtomicU64>>,
    /// The words that are slept on.
    words32: Arc<Vec<AtomicU32>>,
    /// Sleeping threads; not part of the model, since only one thread runs at a time.
    sleepers: Arc<Mutex<Vec<Thread>>>,
}

impl Model {
    pub(crate) fn new(flaw: Flaw, bytes: usize) -> Self {
        Self {
            flaw,
            words: Arc::new((0..bytes / WORD).map(|_| AtomicU64::new(0)).collect()),
            words32: Arc::new((0..1).map(|_| AtomicU32::new(0)).collect()),
            sleepers: Arc::default(),
        }
    }
}

impl Memory for Model {
    fn words(&self) -> usize {
        self.words.len()
    }

    fn load(&self, at: usize, ordering: Ordering) -> u64 {
        let ordering = if self.flaw == Flaw::NoAcquire { Ordering::Relaxed } else { ordering };
        if std::thread::panicking() { 0 } else { self.words[at].load(ordering) }
    }

    fn store(&self, at: usize, value: u64, ordering: Ordering) {
        let ordering = if self.flaw == Flaw::NoRelease { Ordering::Relaxed } else { ordering };
        self.words[at].store(value, ordering);
    }

    fn add(&self, at: usize, value: u64, ordering: Ordering) -> u64 {
        if std::thread::panicking() {
            // The model has failed, and its words are gone.
            return 0;
        }
        self.words[at].fetch_add(value, ordering)
    }

    fn load32(&self, at: usize, ordering: Ordering) -> u32 {
        self.words32[at].load(ordering)
    }

    fn add32(&self, at: usize, value: u32, ordering: Ordering) -> u32 {
        self.words32[at].fetch_add(value, ordering)
    }

    fn fence(&self) {
        if self.flaw != Flaw::NoFence && !std::thread::panicking() {
            fence(Ordering::SeqCst);
        }
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        for (bytes, word) in into.chunks_mut(WORD).zip(&self.words[at..]) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..bytes.len()]);
        }
    }

    fn write(&self, at: usize, from: &[u8]) {
        for (word, bytes) in self.words[at..].iter().zip(from.chunks(WORD)) {
            word.store(word_of(bytes), Ordering::Relaxed);
        }
    }

    fn sleep(&self, at: usize, expected: u32, _: Option<Instant>) {
        let sleeper = thread::current();
        self.sleepers.lock().expect("the list").push(sleeper.clone());
        // As in the kernel: compared with the last value, and no waking between the comparison and the sleep is lost.
        if self.words32[at].fetch_add(0, Ordering::Relaxed) == expected {
            thread::park();
        }
        self.sleepers.lock().expect("the list").retain(|other| other.id() != sleeper.id());
    }

    fn wake(&self, _: usize) {
        let sleepers = self.sleepers.lock().expect("the list").clone();
        sleepers.iter().for_each(Thread::unpark);
    }
}

/// Sleeps on the bell until there is something: what `Waiting` does once it is out of patience.
fn sleep_until(bell: &Bell<Model>, mut ready: impl FnMut() -> bool) {
    bell.sleep_until(|_| ready().then_some(()), |asleep| asleep.sleep(None));
}

fn is_set(words: &Model, at: usize) -> bool {
    words.load(at, Ordering::Relaxed) != 0
}

fn set(words: &Model, at: usize) {
    words.store(at, 1, Ordering::Relaxed);
}

/// One publishes twice and rings each time; one sleeps until both are there.
fn bell_model(flaw: Flaw) {
    loom::model(move || {
        let facts = Model::new(flaw, 2 * WORD);
        let bell = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        let publisher = {
            let (facts, bell) = (facts.clone(), bell.clone());
            thread::spawn(move || {
                for at in 0..2 {
                    set(&facts, at);
                    bell.ring();
                }
            })
        };
        sleep_until(&bell, || is_set(&facts, 0) && is_set(&facts, 1));
        publisher.join().expect("the publisher");
    });
}

#[test]
fn loom_bell_loses_no_wake_up() {
    bell_model(Flaw::Sound);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_bell_without_fences_loses_a_wake_up() {
    bell_model(Flaw::NoFence);
}

/// The count is read before the registration. A sleeper that reads it later may read the count that a ringer left which
/// believes the sleeper to be awake.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_bell_count_read_too_late_loses_a_wake_up() {
    loom::model(|| {
        let facts = Model::new(Flaw::Sound, 2 * WORD);
        let words = Model::new(Flaw::Sound, FOOTPRINT);
        let bell = Bell::over(words.clone(), 0);
        let publisher = {
            let facts = facts.clone();
            thread::spawn(move || {
                for at in 0..2 {
                    set(&facts, at);
                    bell.ring();
                }
            })
        };
        while !(is_set(&facts, 0) && is_set(&facts, 1)) {
            words.add(ASLEEP, 1 + (1 << TICKET), Ordering::Relaxed);
            words.fence();
            let count = words.load32(COUNT, Ordering::Acquire);
            if !(is_set(&facts, 0) && is_set(&facts, 1)) {
                words.sleep(COUNT, count, None);
            }
            words.add(ASLEEP, u64::MAX, Ordering::Relaxed);
        }
        publisher.join().expect("the publisher");
    });
}

/// Two children ring the parent's bell, and one of them has something: the other's waking does not hide it.
#[test]
fn loom_bell_has_many_ringers() {
    loom::model(|| {
        let facts = Model::new(Flaw::Sound, WORD);
        let bell = Bell::over(Model::new(Flaw::Sound, FOOTPRINT), 0);
        let ringers = [false, true].map(|has_something| {
            let (facts, bell) = (facts.clone(), bell.clone());
            thread::spawn(move || {
                if has_something {
                    set(&facts, 0);
                }
                bell.ring();
            })
        });
        sleep_until(&bell, || is_set(&facts, 0));
        for ringer in ringers {
            ringer.join().expect("a ringer");
        }
    });
}

/// Two sleepers, one ringer: both get up.
#[test]
fn loom_bell_has_many_sleepers() {
    loom::model(|| {
        let facts = Model::new(Flaw::Sound, WORD);
        let bell = Bell::over(Model::new(Flaw::Sound, FOOTPRINT), 0);
        let sleeper = {
            let (facts, bell) = (facts.clone(), bell.clone());
            thread::spawn(move || sleep_until(&bell, || is_set(&facts, 0)))
        };
        let ringer = {
            let (facts, bell) = (facts.clone(), bell.clone());
            thread::spawn(move || {
                set(&facts, 0);
                bell.ring();
            })
        };
        sleep_until(&bell, || is_set(&facts, 0));
        sleeper.join().expect("the sleeper");
        ringer.join().expect("the ringer");
    });
}

const CAPACITY: usize = 256;

fn ring(memory: &Model, largest: usize) -> (Sender<Model>, Receiver<Model>) {
    let sender = Sender::new(memory.clone(), largest).expect("a sender");
    (sender, Receiver::new(memory.clone(), largest).expect("a receiver"))
}

/// Three records later the next message wraps.
fn turn(sender: &mut Sender<Model>, receiver: &mut Receiver<Model>) {
    let mut got = Vec::new();
    for number in 0..3 {
        sender.push(&[number], &[]).expect("room");
        sender.publish();
        assert_eq!(receiver.next(&mut got), Ok(true), "RNG-1");
        receiver.release();
    }
}

/// One pushes three records, which wrap, and publishes them one by one; the other reads what it can while that goes on.
fn ring_model(flaw: Flaw) {
    loom::model(move || {
        let memory = Model::new(flaw, footprint(CAPACITY));
        let (mut sender, mut receiver) = ring(&memory, 1000);
        turn(&mut sender, &mut receiver);
        let pusher = thread::spawn(move || {
            for number in 10..13 {
                sender.push(&[number], &[number]).expect("room");
                sender.publish();
            }
        });
        let (mut got, mut next) = (Vec::new(), 10);
        for _ in 0..2 {
            if receiver.next(&mut got).expect("RNG-1") {
                assert_eq!(got, [next, next], "RNG-1");
                next += 1;
            }
        }
        pusher.join().expect("the pusher");
        while receiver.next(&mut got).expect("RNG-1") {
            assert_eq!(got, [next, next], "RNG-1");
            next += 1;
        }
        assert_eq!(next, 13, "RNG-1");
    });
}

#[test]
fn loom_ring_publishes_and_wraps() {
    ring_model(Flaw::Sound);
}

#[test]
#[should_panic(expected = "RNG-1")]
fn loom_ring_without_release_gives_records_that_are_not_there() {
    ring_model(Flaw::NoRelease);
}

#[test]
#[should_panic(expected = "RNG-1")]
fn loom_ring_without_acquire_gives_records_that_are_not_there() {
    ring_model(Flaw::NoAcquire);
}

/// A message of two records goes into a ring with room for one: the sender waits for room on its bell, and the receiver
/// for the rest of the message on its own.
fn fragment_model(flaw: Flaw) {
    loom::model(move || {
        let memory = Model::new(flaw, footprint(CAPACITY));
        let (mut sender, mut receiver) = ring(&memory, 1000);
        let to_sender = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        let to_receiver = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        for number in 0..2 {
            sender.push(&[number], &[]).expect("room");
        }
        // One byte more than a record holds: a quarter of the ring.
        let message: Vec<u8> = (0..).take(CAPACITY / 4 - HEADER + 1).collect();
        sender.push(&message, &[]).expect("taken");
        assert!(sender.publish() && sender.is_pending(), "RNG-3");
        let pusher = {
            let (mine, theirs) = (to_sender.clone(), to_receiver.clone());
            thread::spawn(move || {
                sleep_until(&mine, || sender.publish());
                assert!(!sender.is_pending(), "RNG-4");
                theirs.ring();
            })
        };
        let mut got = Vec::new();
        for number in 0..2 {
            assert_eq!(receiver.next(&mut got), Ok(true), "RNG-1");
            assert_eq!(got, [number], "RNG-1");
        }
        if receiver.release() {
            to_sender.ring();
        }
        sleep_until(&to_receiver, || receiver.next(&mut got).expect("RNG-1"));
        assert_eq!(got, message, "RNG-3");
        pusher.join().expect("the pusher");
    });
}

#[test]
fn loom_ring_sends_what_is_larger_than_itself() {
    fragment_model(Flaw::Sound);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_ring_without_fences_keeps_the_rest_of_a_message() {
    fragment_model(Flaw::NoFence);
}

/// A full ring: the sender waits for room on its bell, the receiver releases and rings only if told to.
fn room_model(flaw: Flaw) {
    loom::model(move || {
        let memory = Model::new(flaw, footprint(CAPACITY));
        let (mut sender, mut receiver) = ring(&memory, 1000);
        let bell = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        for number in 0..3 {
            sender.push(&[number], &[]).expect("room");
        }
        sender.publish();
        let pusher = {
            let bell = bell.clone();
            thread::spawn(move || {
                sleep_until(&bell, || match sender.push(&[3], &[]) {
                    Ok(()) => true,
                    Err(PushError::Full { .. }) => false,
                    Err(error) => panic!("RNG-4: {error}"),
                });
                sender.publish();
            })
        };
        let mut got = Vec::new();
        assert_eq!(receiver.next(&mut got), Ok(true), "RNG-1");
        if receiver.release() {
            bell.ring();
        }
        pusher.join().expect("the pusher");
        while receiver.next(&mut got).expect("RNG-1") {}
        assert_eq!(got, [3], "RNG-1");
    });
}

#[test]
fn loom_ring_tells_who_waits_for_room() {
    room_model(Flaw::Sound);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_ring_without_fences_forgets_who_waits_for_room() {
    room_model(Flaw::NoFence);
}

/// The parent says a fact after the last task and wakes; the child sleeps until it is said, and then has the task.
fn fact_model(flaw: Flaw, at: usize) {
    loom::model(move || {
        let words = Model::new(flaw, (SHUTDOWN.max(GO) + 1) * WORD);
        let (mut sender, mut receiver) = ring(&Model::new(flaw, footprint(CAPACITY)), 100);
        let bell = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        let parent = {
            let (words, bell) = (words.clone(), bell.clone());
            thread::spawn(move || {
                sender.push(&[7], &[]).expect("room");
                sender.publish();
                say(&words, at);
                bell.ring();
            })
        };
        // Child and parent write at the same time: each its own word.
        set(&words, 0);
        sleep_until(&bell, || is_said(&words, at));
        let mut got = Vec::new();
        assert_eq!(receiver.next(&mut got), Ok(true), "MBX-2");
        parent.join().expect("the parent");
        assert!(is_said(&words, at), "MBX-2");
    });
}

#[test]
fn loom_mailbox_shutdown_is_seen_with_what_came_before() {
    fact_model(Flaw::Sound, SHUTDOWN);
}

#[test]
fn loom_mailbox_go_is_seen_with_what_came_before() {
    fact_model(Flaw::Sound, GO);
}

#[test]
#[should_panic(expected = "MBX-2")]
fn loom_mailbox_shutdown_without_release_comes_too_early() {
    fact_model(Flaw::NoRelease, SHUTDOWN);
}

/// A former mistake of others: a child that reports through the parent's shutdown word erases the shutdown.
#[test]
#[should_panic(expected = "deadlock")]
fn loom_mailbox_word_with_two_writers_forgets_the_shutdown() {
    loom::model(|| {
        let words = Model::new(Flaw::Sound, (SHUTDOWN + 1) * WORD);
        let bell = Bell::over(Model::new(Flaw::Sound, FOOTPRINT), 0);
        let parent = {
            let (words, bell) = (words.clone(), bell.clone());
            thread::spawn(move || {
                say(&words, SHUTDOWN);
                bell.ring();
            })
        };
        words.store(SHUTDOWN, 0, Ordering::Release);
        sleep_until(&bell, || is_said(&words, SHUTDOWN));
        parent.join().expect("the parent");
    });
}
