//! Random traffic in words: a machine, queues between its PEs, and a script for each of some PEs.

use phalanx_sim::ipcq::EdgeSpec;
use phalanx_sim::topology::PeId;
use phalanx_sim::{Bandwidth, MachineSpec, Time};
use std::fmt;

/// A machine and all that happens on it.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) spec: MachineSpec,
    pub(crate) queues: Vec<Queue>,
    pub(crate) scripts: Vec<Script>,
    pub(crate) hosts: Vec<HostScript>,
    /// True if each script is a launch of its own; otherwise the scripts of a SIP are one launch.
    pub(crate) apart: bool,
}

/// A queue from one PE to another; its channel is its position in the scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub(crate) from: PeId,
    pub(crate) to: PeId,
    pub(crate) edge: EdgeSpec,
}

/// The steps of one PE.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) pe: PeId,
    pub(crate) steps: Vec<Step>,
}

/// A part of memory: bytes in the HBM of a cube of the PE's own SIP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) cube: u16,
    pub(crate) bytes: u64,
}

/// One step of a script. `waits` is true if the step ends with the operation; otherwise a later [`Step::Await`] waits
/// for the operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Compute(Time),
    Load {
        piece: Piece,
        waits: bool,
    },
    Pair {
        pieces: [Piece; 2],
        waits: bool,
    },
    Store {
        piece: Piece,
        waits: bool,
    },
    Send {
        queue: usize,
        bytes: u64,
        waits: bool,
    },
    /// A receive, after which the tile is kept for some time.
    Receive {
        queue: usize,
        bytes: u64,
        hold: Time,
    },
    /// The end of the oldest operation that no step has waited for; nothing if there is none.
    Await,
}

/// The orders of a program of a host, each begun at the end of the one before.
#[derive(Clone, Debug)]
pub(crate) struct HostScript {
    pub(crate) sip: u32,
    pub(crate) orders: Vec<Order>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Write(Piece),
    Fill(Piece),
    Read(Piece),
    Pause(Time),
}

/// The times of a run: the end of each step of each script and of each order of each host, and the simulated total.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) steps: Vec<Vec<Time>>,
    pub(crate) orders: Vec<Vec<Time>>,
    pub(crate) simulated: Time,
}

/// Prints a scenario with one line for each wire, queue and step.
impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MachineSpec { sips, host, cubes, pes, hbm, dma, .. } = &self.spec;
        let mut wire = |name: &str, bandwidth: Bandwidth, latency: Time| {
            writeln!(f, "{name}: {:?} B/s, {} ps", bandwidth.as_per_second(), latency.as_ps())
        };
        wire("link", sips.link.bandwidth, sips.link.latency)?;
        wire("host", host.bandwidth, host.latency)?;
        wire("cubes", cubes.link.bandwidth, cubes.link.latency)?;
        wire("pes", pes.link.bandwidth, pes.link.latency)?;
        wire("hbm", hbm.bandwidth, hbm.latency)?;
        wire("dma", dma.bandwidth, dma.latency)?;
        let (topology, mode) = (sips.topology, sips.forwarding);
        writeln!(f, "{} SIPs, {topology:?}, {mode:?}, apart: {}", sips.count, self.apart)?;
        for level in &self.spec.levels {
            writeln!(f, "{level:?}")?;
        }
        let [cubes, pes] = [cubes, pes].map(|grid| format!("{} x {}", grid.rows, grid.columns));
        writeln!(f, "{cubes} cubes of {pes} PEs (rows x columns)")?;
        for (number, Queue { from, to, edge }) in self.queues.iter().enumerate() {
            writeln!(f, "queue {number}: {from} -> {to}: {edge:?}")?;
        }
        for script in &self.scripts {
            writeln!(f, "script of {}", script.pe)?;
            for step in &script.steps {
                writeln!(f, "    {step:?}")?;
            }
        }
        for host in &self.hosts {
            writeln!(f, "{host:?}")?;
        }
        Ok(())
    }
}

impl Scenario {
    /// Returns the launches: a SIP, and the scripts that the launch starts.
    pub(crate) fn launches(&self) -> Vec<(u32, Vec<usize>)> {
        let mut launches: Vec<(u32, Vec<usize>)> = Vec::new();
        for (number, script) in self.scripts.iter().enumerate() {
            let sip = script.pe.sip;
            match launches.iter_mut().find(|(other, _)| *other == sip && !self.apart) {
                Some((_, numbers)) => numbers.push(number),
                None => launches.push((sip, vec![number])),
            }
        }
        launches
    }
}
