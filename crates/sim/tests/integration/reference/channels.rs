//! The DMA channels of PEs: loads, stores, and messages that leave a PE.

use super::agenda::{Event, Key};
use super::routes::{from_memory, span, to_memory};
use super::script::Piece;
use super::simulator::{Flight, Goal, Simulator};
use phalanx_sim::topology::PeId;
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    Load,
    Store,
}

/// A channel of a PE: it serves one request after the other.
#[derive(Default)]
pub(crate) struct Channel {
    free: u64,
    busy: bool,
    waiting: VecDeque<Request>,
    /// With several outstanding, the requests that have started: operations, or the times at which messages left.
    started: VecDeque<Started>,
}

#[derive(Clone, Copy)]
enum Started {
    Operation(usize),
    Left(u64),
}

/// An access to the memory of a cube.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) cube: u16,
    /// Bytes in whole bursts, and as the step has them.
    pub(crate) bytes: u64,
    pub(crate) touched: u64,
    pub(crate) is_cached: bool,
}

struct Request {
    asked: u64,
    what: What,
}

enum What {
    /// An operation, and its pieces with their numbers of issue.
    Load(usize, Vec<(u64, Access)>),
    Store(usize, u64, Access),
    Message(usize),
}

/// An operation that a program can wait for.
#[derive(Default)]
pub(crate) struct Operation {
    pub(crate) pe: Option<PeId>,
    /// The end, once it is known.
    pub(crate) end: Option<u64>,
    /// The event that follows an end that is not known, and its key.
    waiter: Option<(Key, Event)>,
    /// Number of pieces that are not at the PE, and the latest tail of those that are.
    missing: usize,
    here: u64,
}

