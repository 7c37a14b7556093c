//! A server with a parent that only listens.

use super::*;
use crate::message::{ArgumentDescriptor, Order, encode_task};
use crate::shm::{Bell, Mailbox, Sizes};
use crate::{Callable, Failure, Program, Task};
use std::cell::RefCell;

thread_local! {
    /// The events of this thread, in order.
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

fn log(what: &'static str) {
    LOG.with_borrow_mut(|log| log.push(what));
}

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
fn first(_: &mut Task<'_>) -> Result<(), Failure> {
    log("first");
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "a callable may fail")]
fn second(_: &mut Task<'_>) -> Result<(), Failure> {
    log("second");
    Ok(())
}

static PROGRAM: Program =
    Program::new(&[Callable::new("serve::first", first), Callable::new("serve::second", second)]);

/// A parent that is busy, as one that submits: it looks only if it is told to.
struct BusyParent;

impl Parent for BusyParent {
    fn tell(&self, _: &ChildSide) {
        log("told");
    }

    fn tell_in_passing(&self, _: &ChildSide) -> Asked {
        Asked::Not
    }
}

#[test]
fn srv_3_a_busy_parent_is_told_before_each_task_that_is_not_known_to_be_short() {
    let bell = Bell::create().expect("a bell");
    let mut parent = Mailbox::create(&bell, &Sizes::default()).expect("a mailbox");
    let child = Mailbox::attach(parent.segment(), bell.segment()).expect("a mailbox");
    for (dispatch, callable) in [(1, 0), (2, 1), (3, 0)] {
        let prefix = PROGRAM.callables()[callable].digest().prefix();
        let callable = u32::try_from(callable).expect("two");
        let order = Order { callable, digest: prefix, run: 1, member: 0, members: 1 };
        let mut message = Vec::new();
        encode_task(&mut message, &order, [].iter().copied::<ArgumentDescriptor>(), &[], &[], &[]);
        let head = Sent::plain_head(dispatch);
        parent.tasks.push(bytemuck::bytes_of(&head), &message).expect("room");
    }
    parent.tasks.publish();
    parent.shut_down();
    let runner = Runner::new(&PROGRAM, Vec::new(), None);
    let mut server = Server::new(child, BusyParent, runner, Waiting::calibrate());
    server.serve().expect("SRV-2: it leaves when all have run");
    let log = LOG.with_borrow(Clone::clone);
    assert_eq!(log[..5], ["first", "told", "second", "told", "first"], "SRV-3: {log:?}");
}
