//! Checks of the host's resources and limits.

use super::{Finding, Status};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Descriptors that a worker process costs its parent, at most.
const DESCRIPTORS: u64 = 4;
/// Workers that a host should be able to start.
const WORKERS: u64 = 64;
/// Default bytes of a worker's memory: buffers and what tasks allocate.
const ARENA: u64 = (1 << 30) + (1 << 28);

/// Most bytes of a worker's mailbox.
const MAILBOX: u64 = 1 << 19;

const GIB: u64 = 1 << 30;

pub(super) fn examine() -> Vec<Finding> {
    vec![cores(), descriptors(), processes(), file_size(), memory(), proc(), overcommit()]
}

fn cores() -> Finding {
    const MEANING: &str = "chips and sub workers run side by side";
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let all = fs::read_to_string("/proc/cpuinfo").map_or(cores, |text| {
        text.lines().filter(|line| line.starts_with("processor")).count().max(cores)
    });
    let found = format!("{cores} of {all} cores may be used");
    let finding = Finding::fine("cores", MEANING, found);
    if cores > 1 {
        return finding;
    }
    finding.but(Status::Doubtful, "allow more cores (`taskset`, cpusets), or use `--threads`")
}

fn descriptors() -> Finding {
    const MEANING: &str = "each worker costs its parent a few descriptors";
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let workers = limit.saturating_sub(32) / DESCRIPTORS;
    let found = format!("{} descriptors: enough for {} workers", shown(limit), shown(workers));
    let finding = Finding::fine("RLIMIT_NOFILE", MEANING, found);
    let advice = "raise it with `ulimit -n 4096`";
    match workers {
        0..2 => finding.but(Status::Broken, advice),
        2..WORKERS => finding.but(Status::Doubtful, advice),
        _ => finding,
    }
}

fn processes() -> Finding {
    const MEANING: &str = "each worker is a process with a few threads";
    let limit = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let found = format!("{} processes and threads for this user", shown(limit));
    let finding = Finding::fine("RLIMIT_NPROC", MEANING, found);
    if limit >= 4 * WORKERS {
        return finding;
    }
    finding.but(Status::Doubtful, "raise it with `ulimit -u 4096`")
}

fn file_size() -> Finding {
    let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    judge_file_size(limit)
}

/// Shared memory counts as a file.
fn judge_file_size(limit: u64) -> Finding {
    const MEANING: &str = "shared memory is a file without a name, and no file may be larger";
    let found = match limit {
        u64::MAX => "files may have any size".to_owned(),
        _ => format!("files may have {limit} bytes, and a worker may use {}", gib(ARENA)),
    };
    let finding = Finding::fine("RLIMIT_FSIZE", MEANING, found);
    let advice =
        "raise it with `ulimit -f unlimited`, or give the builder less `memory` and `ring`";
    match limit {
        0..MAILBOX => finding.but(Status::Broken, advice),
        MAILBOX..ARENA => finding.but(Status::Doubtful, advice),
        _ => finding,
    }
}

fn memory() -> Finding {
    const MEANING: &str = "buffers take memory when they are written, up to what a worker is given";
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let arena = gib(ARENA);
    let Some(available) = field(&text, "MemAvailable:") else {
        let found = "this host does not say how much memory it has";
        let finding = Finding::fine("memory", MEANING, found);
        return finding.but(Status::Doubtful, "see that `/proc/meminfo` can be read");
    };
    let found = format!("{} available, and a worker may use {arena}", gib(available));
    let finding = Finding::fine("memory", MEANING, found);
    if available >= ARENA {
        return finding;
    }
    finding.but(Status::Doubtful, "give the builder less `memory`, or free some")
}

fn proc() -> Finding {
    const MEANING: &str = "children are started from `/proc/self/exe`";
    let exe = fs::read_link("/proc/self/exe");
    Finding::of(
        "/proc",
        MEANING,
        exe,
        |_| "it shows this program".to_owned(),
        "mount it: `mount -t proc proc /proc`",
    )
}

fn overcommit() -> Finding {
    const MEANING: &str = "buffers are reserved whole and used in part";
    let mode = fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = field(&text, "CommitLimit:").zip(field(&text, "Committed_AS:"));
    judge(MEANING, mode.trim(), free.map(|(limit, used)| limit.saturating_sub(used)))
}

fn judge(meaning: &'static str, mode: &str, free: Option<u64>) -> Finding {
    const NAME: &str = "overcommit";
    match mode {
        "0" => Finding::fine(NAME, meaning, "by judgement (mode 0)"),
        "1" => Finding::fine(NAME, meaning, "always (mode 1)"),
        "2" if free.is_some_and(|free| free >= ARENA) => {
            let free = gib(free.unwrap_or_default());
            Finding::fine(
                NAME,
                meaning,
                format!("never (mode 2), and {free} may still be reserved"),
            )
        }
        "2" => {
            let free = free.map_or_else(|| "little".to_owned(), gib);
            let found = format!("never (mode 2), and {free} may be reserved");
            let advice = "set vm.overcommit_memory to 0, or give the builder less `memory`";
            Finding::fine(NAME, meaning, found).but(Status::Doubtful, advice)
        }
        _ => {
            let found = "this host does not say";
            let advice = "see that `/proc/sys/vm/overcommit_memory` can be read";
            Finding::fine(NAME, meaning, found).but(Status::Doubtful, advice)
        }
    }
}

/// A field of `/proc/meminfo`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn gib(bytes: u64) -> String {
    let tenths = u128::from(bytes) * 10 / u128::from(GIB);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

fn shown(count: u64) -> String {
    if count > 1 << 40 { "any number of".to_owned() } else { count.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doc_3_whatever_is_not_fine_has_advice() {
        for mode in ["0", "1", "2", "", "x"] {
            for free in [None, Some(0), Some(2 * ARENA)] {
                let finding = judge("it matters", mode, free);
                let has_advice = finding.advice.is_some();
                assert_eq!(finding.status == Status::Fine, !has_advice, "DOC-3: {finding:?}");
            }
        }
        for limit in [0, 4096, MAILBOX - 1, MAILBOX, ARENA - 1, ARENA, u64::MAX] {
            let finding = judge_file_size(limit);
            let (is_fine, has_advice) = (finding.status == Status::Fine, finding.advice.is_some());
            assert_eq!(
                (is_fine, has_advice),
                (limit >= ARENA, limit < ARENA),
                "DOC-3: {finding:?}"
            );
        }
        for finding in examine() {
            let has_advice = finding.advice.is_some();
            assert_eq!(finding.status == Status::Fine, !has_advice, "DOC-3: {finding:?}");
        }
    }

    #[test]
    fn fields_are_read() {
        let text = "MemTotal:  65 kB\nCommitLimit:   17 kB\nBuffers: x kB\n";
        assert_eq!(field(text, "CommitLimit:"), Some(17 * 1024));
        assert_eq!((field(text, "Buffers:"), field(text, "None:")), (None, None));
        assert_eq!(gib(ARENA), "1.2 GiB");
    }
}
