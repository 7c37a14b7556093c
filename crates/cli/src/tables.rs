//! From the words of a command to tables of measurements.

use crate::args::TableArgs;
use crate::collisions::Named;
use crate::commands::ccl::{dtype, unknown};
use crate::failure::Failure;
use crate::machine::{self, unreadable};
use crate::{collectives, show};
use phalanx_sim::config::{read_path_within, read_text_within};
use phalanx_workloads::truth::{LONGEST, Selection, Subject, Table, read};
use std::io;
use std::path::Path;

/// The chosen rows of all files.
pub(crate) fn tables(args: &TableArgs) -> Result<Vec<Table>, Failure> {
    let choice = choice(args)?;
    let (mut tables, mut errors) = (Vec::new(), Vec::new());
    for path in &args.files {
        let (file, text) = text_of(path)?;
        match read(&file, &text, &choice) {
            Ok(read) => tables.extend(read),
            Err(wrong) => errors.push(wrong),
        }
    }
    if !errors.is_empty() {
        return Err(Failure::table(errors));
    }
    choice.apply(tables).map_err(|there| {
        Failure::input("no row of the tables is chosen").hint(format!("there are: {there}"))
    })
}

/// The files that are read: an output must be none of them.
pub(crate) fn inputs(args: &TableArgs) -> Vec<Named<'_>> {
    let tables = args.files.iter().map(|path| Named::new("TABLE", path));
    let others =
        machine::file(&args.machine).into_iter().chain(collectives::file(args.ccl.as_deref()));
    others.chain(tables).collect()
}

/// The number of threads.
pub(crate) fn threads(args: &TableArgs) -> usize {
    args.threads.map_or_else(crate::commands::run::cores, usize::from)
}

/// The progress of simulations in words.
pub(crate) fn told(done: usize, all: usize) -> String {
    format!("{done} of {}", show::count(all as u64, "simulation"))
}

fn choice(args: &TableArgs) -> Result<Selection, Failure> {
    let subject = |name: &String| {
        Subject::from_name(name).ok_or_else(|| unknown("operation", name, &Subject::names()))
    };
    Ok(Selection {
        subject: args.op.as_ref().map(subject).transpose()?,
        ranks: args.ranks,
        dtype: args.dtype.as_deref().map(dtype).transpose()?,
        system: args.system.clone(),
    })
}

fn text_of(path: &Path) -> Result<(String, String), Failure> {
    let (file, text) = if path == Path::new("-") {
        ("stdin".to_owned(), read_text_within(io::stdin(), LONGEST))
    } else {
        (path.display().to_string(), read_path_within(path, LONGEST))
    };
    let text = text.map_err(|error| unreadable(&file, &error))?;
    Ok((file, text))
}
