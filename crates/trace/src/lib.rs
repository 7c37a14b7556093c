//! Timelines of virtual and real time, written for Perfetto and Chrome.
//!
//! A [`Writer`] is told of tracks, slices and counters, and writes them as it is told: a Perfetto
//! protobuf trace (`.pftrace`, for <https://ui.perfetto.dev> and `trace_processor`) or Chrome JSON
//! (`.json`, for every other viewer). It reads no clock and opens no file; the caller gives the time, in picoseconds.
//!
//! ```
//! use phalanx_trace::{Format, Slice, Writer};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut trace = Writer::new(Vec::new(), Format::Chrome)?;
//! let machine = trace.track("machine", None)?;
//! let sip = trace.track("sip0", Some(machine))?;
//! let vector = trace.track("cube0.pe0.vector", Some(sip))?;
//! let add = trace.name("add");
//! trace.slice(&Slice { bytes: Some(64), ..Slice::new(vector, add, 1_500, 4_000) })?;
//! let json = String::from_utf8(trace.finish()?).unwrap();
//! assert!(json.contains(r#""ts":0.001500,"dur":0.002500,"args":{"bytes":64}"#));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod chrome;
mod format;
mod perfetto;
mod protobuf;
mod sink;
mod writer;

pub use format::{Format, UnknownFormat};
pub use writer::{NameId, Slice, TrackId, Writer};
