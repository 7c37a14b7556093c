//! Dependencies between the crates: the `Cargo.toml`s have the edges that ARCHITECTURE.md states, and no others.
//!
//! ARCHITECTURE.md has a line `torch -> sim, engine` for each directory of `crates/`, or `trace -> nothing`. Dependencies
//! for tests do not count.

use super::architecture::Architecture;
use super::{File, Repository, report};
use std::collections::{BTreeMap, BTreeSet};

/// The crates that each crate uses, by their directories.
type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_diagram_of_crates_is_true() {
    let repository = Repository::read();
    let (stated, real) = (stated(&Architecture::read(&repository)), real(&repository));
    let mut offences = Vec::new();
    for name in real.keys().filter(|name| !stated.contains_key(*name)) {
        offences.push(format!("ARCHITECTURE.md: no line `{name} -> ...` for crates/{name}"));
    }
    for (name, uses) in &stated {
        let Some(real) = real.get(name) else {
            offences
                .push(format!("ARCHITECTURE.md: `{name} -> ...`, but there is no crates/{name}"));
            continue;
        };
        for other in real.difference(uses) {
            offences.push(format!("crates/{name} uses {other}; ARCHITECTURE.md does not say so"));
        }
        for other in uses.difference(real) {
            offences.push(format!(
                "ARCHITECTURE.md: `{name} -> {other}`, but crates/{name} does not use it"
            ));
        }
    }
    report(&offences);
}

/// Reads the lines `name -> name, name` of ARCHITECTURE.md.
fn stated(architecture: &Architecture) -> Edges {
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let edges = architecture.lines().filter_map(|(_, line)| {
        let (name, uses) = line.split_once("->")?;
        let uses: Vec<&str> = uses.split(',').map(str::trim).collect();
        let all_names = is_name(name.trim()) && uses.iter().all(|name| is_name(name));
        let uses = uses.into_iter().filter(|name| *name != "nothing").map(str::to_string);
        all_names.then(|| (name.trim().to_string(), uses.collect()))
    });
    edges.collect()
}

/// Reads the `[dependencies]` of every `Cargo.toml`.
fn real(repository: &Repository) -> Edges {
    let workspace = repository.text("Cargo.toml");
    let paths: BTreeMap<&str, &str> = workspace
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = { path = \"crates/")?;
            Some((name, rest.split('"').next()?))
        })
        .collect();
    let is_manifest =
        |file: &&File| file.path.split('/').count() == 3 && file.path.ends_with("/Cargo.toml");
    let manifests = repository.files.iter().filter(is_manifest);
    let uses = |file: &File| {
        dependencies(&file.text)
            .filter_map(|name| paths.get(name.as_str()))
            .map(|path| (*path).to_string())
            .collect()
    };
    manifests.map(|file| (file.crate_name().to_string(), uses(file))).collect()
}

/// Returns the names in all tables `[dependencies]` and `[target.*.dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = String> {
    let mut is_inside = false;
    let lines = manifest.lines().filter(move |line| {
        if line.starts_with('[') {
            is_inside = *line == "[dependencies]" || line.ends_with(".dependencies]");
            return false;
        }
        is_inside
    });
    lines.filter_map(|line| {
        let name = line.split('=').next()?.trim();
        Some(name.split('.').next()?.to_string()).filter(|name| !name.is_empty())
    })
}
