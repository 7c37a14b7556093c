//! Tests of a ring's promises.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::shm::{Region, Segment};
use crate::sync::Ordering;

fn ring(capacity: usize, largest: usize) -> (Sender, Receiver, Segment) {
    let segment = Segment::create("test", footprint(capacity)).expect("a segment");
    let region = Region::new(&segment, 0, footprint(capacity)).expect("a region");
    let sender = Sender::new(region.clone(), largest).expect("a sender");
    (sender, Receiver::new(region, largest).expect("a receiver"), segment)
}

fn poke(segment: &Segment, word: usize, value: u64) {
    segment.word64(word * WORD).expect("inside").store(value, Ordering::Relaxed);
}

fn peek(segment: &Segment, word: usize) -> u64 {
    segment.word64(word * WORD).expect("inside").load(Ordering::Relaxed)
}

fn message(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| u8::try_from(at % 251).expect("small")).collect()
}

#[test]
fn rng_1_messages_arrive_in_order_after_publish() {
    let (mut sender, mut receiver, _) = ring(256, 1000);
    let mut got = Vec::new();
    for number in 0..100_u8 {
        sender.push(&[number], &[1, 2, 3]).expect("room");
        assert_eq!(receiver.next(&mut got), Ok(false));
        assert!(receiver.is_empty() && sender.publish() && !receiver.is_empty());
        assert!(!sender.publish());
        assert_eq!(receiver.next(&mut got), Ok(true));
        assert_eq!(got, [number, 1, 2, 3]);
        receiver.release();
    }
}

#[test]
fn rng_1_every_split_and_length_arrives_whole() {
    let (mut sender, mut receiver, _) = ring(1024, 240);
    let mut got = Vec::new();
    for bytes in 0..=240 {
        let whole = message(bytes);
        for split in [0, bytes / 3, bytes.min(5), bytes] {
            let (head, body) = whole.split_at(split);
            sender.push(head, body).expect("room");
            sender.publish();
            assert_eq!(receiver.next(&mut got), Ok(true));
            assert_eq!(got, whole, "RNG-1");
            receiver.release();
        }
    }
}

#[test]
fn rng_2_what_is_no_header_is_corrupt_for_ever() {
    for found in [1, 63, 320, u64::MAX, 1 << 63] {
        let (mut sender, mut receiver, segment) = ring(256, 100);
        sender.push(b"first", b"").expect("room");
        sender.publish();
        let mut got = Vec::new();
        assert_eq!(receiver.next(&mut got), Ok(true));
        let next = RECORDS + LINE / WORD;
        assert_eq!(peek(&segment, next), 0, "RNG-1: nothing is published there");
        poke(&segment, next, found);
        let corrupt = Err(Corrupt::Mark { sequence: 1, found });
        assert!(!receiver.is_empty());
        assert_eq!(receiver.next(&mut got), corrupt, "RNG-2");
        poke(&segment, next, 0);
        assert!(!receiver.is_empty());
        assert_eq!(receiver.next(&mut got), corrupt, "RNG-2");
    }
}

/// Every payload looks like the headers of later records, and stands where records of other lengths begin on the next laps.
#[test]
fn rng_1_bytes_of_earlier_records_are_never_taken_for_a_record() {
    let (mut sender, mut receiver, _) = ring(1024, 240);
    let mut got = Vec::new();
    for round in 0..2000_u64 {
        let headers = (0..30).map(|ahead| 8 | kind(round + 1 + ahead % 3, false) << 32);
        let bytes: Vec<u8> = headers.flat_map(u64::to_ne_bytes).collect();
        let bytes = &bytes[..usize::try_from(round * 56 % 241).expect("small")];
        sender.push(bytes, b"").expect("room");
        assert_eq!(receiver.next(&mut got), Ok(false), "RNG-1");
        sender.publish();
        assert_eq!(receiver.next(&mut got), Ok(true), "RNG-1");
        assert_eq!(got, bytes, "RNG-1");
        assert_eq!(receiver.next(&mut got), Ok(false), "RNG-1");
        receiver.release();
    }
}

