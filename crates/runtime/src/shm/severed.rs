//! Cuts a mapping of a segment off that is not the segment's own.
//!
//! Another language may map the object of a segment itself, and keep addresses beyond the task that was given them. Its mapping
//! cannot be taken away, or the next look through it would end the process; so other memory takes its place.
//!
//! - **SEV-1 (cut off).** After `sever` nothing that is read or written through the mapping is shared. The ranges that are kept
//!   show their bytes of that moment, everything else is zero.
//! - **SEV-2 (only such).** Only a whole mapping of the segment's object is replaced, and never the segment's own.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

use super::segment::Segment;

/// Puts private memory in the place of the mapping of `segment`'s object that begins at `address`; `kept` are ranges of the segment.
pub fn sever(segment: &Segment, address: usize, kept: &[Range<usize>]) -> io::Result<()> {
    let own = segment.address(0, 0).map_err(io::Error::other)?.as_ptr() as usize;
    let bytes = mapping_at(segment, address)?.filter(|_| address != own).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("no mapping of this memory but its own begins at {address:#x}"),
        )
    })?;
    let mut saved = Vec::with_capacity(kept.len());
    for range in kept {
        let mut copy = vec![0; range.len()];
        segment.read(range.start, &mut copy).map_err(io::Error::other)?;
        saved.push((range.start, copy));
    }
    if saved.iter().any(|(start, copy)| start + copy.len() > bytes) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a range beyond the mapping"));
    }
    let place = std::ptr::without_provenance_mut(address);
    // SAFETY: SEV-2: these pages are all of one mapping of the segment's object, and not the one that references of this crate
    // point into; whoever made the mapping reaches it by address only, and finds memory of the same size and rights.
    let memory = unsafe {
        let (rights, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
        rustix::mm::mmap_anonymous(place, bytes, rights, flags)?
    };
    for (start, copy) in saved {
        // SAFETY: inside of the memory just mapped, as checked above; what others do there by address are plain bytes.
        unsafe {
            let to = memory.cast::<u8>().add(start);
            std::ptr::copy_nonoverlapping(copy.as_ptr(), to, copy.len());
        }
    }
    Ok(())
}

/// Returns the size of the mapping of `segment`'s object that begins at `address`, if there is one that shows it from its first byte.
fn mapping_at(segment: &Segment, address: usize) -> io::Result<Option<usize>> {
    let object = rustix::fs::fstat(segment.fd().as_fd())?;
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let (offset, inode) = (fields.nth(1)?, fields.nth(1)?);
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let is_it = number(start)? == address && number(offset)? == 0;
        let is_object = inode.parse::<u64>().ok()? == object.st_ino && line.contains("memfd:");
        number(end)?.checked_sub(address).filter(|_| is_it && is_object)
    });
    Ok(found.filter(|bytes| *bytes >= segment.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps the object of a segment as another language would.
    fn foreign(segment: &Segment) -> *mut u8 {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let bytes = segment.len();
        // SAFETY: a new mapping where the kernel likes; the object is sealed.
        let mapped = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, rights, flags, segment.fd(), 0)
        };
        mapped.expect("a mapping").cast()
    }

    #[test]
    fn sev_1_what_is_cut_off_is_not_shared_and_keeps_what_it_showed() {
        let segment = Segment::create("test", 8192).expect("memory");
        let foreign = foreign(&segment);
        segment.write(4090, b"phalanx").expect("inside");
        segment.write(10, b"gone").expect("inside");
        sever(&segment, foreign as usize, &[4090..4097, 0..0]).expect("SEV-1");
        segment.write(4090, b"changed").expect("inside");
        // SAFETY: the memory is mapped until the end of the process.
        let seen = unsafe { std::slice::from_raw_parts_mut(foreign, 8192) };
        assert_eq!(&seen[4090..4097], b"phalanx", "SEV-1: as it was");
        assert_eq!(&seen[10..14], &[0; 4], "SEV-1: nothing else");
        seen.fill(7);
        let mut now = [0; 7];
        segment.read(4090, &mut now).expect("inside");
        assert_eq!(&now, b"changed", "SEV-1: no longer shared");
    }

    #[test]
    fn sev_2_only_a_whole_foreign_mapping_is_replaced() {
        let [segment, other] =
            [8192; 2].map(|bytes| Segment::create("test", bytes).expect("memory"));
        let own = segment.address(0, 0).expect("inside").as_ptr() as usize;
        let strange = foreign(&other) as usize;
        let inside = foreign(&segment) as usize + 4096;
        for address in [own, strange, inside, 0, 4096] {
            let refused = sever(&segment, address, &[]).expect_err("SEV-2").to_string();
            assert!(refused.starts_with("no mapping of this memory but its own"), "{refused}");
        }
        let beyond = sever(&segment, inside - 4096, std::slice::from_ref(&(8000..9000)));
        assert!(beyond.is_err(), "SEV-2: beyond the segment");
        segment.write(0, b"here").expect("SEV-2: it is as it was");
    }
}
