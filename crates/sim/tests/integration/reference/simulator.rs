//! The slow simulator: time, wires and flights.

use super::agenda::{Agenda, Event, Key, Packet, Work};
use super::caches::Block;
use super::channels::{Channel, Direction, Operation};
use super::hosts::HostProgram;
use super::messages::{Message, QueueState};
use super::networks::nodes;
use super::programs::Program;
use super::routes::{Stage, Wire, span};
use super::script::{Scenario, Times};
use phalanx_sim::topology::PeId;
use phalanx_sim::{MachineSpec, Time};
use std::collections::BTreeMap;

/// Bytes on their way over wires: the head is where the first byte is, the tail is the arrival of the last byte there.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) issue: u64,
    pub(crate) bytes: u64,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    /// The wires that are still to be taken.
    pub(crate) way: Vec<Stage>,
    pub(crate) goal: Goal,
}

/// The end of a flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// The scratch memory of a PE: a piece of a load.
    Load {
        operation: usize,
    },
    Store {
        operation: usize,
    },
    Host {
        operation: usize,
    },
    /// The port of the SIP, where a message is cut into chunks.
    Port {
        message: usize,
    },
    /// The port of the SIP, where a packet goes on to the next SIP.
    Onward(Packet, Key),
    /// The next SIP of a message that is cut through.
    Through {
        message: usize,
        next: u32,
        key: Key,
    },
    /// An event of a SIP when the last byte is there.
    Event {
        sip: u32,
        key: Key,
        what: Then,
    },
}

/// The event at the end of a flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Arrive(usize),
    Deliver(usize),
}

pub(crate) struct Simulator<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) spec: &'a MachineSpec,
    pub(super) now: u64,
    /// The SIP that has its turn.
    pub(super) sip: u32,
    pub(super) agendas: Vec<Agenda>,
    /// The instant at which each wire is free.
    pub(super) free: BTreeMap<Wire, u64>,
    pub(super) channels: BTreeMap<(PeId, Direction), Channel>,
    pub(super) operations: Vec<Operation>,
    pub(super) queues: Vec<QueueState>,
    pub(super) messages: Vec<Message>,
    pub(super) programs: Vec<Program>,
    pub(super) hosts: Vec<HostProgram>,
    /// The blocks in the cache of each SIP, those used last at the end.
    pub(super) caches: Vec<Vec<Block>>,
    /// The command of each launch, once it is sent.
    pub(super) commands: Vec<Option<usize>>,
}

/// Runs a scenario in the slow simulator.
pub(crate) fn run(scenario: &Scenario) -> Times {
    let mut simulator = Simulator::new(scenario);
    simulator.prepare();
    while let Some((time, sip)) = simulator.next_turn() {
        (simulator.now, simulator.sip) = (time, sip);
        while let Some(work) = simulator.agendas[sip as usize].next(time) {
            simulator.perform(work);
        }
    }
    simulator.times()
}

