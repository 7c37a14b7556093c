//! A mirror: one SIP that is simulated, and stands for all SIPs of a group that do the same.
//!
//! Let every member of a group run the program of the first member, moved by a symmetry of the group. Then all members do the same
//! at the same instant. Each parcel that the first member sends comes back to it at that instant, as the parcel of the
//! member at the same distance on the other side. The first SIP is a shard that meets its own images.
//!
//! - **MIR-1 (as all).** The first SIP does what it does in a run of all SIPs, to the picosecond, provided that the symmetry takes every
//!   member's program to that of the first, that the members begin at one instant on an idle machine whose SIPs all reach
//!   each other alike, and that there was no tie ([`Machine::has_ties`](crate::machine::Machine::has_ties)).
//!
//! The proof is an induction over windows. The state of a SIP depends on its program and on the order of its events. Events of one instant
//! fire by time of creation, creating partition and that partition's count (SIM-2). Times and counts are the same for all images of an
//! event; the numbers of partitions are not, but they decide between events alone that different partitions have created at one instant
//! for one instant, and that is a tie. Without a tie all members have the images of the same events in the same order.

use super::{Exchange, Notes, Parcel, Standing};
use crate::spec::{MachineSpec, Topology};
use std::fmt;

/// The symmetries of a group under which all members do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// The members are in a circle, and every turn of it is a symmetry.
    Cyclic,
    /// The members are the corners of a cube of many dimensions, and every exclusive or of their numbers is a symmetry.
    Hypercube,
}

impl Symmetry {
    /// Returns the image of `member` under the symmetry that takes `from` to `to`, of `members`.
    fn image(self, members: usize, (from, to): (usize, usize), member: usize) -> usize {
        match self {
            Self::Cyclic => (member + members - from + to) % members,
            Self::Hypercube => member ^ from ^ to,
        }
    }
}

/// The way of SIP 0 to its images: an [`Exchange`] for a machine in which SIP 0 alone is simulated.
pub struct Mirror {
    devices: usize,
    /// The SIP of each member.
    members: Vec<u32>,
    /// The number of each SIP among the members.
    places: Vec<Option<usize>>,
    symmetry: Symmetry,
}

impl Mirror {
    /// Creates a mirror for the SIPs of a group; `None` where it could not stand for all (MIR-1): SIP 0 is no member, SIPs do not reach
    /// each other alike, or the time of an access depends on its address.
    pub fn new(machine: &MachineSpec, members: &[u32], symmetry: Symmetry) -> Option<Self> {
        let devices = machine.devices() as usize;
        let reach_alike =
            matches!(machine.sips.topology, Topology::Switch | Topology::FullyConnected);
        let is_flat = machine.levels.is_empty() && reach_alike;
        let is_even = machine.cache.is_none() && machine.dma.burst == 0;
        let fits = symmetry == Symmetry::Cyclic || members.len().is_power_of_two();
        let mut places = vec![None; devices];
        for (place, sip) in members.iter().enumerate() {
            if places.get_mut(*sip as usize)?.replace(place).is_some() {
                return None;
            }
        }
        let has_first = places.first().is_some_and(Option::is_some);
        (is_flat && is_even && fits && has_first && members.len() > 1).then(|| Self {
            devices,
            members: members.to_vec(),
            places,
            symmetry,
        })
    }

    /// Returns the image of a SIP under the symmetry that takes `from` to SIP 0.
    fn image(&self, from: usize, sip: u32) -> u32 {
        let place = |sip: usize| self.places.get(sip).copied().flatten();
        match (place(from), place(0), place(sip as usize)) {
            (Some(from), Some(to), Some(member)) => {
                self.members[self.symmetry.image(self.members.len(), (from, to), member)]
            }
            // SIPs beside the group do nothing.
            _ => sip,
        }
    }
}

impl Exchange for Mirror {
    fn shard(&self) -> usize {
        0
    }

    fn shards(&self) -> usize {
        self.devices
    }

    /// A parcel to a shard comes back as the image that the opposite shard sends.
    fn meet(&self, own: Standing, out: &mut [Vec<Parcel>], into: &mut [Vec<Parcel>]) -> Standing {
        for (to, parcels) in out.iter_mut().enumerate().filter(|(_, parcels)| !parcels.is_empty()) {
            let image = |sip| self.image(to, sip);
            let from = &mut into[image(0) as usize];
            from.extend(parcels.drain(..).map(|Parcel(crossing)| Parcel(crossing.moved(image))));
        }
        own
    }

    fn gather(&self, own: Notes) -> Vec<Notes> {
        vec![own]
    }

    fn by_turns(&self, work: &mut dyn FnMut()) {
        work();
    }

    fn is_mirror(&self) -> bool {
        true
    }
}

impl fmt::Debug for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mirror")
            .field("members", &self.members)
            .field("symmetry", &self.symmetry)
            .finish_non_exhaustive()
    }
}
