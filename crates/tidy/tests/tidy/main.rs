//! Checks of the repository that the compiler does not make: promises have tests, ARCHITECTURE.md is true, comments say
//! what a thing is, files stay short, and forbidden words do not appear.

mod architecture;
mod comments;
mod dependencies;
mod promises;

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of code (not blank, not comment, not test) in a file.
const FILE_LIMIT: usize = 600;
/// The one directory for code that the compiler cannot check.
const UNCHECKED: &str = "crates/runtime/src/shm";
/// Words that no file contains; split, so that this file does not contain them either.
const FORBIDDEN: [&str; 7] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ign", "ore"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    // The seed of property tests is decided in `.cargo/config.toml` alone.
    concat!("Rng", "Seed"),
];

/// All that is checked.
struct Repository {
    root: PathBuf,
    /// Files below `crates/`.
    files: Vec<File>,
}

/// A text file.
struct File {
    /// Path from the root of the repository, with `/`.
    path: String,
    text: String,
}

#[test]
fn files_are_short_and_hold_no_forbidden_words() {
    let repository = Repository::read();
    let offences: Vec<String> = repository.files.iter().flat_map(File::offences).collect();
    report(&offences);
}

#[test]
fn property_tests_draw_the_same_cases_every_time() {
    let settings = Repository::read().text(".cargo/config.toml");
    assert!(settings.contains("PROPTEST_RNG_SEED"), "the seed of property tests is not set");
}

/// Fails with the list of offences unless there are none.
fn report(offences: &[String]) {
    assert!(offences.is_empty(), "{} offences\n{}\n", offences.len(), offences.join("\n"));
}

/// Endings of the names of text files below `crates/`.
const TEXTS: [&str; 5] = ["rs", "toml", "md", "yaml", "trycmd"];

/// Collects the paths of all files below `directory` that are `wanted`, sorted.
fn walk(directory: &Path, wanted: &dyn Fn(&Path) -> bool, paths: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(directory).expect("a directory of the repository");
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            walk(&path, wanted, paths);
        } else if path.is_file() && wanted(&path) {
            paths.push(path);
        }
    }
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    path.extension().is_some_and(|extension| known.iter().any(|known| extension == *known))
}

impl Repository {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut paths = Vec::new();
        walk(&root.join("crates"), &|path| has_extension(path, &TEXTS), &mut paths);
        let files = paths.iter().map(|path| File::read(&root, path)).collect();
        Self { root, files }
    }

    /// Reads the programs outside of `crates/`: fuzz targets, benches, Python, and scripts named `run`.
    fn others(&self) -> Vec<File> {
        let wanted =
            |path: &Path| has_extension(path, &["rs", "py", "pyi"]) || path.ends_with("run");
        let mut paths = Vec::new();
        for directory in ["fuzz", "benches", "python"] {
            walk(&self.root.join(directory), &wanted, &mut paths);
        }
        paths.iter().map(|path| File::read(&self.root, path)).collect()
    }

    /// Reads the texts beside ARCHITECTURE.md: decisions, guide, CONTRIBUTING.md, and the READMEs beside the code.
    fn texts(&self) -> Vec<File> {
        let mut paths = vec![self.root.join("CONTRIBUTING.md")];
        for directory in ["docs/adr", "docs/guide", "crates"] {
            walk(&self.root.join(directory), &|path| has_extension(path, &["md"]), &mut paths);
        }
        paths.iter().map(|path| File::read(&self.root, path)).collect()
    }

    /// Returns the text of the file at `path`.
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
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

    /// Returns the directory of the crate below `crates/`.
    fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
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

    /// Counts the lines of code before the tests, which come last.
    fn lines_of_code(&self) -> usize {
        if !self.is_rust() || self.is_test() {
            return 0;
        }
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let product = self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        product.lines().map(str::trim).filter(is_code).count()
    }
}

/// True if `word` stands in `text` as a whole word, not as a part of a longer name.
fn has_bare_word(text: &str, word: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_none_or(|at| !is_name(bytes[at]));
        before && bytes.get(at + word.len()).is_none_or(|byte| !is_name(*byte))
    })
}
