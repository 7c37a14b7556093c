//! The hardware of one SIP, which is one partition of the simulation.

use super::Options;
use super::cached::SipCache;
use super::channel::ChannelQueue;
use super::flights::Flights;
use crate::memory::{Hbm, Mmu};
use crate::record::{Op, Path, Record, Resource, Room, Use};
use crate::spec::{MachineSpec, WireSpec};
use crate::stall::{Kind, Stack};
use crate::time::Time;
use crate::topology::{Hop, Network, PeId};
use crate::wire::{Turn, Wire};
use std::rc::Rc;

/// One SIP: a package of cubes.
///
/// The fields that every message uses come first, to fit few cache lines.
#[repr(C)]
pub(crate) struct Sip {
    /// The wires to other SIPs, in the order of their first use.
    pub(crate) ports: Vec<Port>,
    /// The PEs of all cubes, cube by cube.
    pub(crate) pes: Vec<Pe>,
    pub(crate) record: Record,
    pub(crate) mmu: Mmu,
    pub(crate) number: u32,
    pub(crate) pes_per_cube: u32,
    pub(crate) cubes: Vec<Cube>,
    pub(crate) flights: Flights,
    /// The latest end of a request of the host so far.
    pub(crate) host_until: Time,
    /// The cache that the PEs share, if the machine has one.
    pub(crate) cache: Option<Box<SipCache>>,
    /// The wires into this SIP from the switch or the NIC of each level.
    pub(crate) ingress: Vec<Wire>,
    /// The wire from the host, and the wire back.
    pub(crate) host: Wire,
    pub(crate) upload: Wire,
}

/// A port with a wire to another node, or to a switch.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) to: u32,
    /// Cost of the link.
    pub(crate) link: WireSpec,
    pub(crate) wire: Wire,
    /// Time the wire was idle because the next message had no free slot at its receiver, and the end of the time
    /// counted so far.
    pub(crate) starved: Time,
    pub(crate) starved_until: Time,
    /// The arrival of the last message that left early (WIR-5), and the time at which the wire was free before it.
    early: Time,
    free_before: Time,
}

crate::portable!(struct Port { to, link, wire, starved, starved_until, early, free_before });

/// A node that is made: its number, the number of all nodes, and whether another shard has its inside.
#[derive(Clone, Copy)]
pub(crate) struct NewNode {
    pub(crate) number: u32,
    pub(crate) nodes: u32,
    pub(crate) is_hollow: bool,
}

/// One cube.
pub(crate) struct Cube {
    pub(crate) hbm: Wire,
    pub(crate) memory: Hbm,
    /// The wires to the neighbours: east, west, south, north.
    pub(crate) links: [Wire; 4],
}

/// An engine of a PE; it performs one operation at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Gemm,
    Vector,
    Load,
    Store,
}

impl Pe {
    #[inline]
    pub(crate) fn engine(&mut self, engine: Engine) -> &mut Wire {
        match engine {
            Engine::Gemm => &mut self.gemm,
            Engine::Vector => &mut self.vector,
            Engine::Load => &mut self.load,
            Engine::Store => &mut self.store,
        }
    }
}

impl Pe {
    /// Returns the requests that wait for a DMA channel.
    #[inline]
    pub(crate) fn queue(&mut self, channel: Engine) -> &mut ChannelQueue {
        &mut self.queues[usize::from(channel == Engine::Store)]
    }
}

impl Engine {
    pub(crate) fn resource(self, pe: PeId) -> Resource {
        match self {
            Self::Gemm => Resource::Gemm(pe),
            Self::Vector => Resource::Vector(pe),
            Self::Load => Resource::Load(pe),
            Self::Store => Resource::Store(pe),
        }
    }

    /// Returns the use of the engine of a PE.
    #[inline]
    pub(crate) fn used(self, pe: PeId) -> Use {
        Use::of_engine(self as u64, pe, self.kind())
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Gemm | Self::Vector => Kind::Compute,
            Self::Load | Self::Store => Kind::Dma,
        }
    }
}

/// One processing element.
#[derive(Default)]
pub(crate) struct Pe {
    pub(crate) load: Wire,
    pub(crate) store: Wire,
    pub(crate) gemm: Wire,
    pub(crate) vector: Wire,
    pub(crate) links: [Wire; 4],
    pub(crate) stalls: Stack,
    pub(crate) programs: u64,
    /// The requests that wait for the load channel, and for the store channel.
    queues: [ChannelQueue; 2],
}

impl Port {
    /// Prepares for a message that leaves now, early: its head arrives at `head`. False if another has left early and has not
    /// arrived.
    #[inline]
    pub(super) fn take_early(&mut self, now: Time, head: Time) -> bool {
        if now < self.early {
            return false;
        }
        (self.early, self.free_before) = (head, self.wire.free());
        true
    }

    /// Counts the idle time of the wire; the message that leaves now has been first in its queue since `since`. Returns the
    /// begin of the idle time.
    #[inline]
    pub(crate) fn note_starved(&mut self, since: Time, now: Time) -> Option<Time> {
        let free = if now < self.early { self.free_before } else { self.wire.free() };
        let from = since.max(free).max(self.starved_until);
        if now <= from {
            return None;
        }
        self.starved += now - from;
        self.starved_until = now;
        Some(from)
    }
}

