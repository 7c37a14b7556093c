//! The Chrome JSON encoding: one event a line.
//!
//! Chrome knows two levels, processes and threads. The processes are the roots and their children
//! (`machine`, `machine/sip0`); each track is a thread of the nearest process above it, named by the
//! way from there (`cube0.pe0/vector`); a counter belongs to that process.

use crate::writer::{Encode, NameId, NewTrack, Slice, TrackId};

#[derive(Default)]
pub(crate) struct Chrome {
    rows: Vec<ChromeTrack>,
    /// By [`NameId`], escaped and quoted.
    names: Vec<Box<[u8]>>,
    started: bool,
    /// The beginning of the slices of the last track and name, up to their time.
    begin: Vec<u8>,
    begins: Option<(TrackId, NameId)>,
}

/// A track in the file.
struct ChromeTrack {
    /// The track that is its process.
    process: u32,
    is_root: bool,
    label: String,
    /// The label of a counter, escaped and quoted.
    title: Vec<u8>,
    /// `,"pid":1,"tid":1`, the same in every event; a counter has no thread.
    place: Vec<u8>,
    /// Text between the number and the time of an arrow that starts, and of one that ends, in it.
    arrows: [Vec<u8>; 2],
}

/// One end of an arrow.
#[derive(Clone, Copy)]
enum End {
    Start,
    Finish,
}

impl Chrome {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn row(&self, track: &NewTrack<'_>) -> ChromeTrack {
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
        let arrow = |bound: &[u8]| {
            [br#"","cat":"flow","name":"flow""#, bound, &place, br#","ts":"#].concat()
        };
        let arrows = [arrow(b""), arrow(br#","bp":"e""#)];
        ChromeTrack { process, is_root: parent.is_none(), label, title, place, arrows }
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
    fn flow(&self, out: &mut Vec<u8>, (end, flow): (End, u64), track: TrackId, at_ps: u64) {
        // The number is a string: viewers are JavaScript, whose numbers are exact up to 2^53.
        out.extend_from_slice(match end {
            End::Start => b",\n{\"ph\":\"s\",\"id\":\"0x",
            End::Finish => b",\n{\"ph\":\"f\",\"id\":\"0x",
        });
        hexadecimal(out, flow);
        out.extend_from_slice(&self.rows[track.0 as usize].arrows[end as usize]);
        microseconds(out, at_ps);
        out.push(b'}');
    }

    /// Makes `begin` that of another track or name.
    #[cold]
    fn begin_with(&mut self, slice: &Slice) {
        let (name, row) = (&self.names[slice.name.0 as usize], &self.rows[slice.track.0 as usize]);
        self.begin = [b"\n{\"ph\":\"X\",\"name\":", &**name, &row.place, b",\"ts\":"].concat();
        self.begins = Some((slice.track, slice.name));
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
        if self.begins != Some((slice.track, slice.name)) {
            self.begin_with(slice);
        }
        if self.started {
            out.push(b',');
        }
        self.started = true;
        out.extend_from_slice(&self.begin);
        microseconds(out, slice.start_ps);
        out.extend_from_slice(br#","dur":"#);
        microseconds(out, slice.end_ps - slice.start_ps);
        if let Some(bytes) = slice.bytes {
            out.extend_from_slice(br#","args":{"bytes":"#);
            decimal(out, bytes);
            out.push(b'}');
        }
        out.push(b'}');
        if let Some(flow) = slice.flow_out {
            self.flow(out, (End::Start, flow), slice.track, slice.start_ps);
        }
        if let Some(flow) = slice.flow_in {
            // The last moment that is still within the slice.
            let at_ps = slice.start_ps.max(slice.end_ps.saturating_sub(1));
            self.flow(out, (End::Finish, flow), slice.track, at_ps);
        }
    }

    fn end(&mut self, _: &mut Vec<u8>, _: TrackId, _: u64, _: Option<u64>) {}

    fn counter(&mut self, out: &mut Vec<u8>, track: TrackId, at_ps: u64, value: i64) {
        self.event(out, 'C');
        let row = &self.rows[track.0 as usize];
        out.extend_from_slice(br#","name":"#);
        out.extend_from_slice(&row.title);
        out.extend_from_slice(&row.place);
        out.extend_from_slice(br#","ts":"#);
        microseconds(out, at_ps);
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

/// `12.345678`: six decimals, which are the picoseconds.
fn microseconds(out: &mut Vec<u8>, ps: u64) {
    let mut text = [b'.'; 21];
    let (whole, [a, b, c]) = (ps / 1_000_000, pairs_of(ps % 1_000_000));
    text[15..].copy_from_slice(&[a[0], a[1], b[0], b[1], c[0], c[1]]);
    let first = digits(&mut text[..14], whole);
    out.extend_from_slice(&text[first..]);
}

fn decimal(out: &mut Vec<u8>, value: u64) {
    let mut text = [0; 20];
    let first = digits(&mut text, value);
    out.extend_from_slice(&text[first..]);
}

fn hexadecimal(out: &mut Vec<u8>, value: u64) {
    let (mut text, mut first, mut rest) = ([0; 16], 16, value);
    loop {
        first -= 1;
        text[first] = b"0123456789abcdef"[usize::from(rest.to_le_bytes()[0] & 0xf)];
        rest >>= 4;
        if rest == 0 {
            return out.extend_from_slice(&text[first..]);
        }
    }
}

/// Writes the digits of a number that has no more than there is room for, and says where they begin.
fn digits(text: &mut [u8], mut value: u64) -> usize {
    let mut first = text.len();
    while value >= 10 {
        first -= 2;
        text[first..first + 2].copy_from_slice(&pair(value % 100));
        value /= 100;
    }
    // One digit is left, or none. If none is left, the pair before it has no zero in front.
    if value > 0 || first == text.len() {
        first -= 1;
        text[first] = b'0' + value.to_le_bytes()[0];
    }
    first
}

/// The six digits of a number below a million.
fn pairs_of(value: u64) -> [[u8; 2]; 3] {
    [pair(value / 10_000), pair(value / 100 % 100), pair(value % 100)]
}

/// The two digits of a number below a hundred.
#[inline]
fn pair(value: u64) -> [u8; 2] {
    let value = value.to_le_bytes()[0];
    [b'0' + value / 10, b'0' + value % 10]
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
            (0, "0.000000"),
            (1, "0.000001"),
            (1_000_000, "1.000000"),
            (99_123_456_789, "99123.456789"),
            (u64::MAX, "18446744073709.551615"),
        ] {
            let mut out = Vec::new();
            microseconds(&mut out, ps);
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
    fn decimals_are_those_of_the_standard_library() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, power / 2]);
        for value in around.chain([u64::MAX]) {
            let mut out = Vec::new();
            decimal(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn every_string_survives_a_json_parser() {
        let all: String =
            (0..0x300).filter_map(char::from_u32).chain("\u{2028}\u{1F600}".chars()).collect();
        assert_eq!(serde_json::from_slice::<String>(&quoted(&all)).unwrap(), all);
    }
}
