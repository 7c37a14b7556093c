//! Published measurements, where they are beside the repository: `../shared/truth`, or the directory that `PHALANX_TRUTH` names.
//! Tests whose tables are missing are counted as ignored: a harness of their own looks for the tables when it runs.

use libtest_mimic::{Arguments, Failed, Trial};
use phalanx_sim::MachineSpec;
use phalanx_workloads::truth::{Bench, Selection, Size, Table, compare, read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[expect(clippy::print_stderr, reason = "tests that are skipped say so")]
fn main() -> ExitCode {
    let directory = directory();
    if directory.is_none() {
        eprintln!(
            "skipped: no published tables beside the repository (PHALANX_TRUTH names their directory)"
        );
    }
    let trial = |name: &str, test: fn(&Path)| {
        let directory = directory.clone();
        let is_ignored = directory.is_none();
        let run = move || {
            let directory = directory.ok_or("no published tables beside the repository")?;
            test(&directory);
            Ok::<(), Failed>(())
        };
        Trial::test(name, run).with_ignored_flag(is_ignored)
    };
    let tests = vec![
        trial("published_tables_are_read_whole", published_tables_are_read_whole),
        trial("presets_meet_published_times", presets_meet_published_times),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

/// The directory of published tables, if it is there.
fn directory() -> Option<PathBuf> {
    let beside = || {
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
        above.find_map(|path| Some(path.join("shared/truth")).filter(|truth| truth.is_dir()))
    };
    std::env::var_os("PHALANX_TRUTH").map(PathBuf::from).or_else(beside)
}

/// The tables of every published file.
fn published(directory: &Path) -> Vec<(String, Vec<Table>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "csv"))
        .collect();
    files.sort();
    let tables = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).expect("a text");
        let tables = read(&name, &text, &Selection::default());
        (name, tables.unwrap_or_else(|errors| panic!("{errors}")))
    };
    files.iter().map(tables).collect()
}

#[expect(clippy::print_stderr, reason = "the count of what was read")]
fn published_tables_are_read_whole(directory: &Path) {
    let (mut rows, mut read) = (0, 0);
    for (name, tables) in published(directory) {
        let text = std::fs::read_to_string(directory.join(&name)).expect("a text");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let points: usize = tables.iter().map(|table| table.points.len()).sum();
        assert_eq!(points, lines.count() - 1, "{name}");
        rows += points;
        read += tables.len();
    }
    eprintln!("{read} published tables of {rows} rows");
}

/// Presets, each with a published table of its system and the largest mean error.
const BESIDE: [(&str, &str, f64); 7] = [
    ("hgx-a100", "a100-8-nvswitch.csv", 0.1),
    ("hgx-a100", "a100-8-azure.csv", 0.1),
    ("hgx-h100", "h100-8-nvswitch.csv", 0.1),
    ("hgx-h100", "h100-8-dgxc.csv", 0.1),
    ("hgx-b200", "b200-8-nvswitch.csv", 0.1),
    ("mi300x-8", "mi300x-8.csv", 0.2),
    ("a100-efa-16", "a100-16-aws-p4de-efa.csv", 0.15),
];

/// The largest call that a test simulates, in bytes.
const LARGEST: u64 = 1 << 20;

fn presets_meet_published_times(directory: &Path) {
    let published = published(directory);
    for (preset, file, most) in BESIDE {
        let Some((_, tables)) = published.iter().find(|(name, _)| name == file) else { continue };
        let bench = Bench::new(MachineSpec::preset(preset).expect("a preset"));
        let mut tables = tables.clone();
        for table in &mut tables {
            table
                .points
                .retain(|point| matches!(point.size, Size::Bytes(bytes) if bytes <= LARGEST));
        }
        for compared in compare(&bench, &tables, 2, &|_| {}).expect("rows that can run") {
            let summary = compared.summary();
            let what = compared.table.heading();
            assert!(summary.mean <= most, "{preset} on {file}, {what}: {summary:?}");
        }
    }
}
