//! Messages between PEs, their chunks on the way from SIP to SIP, and credits.

use super::agenda::{Event, Key, Load, Packet, Passing};
use super::networks::{Leg, way};
use super::routes::{Stage, inside, latency_inside, memory, span};
use super::script::Queue;
use super::simulator::{Flight, Goal, Simulator, Then};
use phalanx_sim::MachineSpec;
use phalanx_sim::ipcq::{Backpressure, BufferKind};
use phalanx_sim::spec::{Forwarding, WireSpec};
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
        let first = self.way(from.sip, to.sip)[0];
        if self.cuts_through(queue) {
            way.push(first.stage);
            let goal = Goal::Through { message, next: first.next, key };
            return self.fly(Flight { issue, bytes, head, tail, way, goal });
        }
        if self.is_cut(queue) {
            let goal = Goal::Port { message };
            return self.fly(Flight { issue, bytes, head, tail, way, goal });
        }
        way.push(first.stage);
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

    /// Returns the way between two SIPs.
    fn way(&self, from: u32, to: u32) -> Vec<Leg> {
        way(self.spec, from, to)
    }

    /// True if the messages of a queue pass a switch or a shared NIC.
    fn is_switched(&self, queue: usize) -> bool {
        let Queue { from, to, .. } = self.queues[queue].ends;
        self.way(from.sip, to.sip).iter().any(|leg| leg.ingress.is_some())
    }

    /// True if SIPs forward the messages of a queue when their heads arrive.
    fn cuts_through(&self, queue: usize) -> bool {
        self.spec.sips.forwarding == Forwarding::CutThrough && !self.is_switched(queue)
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
        let Leg { stage, next, .. } = self.way(at, self.queues[queue].ends.to.sip)[0];
        let (issue, key) = (self.issue(), self.reserve());
        let (way, goal) = (vec![stage], Goal::Through { message, next, key });
        self.fly(Flight { issue, bytes, head: self.now, tail, way, goal });
    }

    /// True if the messages of a queue move in chunks.
    fn is_cut(&self, queue: usize) -> bool {
        let Queue { from, to, .. } = self.queues[queue].ends;
        self.is_switched(queue) || self.way(from.sip, to.sip).len() > 1
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
        let (bytes, first) = (flight.bytes, self.way(from.sip, to.sip)[0].stage);
        let link = first.cost;
        let whole = span(link.bandwidth, bytes);
        let start = self.take(first, flight.head, whole);
        let chunk = if edge.vc_chunk_size == 0 { bytes } else { edge.vc_chunk_size }.max(1);
        let (mut before, (_, mut key)) = (0, self.messages[message].granted.unwrap());
        loop {
            let sum = (before + chunk).min(bytes);
            let load = if sum == bytes { Load::Last(message) } else { Load::Chunk };
            let turn = span(link.bandwidth, sum) - span(link.bandwidth, before);
            let at_gateway = flight.head + share(flight.tail - flight.head, sum, bytes);
            let left = at_gateway.max(start + span(link.bandwidth, sum));
            let head = start + span(link.bandwidth, before) + link.latency.as_ps();
            let (ends, rate) = ((from.sip, to.sip), Some(link.bandwidth));
            let packet = Packet { load, bytes: sum - before, ends, legs: 1, turn, rate };
            self.cross(packet, head, left + link.latency.as_ps(), key);
            key.chunk += 1;
            before = sum;
            if sum == bytes {
                return;
            }
        }
    }

    /// Returns the time of a packet on a wire: that of the wire before if the bandwidth is the same.
    fn turn_on(packet: &Packet, stage: &Stage) -> u64 {
        let bandwidth = stage.cost.bandwidth;
        if packet.rate == Some(bandwidth) { packet.turn } else { span(bandwidth, packet.bytes) }
    }

    /// Lets the head and the tail of a packet arrive at the end of the leg that it has taken.
    fn cross(&mut self, packet: Packet, head: u64, tail: u64, key: Key) {
        let Leg { next, ingress, .. } = self.way(packet.ends.0, packet.ends.1)[packet.legs - 1];
        let is_station = next >= self.spec.devices();
        let agenda = &mut self.agendas[next as usize];
        if let Some(stage) = ingress {
            let latest = tail.saturating_sub(Self::turn_on(&packet, &stage));
            agenda.add_event(head.max(latest), key, Event::Ingress(packet, tail));
        } else if is_station {
            agenda.add_event(head, key, Event::Relay(packet, tail));
        } else {
            agenda.add_event(tail, key, Event::Hop(packet));
        }
    }

    /// Takes the wire into a SIP from a switch or a NIC.
    pub(super) fn ingress(&mut self, mut packet: Packet, tail: u64) {
        let leg = self.way(packet.ends.0, packet.ends.1)[packet.legs - 1];
        let stage = leg.ingress.unwrap();
        packet.turn = Self::turn_on(&packet, &stage);
        packet.rate = Some(stage.cost.bandwidth);
        let start = self.take(stage, self.now, packet.turn);
        self.schedule(tail.max(start + packet.turn), leg.next, Event::Hop(packet));
    }

    /// Sends a packet whose head is at a NIC or a leaf switch on.
    pub(super) fn relay(&mut self, packet: Packet, tail: u64) {
        let key = self.reserve();
        self.send_on(packet, tail, key);
    }

    /// Takes the next wire of a packet whose head is here.
    fn send_on(&mut self, mut packet: Packet, tail: u64, key: Key) {
        let stage = self.way(packet.ends.0, packet.ends.1)[packet.legs].stage;
        packet.turn = Self::turn_on(&packet, &stage);
        packet.rate = Some(stage.cost.bandwidth);
        packet.legs += 1;
        let start = self.take(stage, self.now, packet.turn);
        let latency = stage.cost.latency.as_ps();
        let tail = tail.max(start + packet.turn) + latency;
        self.cross(packet, start + latency, tail, key);
    }

    /// Moves a packet on from a SIP where it is whole.
    pub(super) fn hop(&mut self, packet: Packet) {
        if self.sip != packet.ends.1 {
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

    /// Takes the port of a SIP for a packet that is whole.
    pub(super) fn forward(&mut self, packet: Packet, key: Key) {
        self.send_on(packet, self.now, key);
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
            let (load, ends) = (Load::Credit(queue), (to.sip, from.sip));
            let packet = Packet { load, bytes, ends, legs: 0, turn: 0, rate: None };
            return self.act_after(to_gateway, Event::Hop(packet));
        }
        let legs = self.way(to.sip, from.sip);
        let links: u64 = legs.iter().map(|leg| leg.stage.cost.latency.as_ps()).sum();
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
