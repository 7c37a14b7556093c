//! The programs: each runs the steps of a script.

use super::agenda::Event;
use super::script::{Script, Step};
use super::simulator::Simulator;
use phalanx_sim::Time;
use phalanx_sim::ipcq::BufferKind;
use phalanx_sim::topology::PeId;
use std::collections::VecDeque;

/// Size of an element.
pub(crate) const ELEMENT: u64 = 2;

pub(crate) struct Program {
    pe: PeId,
    steps: VecDeque<Step>,
    state: State,
    /// Operations that no step has waited for.
    open: VecDeque<Wait>,
    stores: Vec<usize>,
    pub(crate) ends: Vec<Time>,
    pub(crate) ended: Option<Time>,
}

#[derive(Clone, Copy)]
enum Wait {
    Operation(usize),
    /// A queue has launched so many messages.
    Sent(usize, u64),
}

#[derive(Clone, Copy)]
enum State {
    /// Between steps.
    Between,
    /// The step ends with this wait.
    Waiting(Wait),
    /// A receive: the queue, the bytes of the slots so far, and the time to keep the tile.
    Receiving(usize, u64, Time),
    /// A load of a received message; afterwards its slot is freed, if it still has one.
    Loading(usize, Option<usize>, Time),
    /// The tile of a received message is kept; afterwards its slot is freed, if it has one.
    Holding(usize, Option<usize>),
    /// The script has ended; stores may be under way.
    Draining,
}

impl Program {
    pub(crate) fn new(script: &Script) -> Self {
        Self {
            pe: script.pe,
            steps: script.steps.iter().copied().collect(),
            state: State::Between,
            open: VecDeque::new(),
            stores: Vec::new(),
            ends: Vec::new(),
            ended: None,
        }
    }
}

impl Simulator<'_> {
    /// Sends the command of a launch, and starts the programs of the launch when the command has arrived.
    pub(super) fn launch(&mut self, launch: usize) {
        let command = match self.commands[launch] {
            Some(command) => command,
            None => self.command(),
        };
        self.commands[launch] = Some(command);
        if !self.has_ended(command, Event::Launch(launch)) {
            return;
        }
        for program in self.scenario.launches()[launch].1.clone() {
            self.agendas[self.sip as usize].add_ready(Event::Resume(program));
        }
    }

    /// Runs a program until it has to wait.
    pub(super) fn resume(&mut self, number: usize) {
        while self.advance(number) {}
    }

    /// Does the next part of a program; false if the program has to wait, or has ended.
    fn advance(&mut self, number: usize) -> bool {
        match self.programs[number].state {
            State::Between => self.begin_step(number),
            State::Waiting(wait) => self.has_come(wait, number) && self.end_step(number),
            State::Receiving(queue, bytes, hold) => self.receive(number, queue, bytes, hold),
            State::Loading(operation, slot, hold) => {
                if !self.is_over(operation, number) {
                    return false;
                }
                self.free_slot(slot);
                self.keep(number, None, hold)
            }
            State::Holding(operation, slot) => {
                if !self.is_over(operation, number) {
                    return false;
                }
                self.free_slot(slot);
                self.end_step(number)
            }
            State::Draining => self.drain(number),
        }
    }

    fn free_slot(&mut self, slot: Option<usize>) {
        if let Some(queue) = slot {
            self.release(queue);
        }
    }

    fn enter_state(&mut self, number: usize, state: State) -> bool {
        self.programs[number].state = state;
        true
    }

    fn end_step(&mut self, number: usize) -> bool {
        self.programs[number].ends.push(Time::ps(self.now));
        self.enter_state(number, State::Between)
    }

    /// True if a wait is over; otherwise the program is resumed when it may be.
    fn has_come(&mut self, wait: Wait, number: usize) -> bool {
        match wait {
            Wait::Operation(operation) => self.is_over(operation, number),
            Wait::Sent(queue, count) => {
                let is_over = self.queues[queue].launched >= count;
                if !is_over {
                    self.queues[queue].sender = Some(number);
                }
                is_over
            }
        }
    }

    fn begin_step(&mut self, number: usize) -> bool {
        let pe = self.programs[number].pe;
        let Some(step) = self.programs[number].steps.pop_front() else {
            return self.enter_state(number, State::Draining);
        };
        let (wait, waits) = match step {
            Step::Compute(time) => (Wait::Operation(self.timer(self.now + time.as_ps())), true),
            Step::Load { piece, waits } => (Wait::Operation(self.load(pe, &[piece])), waits),
            Step::Pair { pieces, waits } => (Wait::Operation(self.load(pe, &pieces)), waits),
            Step::Store { piece, waits } => {
                let store = self.store(pe, piece);
                self.programs[number].stores.push(store);
                (Wait::Operation(store), waits)
            }
            Step::Send { queue, bytes, waits } => (self.send(queue, bytes), waits),
            Step::Receive { queue, hold, .. } => {
                return self.enter_state(number, State::Receiving(queue, 0, hold));
            }
            Step::Await => match self.programs[number].open.pop_front() {
                Some(wait) => (wait, true),
                None => return self.end_step(number),
            },
        };
        if waits {
            return self.enter_state(number, State::Waiting(wait));
        }
        self.programs[number].open.push_back(wait);
        self.end_step(number)
    }

    /// Posts a message in as many slots as it needs, with whole elements in each.
    fn send(&mut self, queue: usize, bytes: u64) -> Wait {
        let slot_size = self.scenario.queues[queue].edge.slot_size;
        let slot = (slot_size / ELEMENT * ELEMENT).max(ELEMENT);
        let slots = if bytes <= slot_size { 1 } else { bytes.div_ceil(slot) };
        let mut left = bytes;
        for following in (0..slots).rev() {
            let part = if following == 0 { left } else { slot };
            self.post(queue, part, following);
            left -= part;
        }
        Wait::Sent(queue, self.queues[queue].posted)
    }

    /// Takes the next slot of a message; after the last one the tile is kept.
    fn receive(&mut self, number: usize, queue: usize, before: u64, hold: Time) -> bool {
        let Some(message) = self.queues[queue].arrived.pop_front() else {
            self.queues[queue].receiver = Some(number);
            return false;
        };
        let following = self.messages[message].following;
        let bytes = before + self.messages[message].bytes;
        let is_single = before == 0 && following == 0;
        if !is_single {
            self.release(queue);
        }
        if following > 0 {
            return self.enter_state(number, State::Receiving(queue, bytes, hold));
        }
        let slot = is_single.then_some(queue);
        if self.scenario.queues[queue].edge.buffer_kind == BufferKind::Tcm {
            return self.keep(number, slot, hold);
        }
        let pe = self.programs[number].pe;
        let load = self.load_slot(pe, bytes);
        self.enter_state(number, State::Loading(load, slot, hold))
    }

    fn keep(&mut self, number: usize, slot: Option<usize>, hold: Time) -> bool {
        let timer = self.timer(self.now + hold.as_ps());
        self.enter_state(number, State::Holding(timer, slot))
    }

    /// Waits for the stores of a program, then ends it.
    fn drain(&mut self, number: usize) -> bool {
        while let Some(store) = self.programs[number].stores.last().copied() {
            if !self.is_over(store, number) {
                return false;
            }
            self.programs[number].stores.pop();
        }
        self.programs[number].ended = Some(Time::ps(self.now));
        false
    }
}
