//! Published measurements, where they are beside the repository: `../shared/truth`, or the directory that `PHALANX_TRUTH` names.

use phalanx_workloads::truth::{Selection, Table, read};
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
