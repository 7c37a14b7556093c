//! Promises: every label stated in a crate has a test of that name in the same crate, and ARCHITECTURE.md lists it.
//!
//! A module states a promise as `//! - **ABC-1 (name).** ...`; its test has `abc_1` in its name. Labels belong to their
//! crate: two crates may use the same label, two modules of one crate may not.

use super::architecture::Architecture;
use super::{File, Repository, report};
use std::collections::{BTreeMap, BTreeSet};

/// The files of each label that a crate states.
type Stated<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a str>>;

#[test]
fn every_promise_has_a_test_in_its_crate() {
    let repository = Repository::read();
    let mut tests: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in repository.files.iter().filter(|file| file.is_rust()) {
        tests.entry(file.crate_name()).or_default().extend(file.tests());
    }
    let mut offences = Vec::new();
    for ((name, label), files) in stated(&repository) {
        let word = label.to_lowercase().replace('-', "_");
        if !tests.get(name).is_some_and(|tests| tests.iter().any(|test| has_word(test, &word))) {
            offences.push(format!("{}: no test in crates/{name} is named after {label}", files[0]));
        }
        if files.len() > 1 {
            offences.push(format!("{label} is stated more than once: {}", files.join(", ")));
        }
    }
    report(&offences);
}

#[test]
fn the_table_of_promises_is_complete_and_true() {
    let repository = Repository::read();
    let architecture = Architecture::read(&repository);
    let stated = stated(&repository);
    let mut listed = BTreeSet::new();
    let mut offences = Vec::new();
    for row in architecture.promises() {
        for label in &row.labels {
            let labels = stated
                .iter()
                .filter(|((name, stated), files)| row.holds(name, files) && label.includes(stated));
            let found: Vec<(&str, &str)> = labels.map(|(key, _)| *key).collect();
            if found.len() < label.count() {
                offences.push(format!(
                    "ARCHITECTURE.md:{}: {label} is listed, but {} state {} of these labels",
                    row.number,
                    row.paths.join(", "),
                    found.len()
                ));
            }
            listed.extend(found);
        }
    }
    let missing = stated.iter().filter(|(key, _)| !listed.contains(*key));
    offences.extend(missing.map(|((_, label), files)| {
        format!("ARCHITECTURE.md: {label} of {} is not in the table of promises", files[0])
    }));
    report(&offences);
}

fn stated(repository: &Repository) -> Stated<'_> {
    let mut stated = Stated::new();
    for file in repository.files.iter().filter(|file| file.is_rust()) {
        for label in file.labels() {
            stated.entry((file.crate_name(), label)).or_default().push(&file.path);
        }
    }
    stated
}

/// Returns the name of a test that a macro makes of a line `name => function;`.
fn listed(line: &str) -> Option<String> {
    let (name, function) = line.trim().strip_suffix(';')?.split_once(" => ")?;
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name(name) && is_name(function)).then(|| name.to_lowercase())
}

/// True if `word` stands in `text` with no letter or digit beside it.
fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_none_or(|at| !bytes[at].is_ascii_alphanumeric());
        let after = bytes.get(at + word.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        before && after
    })
}

impl File {
    /// Returns the label (`ABC-1`) of each promise of the module.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let bullets = self.text.lines().filter_map(|line| line.strip_prefix("//! - **"));
        bullets.filter_map(|rest| rest.split_once(" (")).map(|(label, _)| label).filter(|label| {
            let (letters, number) = label.split_once('-').unwrap_or_default();
            !letters.is_empty()
                && letters.bytes().all(|byte| byte.is_ascii_uppercase())
                && number.starts_with(|digit: char| digit.is_ascii_digit())
        })
    }

    /// Returns the names of the tests.
    fn tests(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut lines = self.text.lines();
        while lines.any(|line| line.trim() == "#[test]") {
            let name = lines.find_map(|line| line.trim().strip_prefix("fn "));
            names.extend(name.and_then(|name| name.split('(').next()).map(str::to_lowercase));
        }
        if self.is_test() {
            names.extend(self.text.lines().filter_map(listed));
        }
        names
    }
}
