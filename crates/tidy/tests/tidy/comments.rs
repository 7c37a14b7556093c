//! Comments: they open with the thing that they are about, the docs of a public function with a verb, and the docs of
//! any function fit its signature.

use super::{File, Repository, has_bare_word, has_extension, report};
use std::path::Path;

/// Words of a question that no comment opens with: a comment says what a thing is.
const QUESTIONS: [&str; 8] =
    ["What ", "How ", "Whether ", "Where ", "Who ", "Whose ", "Which ", "Whom "];

#[test]
fn comments_open_with_the_thing() {
    let repository = Repository::read();
    let others = repository.others();
    let mut offences = Vec::new();
    for file in repository.files.iter().chain(&others) {
        for (number, text) in file.comments() {
            let opening = text.strip_prefix("- ").unwrap_or(text);
            let is_promise = opening.starts_with("**");
            let opening =
                opening.split_once(".** ").filter(|_| is_promise).map_or(opening, |two| two.1);
            if QUESTIONS.iter().any(|word| opening.starts_with(word)) {
                offences.push(format!("{}:{number}: {opening}", file.path));
            }
        }
    }
    report(&offences);
}

#[test]
fn the_docs_of_a_function_fit_its_signature() {
    let repository = Repository::read();
    let others = repository.others();
    let mut offences = Vec::new();
    for file in repository.files.iter().chain(&others).filter(|file| file.is_rust()) {
        for doc in file.docs() {
            let is_bool = || has_bare_word(&doc.item, "bool") || doc.item.contains("Bool");
            let reason = if doc.first.starts_with("True if ") && !is_bool() {
                "has no `bool`"
            } else if doc.first.starts_with("Returns ") && !doc.item.contains("->") {
                "returns nothing"
            } else {
                continue;
            };
            offences.push(format!("{}:{}: `{}` {reason}", file.path, doc.number, doc.item));
        }
    }
    report(&offences);
}

#[test]
fn the_docs_of_a_public_function_open_with_a_verb() {
    let repository = Repository::read();
    let is_product =
        |file: &&File| file.is_rust() && !file.is_test() && file.path.contains("/src/");
    let mut offences = Vec::new();
    for file in repository.files.iter().filter(is_product) {
        for doc in file.docs().into_iter().filter(Doc::is_public_function) {
            let word = doc.first.split([' ', ',', ':']).next().unwrap_or_default();
            if word != "True" && !word.ends_with('s') {
                offences.push(format!("{}:{}: {}", file.path, doc.number, doc.first));
            }
        }
    }
    report(&offences);
}

/// The docs of an item.
struct Doc {
    /// Line of the first line.
    number: usize,
    /// The first line.
    first: String,
    /// The item up to its body, in one line.
    item: String,
}

impl Doc {
    fn is_public_function(&self) -> bool {
        let item = self.item.strip_prefix("pub ").unwrap_or_default();
        item.split(' ').find(|word| !["const", "async"].contains(word)) == Some("fn")
    }
}

impl File {
    /// Returns the text of each comment line, with its number; of a Python file, of each line, since docstrings are text.
    fn comments(&self) -> impl Iterator<Item = (usize, &str)> {
        let signs: &[&str] = if self.is_rust() {
            &["//!", "///", "//"]
        } else if has_extension(Path::new(&self.path), &["py", "pyi"]) {
            &["#:", "#", "r\"\"\"", "\"\"\"", ""]
        } else if has_extension(Path::new(&self.path), &["toml"]) || !self.path.contains('.') {
            &["#"]
        } else {
            &[]
        };
        let lines = (1..).zip(self.text.lines());
        lines.filter_map(move |(number, line)| {
            let line = line.trim_start();
            let text = signs.iter().find_map(|sign| line.strip_prefix(sign))?;
            Some((number, text.trim_start()))
        })
    }

    /// Returns the docs of all items.
    fn docs(&self) -> Vec<Doc> {
        let mut docs = Vec::new();
        let mut lines = (1..).zip(self.text.lines().map(str::trim)).peekable();
        while let Some((number, line)) = lines.next() {
            let Some(first) = line.strip_prefix("/// ") else { continue };
            while lines.next_if(|(_, line)| line.starts_with("///")).is_some() {}
            while lines.next_if(|(_, line)| line.starts_with("#[")).is_some_and(|(_, line)| {
                let mut last = line;
                while !last.ends_with(']') {
                    let Some((_, line)) = lines.next() else { break };
                    last = line;
                }
                true
            }) {}
            let mut item = String::new();
            for (_, line) in lines.by_ref() {
                item.push_str(line);
                item.push(' ');
                let is_whole = item.matches('(').count() <= item.matches(')').count();
                if is_whole && line.ends_with(['{', ';', ',', '}']) {
                    break;
                }
            }
            docs.push(Doc { number, first: first.to_owned(), item: item.trim_end().to_owned() });
        }
        docs
    }
}
