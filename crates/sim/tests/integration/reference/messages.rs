//! Messages between PEs, their chunks on the way from SIP to SIP, and credits.

use super::agenda::{Event, Key, Load, Packet, Passing};
use super::routes::{Stage, Wire, distance, inside, latency_inside, memory, next_sip, port, span};
use super::script::Queue;
use super::simulator::{Flight, Goal, Simulator, Then};
use phalanx_sim::MachineSpec;
use phalanx_sim::ipcq::{Backpressure, BufferKind};
use phalanx_sim::spec::{Forwarding, Topology, WireSpec};
use phalanx_sim::topology::PeId;
use std::collections::VecDeque;

/// One slot of a message.
pub(crate) struct Message {
    queue: usize,
    pub(crate) bytes: u64,
    /// Slots of the same message after this one.
    pub(crate) following: u64,
    posted: u64,
    /// The number of issue and the key of the arrival, both taken at the grant.
    granted: Option<(u64, Key)>,
}

/// The state of a queue.
pub(crate) struct QueueState {
    ends: Queue,
    credits: u32,
    pending: VecDeque<usize>,
    pub(crate) posted: u64,
    pub(crate) launched: u64,
    pub(crate) arrived: VecDeque<usize>,
    /// The programs that wait for a credit and for a message.
    pub(crate) sender: Option<usize>,
    pub(crate) receiver: Option<usize>,
    polls: bool,
}

impl QueueState {
    pub(crate) fn new(ends: &Queue) -> Self {
        Self {
            ends: *ends,
            credits: ends.edge.n_slots,
            pending: VecDeque::new(),
            posted: 0,
            launched: 0,
            arrived: VecDeque::new(),
            sender: None,
            receiver: None,
            polls: false,
        }
    }
}

/// True if a message leaves its PE in no time.
fn is_bare(spec: &MachineSpec) -> bool {
    [spec.dma.wire(), spec.pes.link, spec.cubes.link].iter().all(|wire| *wire == WireSpec::FREE)
}