impl Sip {
    /// Creates a node: a SIP, or a station of the network, which has no cubes. A hollow SIP has none either.
    pub(crate) fn new(
        node: NewNode,
        spec: &MachineSpec,
        options: &Options,
        room: &Rc<Room>,
    ) -> Self {
        let NewNode { number: sip, nodes, is_hollow } = node;
        let cubes = if sip < spec.devices() && !is_hollow { spec.cubes.count() } else { 0 };
        let cube = |_| Cube {
            hbm: Wire::default(),
            memory: Hbm::new(spec.hbm.capacity),
            links: Default::default(),
        };
        Self {
            number: sip,
            ports: Vec::new(),
            ingress: vec![Wire::default(); spec.level_count()],
            host: Wire::default(),
            upload: Wire::default(),
            cubes: (0..cubes).map(cube).collect(),
            flights: Flights::default(),
            host_until: Time::ZERO,
            cache: spec.cache.as_ref().map(|cache| Box::new(SipCache::new(cache))),
            pes: (0..cubes * spec.pes.count()).map(|_| Pe::default()).collect(),
            pes_per_cube: spec.pes.count(),
            mmu: Mmu::new(sip, options.strict),
            record: Record::new(sip, nodes, options.record, room),
        }
    }

    /// Returns the paths of everything under way: flights, and requests to DMA channels.
    pub(super) fn live_paths(&self) -> impl Iterator<Item = Path> {
        let queues = self.pes.iter().flat_map(|pe| &pe.queues);
        self.flights.live_paths().chain(queues.flat_map(ChannelQueue::live_paths))
    }

    /// Drops all flights, and all requests to DMA channels.
    pub(crate) fn clear(&mut self) {
        self.flights = Flights::default();
        for queue in self.pes.iter_mut().flat_map(|pe| &mut pe.queues) {
            queue.clear();
        }
    }

    /// Returns the index of a PE in [`Sip::pes`].
    #[inline]
    pub(crate) fn index(&self, pe: PeId) -> usize {
        pe.index(self.pes_per_cube)
    }

    pub(crate) fn pe(&mut self, pe: PeId) -> &mut Pe {
        let index = self.index(pe);
        &mut self.pes[index]
    }

    /// Returns the index of the port that a hop takes; creates the port at the first call.
    pub(crate) fn port(&mut self, hop: Hop, network: &Network) -> usize {
        let Hop { port: to, class, .. } = hop;
        self.ports.iter().position(|port| port.to == to).unwrap_or_else(|| {
            self.ports.push(Port {
                to,
                link: network.wire(class),
                wire: Wire::default(),
                starved: Time::ZERO,
                starved_until: Time::ZERO,
                early: Time::ZERO,
                free_before: Time::ZERO,
            });
            self.ports.len() - 1
        })
    }

    /// Returns the ports by destination, independent of the order in which edges were opened.
    pub(crate) fn sorted_ports(&self) -> impl Iterator<Item = &Port> {
        let mut ports: Vec<&Port> = self.ports.iter().collect();
        ports.sort_by_key(|port| port.to);
        ports.into_iter()
    }

    /// Logs a turn on a wire, unless the wire is unlimited and the turn took no time.
    pub(crate) fn log(&mut self, turn: Turn, resource: Resource, label: &'static str, bytes: u64) {
        if turn.taken {
            self.record.op(|| Op::new((turn.start, turn.end), resource, label, bytes));
        }
    }

    /// Returns every used wire with its name.
    pub(crate) fn wires(&self, sip: u32) -> Vec<(Resource, &Wire)> {
        let mut wires =
            vec![(Resource::Host(sip), &self.host), (Resource::Upload(sip), &self.upload)];
        wires.extend(
            self.ingress.iter().enumerate().map(|(level, wire)| (ingress_of(sip, level), wire)),
        );
        wires.extend(
            self.sorted_ports().map(|port| (Resource::Link { from: sip, to: port.to }, &port.wire)),
        );
        wires.extend(self.cache.iter().map(|cache| (Resource::Cache(sip), &cache.wire)));
        for (number, cube) in (0..).zip(&self.cubes) {
            let here = PeId { sip, cube: number, pe: 0 };
            wires.push((Resource::Hbm(here), &cube.hbm));
            wires.extend(
                (0..).zip(&cube.links).map(|(side, wire)| (Resource::CubeLink(here, side), wire)),
            );
        }
        for (index, pe) in self.pes.iter().enumerate() {
            wires.extend(pe_wires(self.pe_id(sip, index), pe));
        }
        wires.retain(|(_, wire)| wire.turns > 0);
        wires
    }

    /// Returns the id of the PE at `index` of [`Sip::pes`].
    pub(crate) fn pe_id(&self, sip: u32, index: usize) -> PeId {
        let per_cube = self.pes_per_cube as usize;
        let small = |n: usize| u16::try_from(n).expect("cubes and PEs are numbered in 16 bits");
        PeId { sip, cube: small(index / per_cube), pe: small(index % per_cube) }
    }
}

/// Returns the name of the wire into a SIP from the switch or the NIC of a level.
pub(crate) fn ingress_of(sip: u32, level: usize) -> Resource {
    if level == 0 {
        return Resource::Ingress(sip);
    }
    Resource::Link { from: sip, to: Resource::switch_in(level) }
}

fn pe_wires(id: PeId, pe: &Pe) -> Vec<(Resource, &Wire)> {
    let mut wires = vec![
        (Resource::Gemm(id), &pe.gemm),
        (Resource::Vector(id), &pe.vector),
        (Resource::Load(id), &pe.load),
        (Resource::Store(id), &pe.store),
    ];
    wires.extend((0..).zip(&pe.links).map(|(side, wire)| (Resource::PeLink(id, side), wire)));
    wires
}
