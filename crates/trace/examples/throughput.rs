//! Nanoseconds per slice, in both formats, into a writer that counts.
//!
//! `cargo run --release -p phalanx-trace --example throughput`
#![expect(clippy::print_stdout, reason = "printing is what it does")]

use std::io::{self, Write};
use std::time::Instant;

use phalanx_trace::{Format, Slice, TrackId, Writer};

const SLICES: u64 = 2_000_000;
const TRACKS: u64 = 512;
/// The best is printed: other work on the machine only ever adds time.
const RUNS: u32 = 5;

/// Forgets the bytes, so that no disk is measured.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> io::Result<()> {
    for format in [Format::Perfetto, Format::Chrome] {
        for (what, step_ps, detail) in
            [("whole ns", 128_000, false), ("picoseconds, bytes, flows", 128_123, true)]
        {
            let (mut best, mut size) = (u128::MAX, 0);
            for _ in 0..RUNS {
                let start = Instant::now();
                size = run(format, step_ps, detail)?.0 / SLICES;
                best = best.min(start.elapsed().as_nanos() / u128::from(SLICES));
            }
            println!("{format:?}, {what}: {best} ns and {size} bytes per slice");
        }
    }
    Ok(())
}

fn run(format: Format, step_ps: u64, detail: bool) -> io::Result<Count> {
    let mut writer = Writer::new(Count(0), format)?;
    let machine = writer.track("machine", None)?;
    let tracks = (0..TRACKS)
        .map(|pe| writer.track(&format!("pe{pe}"), Some(machine)))
        .collect::<io::Result<Vec<TrackId>>>()?;
    let names = ["gemm", "add", "send", "recv"].map(|name| writer.name(name));
    for i in 0..SLICES {
        let at = i / TRACKS * step_ps;
        let (track, name) = (tracks[(i % TRACKS) as usize], names[(i % 4) as usize]);
        let mut slice = Slice::new(track, name, at, at + step_ps - 100_000);
        if detail {
            slice.bytes = Some(i);
            (slice.flow_out, slice.flow_in) = (Some(i), i.checked_sub(TRACKS));
        }
        writer.slice(&slice)?;
    }
    writer.finish()
}
