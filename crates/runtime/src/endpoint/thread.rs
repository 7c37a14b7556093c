//! A worker that is a thread of this process.

use super::mailbox::MailboxClient;
use super::{Endpoint, WorkerEvent};
use crate::error::Error;
use crate::inside;
use crate::node::{Asked, Node};
use crate::runner::{Runner, caught, discard};
use crate::serve::{Parent, Server};
use crate::shm::mailbox::Evidence;
use crate::shm::{ChildSide, Mailbox, Sizes};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// The node's end of a thread.
struct Thread {
    mail: MailboxClient,
    name: String,
    exit: Arc<ThreadExit>,
    is_stopped: bool,
    is_told: bool,
    broken: Option<Box<str>>,
}

/// End of a worker thread.
#[derive(Default)]
struct ThreadExit {
    /// Reason of its end, if it was not told to leave.
    words: OnceLock<Box<str>>,
    is_gone: AtomicBool,
}

impl ThreadExit {
    /// Marks the thread as gone; its last action.
    fn say_gone(&self) {
        // SYNC: all that it published, and why it is gone; pairs with `is_gone`.
        self.is_gone.store(true, Ordering::Release);
    }

    fn is_gone(&self) -> bool {
        // SYNC: pairs with `say_gone`.
        self.is_gone.load(Ordering::Acquire)
    }
}

/// The node of a worker that is a thread: the thread moves it when it has something to tell.
struct ParentThread {
    node: Arc<Node>,
    /// Number of the thread among those of this process, from 1.
    worker: u64,
}

impl ParentThread {
    fn new(node: &Arc<Node>) -> Self {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        let worker = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
        Self { node: Arc::clone(node), worker }
    }
}

impl Parent for ParentThread {
    fn tell(&self, _: &ChildSide) {
        self.node.progress().ask(self.worker);
    }

    fn tell_in_passing(&self, _: &ChildSide) -> Asked {
        self.node.progress().ask_in_passing(self.worker)
    }

    fn tell_or_leave(&self, _: &ChildSide) -> Asked {
        self.node.progress().ask_or_leave(self.worker)
    }

    fn is_answered(&self) -> bool {
        self.node.progress().is_answered()
    }

    fn attend(&self) {
        self.node.progress().attend(self.worker);
    }

    fn resign(&self) {
        self.node.progress().resign(self.worker);
    }
}

impl Drop for ParentThread {
    fn drop(&mut self) {
        self.resign();
    }
}

/// Starts a thread that serves, and moves the node whenever it has something to say. Its tasks are those of all
/// workers in `tasks_of`.
pub(crate) fn spawn_thread(
    node: &Arc<Node>,
    tasks_of: &[u64],
    name: &str,
    runner: Runner,
) -> Result<(Box<dyn Endpoint>, JoinHandle<()>), Error> {
    let (endpoint, thread) = spawn(node, tasks_of, name, runner)?;
    Ok((Box::new(endpoint), thread))
}

fn spawn(
    node: &Arc<Node>,
    tasks_of: &[u64],
    name: &str,
    runner: Runner,
) -> Result<(Thread, JoinHandle<()>), Error> {
    let wrong = |error| Error::mailbox(name, error);
    let parent = Mailbox::create(node.bell(), &Sizes::default()).map_err(wrong)?;
    let child = Mailbox::attach(parent.segment(), node.bell().segment()).map_err(wrong)?;
    let exit = Arc::new(ThreadExit::default());
    let endpoint = Thread {
        mail: MailboxClient::new(parent),
        name: name.to_owned(),
        exit: Arc::clone(&exit),
        is_stopped: false,
        is_told: false,
        broken: None,
    };
    let node = Arc::clone(node);
    let server = Server::new(child, ParentThread::new(&node), runner, node.waiting);
    let tasks_of = tasks_of.to_vec();
    let body = move || {
        inside::serve(tasks_of);
        live(server, &exit);
        node.announce_outside();
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
    let thread = thread.map_err(|error| Error::thread(name, error))?;
    Ok((endpoint, thread))
}

/// Runs the thread; whatever happens in it, its end is known.
fn live(mut server: Server<ParentThread>, exit: &ThreadExit) {
    let outcome = caught(|| Ok(server.serve()?));
    // The device, or all workers below.
    discard(server);
    if let Err(failure) = outcome {
        let _ = exit.words.set(format!("its thread has ended: {}", failure.words()).into());
    }
    exit.say_gone();
}

impl Endpoint for Thread {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn send(&mut self, dispatch: u64, behind: &[u64], message: &[u8]) {
        if let Err(words) = self.mail.send(dispatch, behind, message) {
            self.broken.get_or_insert(words);
        }
    }

    fn recall(&mut self, dispatch: u64) {
        self.mail.recall(dispatch);
    }

    fn flush(&mut self) {
        self.mail.flush();
    }

    fn poll(&mut self, events: &mut Vec<WorkerEvent>) {
        let is_gone = self.exit.is_gone();
        if let Err(words) = self.mail.poll(events) {
            self.broken.get_or_insert(words);
        }
        if is_gone && !self.is_stopped {
            // All that it had published was read just now.
            let words = self.exit.words.get().cloned();
            self.broken.get_or_insert_with(|| words.unwrap_or_else(|| "its thread is gone".into()));
        }
        if let Some(words) =
            self.broken.take().filter(|_| !std::mem::replace(&mut self.is_told, true))
        {
            events.push(WorkerEvent::Lost(words));
        }
    }

    fn evidence(&self) -> Evidence {
        self.mail.evidence()
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.mail.stop();
    }

    fn has_left(&mut self) -> bool {
        self.exit.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Worker};

    static PROGRAM: Program = Program::new(&[]);

    #[test]
    fn ep_8_a_thread_that_is_gone_is_lost_immediately_and_says_why() {
        let worker = Worker::builder(&PROGRAM).threads().sub_workers(1).memory(1 << 20);
        let worker = worker.init().expect("a worker");
        let runner = Runner::new(&PROGRAM, Vec::new(), None);
        let (mut thread, handle) = spawn(&worker.node, &[], "extra", runner).expect("a thread");
        let mut events = Vec::new();
        thread.poll(&mut events);
        assert!(events.is_empty() && !thread.has_left(), "EP-8: it lives");
        thread.mail.side.controls.push(&[0xff], b"no control").expect("room");
        thread.mail.side.controls.publish();
        thread.mail.side.ring();
        handle.join().expect("EP-8: it ends in order");
        thread.poll(&mut events);
        let [WorkerEvent::Lost(words)] = &events[..] else { panic!("EP-8: {events:?}") };
        assert!(words.contains("its thread has ended: the parent sent 11 bytes"), "EP-8: {words}");
        thread.poll(&mut events);
        assert!(events.len() == 1 && thread.has_left(), "EP-8: it is said once");
        worker.close().expect("EP-8");
    }
}
