//! Stored outcomes of trials: in memory for all tuners of the process, and in a file for later processes.
//!
//! A program that wants this says so once, by [`keep`]. The time of a trial depends on the machine, the trial, the plan and the code alone,
//! so a kept time is the time that a simulation would give.
//!
//! - **STO-1 (content).** A key covers the whole machine, the whole trial and the settings of the plan; a file belongs to one version
//!   of the code. Algorithms of programs are not kept: their names do not tell their code.
//! - **STO-2 (any file).** A line that is cut, changed or foreign is ignored. A file that cannot be read or written costs time, and nothing else.

use super::config::Plan;
use super::sweep::Bound;
use super::trial::{Timing, Trial};
use phalanx_sim::{MachineSpec, Time};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A kept time, or what came of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The exact times.
    Exact(Timing),
    /// The time is longer than this.
    Longer(Time),
    /// The position of the fastest of some plans.
    Chosen(u32),
    /// The row of a table: the time, and its bound.
    Row(Time, Bound),
}

/// The place of the file.
#[derive(Clone, Debug)]
struct StoreLocation {
    directory: PathBuf,
    version: String,
}

/// The request to keep times; `None` inside keeps them in memory alone.
static REQUEST: OnceLock<Option<StoreLocation>> = OnceLock::new();

/// Keeps the times of trials from now on, for all tuners of this process. With a directory, times are also kept in a file of it, which belongs to this
/// `version` of the code. The first call counts.
pub fn keep(directory: Option<&Path>, version: &str) {
    let place = directory.map(|directory| StoreLocation {
        directory: directory.to_owned(),
        version: version.to_owned(),
    });
    // A second request has nothing to add.
    let _ = REQUEST.set(place);
}

/// Times by their keys.
#[derive(Debug, Default)]
pub(crate) struct Store {
    times: Mutex<BTreeMap<u128, Kept>>,
    file: Option<Mutex<File>>,
}

/// The most times in memory.
const MOST: usize = 1 << 21;

/// The largest file that is read, in bytes. A larger one begins anew.
const LARGEST: u64 = 64 << 20;

impl Store {
    /// The store of the process, if one was asked for.
    pub(crate) fn of_process() -> Option<Arc<Self>> {
        static STORE: OnceLock<Option<Arc<Store>>> = OnceLock::new();
        let open =
            || Some(Arc::new(REQUEST.get()?.as_ref().map_or_else(Self::default, Self::open)));
        // Before the request there is none, and none is remembered.
        REQUEST.get().and_then(|_| STORE.get_or_init(open).clone())
    }

    /// The store with the times of a file; an empty one in memory if the file cannot be had.
    fn open(place: &StoreLocation) -> Self {
        let path = place.directory.join(format!("{}.txt", place.version));
        if fs::metadata(&path).is_ok_and(|found| found.len() > LARGEST) {
            // Another process may have removed it before.
            let _ = fs::remove_file(&path);
        }
        let text = fs::read(&path).unwrap_or_default();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let times = lines.filter_map(read).take(MOST).collect();
        let file = fs::create_dir_all(&place.directory)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(&path))
            .ok();
        Self { times: Mutex::new(times), file: file.map(Mutex::new) }
    }

    fn times(&self) -> MutexGuard<'_, BTreeMap<u128, Kept>> {
        // Every insertion is whole.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kept time of a key.
    pub(crate) fn get(&self, key: u128) -> Option<Kept> {
        self.times().get(&key).copied()
    }

    /// Keeps a time. An exact time is never given up for a bound.
    pub(crate) fn put(&self, key: u128, kept: Kept) {
        let mut times = self.times();
        let is_news = match (times.get(&key), kept) {
            (None, _) => times.len() < MOST,
            (Some(Kept::Longer(before)), Kept::Longer(least)) => least > *before,
            (Some(Kept::Longer(_)), _) => true,
            (Some(_), _) => false,
        };
        if !is_news {
            return;
        }
        times.insert(key, kept);
        drop(times);
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            // One write a line; a disk that is full costs time later, and nothing else.
            let _ = file.write_all(line(key, kept).as_bytes());
        }
    }
}

/// The fingerprint of a machine.
pub(crate) fn fingerprint(machine: &MachineSpec) -> Vec<u8> {
    Sha256::digest(format!("{machine:?}")).to_vec()
}

/// The key of a plan's trial on a machine with this fingerprint; `None` for an algorithm of a program (STO-1).
pub(crate) fn key(machine: &[u8], trial: &Trial, plan: &Plan) -> Option<u128> {
    if plan.own.is_some() {
        return None;
    }
    Some(hashed(machine, &format!("{trial:?} {}", settings(plan))))
}

/// The key of the row of a plan; as [`key`].
pub(crate) fn row_key(machine: &[u8], trial: &Trial, plan: &Plan) -> Option<u128> {
    let is_kept = plan.own.is_none();
    is_kept.then(|| hashed(machine, &format!("row {trial:?} {}", settings(plan))))
}

/// The key of the choice between some plans; as [`key`].
pub(crate) fn choice_key(machine: &[u8], trial: &Trial, plans: &[Plan]) -> Option<u128> {
    if plans.iter().any(|plan| plan.own.is_some()) {
        return None;
    }
    let plans: Vec<String> = plans.iter().map(settings).collect();
    Some(hashed(machine, &format!("choice {trial:?} {plans:?}")))
}

