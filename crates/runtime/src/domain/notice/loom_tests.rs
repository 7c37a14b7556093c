//! A rank that waits for a cell, the peer that may write it before it dies, and the node that posts the notice.

use super::*;
use crate::shm::bell::{Bell, FOOTPRINT};
use crate::shm::loom_tests::{Flaw, Model};
use loom::thread;

/// The node posts a notice and rings; a rank sleeps until it sees its cell or the notice, and reads the words.
fn model(flaw: Flaw) {
    loom::model(move || {
        let cell = Model::new(flaw, size_of::<u64>());
        let notice = Model::new(flaw, usize::try_from(NOTICE).expect("small"));
        let bell = Bell::over(Model::new(flaw, FOOTPRINT), 0);
        let node = {
            let (cell, notice, bell) = (cell.clone(), Notice(notice.clone()), bell.clone());
            thread::spawn(move || {
                // The peer wrote, and died; the kernel's word of that is what the node acts on.
                cell.store(0, 1, Ordering::Release);
                notice.post(Until::EndOf(1), "gone");
                bell.ring();
            })
        };
        let notice = Notice(notice);
        bell.sleep_until(|_| notice.is_posted(1).then_some(()), |asleep| asleep.sleep(None));
        assert_eq!(notice.words(1).as_deref(), Some("gone"), "DOM-10: the words before the notice");
        assert_eq!(
            cell.load(0, Ordering::Acquire),
            1,
            "DOM-10: who wrote before it died has written"
        );
        node.join().expect("the node");
    });
}

#[test]
fn loom_dom_10_who_waits_is_told_with_words_and_after_what_was_written() {
    model(Flaw::Sound);
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_dom_10_without_fences_a_notice_is_slept_over() {
    model(Flaw::NoFence);
}

#[test]
#[should_panic(expected = "DOM-10")]
fn loom_dom_10_without_release_words_may_be_missing() {
    model(Flaw::NoRelease);
}
