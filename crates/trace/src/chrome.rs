//! The Chrome JSON encoding: one event a line.
//!
//! Chrome knows two levels, processes and threads. The processes are the roots and their children
//! (`machine`, `machine/sip0`); each track is a thread of the nearest process above it, named by the
//! way from there (`cube0.pe0/vector`); a counter belongs to that process.

use crate::writer::{Encode, NameId, NewTrack, Slice, TrackId};

#[derive(Default)]
pub(crate) struct Chrome {
    rows: Vec<Row>,
    /// By [`NameId`], escaped and quoted.
    names: Vec<Box<[u8]>>,
    started: bool,
}

/// What a track became.
struct Row {
    /// The track that is its process.
    process: u32,
    is_root: bool,
    label: String,
    /// The label of a counter, escaped and quoted.
    title: Vec<u8>,
    /// `,"pid":1,"tid":1`, the same in every event; a counter has no thread.
    place: Vec<u8>,
}

impl Chrome {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn row(&self, track: &NewTrack<'_>) -> Row {
        let parent = track.parent.map(|parent| (parent, &self.rows[parent.0 as usize]));
        let process = match parent {
            None => track.id.0,
            Some((_, above)) if above.is_root && track.unit.is_none() => track.id.0,
            Some((_, above)) => above.process,
        };
        let label = match parent {
            Some((id, above)) if process != track.id.0 && above.process != id.0 => {
                format!("{}/{}", above.label, track.name)
            }
            _ => track.name.to_owned(),
        };
        let title = quoted(&with_unit(&label, track.unit));
        let place = place(process, track.unit.is_none().then_some(track.id.0));
        Row { process, is_root: parent.is_none(), label, title, place }
    }

