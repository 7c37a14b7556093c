//! The writer of a timeline: checks its input, numbers it, and has it encoded.
//!
//! - **TRC-1 (exact).** Every time can be read back to the picosecond, in both formats.
//! - **TRC-2 (nesting).** A slice within a slice is shown within it by Perfetto, also where both
//!   round to the same nanoseconds. (Readers of Chrome JSON round as they please.)
//! - **TRC-3 (order).** Tracks of one parent are shown in the order of their creation.
//! - **TRC-4 (same calls, same bytes).** Output is a function of the calls and nothing else.
//! - **TRC-6 (no false picture).** Input that no viewer could show as it happened, such as slices that overlap, is
//!   refused and leaves no trace in the output.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::chrome::Chrome;
use crate::format::Format;
use crate::perfetto::Perfetto;
use crate::sink::Sink;

/// A track of a [`Writer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub(crate) u32);

/// The name of a slice, as a [`Writer`] knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub(crate) u32);

/// Something that took time on a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The track.
    pub track: TrackId,
    /// The name.
    pub name: NameId,
    /// Its begin, in picoseconds.
    pub start_ps: u64,
    /// Its end, in picoseconds; not before its begin.
    pub end_ps: u64,
    /// Bytes that it moved, shown as an argument.
    pub bytes: Option<u64>,
    /// The arrow that leaves here; one other slice has it as `flow_in`, and ends later than this
    /// one begins.
    pub flow_out: Option<u64>,
    /// The arrow that arrives here.
    ///
    /// Perfetto always draws it from the slice that starts earlier to the one that starts later. A receiver that waits
    /// is best shown as two slices: the wait, then the transfer, which has the arrow.
    pub flow_in: Option<u64>,
}

impl Slice {
    /// Makes a slice without bytes or arrows.
    ///
    /// ```
    /// use phalanx_trace::{Format, Slice, Writer};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut trace = Writer::new(Vec::new(), Format::Perfetto)?;
    /// let (link, send) = (trace.track("link", None)?, trace.name("send"));
    /// let slice = Slice { flow_out: Some(7), ..Slice::new(link, send, 0, 2_000) };
    /// trace.slice(&slice)?;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn new(track: TrackId, name: NameId, start_ps: u64, end_ps: u64) -> Self {
        Self { track, name, start_ps, end_ps, bytes: None, flow_out: None, flow_in: None }
    }
}

/// Writes one timeline. See the [crate] for an example.
///
/// Output is gathered into large blocks; [`Writer::finish`] writes the last of them. A writer that
/// is dropped instead leaves an incomplete file.
pub struct Writer<W: Write> {
    sink: Sink<W>,
    encoder: Box<dyn Encode + Send>,
    tracks: Vec<Track>,
    /// Looked up, never walked: its order reaches no output.
    names: HashMap<Box<str>, NameId>,
}

impl<W: Write> Writer<W> {
    /// Starts a timeline without tracks.
    ///
    /// # Errors
    ///
    /// Fails if `out` cannot be written; so do the other methods.
    pub fn new(out: W, format: Format) -> io::Result<Self> {
        let encoder: Box<dyn Encode + Send> = match format {
            Format::Perfetto => Box::new(Perfetto::new()),
            Format::Chrome => Box::new(Chrome::new()),
        };
        let (tracks, names) = (Vec::new(), HashMap::new());
        let mut writer = Self { sink: Sink::new(out), encoder, tracks, names };
        writer.encoder.open(writer.sink.buffer());
        writer.sink.settle()?;
        Ok(writer)
    }

    /// Adds a track for slices, shown below `parent` and after its elder siblings.
    ///
    /// ```
    /// use phalanx_trace::{Format, Writer};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut trace = Writer::new(Vec::new(), Format::Perfetto)?;
    /// let machine = trace.track("machine", None)?;
    /// let sip = trace.track("sip0", Some(machine))?;
    /// let pe = trace.track("cube0.pe0", Some(sip))?;
    /// trace.track("vector", Some(pe))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn track(&mut self, name: &str, parent: Option<TrackId>) -> io::Result<TrackId> {
        self.add_track(name, parent, None)
    }

    /// Adds a track for a value that changes, in `unit` (may be empty).
    ///
    /// ```
    /// use phalanx_trace::{Format, Writer};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut trace = Writer::new(Vec::new(), Format::Chrome)?;
    /// let used = trace.counter_track("hbm used", None, "bytes")?;
    /// trace.counter(used, 1_000, 4096)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn counter_track(
        &mut self,
        name: &str,
        parent: Option<TrackId>,
        unit: &str,
    ) -> io::Result<TrackId> {
        self.add_track(name, parent, Some(unit))
    }

    /// Returns the number of a name; the same for the same name.
    ///
    /// ```
    /// use phalanx_trace::{Format, Writer};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let mut trace = Writer::new(Vec::new(), Format::Perfetto)?;
    /// assert_eq!(trace.name("gemm"), trace.name("gemm"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&mut self, name: &str) -> NameId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = NameId(number(self.names.len()));
        self.names.insert(name.into(), id);
        self.encoder.name(self.sink.buffer(), id, name);
        id
    }

    /// Adds a slice.
    ///
    /// Slices of one track come in the order of their starts, of equal starts the outer first; they
    /// overlap only where one contains the other. Across tracks any order is fine.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) when that does not hold, when the slice ends
    /// before it starts, or when its track or name is not one of this writer's.
    pub fn slice(&mut self, slice: &Slice) -> io::Result<()> {
        let track = track_of(&mut self.tracks, slice.track)?;
        if slice.name.0 as usize >= self.names.len() {
            return Err(refusal("a slice has a name of another writer", slice.name.0));
        }
        let still_open = track.admit(slice)?;
        let out = self.sink.buffer();
        while track.open.len() > still_open {
            track.close_last(slice.track, &mut *self.encoder, out);
        }
        track.open.push(Open { end_ps: slice.end_ps, flow_in: slice.flow_in });
        track.last_start_ps = slice.start_ps;
        self.encoder.begin(out, slice);
        self.sink.settle()
    }

    /// Says that the counter has a value from a time on.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) when `track` is not a counter of this writer's.
    pub fn counter(&mut self, track: TrackId, at_ps: u64, value: i64) -> io::Result<()> {
        let known = track_of(&mut self.tracks, track)?;
        if !known.is_counter {
            return Err(refusal("a track of slices has no value", &known.name));
        }
        self.encoder.counter(self.sink.buffer(), track, at_ps, value);
        self.sink.settle()
    }

    /// Writes what is left and gives the output back.
    pub fn finish(mut self) -> io::Result<W> {
        for (index, track) in self.tracks.iter_mut().enumerate() {
            while !track.open.is_empty() {
                let id = TrackId(number(index));
                track.close_last(id, &mut *self.encoder, self.sink.buffer());
            }
            self.sink.settle()?;
        }
        self.encoder.close(self.sink.buffer());
        self.sink.finish()
    }

    fn add_track(
        &mut self,
        name: &str,
        parent: Option<TrackId>,
        unit: Option<&str>,
    ) -> io::Result<TrackId> {
        if let Some(parent) = parent {
            let above = track_of(&mut self.tracks, parent)?;
            if above.is_counter {
                return Err(refusal("a counter has no tracks below it", &above.name));
            }
        }
        let id = TrackId(number(self.tracks.len()));
        self.tracks.push(Track::new(name, unit.is_some()));
        self.encoder.track(self.sink.buffer(), &NewTrack { id, parent, name, unit });
        self.sink.settle()?;
        Ok(id)
    }
}

