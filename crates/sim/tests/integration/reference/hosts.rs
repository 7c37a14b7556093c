//! The hosts: commands, and programs that move data between host and memory.

use super::routes::{Stage, Wire, memory};
use super::script::{HostScript, Order, Piece};
use super::simulator::{Flight, Goal, Simulator};
use phalanx_sim::Time;
use std::collections::VecDeque;

/// Size of a command.
const COMMAND: u64 = 64;

/// A program of a host.
pub(crate) struct HostProgram {
    orders: VecDeque<Order>,
    /// The operation that the program waits for, and the order that goes on after it.
    waits: Option<(usize, Option<Order>)>,
    pub(crate) ends: Vec<Time>,
}

impl HostProgram {
    pub(crate) fn new(script: &HostScript) -> Self {
        Self { orders: script.orders.iter().copied().collect(), waits: None, ends: Vec::new() }
    }
}

impl Simulator<'_> {
    /// Runs a program of a host until it has to wait.
    pub(super) fn resume_host(&mut self, number: usize) {
        loop {
            if let Some((operation, rest)) = self.hosts[number].waits {
                let process = self.programs.len() + number;
                if !self.is_over(operation, process) {
                    return;
                }
                self.hosts[number].waits = None;
                if let Some(order) = rest {
                    let second = self.fetch_or_fill(order);
                    self.hosts[number].waits = Some((second, None));
                    continue;
                }
                self.hosts[number].ends.push(Time::ps(self.now));
            }
            let Some(order) = self.hosts[number].orders.pop_front() else { return };
            let first = self.begin_order(order);
            let rest = matches!(order, Order::Fill(_) | Order::Read(_)).then_some(order);
            self.hosts[number].waits = Some((first, rest));
        }
    }

    /// Does the first part of an order.
    fn begin_order(&mut self, order: Order) -> usize {
        match order {
            Order::Pause(time) => self.timer(self.now + time.as_ps()),
            Order::Fill(_) | Order::Read(_) => self.command(),
            Order::Write(Piece { cube, bytes }) => {
                let way = vec![self.host_wire(), memory(self.spec, self.sip, cube)];
                self.host_flight(bytes, way)
            }
        }
    }

    /// Does the part of an order that follows its command.
    fn fetch_or_fill(&mut self, order: Order) -> usize {
        let (sip, cost) = (self.sip, self.spec.host);
        match order {
            Order::Fill(Piece { cube, bytes }) => {
                self.host_flight(bytes, vec![memory(self.spec, sip, cube)])
            }
            Order::Read(Piece { cube, bytes }) => {
                let upload = Stage { wire: Wire::Upload { sip }, cost };
                self.host_flight(bytes, vec![memory(self.spec, sip, cube), upload])
            }
            Order::Write(_) | Order::Pause(_) => unreachable!("these have one part"),
        }
    }

    fn host_wire(&self) -> Stage {
        Stage { wire: Wire::Host { sip: self.sip }, cost: self.spec.host }
    }

    /// Sends a command from the host of the SIP.
    pub(super) fn command(&mut self) -> usize {
        self.host_flight(COMMAND, vec![self.host_wire()])
    }

    fn host_flight(&mut self, bytes: u64, way: Vec<Stage>) -> usize {
        let operation = self.unfinished();
        let (issue, goal) = (self.issue(), Goal::Host { operation });
        self.fly(Flight { issue, bytes, head: self.now, tail: self.now, way, goal });
        operation
    }
}