fn hashed(machine: &[u8], content: &str) -> u128 {
    let mut hash = Sha256::new();
    hash.update(machine);
    hash.update(content);
    hash.finalize()[..16].iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

/// The settings of a plan that its time depends on.
pub(crate) fn settings(plan: &Plan) -> String {
    let Plan { module, channels, edge, start, in_loops, .. } = plan;
    let loops = if *in_loops { " in loops" } else { "" };
    format!("{module} {channels:?} {edge:?} {start:?}{loops}")
}

/// A line: key, kind, times, and a check over them.
fn line(key: u128, kept: Kept) -> String {
    let content = match kept {
        Kept::Exact(Timing { time, busiest }) => {
            format!("{key:032x} = {} {}", time.as_ps(), busiest.as_ps())
        }
        Kept::Longer(time) => format!("{key:032x} > {}", time.as_ps()),
        Kept::Chosen(at) => format!("{key:032x} ! {at}"),
        Kept::Row(time, bound) => format!("{key:032x} # {} {}", time.as_ps(), bound.name()),
    };
    let check = check(&content);
    format!("{content} {check:08x}\n")
}

/// Reads a line (STO-2).
fn read(line: &[u8]) -> Option<(u128, Kept)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (content, sum) = line.rsplit_once(' ')?;
    if u32::from_str_radix(sum, 16).ok()? != check(content) {
        return None;
    }
    let mut words = content.split(' ');
    let key = u128::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let mut word = || words.next();
    let time = |word: Option<&str>| Some(Time::ps(word?.parse().ok()?));
    let kept = match kind {
        "=" => Kept::Exact(Timing { time: time(word())?, busiest: time(word())? }),
        ">" => Kept::Longer(time(word())?),
        "!" => Kept::Chosen(word()?.parse().ok()?),
        "#" => Kept::Row(time(word())?, Bound::named(word()?)?),
        _ => return None,
    };
    Some((key, kept))
}

/// FNV-1a of 32 bits.
fn check(content: &str) -> u32 {
    content
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ccl::{Algorithm, CclConfig, Operation};
    use proptest::prelude::*;

    fn exact(ps: u64) -> Kept {
        Kept::Exact(Timing { time: Time::ps(ps), busiest: Time::ps(ps / 2) })
    }

    fn place(name: &str) -> StoreLocation {
        let directory =
            std::env::temp_dir().join(format!("phalanx-store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        StoreLocation { directory, version: "1".to_owned() }
    }

    #[test]
    fn sto_1_keys_differ_in_machine_trial_and_plan() {
        let machines =
            ["pair", "quad-sip"].map(|name| fingerprint(&MachineSpec::preset(name).unwrap()));
        let names = Algorithm::names();
        let plans = CclConfig::builtin().plans(&names);
        let mut keys = Vec::new();
        for machine in &machines {
            for elements in [16, 17] {
                for operation in [Operation::AllReduce, Operation::Broadcast] {
                    let trial = Trial::new(operation, vec![0, 1], elements);
                    keys.extend(plans.iter().map(|plan| key(machine, &trial, plan).unwrap()));
                }
            }
        }
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
        let mut slower = plans[0].clone();
        slower.start = Time::ps(1);
        let trial = Trial::new(Operation::AllReduce, vec![0, 1], 16);
        assert_ne!(key(&machines[0], &trial, &plans[0]), key(&machines[0], &trial, &slower));
    }

    #[test]
    fn sto_2_a_file_is_read_as_far_as_it_is_whole() {
        let place = place("cut");
        let store = Store::open(&place);
        store.put(1, Kept::Longer(Time::ps(5)));
        store.put(1, exact(9));
        store.put(1, Kept::Longer(Time::ps(7)));
        store.put(2, Kept::Longer(Time::ps(4)));
        store.put(3, exact(1234));
        drop(store);
        let path = place.directory.join("1.txt");
        let mut text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4);
        // The last line is cut, and a later process goes on behind it.
        text.truncate(text.len() - 4);
        fs::write(&path, &text).unwrap();
        let store = Store::open(&place);
        assert_eq!(store.get(1), Some(exact(9)));
        assert_eq!(store.get(2), Some(Kept::Longer(Time::ps(4))));
        assert_eq!(store.get(3), None);
        store.put(3, exact(1234));
        store.put(4, exact(8));
        drop(store);
        let store = Store::open(&place);
        assert_eq!((store.get(3), store.get(4)), (None, Some(exact(8))));
        fs::remove_dir_all(&place.directory).unwrap();
    }

    #[test]
    fn sto_2_a_place_that_is_no_directory_costs_nothing_but_time() {
        let place = place("file");
        fs::write(&place.directory, "a file").unwrap();
        let store = Store::open(&place);
        store.put(1, exact(9));
        assert_eq!(store.get(1), Some(exact(9)));
        fs::remove_file(&place.directory).unwrap();
    }

    proptest! {
        #[test]
        fn sto_2_no_line_panics_and_no_change_is_read(key: u128, ps: u64, at in 0_usize..60, byte: u8) {
            let others = [
                Kept::Longer(Time::ps(ps)),
                Kept::Chosen(u32::try_from(key >> 100).unwrap()),
                Kept::Row(Time::ps(ps), Bound::Credit),
            ];
            for kept in others {
                prop_assert_eq!(read(line(key, kept).as_bytes()), Some((key, kept)));
            }
            let whole = line(key, exact(ps));
            prop_assert_eq!(read(whole.as_bytes()), Some((key, exact(ps))));
            let mut changed = whole.clone().into_bytes();
            let at = at % changed.len();
            if changed[at] != byte {
                changed[at] = byte;
                let same = byte.eq_ignore_ascii_case(&whole.as_bytes()[at]);
                prop_assert!(same || read(&changed).is_none());
            }
        }
    }
}