impl Simulator<'_> {
    /// Posts one slot of a message.
    pub(super) fn post(&mut self, queue: usize, bytes: u64, following: u64) {
        let message = Message { queue, bytes, following, posted: self.now, granted: None };
        self.messages.push(message);
        let state = &mut self.queues[queue];
        state.pending.push_back(self.messages.len() - 1);
        state.posted += 1;
        if state.credits > 0 && state.pending.len() == 1 {
            self.grant(queue);
        }
    }

    /// Takes a credit for the oldest pending message, which begins its way.
    fn grant(&mut self, queue: usize) {
        let state = &mut self.queues[queue];
        state.credits -= 1;
        state.launched += 1;
        let (message, ends) = (state.pending.pop_front().unwrap(), state.ends);
        self.messages[message].granted = Some((self.issue(), self.reserve()));
        if is_bare(self.spec) {
            self.leave(message, self.now, self.now);
        } else {
            self.request_message(ends.from, message);
        }
    }

    /// Moves a message out of the PE of its sender.
    pub(super) fn leave(&mut self, message: usize, head: u64, tail: u64) {
        let Message { queue, bytes, granted, .. } = self.messages[message];
        let (issue, key) = granted.unwrap();
        let Queue { from, to, .. } = self.queues[queue].ends;
        if from.sip == to.sip {
            let way = self.to_slot(from, queue);
            let goal = Goal::Event { sip: to.sip, key, what: Then::Deliver(message) };
            return self.depart(Flight { issue, bytes, head, tail, way, goal });
        }
        let mut way = inside(self.spec, from, PeId::first(from.sip));
        if self.cuts_through() {
            let next = next_sip(self.spec, from.sip, to.sip);
            way.push(port(self.spec, from.sip, next));
            let goal = Goal::Through { message, next, key };
            return self.fly(Flight { issue, bytes, head, tail, way, goal });
        }
        if self.is_cut(queue) {
            let goal = Goal::Port { message };
            return self.fly(Flight { issue, bytes, head, tail, way, goal });
        }
        way.push(port(self.spec, from.sip, to.sip));
        let goal = Goal::Event { sip: to.sip, key, what: Then::Arrive(message) };
        self.fly(Flight { issue, bytes, head, tail, way, goal });
    }

    /// Starts a flight inside a SIP; a flight that takes no time at all is an effect without delay.
    fn depart(&mut self, flight: Flight) {
        let is_free = |stage: &Stage| stage.cost == WireSpec::FREE;
        if let Goal::Event { sip, what: Then::Deliver(message), .. } = flight.goal
            && flight.tail == self.now
            && flight.way.iter().all(is_free)
        {
            return self.schedule(self.now, sip, Event::Deliver(message));
        }
        self.fly(flight);
    }

    /// True if SIPs forward messages when their heads arrive.
    fn cuts_through(&self) -> bool {
        let sips = &self.spec.sips;
        sips.forwarding == Forwarding::CutThrough && sips.topology != Topology::Switch
    }

    /// Lets a message that has taken a port reach the next SIP: whole at its end, by its head before.
    pub(super) fn reach(&mut self, message: usize, next: u32, key: Key, flight: &Flight) {
        let is_end = self.queues[self.messages[message].queue].ends.to.sip == next;
        let passing = Passing { message, at: next, tail: flight.tail };
        let agenda = &mut self.agendas[next as usize];
        if is_end {
            agenda.add_event(flight.tail, key, Event::Arrive(message));
        } else {
            agenda.add_event(flight.head, key, Event::Pass(passing));
        }
    }

    /// Takes the next port for a message whose head is at a SIP between its ends.
    pub(super) fn pass(&mut self, Passing { message, at, tail }: Passing) {
        let Message { queue, bytes, .. } = self.messages[message];
        let next = next_sip(self.spec, at, self.queues[queue].ends.to.sip);
        let (issue, key) = (self.issue(), self.reserve());
        let (way, goal) = (vec![port(self.spec, at, next)], Goal::Through { message, next, key });
        self.fly(Flight { issue, bytes, head: self.now, tail, way, goal });
    }

    /// True if the messages of a queue move in chunks.
    fn is_cut(&self, queue: usize) -> bool {
        let Queue { from, to, .. } = self.queues[queue].ends;
        let is_switched = self.spec.sips.topology == Topology::Switch;
        is_switched || distance(self.spec, from.sip, to.sip) > 1
    }

    /// Returns the way from a PE of the receiver's SIP into the slot.
    fn to_slot(&self, from: PeId, queue: usize) -> Vec<Stage> {
        let Queue { to, edge, .. } = self.queues[queue].ends;
        let mut way = inside(self.spec, from, to);
        if edge.buffer_kind == BufferKind::Hbm {
            way.push(memory(self.spec, to.sip, to.cube));
        }
        way
    }

    /// Queues all chunks of a message at the port, back to back.
    pub(super) fn cut(&mut self, message: usize, flight: &Flight) {
        let Queue { from, to, edge } = self.queues[self.messages[message].queue].ends;
        let (bytes, link) = (flight.bytes, self.spec.sips.link);
        let first = next_sip(self.spec, from.sip, to.sip);
        let whole = span(link.bandwidth, bytes);
        let start = self.take(port(self.spec, from.sip, first), flight.head, whole);
        let chunk = if edge.vc_chunk_size == 0 { bytes } else { edge.vc_chunk_size }.max(1);
        let (mut before, (_, mut key)) = (0, self.messages[message].granted.unwrap());
        loop {
            let sum = (before + chunk).min(bytes);
            let load = if sum == bytes { Load::Last(message) } else { Load::Chunk };
            let turn = span(link.bandwidth, sum) - span(link.bandwidth, before);
            let at_gateway = flight.head + share(flight.tail - flight.head, sum, bytes);
            let left = at_gateway.max(start + span(link.bandwidth, sum));
            let packet = Packet { load, at: first, to: to.sip, turn };
            self.cross(packet, left + link.latency.as_ps(), key);
            key.chunk += 1;
            before = sum;
            if sum == bytes {
                return;
            }
        }
    }

    /// Lets a packet arrive at its next SIP at `arrival`; on a switch, over the receiver's port.
    fn cross(&mut self, packet: Packet, arrival: u64, key: Key) {
        let agenda = &mut self.agendas[packet.at as usize];
        if self.spec.sips.topology == Topology::Switch {
            let head = arrival - packet.turn;
            agenda.add_event(head, key, Event::Ingress(packet, arrival));
        } else {
            agenda.add_event(arrival, key, Event::Hop(packet));
        }
    }

    /// Takes the switch port into the receiver's SIP.
    pub(super) fn ingress(&mut self, packet: Packet, tail: u64) {
        let stage = Stage { wire: Wire::Ingress { sip: packet.at }, cost: self.spec.sips.link };
        let start = self.take(stage, self.now, packet.turn);
        self.schedule(tail.max(start + packet.turn), packet.at, Event::Hop(packet));
    }

    /// Moves a packet on from a SIP where it is whole.
    pub(super) fn hop(&mut self, packet: Packet) {
        if packet.at != packet.to {
            let goal = Goal::Onward(packet, self.reserve());
            let (issue, way) = (self.issue(), Vec::new());
            let (head, tail) = (self.now, self.now);
            return self.fly(Flight { issue, bytes: 0, head, tail, way, goal });
        }
        match packet.load {
            Load::Chunk => {}
            Load::Last(message) => self.arrive(message),
            Load::Credit(queue) => {
                let home = self.queues[queue].ends.from;
                let inside = latency_inside(self.spec, PeId::first(home.sip), home);
                self.act_after(inside, Event::Credit(queue));
            }
        }
    }

    /// Takes the port of a SIP for a packet.
    pub(super) fn forward(&mut self, packet: Packet, key: Key) {
        let next = next_sip(self.spec, packet.at, packet.to);
        let stage = port(self.spec, packet.at, next);
        let start = self.take(stage, self.now, packet.turn);
        let arrival = start + packet.turn + stage.cost.latency.as_ps();
        self.cross(Packet { at: next, ..packet }, arrival, key);
    }

    /// Moves a message from the gateway of the receiver's SIP to its slot.
    pub(super) fn arrive(&mut self, message: usize) {
        let Message { queue, bytes, .. } = self.messages[message];
        let to = self.queues[queue].ends.to;
        let way = self.to_slot(PeId::first(to.sip), queue);
        let issue = self.issue();
        if way.iter().all(|stage| stage.cost == WireSpec::FREE) {
            return self.deliver(message);
        }
        let key = self.reserve();
        let goal = Goal::Event { sip: to.sip, key, what: Then::Deliver(message) };
        self.fly(Flight { issue, bytes, head: self.now, tail: self.now, way, goal });
    }

    pub(super) fn deliver(&mut self, message: usize) {
        let state = &mut self.queues[self.messages[message].queue];
        state.arrived.push_back(message);
        if let Some(program) = state.receiver.take() {
            self.agendas[self.sip as usize].add_ready(Event::Resume(program));
        }
    }

    /// Sends the credit of a freed slot home.
    pub(super) fn release(&mut self, queue: usize) {
        let Queue { from, to, edge } = self.queues[queue].ends;
        let bytes = edge.ipcq_credit_size_bytes;
        if from.sip == to.sip {
            let latency = latency_inside(self.spec, to, from);
            return self.schedule(self.now + latency, from.sip, Event::Credit(queue));
        }
        let (inner, outer) = (PeId::first(to.sip), PeId::first(from.sip));
        let to_gateway = latency_inside(self.spec, to, inner);
        if bytes > 0 {
            let turn = span(self.spec.sips.link.bandwidth, bytes);
            let load = Load::Credit(queue);
            let packet = Packet { load, at: to.sip, to: from.sip, turn };
            return self.act_after(to_gateway, Event::Hop(packet));
        }
        let links = distance(self.spec, to.sip, from.sip) * self.spec.sips.link.latency.as_ps();
        let way = to_gateway + links + latency_inside(self.spec, outer, from);
        self.schedule(self.now + way, from.sip, Event::Credit(queue));
    }

    /// Does something in this SIP after a delay; at once if there is none.
    fn act_after(&mut self, delay: u64, event: Event) {
        match event {
            Event::Credit(queue) if delay == 0 => self.credit(queue),
            Event::Hop(packet) if delay == 0 => self.hop(packet),
            event => self.schedule(self.now + delay, self.sip, event),
        }
    }

    /// Puts a credit back; a message that waits for it leaves, or its sender finds the credit at its next poll.
    pub(super) fn credit(&mut self, queue: usize) {
        let state = &mut self.queues[queue];
        state.credits += 1;
        let Some(oldest) = state.pending.front() else { return };
        let Backpressure::Poll(period) = state.ends.edge.backpressure else {
            return self.grant_and_wake(queue);
        };
        let posted = self.messages[*oldest].posted;
        let polls = (self.now - posted).div_ceil(period.as_ps()).max(1);
        if !std::mem::replace(&mut state.polls, true) {
            let time = posted + polls * period.as_ps();
            self.schedule(time, self.sip, Event::Poll(queue));
        }
    }

    /// Launches pending messages while there are credits.
    pub(super) fn poll(&mut self, queue: usize) {
        self.queues[queue].polls = false;
        while self.queues[queue].credits > 0 && !self.queues[queue].pending.is_empty() {
            self.grant_and_wake(queue);
        }
    }

    fn grant_and_wake(&mut self, queue: usize) {
        self.grant(queue);
        if let Some(program) = self.queues[queue].sender.take() {
            self.agendas[self.sip as usize].add_ready(Event::Resume(program));
        }
    }
}

/// Returns `part / whole` of a time, rounded up; all of it if the whole is nothing.
fn share(time: u64, part: u64, whole: u64) -> u64 {
    if part == whole {
        return time;
    }
    let exact = (u128::from(time) * u128::from(part)).div_ceil(u128::from(whole));
    u64::try_from(exact).unwrap()
}
