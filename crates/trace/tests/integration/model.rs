//! A timeline as plain data: what was meant, to hold against what was read.

use phalanx_trace::{Format, Slice, Writer};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) tracks: Vec<Track>,
    /// Grouped by track, in order of start.
    pub(crate) slices: Vec<Event>,
    /// Grouped by track, in the order told.
    pub(crate) counts: Vec<Count>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    pub(crate) unit: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) track: usize,
    pub(crate) name: String,
    pub(crate) start_ps: u64,
    pub(crate) end_ps: u64,
    pub(crate) bytes: Option<u64>,
    pub(crate) flow_out: Option<u64>,
    pub(crate) flow_in: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Count {
    pub(crate) track: usize,
    pub(crate) at_ps: u64,
    pub(crate) value: i64,
}

impl Timeline {
    pub(crate) fn track(&mut self, name: &str, parent: Option<usize>) -> usize {
        self.tracks.push(Track { name: name.to_owned(), parent, unit: None });
        self.tracks.len() - 1
    }

    pub(crate) fn counter(&mut self, name: &str, parent: Option<usize>, unit: &str) -> usize {
        let (name, unit) = (name.to_owned(), Some(unit.to_owned()));
        self.tracks.push(Track { name, parent, unit });
        self.tracks.len() - 1
    }

    pub(crate) fn slice(
        &mut self,
        track: usize,
        name: &str,
        start_ps: u64,
        end_ps: u64,
    ) -> &mut Event {
        let name = name.to_owned();
        let event =
            Event { track, name, start_ps, end_ps, bytes: None, flow_out: None, flow_in: None };
        self.slices.push(event);
        self.slices.last_mut().unwrap()
    }

    /// The bytes of this timeline, told in its own order.
    pub(crate) fn write(&self, format: Format) -> Vec<u8> {
        self.write_in_order(format, &self.slices)
    }

    /// The same, but with the slices told in another order.
    pub(crate) fn write_in_order(&self, format: Format, slices: &[Event]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), format).unwrap();
        let mut ids = Vec::new();
        for Track { name, parent, unit } in &self.tracks {
            let parent = parent.map(|parent| ids[parent]);
            ids.push(match unit {
                Some(unit) => writer.counter_track(name, parent, unit).unwrap(),
                None => writer.track(name, parent).unwrap(),
            });
        }
        for event in slices {
            let name = writer.name(&event.name);
            let Event { bytes, flow_out, flow_in, .. } = *event;
            let slice = Slice::new(ids[event.track], name, event.start_ps, event.end_ps);
            writer.slice(&Slice { bytes, flow_out, flow_in, ..slice }).unwrap();
        }
        for Count { track, at_ps, value } in &self.counts {
            writer.counter(ids[*track], *at_ps, *value).unwrap();
        }
        writer.finish().unwrap()
    }
}

/// One of everything.
pub(crate) fn small() -> Timeline {
    let mut timeline = Timeline::default();
    let machine = timeline.track("machine", None);
    let sip = timeline.track("sip0", Some(machine));
    let pe = timeline.track("cube0.pe0", Some(sip));
    let vector = timeline.track("vector", Some(pe));
    let dma = timeline.track("dma", Some(pe));
    let used = timeline.counter("tcm", Some(pe), "bytes");
    let power = timeline.counter("power", Some(machine), "");
    timeline.slice(sip, "kernel \"add\"", 0, 12_000_000);
    timeline.slice(vector, "send", 1_000, 5_500).flow_out = Some(0xfeed_face_cafe_f00d);
    timeline.slice(vector, "add", 5_500, 5_500);
    let recv = timeline.slice(dma, "recv", 1, 12_000_000);
    (recv.bytes, recv.flow_in) = (Some(4096), Some(0xfeed_face_cafe_f00d));
    timeline.counts.push(Count { track: used, at_ps: 1_000, value: 4096 });
    timeline.counts.push(Count { track: used, at_ps: 5_501, value: 0 });
    timeline.counts.push(Count { track: power, at_ps: 0, value: -3 });
    timeline
}