impl Simulator<'_> {
    /// Adds an operation that ends at `end`.
    pub(super) fn timer(&mut self, end: u64) -> usize {
        self.operations.push(Operation { end: Some(end), ..Operation::default() });
        self.operations.len() - 1
    }

    fn operation(&mut self, pe: PeId, missing: usize) -> usize {
        let operation = Operation { pe: Some(pe), missing, ..Operation::default() };
        self.operations.push(operation);
        self.operations.len() - 1
    }

    /// True if an operation has ended; otherwise `program` is resumed at its end.
    pub(super) fn is_over(&mut self, operation: usize, program: usize) -> bool {
        self.has_ended(operation, Event::Resume(program))
    }

    /// True if an operation has ended; otherwise `event` happens at its end.
    pub(super) fn has_ended(&mut self, operation: usize, event: Event) -> bool {
        match self.operations[operation].end {
            Some(end) if end <= self.now => return true,
            Some(end) => self.schedule(end, self.sip, event),
            None => self.operations[operation].waiter = Some((self.reserve(), event)),
        }
        false
    }

    /// Adds an operation whose end is not known.
    pub(super) fn unfinished(&mut self) -> usize {
        self.operations.push(Operation::default());
        self.operations.len() - 1
    }

    pub(super) fn end_operation(&mut self, operation: usize, end: u64) {
        let state = &mut self.operations[operation];
        state.end = Some(end);
        if let Some((key, event)) = state.waiter.take() {
            self.agendas[self.sip as usize].add_event(end, key, event);
        }
    }

    pub(super) fn load(&mut self, pe: PeId, pieces: &[Piece]) -> usize {
        let operation = self.operation(pe, pieces.len());
        let accesses = pieces.iter().map(|piece| (self.issue(), self.access(*piece))).collect();
        self.request(pe, Direction::Load, What::Load(operation, accesses));
        operation
    }

    /// Loads a received message from its slot in memory.
    pub(super) fn load_slot(&mut self, pe: PeId, bytes: u64) -> usize {
        let operation = self.operation(pe, 1);
        let access = Access { cube: pe.cube, bytes, touched: bytes, is_cached: false };
        let issue = self.issue();
        self.request(pe, Direction::Load, What::Load(operation, vec![(issue, access)]));
        operation
    }

    fn access(&self, Piece { cube, bytes }: Piece) -> Access {
        let burst = self.spec.dma.burst.max(1);
        Access { cube, bytes: bytes.div_ceil(burst) * burst, touched: bytes, is_cached: true }
    }

    pub(super) fn store(&mut self, pe: PeId, piece: Piece) -> usize {
        let operation = self.operation(pe, 0);
        let issue = self.issue();
        let access = self.access(piece);
        self.request(pe, Direction::Store, What::Store(operation, issue, access));
        operation
    }

    /// Requests the store channel for a message.
    pub(super) fn request_message(&mut self, pe: PeId, message: usize) {
        self.request(pe, Direction::Store, What::Message(message));
    }

    fn request(&mut self, pe: PeId, direction: Direction, what: What) {
        let channel = self.channels.entry((pe, direction)).or_default();
        channel.waiting.push_back(Request { asked: self.now, what });
        self.serve(pe, direction);
    }

    /// Begins the next requests of a channel, while the end of the request that the next one waits for is known.
    fn serve(&mut self, pe: PeId, direction: Direction) {
        if self.spec.dma.outstanding > 1 {
            return self.serve_several(pe, direction);
        }
        loop {
            let channel = self.channels.get_mut(&(pe, direction)).unwrap();
            if channel.busy {
                return;
            }
            let Some(request) = channel.waiting.pop_front() else { return };
            channel.busy = true;
            let start = request.asked.max(channel.free);
            self.begin(pe, request.what, start);
        }
    }

    /// The same for a channel with several outstanding: the channel is busy for the bytes of a request alone.
    fn serve_several(&mut self, pe: PeId, direction: Direction) {
        let most = self.spec.dma.outstanding as usize;
        loop {
            let channel = &self.channels[&(pe, direction)];
            let Some(request) = channel.waiting.front() else { return };
            let mut start = request.asked.max(channel.free);
            if channel.started.len() == most {
                let before = match channel.started[0] {
                    Started::Operation(operation) => self.operations[operation].end,
                    Started::Left(end) => Some(end),
                };
                let Some(before) = before else { return };
                start = start.max(before);
            }
            let bytes = match &request.what {
                What::Load(_, accesses) => accesses.iter().map(|(_, access)| access.bytes).sum(),
                What::Store(_, _, access) => access.bytes,
                What::Message(message) => self.messages[*message].bytes,
            };
            let span = span(self.spec.dma.bandwidth, bytes);
            let channel = self.channels.get_mut(&(pe, direction)).unwrap();
            if channel.started.len() == most {
                channel.started.pop_front();
            }
            channel.free = start + span;
            let request = channel.waiting.pop_front().unwrap();
            channel.started.push_back(match request.what {
                What::Load(operation, _) | What::Store(operation, ..) => {
                    Started::Operation(operation)
                }
                What::Message(_) => Started::Left(start + self.spec.dma.latency.as_ps() + span),
            });
            self.begin(pe, request.what, start);
        }
    }

    fn begin(&mut self, pe: PeId, what: What, start: u64) {
        match what {
            What::Load(operation, accesses) => self.begin_load(pe, operation, accesses, start),
            What::Store(operation, issue, access) => {
                self.begin_store(pe, (operation, issue), access, start);
            }
            What::Message(message) => self.begin_message(pe, message, start),
        }
    }

    /// Notes that a channel is free at `end`.
    fn end_turn(&mut self, pe: PeId, direction: Direction, end: u64) {
        if self.spec.dma.outstanding > 1 {
            return;
        }
        let channel = self.channels.get_mut(&(pe, direction)).unwrap();
        (channel.busy, channel.free) = (false, end);
    }

    fn begin_load(&mut self, pe: PeId, operation: usize, accesses: Vec<(u64, Access)>, start: u64) {
        let (dma, mut before) = (self.spec.dma, 0);
        let asked = |bytes| start + dma.latency.as_ps() + span(dma.bandwidth, bytes);
        for (issue, access) in accesses {
            let bytes = access.bytes;
            let (head, tail) = (asked(before), asked(before + bytes));
            let (way, goal) = (from_memory(self.spec, pe, access), Goal::Load { operation });
            self.fly(Flight { issue, bytes, head, tail, way, goal });
            before += bytes;
        }
    }

    /// Notes a piece at the PE; the last one determines the end of the load.
    pub(super) fn load_landed(&mut self, operation: usize, flight: &Flight) {
        let state = &mut self.operations[operation];
        state.here = flight.tail.max(state.here);
        state.missing -= 1;
        if state.missing > 0 {
            return;
        }
        let (end, pe) = (state.here, state.pe.unwrap());
        self.end_operation(operation, end);
        self.end_turn(pe, Direction::Load, end);
        self.serve(pe, Direction::Load);
    }

    fn begin_store(&mut self, pe: PeId, (operation, issue): (usize, u64), to: Access, start: u64) {
        let head = start + self.spec.dma.latency.as_ps();
        let tail = head + span(self.spec.dma.bandwidth, to.bytes);
        let (bytes, way) = (to.bytes, to_memory(self.spec, pe, to));
        self.fly(Flight { issue, bytes, head, tail, way, goal: Goal::Store { operation } });
    }

    pub(super) fn store_landed(&mut self, operation: usize, flight: &Flight) {
        let pe = self.operations[operation].pe.unwrap();
        self.end_operation(operation, flight.tail);
        self.end_turn(pe, Direction::Store, flight.tail);
        self.serve(pe, Direction::Store);
    }

    /// Begins the turn of a message; the channel is free when the message has left the PE.
    fn begin_message(&mut self, pe: PeId, message: usize, start: u64) {
        let head = start + self.spec.dma.latency.as_ps();
        let tail = head + span(self.spec.dma.bandwidth, self.messages[message].bytes);
        self.end_turn(pe, Direction::Store, tail);
        self.leave(message, head, tail);
    }
}