    /// Names a process or a thread, and gives it its rank among its like.
    fn announce(&mut self, out: &mut Vec<u8>, what: &str, row: usize, label: &str) {
        for (kind, key) in [("name", "name"), ("sort_index", "sort_index")] {
            self.event(out, 'M');
            out.extend_from_slice(format!(r#","name":"{what}_{kind}""#).as_bytes());
            out.extend_from_slice(&self.rows[row].place);
            out.extend_from_slice(format!(r#","args":{{"{key}":"#).as_bytes());
            match kind {
                "name" => out.extend_from_slice(&quoted(label)),
                _ => decimal(out, row as u64),
            }
            out.extend_from_slice(b"}}");
        }
    }

    /// Begins an event on a line of its own.
    fn event(&mut self, out: &mut Vec<u8>, phase: char) {
        if self.started {
            out.push(b',');
        }
        self.started = true;
        out.extend_from_slice(b"\n{\"ph\":\"");
        out.extend_from_slice(phase.encode_utf8(&mut [0; 4]).as_bytes());
        out.push(b'"');
    }

    /// One end of an arrow. It holds to the slice that encloses it.
    fn flow(&mut self, out: &mut Vec<u8>, (phase, flow): (char, u64), track: TrackId, at_ps: u64) {
        self.event(out, phase);
        // A string: viewers are JavaScript, whose numbers are exact up to 2^53.
        out.extend_from_slice(br#","id":"0x"#);
        hexadecimal(out, flow);
        out.extend_from_slice(br#"","cat":"flow","name":"flow""#);
        if phase == 'f' {
            out.extend_from_slice(br#","bp":"e""#);
        }
        out.extend_from_slice(&self.rows[track.0 as usize].place);
        time(out, "ts", at_ps);
        out.push(b'}');
    }
}

impl Encode for Chrome {
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"displayTimeUnit":"ns","traceEvents":["#);
    }

    fn track(&mut self, out: &mut Vec<u8>, track: &NewTrack<'_>) {
        let index = self.rows.len();
        let row = self.row(track);
        let (is_process, label) = (row.process == track.id.0, row.label.clone());
        self.rows.push(row);
        if is_process {
            let above = track.parent.map(|parent| &self.rows[parent.0 as usize].label);
            let name = above.map_or_else(|| label.clone(), |above| format!("{above}/{label}"));
            self.announce(out, "process", index, &name);
        }
        if track.unit.is_none() {
            self.announce(out, "thread", index, &label);
        }
    }

    fn name(&mut self, _: &mut Vec<u8>, _: NameId, name: &str) {
        self.names.push(quoted(name).into());
    }

    fn begin(&mut self, out: &mut Vec<u8>, slice: &Slice) {
        self.event(out, 'X');
        out.extend_from_slice(br#","name":"#);
        out.extend_from_slice(&self.names[slice.name.0 as usize]);
        out.extend_from_slice(&self.rows[slice.track.0 as usize].place);
        time(out, "ts", slice.start_ps);
        time(out, "dur", slice.end_ps - slice.start_ps);
        if let Some(bytes) = slice.bytes {
            out.extend_from_slice(br#","args":{"bytes":"#);
            decimal(out, bytes);
            out.push(b'}');
        }
        out.push(b'}');
        if let Some(flow) = slice.flow_out {
            self.flow(out, ('s', flow), slice.track, slice.start_ps);
        }
        if let Some(flow) = slice.flow_in {
            // The last moment that is still within the slice.
            let at_ps = slice.start_ps.max(slice.end_ps.saturating_sub(1));
            self.flow(out, ('f', flow), slice.track, at_ps);
        }
    }

    fn end(&mut self, _: &mut Vec<u8>, _: TrackId, _: u64, _: Option<u64>) {}

    fn counter(&mut self, out: &mut Vec<u8>, track: TrackId, at_ps: u64, value: i64) {
        self.event(out, 'C');
        let row = &self.rows[track.0 as usize];
        out.extend_from_slice(br#","name":"#);
        out.extend_from_slice(&row.title);
        out.extend_from_slice(&row.place);
        time(out, "ts", at_ps);
        out.extend_from_slice(br#","args":{"value":"#);
        if value < 0 {
            out.push(b'-');
        }
        decimal(out, value.unsigned_abs());
        out.extend_from_slice(b"}}");
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n]}\n");
    }
}

fn place(process: u32, thread: Option<u32>) -> Vec<u8> {
    // From 1: viewers take 0 for the idle process.
    let mut place = b",\"pid\":".to_vec();
    decimal(&mut place, u64::from(process) + 1);
    if let Some(thread) = thread {
        place.extend_from_slice(b",\"tid\":");
        decimal(&mut place, u64::from(thread) + 1);
    }
    place
}

fn with_unit(label: &str, unit: Option<&str>) -> String {
    match unit {
        Some(unit) if !unit.is_empty() => format!("{label} ({unit})"),
        _ => label.to_owned(),
    }
}

/// `,"ts":12.345678`: microseconds with six decimals, which are the picoseconds.
fn time(out: &mut Vec<u8>, key: &str, ps: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    decimal(out, ps / 1_000_000);
    out.push(b'.');
    out.extend_from_slice(&digits(ps % 1_000_000)[14..]);
}

fn decimal(out: &mut Vec<u8>, value: u64) {
    let digits = digits(value);
    let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(19);
    out.extend_from_slice(&digits[first..]);
}

fn hexadecimal(out: &mut Vec<u8>, value: u64) {
    let digits = value.checked_ilog(16).unwrap_or(0) + 1;
    for digit in (0..digits).rev() {
        let nibble = (value >> (4 * digit)).to_le_bytes()[0] & 0xf;
        out.push(b"0123456789abcdef"[usize::from(nibble)]);
    }
}

/// All twenty digits, zeros first.
fn digits(mut value: u64) -> [u8; 20] {
    let mut digits = [b'0'; 20];
    for digit in digits.iter_mut().rev() {
        if value == 0 {
            break;
        }
        *digit += (value % 10).to_le_bytes()[0];
        value /= 10;
    }
    digits
}

/// A JSON string: quotes, backslashes and control characters escaped.
fn quoted(text: &str) -> Vec<u8> {
    let mut out = vec![b'"'];
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trc_1_decimals_hold_every_picosecond() {
        for (ps, text) in [
            (0, r#","ts":0.000000"#),
            (1, r#","ts":0.000001"#),
            (1_000_000, r#","ts":1.000000"#),
            (u64::MAX, r#","ts":18446744073709.551615"#),
        ] {
            let mut out = Vec::new();
            time(&mut out, "ts", ps);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn hexadecimal_is_that_of_the_standard_library() {
        for value in [0, 1, 15, 16, 0xabc, 1 << 60, u64::MAX] {
            let mut out = Vec::new();
            hexadecimal(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{value:x}"));
        }
    }

    #[test]
    fn every_string_survives_a_json_parser() {
        let all: String =
            (0..0x300).filter_map(char::from_u32).chain("\u{2028}\u{1F600}".chars()).collect();
        assert_eq!(serde_json::from_slice::<String>(&quoted(&all)).unwrap(), all);
    }
}
