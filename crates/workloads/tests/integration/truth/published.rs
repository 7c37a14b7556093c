//! Published measurements, where they are beside the repository: `../shared/truth`, or the directory that `PHALANX_TRUTH` names.

use phalanx_sim::MachineSpec;
use phalanx_workloads::truth::{Bench, Selection, Size, Table, compare, read};
use std::path::PathBuf;

/// The directory of published tables, if it is there.
fn directory() -> Option<PathBuf> {
    let beside = || {
        let mut above = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
        above.find_map(|path| Some(path.join("shared/truth")).filter(|truth| truth.is_dir()))
    };
    std::env::var_os("PHALANX_TRUTH").map(PathBuf::from).or_else(beside)
}

/// The tables of every published file; none, with a word, where they are missing.
#[expect(clippy::print_stderr, reason = "a test that skips says so")]
fn published() -> Vec<(String, Vec<Table>)> {
    let Some(directory) = directory() else {
        eprintln!("skipped: no published tables beside the repository");
        return Vec::new();
    };
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

#[test]
#[expect(clippy::print_stderr, reason = "the count of what was read")]
fn published_tables_are_read_whole() {
    let (mut rows, mut read) = (0, 0);
    for (name, tables) in published() {
        let path = directory().expect("it was there").join(&name);
        let text = std::fs::read_to_string(path).expect("a text");
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

#[test]
fn presets_meet_published_times() {
    let published = published();
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

/// Times of few bytes on eight H100 that were not fitted to: 9.5 us for an all-reduce of four ranks; 5.4 and 7.2 us for all-gathers of
/// two and four.
#[test]
fn numbers_of_ranks_that_were_not_fitted_are_met() {
    let text = "op,ranks,dtype,size_bytes,time_us\n\
                all_reduce,4,half,512,9.5\nall_gather,2,half,512,5.4\nall_gather,4,half,512,7.2\n";
    let tables = read("small.csv", text, &Selection::default()).expect("a table");
    let bench = Bench::new(MachineSpec::preset("hgx-h100").expect("a preset"));
    for compared in compare(&bench, &tables, 1, &|_| {}).expect("rows that can run") {
        let error = compared.points[0].error;
        assert!(error.abs() < 0.12, "{}: {error}", compared.table.heading());
    }
}
