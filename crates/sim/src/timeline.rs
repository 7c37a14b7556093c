//! The op log as a timeline: one track per engine, link and program, with arrows from sends to receives.

use crate::record::{Op, Resource};
use crate::report::Report;
use phalanx_trace::{NameId, Slice, TrackId, Writer};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;

/// Writes the operations of a recorded run.
pub fn write<W: io::Write>(report: &Report, writer: &mut Writer<W>) -> io::Result<()> {
    let mut tracks = Tracks::default();
    for ops in &report.ops {
        for number in in_order(ops) {
            write_op(&mut tracks, writer, &ops[number as usize])?;
        }
    }
    Ok(())
}

/// The numbers of operations, track by track and by time; where two begin together the outer one comes first.
///
/// A resource logs most of its operations in that order already, so there is little to sort.
fn in_order(ops: &[Op]) -> impl Iterator<Item = u32> {
    let mut tracks: Vec<Vec<u32>> = Vec::new();
    let mut by_resource: BTreeMap<Resource, usize> = BTreeMap::new();
    // Those that were used last are used again.
    let mut recent: [Option<(Resource, usize)>; 4] = [None; 4];
    for (number, op) in (0..).zip(ops) {
        let known = recent.iter().flatten().find(|(resource, _)| *resource == op.resource);
        let track = if let Some((_, track)) = known {
            *track
        } else {
            let track = *by_resource.entry(op.resource).or_insert(tracks.len());
            if track == tracks.len() {
                tracks.push(Vec::new());
            }
            recent.rotate_right(1);
            recent[0] = Some((op.resource, track));
            track
        };
        tracks[track].push(number);
    }
    let key = |number: &u32| {
        let op = &ops[*number as usize];
        (op.start, std::cmp::Reverse(op.end))
    };
    for track in &mut tracks {
        track.sort_by_key(key);
    }
    by_resource.into_values().flat_map(move |track| std::mem::take(&mut tracks[track]))
}

fn write_op<W: io::Write>(tracks: &mut Tracks, writer: &mut Writer<W>, op: &Op) -> io::Result<()> {
    let track = tracks.track(writer, op.resource)?;
    let name = tracks.name(writer, op.label);
    let slice = Slice::new(track, name, op.start.as_ps(), op.end.as_ps());
    let bytes = (op.bytes > 0).then_some(op.bytes);
    let [flow_out, flow_in] = [op.flow_out, op.flow_in].map(|flow| flow.map(NonZeroU64::get));
    writer.slice(&Slice { bytes, flow_out, flow_in, ..slice })
}

#[derive(Default)]
struct Tracks {
    machine: Option<TrackId>,
    sips: BTreeMap<u32, TrackId>,
    last: Option<(Resource, TrackId)>,
    names: Vec<(&'static str, NameId)>,
}

impl Tracks {
    /// The track of a resource; operations come resource by resource, so only the last one is remembered.
    fn track<W: io::Write>(
        &mut self,
        writer: &mut Writer<W>,
        resource: Resource,
    ) -> io::Result<TrackId> {
        if let Some((last, track)) = self.last
            && last == resource
        {
            return Ok(track);
        }
        let sip = self.sip(writer, sip_of(resource))?;
        let track = writer.track(&resource.to_string(), Some(sip))?;
        self.last = Some((resource, track));
        Ok(track)
    }

    fn sip<W: io::Write>(&mut self, writer: &mut Writer<W>, sip: u32) -> io::Result<TrackId> {
        if let Some(track) = self.sips.get(&sip) {
            return Ok(*track);
        }
        let machine = match self.machine {
            Some(track) => track,
            None => writer.track("machine", None)?,
        };
        self.machine = Some(machine);
        let track = writer.track(&format!("sip{sip}"), Some(machine))?;
        self.sips.insert(sip, track);
        Ok(track)
    }

    fn name<W: io::Write>(&mut self, writer: &mut Writer<W>, label: &'static str) -> NameId {
        if let Some((_, name)) = self.names.iter().find(|(known, _)| *known == label) {
            return *name;
        }
        let name = writer.name(label);
        self.names.push((label, name));
        name
    }
}

fn sip_of(resource: Resource) -> u32 {
    match resource {
        Resource::Program(pe)
        | Resource::Gemm(pe)
        | Resource::Vector(pe)
        | Resource::Load(pe)
        | Resource::Store(pe)
        | Resource::PeLink(pe, _)
        | Resource::CubeLink(pe, _)
        | Resource::Hbm(pe) => pe.sip,
        Resource::Link { from, .. } => from,
        Resource::Ingress(sip) | Resource::Host(sip) | Resource::Upload(sip) => sip,
    }
}
