//! Devices that fail.

use std::io::{self, ErrorKind, Write};

use phalanx_trace::{Format, Slice, Writer};

/// Takes some bytes, then is full.
struct Disk {
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Adds slices until one fails, a million at most.
fn fill(writer: &mut Writer<Disk>) -> io::Result<()> {
    let (track, name) = (writer.track("vector", None)?, writer.name("add"));
    (0..1_000_000).try_for_each(|i| writer.slice(&Slice::new(track, name, i * 10, i * 10 + 5)))
}

#[test]
fn trc_5_a_full_disk_fails_the_call_that_met_it_and_all_after() {
    for format in [Format::Perfetto, Format::Chrome] {
        let mut trace = Writer::new(Disk { room: 300_000 }, format).unwrap();
        assert_eq!(fill(&mut trace).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(trace.track("late", None).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(trace.finish().err().map(|error| error.kind()), Some(ErrorKind::StorageFull));
    }
}

#[test]
fn trc_5_a_short_trace_fails_at_its_end() {
    let mut trace = Writer::new(Disk { room: 10 }, Format::Perfetto).unwrap();
    trace.track("vector", None).unwrap();
    assert_eq!(trace.finish().err().map(|error| error.kind()), Some(ErrorKind::StorageFull));
}

#[test]
fn trc_5_a_long_trace_arrives_whole() {
    let mut trace = Writer::new(Disk { room: usize::MAX }, Format::Perfetto).unwrap();
    fill(&mut trace).unwrap();
    let disk = trace.finish().unwrap();
    assert!(usize::MAX - disk.room > 30_000_000);
}
