//! Bootstrap of a chip: its set-up before anything is sent to it, and its report.
//!
//! A program names one function for all its chips ([`Program::chip`](crate::Program::chip)). It runs in each chip's own
//! process (or thread), learns which chip it is, makes the device, and cuts named buffers out of the chip's window, a part
//! of the shared memory that no other worker is given. The parent assembles a [`ChipContext`] from what each reports.
//!
//! - **BOOT-1 (counted).** Names, offsets and sizes that a chip reports are checked one by one against its window; what
//!   does not agree fails the start.
//! - **BOOT-2 (first error).** The first chip that fails decides the error; any chip may be it.
//! - **BOOT-3 (zero).** A window is zero before its chip sees it.

use crate::failure::Failure;
use crate::process::handoff::{Chip, WindowRange};
use crate::runner::{caught, discard};
use crate::shm::Segment;
use crate::tensor::Buffer;
use bytemuck::Pod;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

/// A function that sets a chip up; callables find its result with [`Task::device`](crate::Task::device).
pub type BootstrapFunction = fn(&mut Bootstrap<'_>) -> Result<Box<dyn Any + Send>, Failure>;

/// A device of the user, made by a bootstrap. A panic in its `drop` is caught.
pub(crate) struct Device(Option<Box<dyn Any + Send>>);

impl Device {
    /// Lets `bootstrap` set a chip up.
    pub(crate) fn make(
        bootstrap: BootstrapFunction,
        chip: &mut Bootstrap<'_>,
    ) -> Result<Self, Failure> {
        caught(|| bootstrap(chip)).map(|device| Self(Some(device)))
    }

    pub(crate) fn downcast_mut<D: 'static>(&mut self) -> Option<&mut D> {
        self.0.as_mut()?.downcast_mut()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        discard(self.0.take());
    }
}

/// Buffers in a window begin at multiples of this.
const ALIGNMENT: u64 = 64;

/// A chip while it sets itself up.
pub struct Bootstrap<'a> {
    chip: Chip,
    memory: &'a Segment,
    setting: &'a [u8],
    /// True if the parent wants it to stop.
    is_over: &'a dyn Fn() -> bool,
    report: BootReport,
    used: u64,
}

/// Report of a chip that is ready: its device and its buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BootReport {
    pub(crate) device_ctx: u64,
    pub(crate) window: WindowRange,
    pub(crate) buffers: Vec<Carved>,
    /// Every process below it.
    pub(crate) descendants: Vec<u32>,
}

/// A named part of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carved {
    pub(crate) name: String,
    /// Counted from the window's beginning.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Report of a chip that is ready, as its parent knows it.
#[derive(Clone, Debug)]
pub struct ChipContext {
    /// Number of its device.
    pub device_id: u32,
    /// Rank among the chips, from 0.
    pub rank: u32,
    /// Number of chips.
    pub nranks: u32,
    /// A number of the bootstrap's own.
    pub device_ctx: u64,
    /// Offset of its window in the memory that parent and chip share.
    pub local_window_base: u64,
    /// Size of its window in bytes.
    pub actual_window_size: u64,
    /// The parts of its window that have a name.
    pub buffers: BTreeMap<String, Buffer>,
}

impl fmt::Debug for Bootstrap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bootstrap").field("chip", &self.chip).field("report", &self.report).finish()
    }
}

impl<'a> Bootstrap<'a> {
    pub(crate) fn new(
        chip: Chip,
        memory: &'a Segment,
        setting: &'a [u8],
        is_over: &'a dyn Fn() -> bool,
    ) -> Self {
        let report = BootReport { window: chip.window, ..BootReport::default() };
        Self { chip, memory, setting, is_over, report, used: 0 }
    }

    /// Returns the bytes of [`Builder::setting`](crate::Builder::setting); empty if there are none.
    pub fn setting(&self) -> &'a [u8] {
        self.setting
    }

    /// Returns the number of its device.
    pub fn device_id(&self) -> u32 {
        self.chip.device_id
    }

    /// Returns its rank among the chips, from 0.
    pub fn rank(&self) -> u32 {
        self.chip.rank
    }

    /// Number of chips.
    pub fn nranks(&self) -> u32 {
        self.chip.nranks
    }

    /// Size of its window in bytes.
    pub fn window_bytes(&self) -> u64 {
        self.chip.window.bytes
    }

    /// Returns the bytes of its window that no buffer has.
    pub fn free_bytes(&self) -> u64 {
        self.window_bytes().saturating_sub(self.used)
    }

    /// True if it is to stop because something else failed; for set-ups that take long.
    pub fn is_over(&self) -> bool {
        (self.is_over)()
    }

    /// A number of its own that the parent finds in [`ChipContext::device_ctx`].
    pub fn device_ctx(&mut self, device_ctx: u64) {
        self.report.device_ctx = device_ctx;
    }

    /// Cuts the next `bytes` of the window off under a name of their own.
    pub fn buffer(&mut self, name: &str, bytes: u64) -> Result<(), Failure> {
        if self.report.buffers.iter().any(|one| one.name == name) {
            return Err(Failure::new(format!("two buffers of this chip are called `{name}`")));
        }
        let offset = self.used.next_multiple_of(ALIGNMENT);
        let end = offset.checked_add(bytes).filter(|end| *end <= self.window_bytes());
        let Some(end) = end else {
            return Err(Failure::new(format!(
                "buffer `{name}` of {bytes} bytes does not fit: {} of {} bytes of the window are free; raise `window`",
                self.window_bytes().saturating_sub(offset),
                self.window_bytes()
            )));
        };
        self.report.buffers.push(Carved { name: name.to_owned(), offset, bytes });
        self.used = end;
        Ok(())
    }

    /// Writes the first elements of a buffer that it has named.
    pub fn write<T: Pod>(&mut self, name: &str, elements: &[T]) -> Result<(), Failure> {
        let carved = self.report.buffers.iter().find(|one| one.name == name);
        let carved = carved
            .ok_or_else(|| Failure::new(format!("this chip has no buffer called `{name}`")))?;
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if bytes.len() as u64 > carved.bytes {
            let (given, most) = (bytes.len(), carved.bytes);
            let words = format!("{given} bytes were given for buffer `{name}` of {most}");
            return Err(Failure::new(words));
        }
        let at = self.chip.window.base + carved.offset;
        self.memory.write(usize::try_from(at)?, bytes)?;
        Ok(())
    }

    /// Returns the report.
    pub(crate) fn finish(self) -> BootReport {
        self.report
    }
}