#[test]
fn rng_2_a_wrong_header_is_corrupt() {
    let sequence = 0;
    let (most, first) = (56, kind(sequence, false) << 32);
    let (marked, other) = (first | 1 << 63, kind(7, false) << 32);
    let cases = [
        (1, 0, Corrupt::Mark { sequence, found: 1 }),
        (marked, 0, Corrupt::Mark { sequence, found: marked }),
        (other, 0, Corrupt::Sequence { expected: 0, found: 7 }),
        (first + 57, 0, Corrupt::Length { sequence, length: 57, most }),
        (first | 0xffff_ffff, 0, Corrupt::Length { sequence, length: 0xffff_ffff, most }),
        ((first | MORE << 32) + 5, 0, Corrupt::Fragment { sequence, length: 5, expected: 56 }),
        (first + 41, 40, Corrupt::Largest { bytes: 41, largest: 40 }),
    ];
    for (word, largest, corrupt) in cases {
        let (mut sender, mut receiver, segment) =
            ring(256, if largest == 0 { 100 } else { largest });
        sender.push(b"first", b"").expect("room");
        sender.publish();
        poke(&segment, RECORDS, word);
        assert_eq!(receiver.next(&mut Vec::new()), Err(corrupt), "RNG-2");
        assert!(!corrupt.to_string().is_empty());
    }
}

#[test]
fn rng_2_a_record_of_another_time_is_corrupt_however_many_there_were() {
    let (mut sender, mut receiver, segment) = ring(256, 100);
    let many = (NUMBER >> 1) - 1;
    (sender.sequence, receiver.sequence) = (many, many);
    let (mut got, mut words) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        sender.push(b"record", b"").expect("room");
        sender.publish();
        assert_eq!(receiver.next(&mut got), Ok(true), "RNG-1: also when the numbers begin again");
        receiver.release();
        words.push(peek(&segment, RECORDS + words.len() * LINE / WORD));
    }
    assert_eq!(
        words.iter().map(|word| number(word >> 32)).collect::<Vec<_>>(),
        [many, many + 1, 0, 1]
    );
    sender.push(b"record", b"").expect("room");
    sender.publish();
    poke(&segment, RECORDS, words[0]);
    let corrupt = Corrupt::Sequence { expected: 2, found: many };
    assert_eq!(receiver.next(&mut got), Err(corrupt), "RNG-2");
}

#[test]
fn rng_2_a_record_that_reaches_what_was_not_given_back_is_corrupt() {
    let (mut sender, mut receiver, segment) = ring(1024, 1000);
    let mut got = Vec::new();
    for _ in 0..12 {
        sender.push(b"one line", b"").expect("room");
        sender.publish();
        assert_eq!(receiver.next(&mut got), Ok(true));
    }
    sender.push(b"one line", b"").expect("room");
    sender.publish();
    poke(&segment, RECORDS + 12 * LINE / WORD, (kind(12, false) << 32) + 248);
    let corrupt = Corrupt::Length { sequence: 12, length: 248, most: 248 };
    assert_eq!(receiver.next(&mut got), Err(corrupt), "RNG-2");
}

#[test]
fn rng_2_a_wrong_head_is_corrupt_for_ever() {
    for found in [1, 320, u64::MAX, 1 << 40] {
        let (mut sender, _receiver, segment) = ring(256, 100);
        for _ in 0..3 {
            sender.push(b"x", b"").expect("room");
        }
        sender.publish();
        poke(&segment, HEAD, found);
        let corrupt = PushError::Corrupt(Corrupt::Head { found, from: 0, to: 192 });
        assert_eq!(sender.push(b"x", b""), Err(corrupt), "RNG-2");
        poke(&segment, HEAD, 192);
        assert_eq!(sender.push(b"x", b""), Err(corrupt), "RNG-2");
        assert_eq!(sender.room(), 0, "RNG-2");
    }
}

