//! ARCHITECTURE.md and the other texts: the files, functions, types and promises that they name exist.
//!
//! In backticks, `path.rs` is the file below `crates/` whose path ends with that, `path.rs:name` an item of that name in the
//! file, `path.rs:Type::name` a function of that type, and, in ARCHITECTURE.md, `Type::name` a function of a type in any file.
//! A path with an item names one file. A line with `at that time` is about files that may be gone.

use super::{File, Repository, has_bare_word, report};
use std::fmt;

/// ARCHITECTURE.md.
pub(crate) struct Architecture {
    text: String,
}

/// A row of the table of promises.
pub(crate) struct Row {
    /// Line in ARCHITECTURE.md.
    pub(crate) number: usize,
    /// Files and directories (which end with `/`), from the root of the repository.
    pub(crate) paths: Vec<String>,
    pub(crate) labels: Vec<Labels>,
}

/// Labels of one prefix: `ABC-1..3`, `ABC-1`, or `ABC` for all of them.
pub(crate) struct Labels {
    prefix: String,
    range: Option<(u32, u32)>,
}

#[test]
fn what_architecture_names_exists() {
    let repository = Repository::read();
    let architecture = Architecture::read(&repository);
    let mut offences = Vec::new();
    for (number, name) in architecture.names() {
        if let Some(reason) = missing(&repository, name) {
            offences.push(format!("ARCHITECTURE.md:{number}: `{name}`: {reason}"));
        }
    }
    report(&offences);
}

#[test]
fn what_other_texts_name_exists() {
    let repository = Repository::read();
    let mut offences = Vec::new();
    for file in repository.texts() {
        let lines = (1..).zip(file.text.lines()).filter(|(_, line)| !line.contains("at that time"));
        for (number, name) in lines.flat_map(|(n, line)| quoted(line).map(move |name| (n, name))) {
            if let Some(reason) = missing_file(&repository, name) {
                offences.push(format!("{}:{number}: `{name}`: {reason}", file.path));
            }
        }
    }
    report(&offences);
}

/// Describes the missing part of a name in backticks, if it names a file or a function.
fn missing(repository: &Repository, name: &str) -> Option<String> {
    missing_file(repository, name).or_else(|| missing_function(repository, name))
}

/// Describes the missing part of `path.rs` or `path.rs:item`.
fn missing_file(repository: &Repository, name: &str) -> Option<String> {
    let (path, item) = match name.split_once(".rs:") {
        Some((path, item)) => (format!("{path}.rs"), item),
        None if super::has_extension(std::path::Path::new(name), &["rs"]) => (name.to_string(), ""),
        None => return None,
    };
    if path.contains('*') || !is_path(&path) || path.starts_with("fuzz/") {
        return None;
    }
    let files: Vec<&File> = repository.files.iter().filter(|file| file.is_at(&path)).collect();
    let paths = || files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>().join(", ");
    if files.is_empty() {
        Some(format!("no file {path}"))
    } else if item.is_empty() {
        None
    } else if files.len() > 1 {
        Some(format!("several files: {}", paths()))
    } else {
        (!files[0].defines(item)).then(|| format!("no {item} in {}", paths()))
    }
}

/// Reports a name of the form `Type::name` that is not a function of any file.
fn missing_function(repository: &Repository, name: &str) -> Option<String> {
    let (kind, function) = name.split_once("::")?;
    let is_type = kind.starts_with(|letter: char| letter.is_ascii_uppercase());
    let is_function = function.starts_with(|letter: char| letter.is_ascii_lowercase());
    if !is_type || !is_function || !is_item(kind) || !is_item(function) {
        return None;
    }
    let is_defined = repository.files.iter().any(|file| file.is_rust() && file.defines(name));
    (!is_defined).then(|| "no such function in any crate".to_string())
}

fn is_path(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte))
}

