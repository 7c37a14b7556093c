//! Settings of a child worker, as numbers that travel to its process.
//!
//! - **SET-1 (round trip).** Written settings are read back unchanged, however deep.
//! - **SET-2 (strict).** Numbers that nobody writes are refused; nothing panics.

use super::{Budgets, Builder, Isolation};
use crate::program::Program;
use crate::shm::Segment;
use std::io;
use std::time::Duration;

/// First word of settings: a mark and a version.
const MARK: u64 = u64::from_le_bytes(*b"PHXSETT\x02");
/// Most levels of workers inside workers.
pub(crate) const MAX_DEPTH: usize = 8;

/// Writes the settings of a child worker into memory of their own.
pub(crate) fn write(builder: &Builder) -> io::Result<Segment> {
    let bytes = encode(builder);
    let segment = Segment::create("phalanx-settings", bytes.len())?;
    segment.write(0, &bytes).map_err(io::Error::other)?;
    Ok(segment)
}

/// Reads what [`write`](fn@write) wrote.
pub(crate) fn read(segment: &Segment, program: &'static Program) -> Result<Builder, String> {
    let mut bytes = vec![0; segment.len()];
    segment.read(0, &mut bytes).map_err(|error| error.to_string())?;
    decode(&bytes, program)
}

fn encode(builder: &Builder) -> Vec<u8> {
    let mut numbers = vec![MARK, 0];
    put(builder, &mut numbers);
    // The count of numbers that follow: memory comes in whole pages.
    numbers[1] = numbers.len() as u64 - 2;
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Appends a worker and those inside it.
fn put(builder: &Builder, numbers: &mut Vec<u64>) {
    // Named one by one, so that a new setting is not forgotten here.
    let Builder {
        program: _,
        level,
        chips,
        subs,
        isolation,
        memory,
        slots,
        slabs,
        runs,
        depth,
        budgets,
        close,
        is_recording,
        program_path: _,
        window,
        device_ids,
        setting,
        workers,
        is_restarting,
    } = builder;
    let isolation = isolation.map_or(0, |isolation| match isolation {
        Isolation::Process => 1,
        Isolation::Thread => 2,
    });
    numbers.extend([u64::from(level.unwrap_or(0)), u64::from(*chips), u64::from(*subs), isolation]);
    numbers.extend([*memory, u64::from(*slots), *slabs]);
    numbers.extend([*runs as u64, *depth as u64]);
    numbers.extend(budgets.nanoseconds());
    numbers.push(u64::try_from(close.as_nanos()).unwrap_or(u64::MAX));
    numbers.extend([u64::from(*is_recording), u64::from(*is_restarting), *window]);
    numbers.push(device_ids.as_ref().map_or(0, |ids| ids.len() as u64 + 1));
    numbers.extend(device_ids.iter().flatten().map(|id| u64::from(*id)));
    numbers.push(setting.len() as u64);
    numbers.extend(setting.chunks(8).map(|bytes| {
        let mut number = [0; 8];
        number[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(number)
    }));
    numbers.push(workers.len() as u64);
    for worker in workers {
        put(worker, numbers);
    }
}

fn decode(bytes: &[u8], program: &'static Program) -> Result<Builder, String> {
    let numbers: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let wrong = || "the settings of this worker are of another version".to_owned();
    let [MARK, count, rest @ ..] = &numbers[..] else { return Err(wrong()) };
    let count = usize::try_from(*count).unwrap_or(usize::MAX);
    let mut rest = rest.get(..count).ok_or_else(wrong)?;
    let builder = take(&mut rest, program, 0);
    let builder = builder.filter(|_| rest.is_empty());
    builder.ok_or_else(|| "the settings of this worker make no sense".to_owned())
}

/// Takes a worker and those inside it off the front.
fn take(numbers: &mut &[u64], program: &'static Program, depth: usize) -> Option<Builder> {
    let mut builder = Builder::new(program);
    let small = |number: u64| u32::try_from(number).ok();
    builder.level = small(next(numbers)?)?.checked_sub(1).map(|level| level + 1);
    (builder.chips, builder.subs) = (small(next(numbers)?)?, small(next(numbers)?)?);
    builder.isolation = match next(numbers)? {
        0 => None,
        1 => Some(Isolation::Process),
        2 => Some(Isolation::Thread),
        _ => return None,
    };
    builder.memory = next(numbers)?;
    (builder.slots, builder.slabs) = (small(next(numbers)?)?, next(numbers)?);
    builder.runs = usize::try_from(next(numbers)?).ok()?;
    builder.depth = usize::try_from(next(numbers)?).ok()?;
    builder.budgets = budgets(numbers)?;
    builder.close = Duration::from_nanos(next(numbers)?);
    builder.is_recording = flag(numbers)?;
    builder.is_restarting = flag(numbers)?;
    builder.window = next(numbers)?;
    if let Some(count) = next(numbers)?.checked_sub(1) {
        let ids = (0..count).map(|_| small(next(numbers)?));
        builder.device_ids = Some(ids.collect::<Option<Vec<u32>>>()?);
    }
    builder.setting = text(numbers)?;
    let workers = next(numbers)?;
    if workers > 0 && depth >= MAX_DEPTH {
        return None;
    }
    for _ in 0..workers {
        builder.workers.push(take(numbers, program, depth + 1)?);
    }
    Some(builder)
}

fn budgets(numbers: &mut &[u64]) -> Option<Budgets> {
    let (limits, rest) = numbers.split_first_chunk()?;
    *numbers = rest;
    Some(Budgets::from_nanoseconds(*limits))
}

/// Returns bytes, eight to a number; what fills the last number up is zero.
fn text(numbers: &mut &[u64]) -> Option<Vec<u8>> {
    let count = usize::try_from(next(numbers)?).ok()?;
    let (taken, rest) = numbers.split_at_checked(count.div_ceil(8))?;
    *numbers = rest;
    let mut bytes: Vec<u8> = taken.iter().flat_map(|number| number.to_le_bytes()).collect();
    let is_filled = bytes[count..].iter().all(|byte| *byte == 0);
    bytes.truncate(count);
    is_filled.then_some(bytes)
}

fn flag(numbers: &mut &[u64]) -> Option<bool> {
    match next(numbers)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn next(numbers: &mut &[u64]) -> Option<u64> {
    let (first, rest) = numbers.split_first()?;
    *numbers = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    static PROGRAM: Program = Program::new(&[]);

    fn builder() -> impl Strategy<Value = Builder> {
        let leaf = (any::<u16>(), any::<u16>(), 0u8..3, any::<bool>(), any::<u64>());
        let leaf = leaf.prop_map(|(chips, subs, isolation, is_recording, memory)| {
            let mut builder = Builder::new(&PROGRAM);
            (builder.chips, builder.subs) = (chips.into(), subs.into());
            builder.isolation =
                [None, Some(Isolation::Process), Some(Isolation::Thread)][usize::from(isolation)];
            (builder.is_recording, builder.memory) = (is_recording, memory);
            builder.level = (chips > 7).then_some(u32::from(subs) + 1);
            builder.device_ids = is_recording.then(|| (0..u32::from(subs) % 5).collect());
            builder.close = Duration::from_nanos(memory);
            builder.setting = memory.to_be_bytes()[..usize::from(chips % 9)].repeat(2);
            builder
        });
        leaf.prop_recursive(4, 12, 3, |inner| {
            (inner.clone(), prop::collection::vec(inner, 0..3))
                .prop_map(|(outer, workers)| Builder { workers, ..outer })
        })
    }

    proptest! {
        #[test]
        fn set_1_settings_come_out_as_they_went_in(builder in builder()) {
            let segment = write(&builder).expect("memory");
            let found = read(&segment, &PROGRAM).expect("SET-1");
            prop_assert_eq!(format!("{found:?}"), format!("{builder:?}"));
        }

        #[test]
        fn set_2_other_numbers_are_refused_or_mean_what_they_say(
            builder in builder(), at: prop::sample::Index, number: u64, cut: prop::sample::Index,
        ) {
            let mut bytes = encode(&builder);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())], &PROGRAM).is_err(), "SET-2: cut");
            let at = at.index(bytes.len() / 8) * 8;
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            if let Ok(found) = decode(&bytes, &PROGRAM) {
                prop_assert_eq!(encode(&found), bytes, "SET-2");
            }
        }
    }

    #[test]
    fn set_2_too_deep_is_refused() {
        let mut builder = Builder::new(&PROGRAM);
        for _ in 0..MAX_DEPTH {
            builder = Builder { workers: vec![builder], ..Builder::new(&PROGRAM) };
        }
        assert!(decode(&encode(&builder), &PROGRAM).is_ok());
        builder = Builder { workers: vec![builder], ..Builder::new(&PROGRAM) };
        assert!(decode(&encode(&builder), &PROGRAM).is_err(), "SET-2");
    }
}