#[test]
fn rng_2_a_message_without_end_is_corrupt() {
    let (mut sender, mut receiver, segment) = ring(256, 1000);
    let (mut got, mut outcome) = (Vec::new(), Ok(false));
    for sequence in 0..100 {
        sender.push(&[1; 56], b"").expect("room");
        sender.publish();
        let at = RECORDS + usize::try_from(sequence).expect("small") * LINE % 256 / WORD;
        poke(&segment, at, (kind(sequence, true) << 32) + 56);
        outcome = receiver.next(&mut got);
        receiver.release();
        if outcome.is_err() {
            break;
        }
    }
    assert_eq!(outcome, Err(Corrupt::Largest { bytes: 1008, largest: 1000 }), "RNG-2");
}

#[test]
fn rng_3_a_message_larger_than_the_ring_arrives_whole() {
    for bytes in [57, 112, 113, 256, 1000, 10_000] {
        let (mut sender, mut receiver, _) = ring(256, 10_000);
        let whole = message(bytes);
        sender.push(&whole[..bytes / 2], &whole[bytes / 2..]).expect("RNG-3");
        sender.publish();
        let mut got = Vec::new();
        while !receiver.next(&mut got).expect("sound") {
            if receiver.release() {
                assert!(sender.publish(), "RNG-4");
            }
        }
        assert_eq!(got, whole, "RNG-3");
        assert!(!sender.is_pending(), "RNG-3");
    }
}

#[test]
fn rng_3_only_one_rest_is_kept() {
    let (mut sender, mut receiver, _) = ring(256, 1000);
    sender.push(&[1; 1000], b"").expect("RNG-3");
    assert!(sender.is_pending() && sender.room() == 0);
    assert!(matches!(sender.push(b"x", b""), Err(PushError::Full { .. })), "RNG-3");
    sender.publish();
    let mut got = Vec::new();
    while !receiver.next(&mut got).expect("sound") {
        receiver.release();
        sender.publish();
    }
    receiver.release();
    assert_eq!(sender.push(b"x", b""), Ok(()), "RNG-3");
}

#[test]
fn rng_3_a_message_that_is_too_large_is_refused() {
    let (mut sender, _receiver, _) = ring(256, 40);
    assert_eq!(sender.largest(), 40);
    let refused = PushError::TooLarge { bytes: 41, largest: 40 };
    assert_eq!(sender.push(&[0; 20], &[0; 21]), Err(refused), "RNG-3");
    assert_eq!(sender.push(&[0; 20], &[0; 20]), Ok(()), "RNG-3");
    assert_eq!(
        refused.to_string(),
        "the message is too large: 41 bytes, and the largest allowed is 40"
    );
}

#[test]
fn rng_4_who_was_refused_is_told() {
    let (mut sender, mut receiver, _) = ring(256, 100);
    for _ in 0..3 {
        assert!(sender.room() > 0);
        sender.push(b"x", b"").expect("room");
    }
    assert_eq!(sender.room(), 0);
    sender.publish();
    let mut got = Vec::new();
    assert_eq!(receiver.next(&mut got), Ok(true));
    assert!(!receiver.release(), "RNG-4: nobody was refused yet");
    assert!(!receiver.release(), "RNG-4: nothing to give back");
    sender.push(b"x", b"").expect("room");
    sender.publish();
    assert_eq!(sender.push(b"x", b""), Err(PushError::Full { need: 64, room: 0 }));
    assert_eq!(receiver.next(&mut got), Ok(true));
    assert!(receiver.release(), "RNG-4");
    sender.push(b"x", b"").expect("room");
    sender.publish();
    assert_eq!(receiver.next(&mut got), Ok(true));
    assert!(!receiver.release(), "RNG-4: it has room again");
}

#[test]
fn rings_that_cannot_be_are_refused() {
    let segment = Segment::create("test", 4096).expect("a segment");
    for bytes in [0, 8, 256, 256 + 128, 256 + 300 / 8 * 8] {
        let region = Region::new(&segment, 0, bytes).expect("inside");
        assert!(matches!(Sender::new(region, 10), Err(RingError::Capacity { .. })));
    }
    let region = Region::new(&segment, 0, footprint(256)).expect("inside");
    assert!(matches!(Receiver::new(region.clone(), 0), Err(RingError::Largest { .. })));
    assert!(matches!(Receiver::new(region, usize::MAX), Err(RingError::Largest { .. })));
}

