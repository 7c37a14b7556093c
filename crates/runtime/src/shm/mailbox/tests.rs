//! Tests of a mailbox's promises.

use super::*;
use crate::shm::{Corrupt, PushError};

const SMALL: Sizes = Sizes { tasks: 1024, controls: 256, events: 512, largest: 5000 };

fn both() -> (ParentSide, ChildSide) {
    let bell = Bell::create_many(2).expect("bells").remove(1);
    let parent = Mailbox::create(&bell, &SMALL).expect("a mailbox");
    let mailbox = parent.segment().fd().try_clone_to_owned().expect("a copy");
    let child = Mailbox::adopt(mailbox, bell.segment().fd().try_clone_to_owned().expect("a copy"));
    (parent, child.expect("the same layout"))
}

fn poke(side: &ParentSide, at: usize, value: u64) {
    side.segment().word64(at * WORD).expect("inside").store(value, Ordering::Relaxed);
}

fn adopt(side: &ParentSide) -> Result<ChildSide, MailboxError> {
    Mailbox::attach(side.segment(), side.bell().segment())
}

#[test]
fn mbx_1_each_side_writes_its_own_words() {
    let (mut parent, mut child) = both();
    child.enter(Phase::Serving);
    child.witness.step(1);
    child.witness.step(2);
    parent.shut_down();
    child.enter(Phase::Leaving);
    child.witness.step(0);
    assert!(child.is_shut_down() && !child.is_open(), "MBX-1");
    assert_eq!(parent.phase().expect("a phase"), Phase::Leaving, "MBX-1");
    assert_eq!(parent.evidence(), Evidence { progress: 3, step: 0 }, "MBX-1");
    assert!(!parent.is_dead(), "no sentinel stood");
    parent.tasks.push(b"task", b"").expect("room");
    parent.controls.push(b"control", b"").expect("room");
    child.events.push(b"event", b"").expect("room");
    assert!(parent.tasks.publish() && parent.controls.publish() && child.events.publish());
    let mut got = Vec::new();
    assert!(child.tasks.next(&mut got).expect("sound") && got == b"task", "MBX-1");
    assert!(child.controls.next(&mut got).expect("sound") && got == b"control", "MBX-1");
    assert!(parent.events.next(&mut got).expect("sound") && got == b"event", "MBX-1");
}

#[test]
fn mbx_1_words_do_not_overlap() {
    let mut words =
        [MAGIC, VERSION, HASH, BYTES, TASKS, CONTROLS, EVENTS, LARGEST, BELL_OFFSET, WAKING]
            .to_vec();
    words.extend([SHUTDOWN, GO, PHASE, PROGRESS, STEP, ROBUST, CHILD_BELL, RINGS]);
    let mut sorted = words.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, words, "MBX-1");
    let line = |word: usize| word * WORD / 64;
    let lines = [MAGIC, SHUTDOWN, PHASE, PROGRESS, ROBUST, CHILD_BELL, RINGS].map(line);
    assert!(lines.is_sorted_by(|one, next| one < next), "MBX-1");
    assert!(line(GO) < line(PHASE) && line(STEP) < line(ROBUST), "MBX-1");
    assert!(
        CHILD_BELL * WORD + bell::FOOTPRINT <= RINGS * WORD && (RINGS * WORD).is_multiple_of(128)
    );
}

#[test]
fn mbx_2_what_is_said_stays_said() {
    let (parent, mut child) = both();
    parent.open();
    parent.shut_down();
    parent.open();
    for phase in ALL_PHASES {
        child.enter(phase);
        assert!(child.is_open() && child.is_shut_down(), "MBX-2");
        assert_eq!(parent.phase().expect("a phase"), phase);
        assert_eq!(child.phase().expect("a phase"), phase);
    }
}