fn is_item(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl File {
    /// True if the path of the file ends with `path`.
    fn is_at(&self, path: &str) -> bool {
        self.path
            .strip_suffix(path)
            .is_some_and(|before| before.is_empty() || before.ends_with('/'))
    }

    /// True if `item` (`name` or `Type::name`) is defined in the file.
    fn defines(&self, item: &str) -> bool {
        let has = |keyword: &str, name: &str| {
            let start = format!("{keyword} {name}");
            self.text.lines().any(|line| !line.trim().starts_with("//") && has_start(line, &start))
        };
        match item.split_once("::") {
            Some((kind, name)) => self.has_method(kind, name),
            None => {
                ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules!"]
                    .iter()
                    .any(|keyword| has(keyword, item))
            }
        }
    }
}

impl File {
    /// True if an `impl` of the type, or a trait of that name, has the function.
    fn has_method(&self, kind: &str, name: &str) -> bool {
        let start = format!("fn {name}");
        let mut header = String::new();
        let mut is_inside = false;
        for line in self.text.lines().filter(|line| !line.trim().starts_with("//")) {
            let code = line.trim_start();
            let is_header = code.starts_with("impl") || has_bare_word(code, "trait");
            if is_header || !header.is_empty() {
                header.push_str(code);
                if code.ends_with('{') || code.ends_with('}') || code.ends_with(';') {
                    is_inside = has_bare_word(&header, kind);
                    header.clear();
                }
            } else if is_inside && has_bare_word(code, &start) {
                return true;
            }
        }
        false
    }
}

/// True if `line` contains `start` and the name ends there.
fn has_start(line: &str, start: &str) -> bool {
    has_bare_word(line, start)
}

impl Architecture {
    pub(crate) fn read(repository: &Repository) -> Self {
        Self { text: repository.text("ARCHITECTURE.md") }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Returns what stands in backticks, with its line.
    fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_block = false;
        let lines = self.lines().filter(move |(_, line)| {
            is_block ^= line.trim_start().starts_with("```");
            !is_block
        });
        lines.flat_map(|(number, line)| quoted(line).map(move |name| (number, name)))
    }

    /// Returns the rows of the table of promises.
    pub(crate) fn promises(&self) -> Vec<Row> {
        let lines = self.lines().skip_while(|(_, line)| !line.starts_with("**Promises.**"));
        let table = lines.skip_while(|(_, line)| !line.starts_with('|'));
        let rows = table.take_while(|(_, line)| line.starts_with('|')).skip(2);
        let rows: Vec<Row> = rows.filter_map(|(number, line)| Row::parse(number, line)).collect();
        assert!(!rows.is_empty(), "ARCHITECTURE.md: no table after `**Promises.**`");
        rows
    }
}

/// Returns the parts of `line` in backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

impl Row {
    /// Reads `| paths | labels |`. A path without crate belongs to the crate of the path before it.
    fn parse(number: usize, line: &str) -> Option<Self> {
        let mut cells = line.trim_matches('|').split('|');
        let (paths, labels) = (cells.next()?, cells.next()?);
        let mut source = "";
        let paths = quoted(paths).map(|path| {
            if let Some((name, _)) = path.split_once("/src/") {
                source = name;
                return format!("crates/{path}");
            }
            format!("crates/{source}/src/{path}")
        });
        let paths = paths.collect();
        let labels = labels.split(',').filter_map(Labels::parse).collect();
        Some(Self { number, paths, labels })
    }

    /// True if the row is about a label of this crate that these files state.
    pub(crate) fn holds(&self, name: &str, files: &[&str]) -> bool {
        let directory = format!("crates/{name}/");
        let is_meant = |path: &String| {
            path.starts_with(&directory)
                && files.iter().any(|file| {
                    if path.ends_with('/') {
                        file.starts_with(path)
                    } else {
                        *file == path.as_str()
                    }
                })
        };
        self.paths.iter().any(is_meant)
    }
}

impl Labels {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let Some((prefix, numbers)) = text.split_once('-') else {
            return (!text.is_empty()).then(|| Self { prefix: text.to_string(), range: None });
        };
        let (first, last) = numbers.split_once("..").unwrap_or((numbers, numbers));
        let range = Some((first.parse().ok()?, last.parse().ok()?));
        Some(Self { prefix: prefix.to_string(), range })
    }

    pub(crate) fn includes(&self, label: &str) -> bool {
        let Some((prefix, number)) = label.split_once('-') else { return false };
        let is_in = |(first, last): (u32, u32)| {
            number.parse().is_ok_and(|number: u32| (first..=last).contains(&number))
        };
        prefix == self.prefix && self.range.is_none_or(is_in)
    }

    /// Returns the number of labels that must be stated at least.
    pub(crate) fn count(&self) -> usize {
        self.range.map_or(1, |(first, last)| (last + 1).saturating_sub(first) as usize)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.range {
            None => write!(f, "{}", self.prefix),
            Some((first, last)) if first == last => write!(f, "{}-{first}", self.prefix),
            Some((first, last)) => write!(f, "{}-{first}..{last}", self.prefix),
        }
    }
}
