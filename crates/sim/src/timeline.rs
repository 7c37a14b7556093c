//! The op log as a timeline: one track per engine, link and program, arrows from sends to receives, and named ranges.

use crate::names::Names;
use crate::record::{Op, OpLog, Owner, RangeSpan, Resource};
use crate::report::Report;
use crate::time::Time;
use phalanx_trace::{NameId, Slice, TrackId, Writer};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;

/// Writes the operations and ranges of a recorded run.
pub fn write<W: io::Write>(report: &Report, writer: &mut Writer<W>) -> io::Result<()> {
    let mut tracks = Tracks { addresses: report.names.clone(), ..Tracks::default() };
    for log in &report.ops {
        for number in in_order(log) {
            write_op(&mut tracks, writer, log, &log[number as usize])?;
        }
    }
    write_ranges(&mut tracks, writer, &report.range_spans)
}

/// Returns the numbers of operations, track by track and by time; of two that begin together the outer one comes first.
///
/// A resource logs most of its operations in that order already, so there is little to sort.
fn in_order(ops: &[Op]) -> impl Iterator<Item = u32> {
    let mut tracks: Vec<Vec<u32>> = Vec::new();
    let mut by_resource: BTreeMap<Resource, usize> = BTreeMap::new();
    // The resources used last are used again.
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

fn write_op<W: io::Write>(
    tracks: &mut Tracks,
    writer: &mut Writer<W>,
    log: &OpLog,
    op: &Op,
) -> io::Result<()> {
    let track = tracks.track(writer, op.resource)?;
    let name = match op.name {
        Some(_) => writer.name(log.label(op)),
        None => tracks.name(writer, op.label),
    };
    let slice = Slice::new(track, name, op.start.as_ps(), op.end.as_ps());
    let bytes = (op.bytes > 0).then_some(op.bytes);
    let [flow_out, flow_in] = [op.flow_out, op.flow_in].map(|flow| flow.map(NonZeroU64::get));
    writer.slice(&Slice { bytes, flow_out, flow_in, ..slice })
}

/// Writes ranges on tracks of their own, `ranges` for the host and one for each PE. A range that overlaps another without
/// being inside it goes to a further track.
fn write_ranges<W: io::Write>(
    tracks: &mut Tracks,
    writer: &mut Writer<W>,
    spans: &[RangeSpan],
) -> io::Result<()> {
    let mut spans: Vec<&RangeSpan> = spans.iter().collect();
    spans.sort_by_key(|span| (span.owner, span.from, std::cmp::Reverse(span.to)));
    for spans in spans.chunk_by(|one, other| one.owner == other.owner) {
        let (sip, name) = match spans[0].owner {
            Owner::Host(sip) => (tracks.sip(writer, sip)?, "ranges".to_owned()),
            Owner::Kernel(pe) => {
                let name = format!("{pe}.ranges");
                let name = tracks.addresses.text(&name).into_owned();
                (tracks.sip(writer, pe.sip)?, name)
            }
        };
        // Each track with the ends of the ranges open on it, outermost first.
        let mut open: Vec<(TrackId, Vec<Time>)> = Vec::new();
        for span in spans {
            for (_, ends) in &mut open {
                ends.retain(|end| *end > span.from);
            }
            let fits = |(_, ends): &(TrackId, Vec<Time>)| ends.iter().all(|end| span.to <= *end);
            let found = open.iter().position(fits);
            let at = if let Some(at) = found {
                at
            } else {
                let number = open.len() + 1;
                let name = if number == 1 { name.clone() } else { format!("{name} {number}") };
                open.push((writer.track(&name, Some(sip))?, Vec::new()));
                open.len() - 1
            };
            open[at].1.push(span.to);
            let label = writer.name(&span.name);
            writer.slice(&Slice::new(open[at].0, label, span.from.as_ps(), span.to.as_ps()))?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Tracks {
    addresses: Names,
    machine: Option<TrackId>,
    sips: BTreeMap<u32, TrackId>,
    last: Option<(Resource, TrackId)>,
    names: Vec<(&'static str, NameId)>,
}

impl Tracks {
    /// Returns the track of a resource; operations come resource by resource, so only the last one is remembered.
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
        let name = resource.to_string();
        let track = writer.track(&self.addresses.text(&name), Some(sip))?;
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
        let name = format!("sip{sip}");
        let track = writer.track(&self.addresses.text(&name), Some(machine))?;
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
