//! The bottleneck of a collective.

use phalanx_sim::report::{PathPart, Report};
use phalanx_sim::stall::Kind;
use std::fmt;

/// The resource that limits a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The latency of links and of the commands of hosts.
    Latency,
    /// The bandwidth of links.
    Link,
    /// Slots: messages wait for a credit.
    Credit,
    /// The vector engine.
    Vector,
    /// Memory, and the DMA and the meshes in front of it.
    Hbm,
}

impl Bound {
    /// Every bound.
    const ALL: [Self; 5] = [Self::Latency, Self::Link, Self::Credit, Self::Vector, Self::Hbm];

    /// The bound with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bound| bound.name() == name)
    }

    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Link => "link",
            Self::Credit => "credit",
            Self::Vector => "vector",
            Self::Hbm => "HBM",
        }
    }

    /// The resource with the largest share of a run's critical path.
    pub(crate) fn of(report: &Report) -> Self {
        let path = &report.critical_path;
        let spent = |kind| u128::from(path.spent.get(kind).as_ps());
        let is_on_wire =
            |part: &&PathPart| part.resource.is_wire_outside() && part.kind != Kind::Credit;
        let outside = path.parts.iter().filter(is_on_wire);
        let on_wires: u128 = outside.map(|part| u128::from(part.time.as_ps())).sum();
        let behind = u128::from(path.latency.as_ps());
        // The recorded steps divide the time of links into wires and latency; without steps, all of it is latency.
        let links = spent(Kind::Link);
        let wires = (links * on_wires).checked_div(on_wires + behind).unwrap_or(0);
        // A wait for a credit follows a message: the latency of the message is part of the same round trip.
        let credits = spent(Kind::Credit);
        let round_trips = credits.min(links - wires);
        let memory = [Kind::Dma, Kind::Hbm, Kind::Mesh, Kind::Latency].map(spent).iter().sum();
        let candidates = [
            (wires, Self::Link),
            (credits + round_trips, Self::Credit),
            (spent(Kind::Compute), Self::Vector),
            (memory, Self::Hbm),
            // The last of equals wins.
            (links - wires - round_trips, Self::Latency),
        ];
        candidates
            .into_iter()
            .max_by_key(|(time, _)| *time)
            .map_or(Self::Latency, |(_, bound)| bound)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