/// A format, as the writer sees it: each method appends to `out`.
pub(crate) trait Encode {
    fn open(&mut self, out: &mut Vec<u8>);
    fn track(&mut self, out: &mut Vec<u8>, track: &NewTrack<'_>);
    fn name(&mut self, out: &mut Vec<u8>, id: NameId, name: &str);
    fn begin(&mut self, out: &mut Vec<u8>, slice: &Slice);
    /// The end of the last slice begun and not ended on `track`.
    fn end(&mut self, out: &mut Vec<u8>, track: TrackId, end_ps: u64, flow_in: Option<u64>);
    fn counter(&mut self, out: &mut Vec<u8>, track: TrackId, at_ps: u64, value: i64);
    fn close(&mut self, out: &mut Vec<u8>);
}

/// A track about to exist; one with a unit is a counter.
pub(crate) struct NewTrack<'a> {
    pub(crate) id: TrackId,
    pub(crate) parent: Option<TrackId>,
    pub(crate) name: &'a str,
    pub(crate) unit: Option<&'a str>,
}

struct Track {
    name: Box<str>,
    is_counter: bool,
    last_start_ps: u64,
    /// Slices that have begun and not ended, each within the one before it. An end is written when
    /// the next slice shows that nothing more comes before it: that keeps ends in order (TRC-2).
    open: Vec<Open>,
}

struct Open {
    end_ps: u64,
    flow_in: Option<u64>,
}

impl Track {
    fn new(name: &str, is_counter: bool) -> Self {
        Self { name: name.into(), is_counter, last_start_ps: 0, open: Vec::new() }
    }

    /// Returns the number of open slices that are still open when `slice` begins, if it may begin at all.
    #[inline]
    fn admit(&self, slice: &Slice) -> io::Result<usize> {
        let ends_before = |open: &Open| open.end_ps <= slice.start_ps;
        let still_open =
            self.open.len() - self.open.iter().rev().take_while(|open| ends_before(open)).count();
        let room = still_open.checked_sub(1).map_or(u64::MAX, |outer| self.open[outer].end_ps);
        let fits = slice.start_ps >= self.last_start_ps
            && slice.start_ps <= slice.end_ps
            && slice.end_ps <= room
            && !self.is_counter;
        if fits { Ok(still_open) } else { Err(self.refuse(slice, room)) }
    }

    #[cold]
    fn refuse(&self, slice: &Slice, room: u64) -> io::Error {
        let why = if self.is_counter {
            "its track is a counter".to_owned()
        } else if slice.end_ps < slice.start_ps {
            "it ends before it starts".to_owned()
        } else if slice.start_ps < self.last_start_ps {
            format!("the one before it starts later, at {} ps", self.last_start_ps)
        } else {
            format!("one that ends at {room} ps overlaps it")
        };
        let (name, start, end) = (&self.name, slice.start_ps, slice.end_ps);
        refusal(
            &format!("a slice of track `{name}` is impossible, {why}"),
            format!("{start}..{end} ps"),
        )
    }

    fn close_last(&mut self, id: TrackId, encoder: &mut dyn Encode, out: &mut Vec<u8>) {
        if let Some(Open { end_ps, flow_in }) = self.open.pop() {
            encoder.end(out, id, end_ps, flow_in);
        }
    }
}

fn track_of(tracks: &mut [Track], id: TrackId) -> io::Result<&mut Track> {
    tracks.get_mut(id.0 as usize).ok_or_else(|| refusal("a track is of another writer", id.0))
}

#[cold]
fn refusal(what: &str, value: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {value}"))
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 tracks and names fit in memory")
}