#[test]
fn mbx_3_another_layout_is_refused_with_both_values() {
    for (at, what) in [(MAGIC, "magic"), (VERSION, "version"), (HASH, "layout"), (BYTES, "size")] {
        let (parent, _child) = both();
        let expected = parent.segment().word64(at * WORD).expect("inside").load(Ordering::Relaxed);
        poke(&parent, at, 0xabcd);
        let error = adopt(&parent).expect_err("MBX-3").to_string();
        assert!(
            error.contains(&format!("its {what} is 0xabcd, and here it is {expected:#x}")),
            "{error}"
        );
    }
    let other = Segment::create("test", 4096).expect("a segment");
    let error = Mailbox::attach(&other, &other).expect_err("MBX-3").to_string();
    assert!(error.contains("its magic is 0x0"), "{error}");
    assert!(
        Mailbox::attach(&Segment::create("test", 64).expect("a segment"), &other).is_err(),
        "MBX-3"
    );
}

#[test]
fn mbx_3_sizes_that_do_not_fit_are_refused() {
    let sizes = [0, 255, 300, u64::MAX, 1 << 31, 1 << 40, 2048];
    for at in [TASKS, CONTROLS, EVENTS] {
        for size in sizes {
            let (parent, _child) = both();
            poke(&parent, at, size);
            assert!(adopt(&parent).is_err(), "MBX-3");
        }
    }
    let (parent, _child) = both();
    poke(&parent, LARGEST, 0);
    assert!(adopt(&parent).is_err(), "MBX-3");
    poke(&parent, LARGEST, 100);
    poke(&parent, BELL_OFFSET, 1 << 20);
    assert!(adopt(&parent).is_err(), "MBX-3: no bell is there");
    let bell = Bell::create().expect("a bell");
    assert!(Mailbox::create(&bell, &Sizes { tasks: usize::MAX, ..SMALL }).is_err());
    assert!(Mailbox::create(&bell, &Sizes { events: 1000, ..SMALL }).is_err());
    assert!(Mailbox::create(&bell, &Sizes::default()).is_ok());
}

#[test]
fn mbx_3_larger_rings_than_the_memory_are_refused() {
    let (parent, _child) = both();
    let sizes = Sizes { tasks: 1 << 20, ..SMALL };
    poke(&parent, TASKS, sizes.tasks as u64);
    poke(&parent, BYTES, MailboxLayout::of(&sizes).expect("possible").bytes as u64);
    assert!(matches!(adopt(&parent), Err(MailboxError::Segment(_))), "MBX-3");
}

#[test]
fn mbx_4_words_without_meaning_are_errors() {
    let (mut parent, child) = both();
    for found in [6, 7, u64::MAX] {
        poke(&parent, PHASE, found);
        assert!(
            matches!(parent.phase(), Err(MailboxError::Phase { found: word }) if word == found),
            "MBX-4"
        );
        assert!(child.phase().is_err(), "MBX-4");
    }
    poke(&parent, WAKING, u64::MAX);
    assert!(child.waiting().patience() < Duration::from_secs(1), "MBX-4");
    let events = MailboxLayout::of(&SMALL).expect("possible").rings[2].0 / WORD;
    // The first word of the first record, behind what the two sides say of themselves.
    poke(&parent, events + ring::footprint(0) / WORD, 1);
    assert!(matches!(parent.events.next(&mut Vec::new()), Err(Corrupt::Mark { .. })), "MBX-4");
    let largest = parent.tasks.push(&[0; 5001], b"");
    assert_eq!(largest, Err(PushError::TooLarge { bytes: 5001, largest: 5000 }), "MBX-4");
}

#[test]
fn mbx_3_the_layout_is_the_one_that_was_released() {
    // Changed on purpose? Then change `THIS_VERSION` if programs of both layouts may meet.
    assert_eq!(LAYOUT_HASH, hash(&[LAYOUT, ring::LAYOUT, bell::LAYOUT, PHASES]), "MBX-3");
    for phase in ALL_PHASES {
        assert!(PHASES.contains(&format!("{phase:?}={};", phase as u64)), "MBX-3");
    }
}