/// Counts what each thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: all calls go on to the system's allocator; counting touches a cell that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the promises of the caller are those that the system's allocator asks for.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn rng_5_nobody_allocates_in_steady_state() {
    let (mut sender, mut receiver, _) = ring(4096, 20_000);
    let (mut got, whole) = (Vec::new(), message(20_000));
    let mut before = 0;
    for round in 0..50 {
        if round == 10 {
            before = ALLOCATIONS.get();
        }
        for bytes in [10, 20_000, 48, 1000, 5000] {
            sender.push(b"head", &whole[4..bytes]).expect("room");
            sender.publish();
            while !receiver.next(&mut got).expect("sound") {
                receiver.release();
                sender.publish();
            }
            receiver.release();
        }
    }
    assert_eq!(ALLOCATIONS.get(), before, "RNG-5");
}

/// Body of the model's test.
#[derive(Clone, Debug)]
enum Step {
    Push(usize, usize),
    Publish,
    Next,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..20, 0_usize..120).prop_map(|(head, body)| Step::Push(head, body)),
        1 => (0_usize..20, 0_usize..1500).prop_map(|(head, body)| Step::Push(head, body)),
        3 => Just(Step::Publish),
        4 => Just(Step::Next),
        2 => Just(Step::Release),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(step(), 1..200)
}

proptest! {
    #[test]
    fn rng_1_a_ring_is_a_queue(steps in steps(), capacity in 8_u32..13) {
        let (mut sender, mut receiver, _) = ring(1 << capacity, 1000);
        let mut queue = VecDeque::new();
        let (mut got, mut seed) = (Vec::new(), 0_u8);
        for step in steps {
            match step {
                Step::Push(head, body) => {
                    seed = seed.wrapping_add(1);
                    let (head, body) = (vec![seed; head], vec![!seed; body]);
                    match sender.push(&head, &body) {
                        Ok(()) => queue.push_back([head, body].concat()),
                        Err(PushError::TooLarge { bytes, .. }) => prop_assert!(bytes > 1000),
                        Err(PushError::Full { .. }) => {}
                        Err(error) => prop_assert!(false, "{}", error),
                    }
                }
                Step::Publish => { sender.publish(); }
                Step::Next => if receiver.next(&mut got).expect("sound") {
                    prop_assert_eq!(Some(got.clone()), queue.pop_front());
                },
                Step::Release => { receiver.release(); }
            }
        }
        for _ in 0..2000 {
            sender.publish();
            while receiver.next(&mut got).expect("sound") {
                prop_assert_eq!(Some(got.clone()), queue.pop_front());
            }
            receiver.release();
        }
        prop_assert!(queue.is_empty() && receiver.is_empty());
    }

    #[test]
    fn rng_2_corrupt_words_do_no_harm(
        steps in steps(),
        pokes in proptest::collection::vec((0_usize..200, 0_usize..64, any::<u64>(), 0_u32..3), 1..20),
    ) {
        let (mut sender, mut receiver, segment) = ring(256, 1000);
        let (mut got, mut pokes) = (Vec::new(), pokes);
        for (number, step) in steps.into_iter().enumerate() {
            for (_, word, value, kind) in pokes.extract_if(.., |poke| poke.0 == number) {
                let old = peek(&segment, word);
                let new = [value, old.wrapping_add(value % 5 * 32), old ^ 1 << (value % 64)];
                poke(&segment, word, new[kind as usize]);
            }
            match step {
                Step::Push(head, body) => drop(sender.push(&vec![1; head], &vec![2; body])),
                Step::Publish => drop(sender.publish()),
                Step::Next => if receiver.next(&mut got).is_ok() {
                    prop_assert!(got.len() <= 1000);
                },
                Step::Release => drop(receiver.release()),
            }
        }
    }
}