impl<'a> Simulator<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            spec: &scenario.spec,
            now: 0,
            sip: 0,
            agendas: (0..nodes(&scenario.spec)).map(|_| Agenda::default()).collect(),
            free: BTreeMap::new(),
            channels: BTreeMap::new(),
            operations: Vec::new(),
            queues: scenario.queues.iter().map(QueueState::new).collect(),
            messages: Vec::new(),
            programs: scenario.scripts.iter().map(Program::new).collect(),
            hosts: scenario.hosts.iter().map(HostProgram::new).collect(),
            caches: vec![Vec::new(); scenario.spec.devices() as usize],
            commands: vec![None; scenario.launches().len()],
        }
    }

    /// Adds the launches and the programs of hosts, each created by its own SIP before the run.
    fn prepare(&mut self) {
        for (number, (sip, _)) in self.scenario.launches().into_iter().enumerate() {
            self.begin_with(sip, Event::Launch(number));
        }
        for (number, host) in self.scenario.hosts.iter().enumerate() {
            self.begin_with(host.sip, Event::Resume(self.programs.len() + number));
        }
    }

    fn begin_with(&mut self, sip: u32, event: Event) {
        self.sip = sip;
        let key = self.reserve();
        self.agendas[sip as usize].add_event(0, key, event);
    }

    fn next_turn(&self) -> Option<(u64, u32)> {
        let turns = (0..).zip(&self.agendas);
        turns.filter_map(|(sip, agenda)| Some((agenda.next_time()?, sip))).min()
    }

    fn times(&self) -> Times {
        let ended = |program: &Program| program.ended.expect("a script without deadlock ends");
        Times {
            steps: self.programs.iter().map(|program| program.ends.clone()).collect(),
            orders: self.hosts.iter().map(|host| host.ends.clone()).collect(),
            simulated: self.programs.iter().map(ended).max().unwrap_or(Time::ZERO),
        }
    }

    fn perform(&mut self, work: Work) {
        match work {
            Work::Head(flight) => self.enter(flight),
            Work::Event(Event::Launch(launch)) => self.launch(launch),
            Work::Event(Event::Resume(process)) => match process.checked_sub(self.programs.len()) {
                Some(host) => self.resume_host(host),
                None => self.resume(process),
            },
            Work::Event(Event::Arrive(message)) => self.arrive(message),
            Work::Event(Event::Deliver(message)) => self.deliver(message),
            Work::Event(Event::Hop(packet)) => self.hop(packet),
            Work::Event(Event::Pass(passing)) => self.pass(passing),
            Work::Event(Event::Ingress(packet, tail)) => self.ingress(packet, tail),
            Work::Event(Event::Relay(packet, tail)) => self.relay(packet, tail),
            Work::Event(Event::Credit(queue)) => self.credit(queue),
            Work::Event(Event::Poll(queue)) => self.poll(queue),
        }
    }

    /// Returns a key that is created now by the SIP that has its turn.
    pub(super) fn reserve(&mut self) -> Key {
        self.agendas[self.sip as usize].key(self.now, self.sip)
    }

    /// Returns the next number of issue of the SIP that has its turn.
    pub(super) fn issue(&mut self) -> u64 {
        self.agendas[self.sip as usize].issue()
    }

    /// Adds an event that is created now; an event of this instant is an effect without delay.
    pub(super) fn schedule(&mut self, time: u64, sip: u32, event: Event) {
        if time == self.now {
            assert_eq!(sip, self.sip, "no SIP affects another one without delay");
            self.agendas[sip as usize].add_ready(event);
        } else {
            let key = self.reserve();
            self.agendas[sip as usize].add_event(time, key, event);
        }
    }

    /// Takes a wire from `head` on for `turn`, and returns the begin of the turn.
    pub(super) fn take(&mut self, stage: Stage, head: u64, turn: u64) -> u64 {
        if stage.cost.bandwidth.is_unlimited() {
            return head;
        }
        let free = self.free.entry(stage.wire).or_default();
        let start = head.max(*free);
        *free = start + turn;
        start
    }

    /// Moves a flight to its next wire of finite bandwidth, or to its goal.
    pub(super) fn fly(&mut self, mut flight: Flight) {
        let costs_no_turn = |stage: &Stage| {
            stage.cost.bandwidth.is_unlimited() && !matches!(stage.wire, Wire::Cache { .. })
        };
        while flight.way.first().is_some_and(costs_no_turn) {
            let latency = flight.way.remove(0).cost.latency.as_ps();
            flight.head += latency;
            flight.tail += latency;
        }
        let is_at_port = matches!(flight.goal, Goal::Port { .. } | Goal::Onward(..));
        if flight.way.is_empty() && !is_at_port {
            return self.land(&flight);
        }
        self.agendas[self.sip as usize].add_head(flight);
    }

    /// Takes the wire at which the head of a flight has arrived.
    fn enter(&mut self, mut flight: Flight) {
        if flight.way.is_empty() {
            return self.land(&flight);
        }
        let stage = flight.way.remove(0);
        if let Wire::Cache { sip, cube, touched } = stage.wire {
            self.enter_cache(&mut flight, stage, (sip, cube, touched));
            return self.fly(flight);
        }
        let turn = span(stage.cost.bandwidth, flight.bytes);
        let latency = stage.cost.latency.as_ps();
        let start = self.take(stage, flight.head, turn);
        flight.head = start + latency;
        flight.tail = flight.tail.max(start + turn) + latency;
        self.fly(flight);
    }

    fn land(&mut self, flight: &Flight) {
        match flight.goal {
            Goal::Load { operation } => self.load_landed(operation, flight),
            Goal::Store { operation } => self.store_landed(operation, flight),
            Goal::Host { operation } => self.end_operation(operation, flight.tail),
            Goal::Port { message } => self.cut(message, flight),
            Goal::Onward(packet, key) => self.forward(packet, key),
            Goal::Through { message, next, key } => self.reach(message, next, key, flight),
            Goal::Event { sip, key, what } => {
                let event = match what {
                    Then::Arrive(message) => Event::Arrive(message),
                    Then::Deliver(message) => Event::Deliver(message),
                };
                let agenda = &mut self.agendas[sip as usize];
                // A flight that takes no time is an effect without delay.
                if flight.tail == self.now && key.is_created_at(self.now) {
                    agenda.add_ready(event);
                } else {
                    agenda.add_event(flight.tail, key, event);
                }
            }
        }
    }
}
