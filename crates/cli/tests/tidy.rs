//! What the compiler does not check: promises have tests, files stay short, and nothing is left lying about.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of code (not blank, not comment, not test) a file may have.
const FILE_LIMIT: usize = 600;
/// The one place for code that the compiler cannot check.
const UNCHECKED: &str = "crates/runtime/src/shm";
/// Not one of them belongs here; split, so that this file is tidy too.
const FORBIDDEN: [&str; 6] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ign", "ore"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
];

struct File {
    /// From the root of the repository, with `/`.
    path: String,
    text: String,
}

#[test]
fn the_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    walk(&root.join("crates"), &mut paths);
    let files: Vec<File> = paths.iter().map(|path| File::read(&root, path)).collect();
    let mut offences = untested_promises(&files);
    offences.extend(files.iter().flat_map(File::offences));
    assert!(offences.is_empty(), "{} offences\n{}\n", offences.len(), offences.join("\n"));
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            walk(&path, paths);
        } else if has_extension(&path, &["rs", "toml", "md", "yaml", "trycmd"]) {
            paths.push(path);
        }
    }
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
}

/// Every `- **ABC-1 (` of a module's documentation has a test with `abc_1` in its name.
fn untested_promises(files: &[File]) -> Vec<String> {
    let tests: BTreeSet<String> = files.iter().flat_map(File::tests).collect();
    let mut offences = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for label in file.labels() {
            let word = label.to_lowercase().replace('-', "_");
            if !tests.iter().any(|test| has_word(test, &word)) {
                offences.push(format!("{}: no test is named after {label}", file.path));
            }
        }
    }
    offences
}

/// The name of a test that a macro makes of a line `name => function;`.
fn listed(line: &str) -> Option<String> {
    let (name, function) = line.trim().strip_suffix(';')?.split_once(" => ")?;
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name(name) && is_name(function)).then(|| name.to_lowercase())
}

/// Whether `word` stands in `text` with nothing of its own kind around it.
fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_none_or(|at| !bytes[at].is_ascii_alphanumeric());
        let after = bytes.get(at + word.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        before && after
    })
}

impl File {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("text");
        let path = path.strip_prefix(root).expect("below the root").to_string_lossy();
        Self { path: path.replace('\\', "/"), text }
    }

    fn is_rust(&self) -> bool {
        has_extension(Path::new(&self.path), &["rs"])
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("tests.rs")
    }

    /// `ABC-1` of each promise.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let bullets = self.text.lines().filter_map(|line| line.strip_prefix("//! - **"));
        bullets.filter_map(|rest| rest.split_once(" (")).map(|(label, _)| label).filter(|label| {
            let (letters, number) = label.split_once('-').unwrap_or_default();
            !letters.is_empty()
                && letters.bytes().all(|byte| byte.is_ascii_uppercase())
                && number.starts_with(|digit: char| digit.is_ascii_digit())
        })
    }

    /// The names of its tests.
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

    fn offences(&self) -> Vec<String> {
        let mut offences = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let at = |what: &str| format!("{}:{number}: `{what}`", self.path);
            offences.extend(FORBIDDEN.into_iter().filter(|word| line.contains(word)).map(at));
            let code = line.split("//").next().unwrap_or_default();
            let word = concat!("uns", "afe");
            if self.is_rust() && has_bare_word(code, word) && !self.path.starts_with(UNCHECKED) {
                offences.push(at(word));
            }
        }
        let lines = self.lines_of_code();
        if lines > FILE_LIMIT {
            offences.push(format!("{}: {lines} lines of code, at most {FILE_LIMIT}", self.path));
        }
        offences
    }

    /// Up to the tests, which come last.
    fn lines_of_code(&self) -> usize {
        if !self.is_rust() || self.is_test() {
            return 0;
        }
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let product = self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        product.lines().map(str::trim).filter(is_code).count()
    }
}

/// A keyword, not a part of a longer name such as that of a lint.
fn has_bare_word(text: &str, word: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_none_or(|at| !is_name(bytes[at]));
        before && bytes.get(at + word.len()).is_none_or(|byte| !is_name(*byte))
    })
}
