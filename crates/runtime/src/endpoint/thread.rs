//! A worker that is a thread of this process.

use super::mailbox::Mailed;
use super::{Endpoint, Evidence, Report};
use crate::error::Error;
use crate::node::Node;
use crate::runner::Runner;
use crate::serve::{Parent, Server};
use crate::shm::{ChildSide, Mailbox, Sizes};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

/// The node's end of a thread.
struct Thread {
    mail: Mailed,
    name: String,
    /// Dead when the thread is gone.
    alive: Weak<()>,
    is_told: bool,
    broken: Option<Box<str>>,
}

/// The node of a worker that is a thread: whoever is told moves it.
struct Here(Weak<Node>);

impl Parent for Here {
    fn tell(&self, _: &ChildSide) {
        if let Some(node) = self.0.upgrade() {
            node.ask();
        }
    }

    fn tell_in_passing(&self, _: &ChildSide) -> bool {
        self.0.upgrade().is_none_or(|node| node.ask_in_passing())
    }
}

/// Starts a thread that serves, and moves the node whenever it has something to say.
pub(crate) fn spawn_thread(
    node: &Arc<Node>,
    name: String,
    runner: Runner,
) -> Result<(Box<dyn Endpoint>, JoinHandle<()>), Error> {
    let wrong = |error| Error::Setting(format!("the mailbox of {name} cannot be made: {error}"));
    let parent = Mailbox::create(node.bell(), &Sizes::default()).map_err(wrong)?;
    let child = Mailbox::attach(parent.segment(), node.bell().segment()).map_err(wrong)?;
    let alive = Arc::new(());
    let endpoint = Thread {
        mail: Mailed::new(parent),
        name: name.clone(),
        alive: Arc::downgrade(&alive),
        is_told: false,
        broken: None,
    };
    let waiting = node.waiting;
    let node = Arc::downgrade(node);
    let body = move || {
        let mut server = Server::new(child, Here(node.clone()), runner, waiting);
        // A mailbox of our own process is damaged only by a bug, and the node says so when it looks.
        let _ = server.serve();
        drop((server, alive));
        if let Some(node) = node.upgrade() {
            node.tell_all();
        }
    };
    let thread = thread::Builder::new().name(name).spawn(body);
    let thread = thread.map_err(|error| Error::system("a thread", error))?;
    Ok((Box::new(endpoint), thread))
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

    fn poll(&mut self, reports: &mut Vec<Report>) {
        if let Err(words) = self.mail.poll(reports) {
            self.broken.get_or_insert(words);
        }
        if let Some(words) =
            self.broken.take().filter(|_| !std::mem::replace(&mut self.is_told, true))
        {
            reports.push(Report::Lost(words));
        }
    }

    fn evidence(&self) -> Evidence {
        self.mail.evidence()
    }

    fn stop(&mut self) {
        self.mail.stop();
    }

    fn has_left(&mut self) -> bool {
        self.alive.strong_count() == 0
    }
}