impl BootReport {
    /// True if who reports this can take the place of who reported `other`.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let descendants = other.descendants.clone();
        Self { descendants, ..self.clone() } == *other
    }

    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let count = self.buffers.len() as u64;
        for number in [self.device_ctx, self.window.base, self.window.bytes, count] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for Carved { name, offset, bytes: length } in &self.buffers {
            for number in [*offset, *length, name.len() as u64] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes.extend_from_slice(&(self.descendants.len() as u64).to_le_bytes());
        for process in &self.descendants {
            bytes.extend_from_slice(&u64::from(*process).to_le_bytes());
        }
        bytes
    }

    /// Reads what [`BootReport::encode`] wrote; an error if it does not fit the chip's window.
    pub(crate) fn decode(mut bytes: &[u8], chip: &Chip) -> Result<Self, String> {
        let cut = || "its report is cut off".to_owned();
        let device_ctx = number(&mut bytes).ok_or_else(cut)?;
        let (base, length) =
            (number(&mut bytes).ok_or_else(cut)?, number(&mut bytes).ok_or_else(cut)?);
        let window = WindowRange { base, bytes: length };
        if window != chip.window {
            return Err(format!(
                "its window has {} bytes at {}, and it was given {} bytes at {}",
                window.bytes, window.base, chip.window.bytes, chip.window.base
            ));
        }
        let count = number(&mut bytes).ok_or_else(cut)?;
        let mut report = Self { device_ctx, window, ..Self::default() };
        let mut end = 0;
        for at in 0..count {
            let offset = number(&mut bytes).ok_or_else(cut)?;
            let length = number(&mut bytes).ok_or_else(cut)?;
            let named = number(&mut bytes).and_then(|count| usize::try_from(count).ok());
            let named = named.and_then(|count| bytes.split_at_checked(count)).ok_or_else(cut)?;
            let name = String::from_utf8(named.0.to_vec());
            let name = name.map_err(|_| format!("the name of its buffer {at} is no text"))?;
            bytes = named.1;
            let next = offset.checked_add(length).filter(|next| *next <= window.bytes);
            let next = next.filter(|_| offset >= end);
            end = next.ok_or_else(|| {
                format!("its buffer `{name}` ({length} bytes at {offset}) does not lie in its window of {} behind the others", window.bytes)
            })?;
            report.buffers.push(Carved { name, offset, bytes: length });
        }
        for _ in 0..number(&mut bytes).ok_or_else(cut)? {
            let process = number(&mut bytes).and_then(|process| u32::try_from(process).ok());
            report.descendants.push(process.ok_or_else(cut)?);
        }
        if bytes.is_empty() { Ok(report) } else { Err("its report is too long".to_owned()) }
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chip(bytes: u64) -> Chip {
        Chip { device_id: 0, rank: 0, nranks: 1, window: WindowRange { base: 4096, bytes } }
    }

    #[test]
    fn boot_3_a_chip_writes_into_its_window_only() {
        let memory = Segment::create("test", 16384).expect("memory");
        let mut setting = Bootstrap::new(chip(4096), &memory, &[], &|| false);
        setting.buffer("one", 10).expect("fits");
        setting.buffer("two", 4096 - 64).expect("fits exactly");
        assert!(setting.buffer("three", 1).is_err(), "the window is full");
        assert!(setting.buffer("one", 0).is_err(), "the name is taken");
        setting.write("two", &[0xFFu8; 4096 - 64]).expect("fits");
        assert!(setting.write("one", &[0u8; 11]).is_err(), "too long");
        assert!(setting.write("none", &[0u8; 1]).is_err(), "not there");
        let mut bytes = vec![1; 16384];
        memory.read(0, &mut bytes).expect("in bounds");
        let written = |at: usize| (4096 + 64..8192).contains(&at);
        assert!((0..).zip(&bytes).all(|(at, byte)| (*byte == 0xFF) == written(at)));
    }

    proptest! {
        #[test]
        fn boot_1_a_report_comes_out_as_it_went_in_or_not_at_all(
            sizes in proptest::collection::vec(0u64..300, 0..8),
            cut in 0usize..200,
        ) {
            let memory = Segment::create("test", 8192).expect("memory");
            let mut setting = Bootstrap::new(chip(4096), &memory, &[], &|| false);
            for (number, bytes) in sizes.iter().enumerate() {
                setting.buffer(&format!("buffer {number}"), *bytes).expect("fits");
            }
            setting.device_ctx(9);
            let report = setting.finish();
            let bytes = report.encode();
            prop_assert_eq!(BootReport::decode(&bytes, &chip(4096)), Ok(report));
            let cut = cut.min(bytes.len() - 1);
            prop_assert!(BootReport::decode(&bytes[..cut], &chip(4096)).is_err());
            prop_assert!(BootReport::decode(&bytes, &chip(4000)).is_err(), "another window");
        }
    }
}
