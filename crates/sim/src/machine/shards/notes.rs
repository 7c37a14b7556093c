//! The notes of a SIP that a report needs, as plain data.

use super::super::sip::{Pe, Port, Sip};
use crate::record::RecordNotes;
use crate::stall::Stack;
use crate::wire::Wire;

/// The facts of a SIP that a report needs.
pub(crate) struct SipNotes {
    number: u32,
    ports: Vec<Port>,
    ingress: Vec<Wire>,
    host: Wire,
    upload: Wire,
    cache: Option<Wire>,
    /// The memory and the links of each cube.
    cubes: Vec<(Wire, [Wire; 4])>,
    pes: Vec<PeNotes>,
    record: RecordNotes,
}

crate::portable!(struct SipNotes { number, ports, ingress, host, upload, cache, cubes, pes, record });

/// The facts of a PE that a report needs.
struct PeNotes {
    load: Wire,
    store: Wire,
    gemm: Wire,
    vector: Wire,
    links: [Wire; 4],
    stalls: Stack,
    programs: u64,
}

crate::portable!(struct PeNotes { load, store, gemm, vector, links, stalls, programs });

impl SipNotes {
    /// Copies the notes of a SIP.
    pub(crate) fn of(sip: &mut Sip) -> Self {
        let pe = |pe: &Pe| PeNotes {
            load: pe.load.clone(),
            store: pe.store.clone(),
            gemm: pe.gemm.clone(),
            vector: pe.vector.clone(),
            links: pe.links.clone(),
            stalls: pe.stalls,
            programs: pe.programs,
        };
        Self {
            number: sip.number,
            ports: sip.ports.clone(),
            ingress: sip.ingress.clone(),
            host: sip.host.clone(),
            upload: sip.upload.clone(),
            cache: sip.cache.as_ref().map(|cache| cache.wire.clone()),
            cubes: sip.cubes.iter().map(|cube| (cube.hbm.clone(), cube.links.clone())).collect(),
            pes: sip.pes.iter().map(pe).collect(),
            record: sip.record.notes(),
        }
    }

    /// Returns the number of the SIP.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Gives a SIP these notes.
    pub(crate) fn put_into(&self, sip: &mut Sip) {
        sip.ports.clone_from(&self.ports);
        sip.ingress.clone_from(&self.ingress);
        sip.host.clone_from(&self.host);
        sip.upload.clone_from(&self.upload);
        if let (Some(cache), Some(wire)) = (&mut sip.cache, &self.cache) {
            cache.wire.clone_from(wire);
        }
        for (cube, (hbm, links)) in sip.cubes.iter_mut().zip(&self.cubes) {
            cube.hbm.clone_from(hbm);
            cube.links.clone_from(links);
        }
        for (pe, notes) in sip.pes.iter_mut().zip(&self.pes) {
            pe.load.clone_from(&notes.load);
            pe.store.clone_from(&notes.store);
            pe.gemm.clone_from(&notes.gemm);
            pe.vector.clone_from(&notes.vector);
            pe.links.clone_from(&notes.links);
            (pe.stalls, pe.programs) = (notes.stalls, notes.programs);
        }
        sip.record.put(&self.record);
    }
}
