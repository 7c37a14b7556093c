//! A mailbox whose bytes anybody may have changed, in both directions: each side gets messages or an error that says
//! what is wrong, and what it gets is never larger than agreed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use phalanx_runtime::shm::{Bell, ChildSide, Mailbox, MailboxError, ParentSide, PushError, Sizes};

const SIZES: Sizes = Sizes { tasks: 512, controls: 256, events: 256, largest: 700 };
/// The ends of the words of a mailbox and the starts of its rings; most changes go to bytes that are written often.
const INTERESTING: [usize; 12] = [0, 24, 32, 64, 128, 256, 640, 1024, 1152, 1280, 1792, 2304];

struct Both {
    parent: ParentSide,
    child: ChildSide,
    got: Vec<u8>,
}

fuzz_target!(|bytes: &[u8]| {
    let bell = Bell::create().expect("a bell");
    let parent = Mailbox::create(&bell, &SIZES).expect("a mailbox");
    let child = Mailbox::attach(parent.segment(), bell.segment()).expect("the same layout");
    let mut both = Both { parent, child, got: Vec::new() };
    for step in bytes.chunks_exact(2) {
        both.step(step[0], step[1]);
    }
    // Whoever adopts what is left gets a side, or hears why not.
    match Mailbox::attach(both.parent.segment(), bell.segment()) {
        Ok(mut child) => {
            let _ = child.tasks.next(&mut both.got);
            assert!(both.got.len() <= child.events.largest(), "RNG-3");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "MBX-3"),
    }
});

impl Both {
    fn step(&mut self, kind: u8, value: u8) {
        let message = [value; 255];
        let many = [value; 701];
        let short = &message[..usize::from(value)];
        match kind % 12 {
            0 => expected(self.parent.tasks.push(short, &[kind])),
            1 => expected(self.parent.tasks.push(&many[..usize::from(value) * 3 % 702], &[])),
            2 => drop(self.parent.tasks.publish()),
            3 => self.take_task(),
            4 => drop(self.child.tasks.release()),
            5 => expected(self.child.events.push(&[kind], &many[..usize::from(value) * 3 % 702])),
            6 => drop(self.child.events.publish()),
            7 => self.take_event(),
            8 => drop(self.parent.events.release()),
            9 => self.talk(value),
            _ => self.change(kind, value),
        }
    }

    fn take_task(&mut self) {
        if self.child.tasks.next(&mut self.got).is_ok() {
            assert!(self.got.len() <= SIZES.largest, "RNG-3");
        }
    }

    fn take_event(&mut self) {
        if self.parent.events.next(&mut self.got).is_ok() {
            assert!(self.got.len() <= SIZES.largest, "RNG-3");
        }
    }

    fn talk(&mut self, value: u8) {
        match value % 2 {
            0 => self.parent.shut_down(),
            _ => self.child.witness.step(u64::from(value)),
        }
        if let Err(MailboxError::Phase { found }) = self.parent.phase() {
            assert!(found > 5, "MBX-4");
        }
        let _ = (
            self.parent.evidence(),
            self.parent.is_dead(),
            self.child.waiting(),
            self.child.is_open(),
        );
    }

    /// Changes one byte.
    fn change(&mut self, kind: u8, value: u8) {
        let start = INTERESTING[usize::from(kind / 12) % INTERESTING.len()];
        let segment = self.parent.segment();
        let offset = (start + usize::from(value & 31)) % segment.len();
        let mut byte = [0];
        segment.read(offset, &mut byte).expect("inside");
        byte[0] = byte[0].wrapping_add(1 << (value >> 5));
        segment.write(offset, &byte).expect("inside");
    }
}

fn expected(outcome: Result<(), PushError>) {
    if let Err(error @ PushError::TooLarge { .. }) = outcome {
        assert!(error.to_string().contains("700"), "RNG-3");
    }
}
