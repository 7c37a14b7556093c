//! `phalanx machines`: the machines that come with the program.

use super::check::all_pes;
use crate::args::{MachinesArgs, MachinesCommand};
use crate::failure::Failure;
use crate::machine::Source;
use crate::printer;
use phalanx_sim::MachineSpec;
use phalanx_sim::config::{self, Figure, MachineView};
use phalanx_sim::report::{Style, Table};
use phalanx_sim::spec::{GridSpec, Origin, Topology};
use serde::Serialize;
use std::process::ExitCode;

pub(crate) fn machines(args: &MachinesArgs) -> anyhow::Result<ExitCode> {
    match (&args.command, &args.show) {
        (Some(MachinesCommand::Show { name }), _) => show(name, args.json)?,
        (None, Some(name)) => figures(name, args.json)?,
        (None, None) => list(args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Every figure of a machine and its source.
fn figures(name: &str, json: bool) -> anyhow::Result<()> {
    let file = Source::find(name)?;
    let spec = file.parse()?;
    let figures = MachineView::new(&spec).figures();
    if json {
        let figures = figures.iter().map(FigureView::new).collect();
        let view = FiguresView { name: &spec.name, description: &spec.description, figures };
        return Ok(printer::json(&view)?);
    }
    let mut table = Table::new(&["figure", "value", "source"], &["value"]);
    for figure in &figures {
        let source = figure.source.clone().unwrap_or_default();
        table.row([figure.path.clone(), figure.value.clone(), source]);
    }
    let heading =
        format!("{}: {}\n{}\n\n", spec.name, spec.description, counts(&figures, &file.text));
    Ok(printer::data(&(heading + &table.text(Style::Terminal)))?)
}

/// The number of figures (of the file itself, if it has a base), and their sources. Words are no figures.
fn counts(figures: &[Figure], text: &str) -> String {
    let numbers: Vec<&Figure> = figures.iter().filter(|figure| figure.is_number()).collect();
    let of = |is: &dyn Fn(&Figure) -> bool| numbers.iter().filter(|figure| is(figure)).count();
    let fitted = of(&|figure| figure.source.as_deref() == Some(Origin::FITTED));
    let is_assumed = |source: &String| source.starts_with(Origin::ASSUMED);
    let assumed = of(&|figure| figure.source.as_ref().is_some_and(is_assumed));
    let without = of(&|figure| figure.source.is_none());
    let all = numbers.len();
    let sourced = all - fitted - assumed - without;
    let guesses = if assumed > 0 { format!(", {assumed} assumed") } else { String::new() };
    let own: Vec<String> = config::figure_texts(text).into_iter().map(|own| own.path).collect();
    let own = of(&|figure| own.contains(&figure.path));
    let of_base = match config::base_of(text) {
        Some(base) => format!(" ({own} of its own, {} of {base})", all - own),
        None => String::new(),
    };
    format!(
        "{all} figures{of_base}: {sourced} with a source, {fitted} fitted{guesses}, {without} without"
    )
}

/// The figures of a machine in `--json`.
#[derive(Serialize)]
struct FiguresView<'a> {
    name: &'a str,
    description: &'a str,
    figures: Vec<FigureView<'a>>,
}

#[derive(Serialize)]
struct FigureView<'a> {
    figure: &'a str,
    value: &'a str,
    /// Null without one.
    source: Option<&'a str>,
}

impl<'a> FigureView<'a> {
    fn new(figure: &'a Figure) -> Self {
        let Figure { path, value, source } = figure;
        Self { figure: path, value, source: source.as_deref() }
    }
}

fn show(name: &str, json: bool) -> anyhow::Result<()> {
    let source = Source::find(name)?;
    let spec = source.parse()?;
    if json {
        printer::json(&MachineView::new(&spec))?;
    } else {
        printer::data(&source.text)?;
    }
    Ok(())
}

fn list(json: bool) -> anyhow::Result<()> {
    let presets = config::presets().iter().map(|preset| Source::find(preset.name)?.parse());
    let specs: Vec<MachineSpec> = presets.collect::<Result<_, Failure>>()?;
    if json {
        printer::json(&specs.iter().map(MachineRow::new).collect::<Vec<_>>())?;
    } else {
        printer::data(&table(&specs).text(Style::Terminal))?;
    }
    Ok(())
}

fn table(specs: &[MachineSpec]) -> Table {
    let mut table = Table::new(
        &["name", "SIPs", "topology", "cubes x PEs", "PEs", "description"],
        &["SIPs", "PEs"],
    );
    for spec in specs {
        table.row([
            spec.name.clone(),
            spec.devices().to_string(),
            topologies(spec),
            format!("{} x {}", grid(&spec.cubes), grid(&spec.pes)),
            all_pes(spec).to_string(),
            spec.description.clone(),
        ]);
    }
    table
}

/// The topologies of all levels, innermost first: `switch 8, node: switch 2`.
fn topologies(spec: &MachineSpec) -> String {
    let Some(_) = spec.levels.first() else { return topology(spec.sips.topology) };
    let inner = format!("{} {}", topology(spec.sips.topology), spec.sips.count);
    let outer = spec
        .levels
        .iter()
        .map(|level| format!("{}: {} {}", level.name, topology(level.topology), level.count));
    std::iter::once(inner).chain(outer).collect::<Vec<_>>().join(", ")
}

fn topology(topology: Topology) -> String {
    match topology {
        Topology::Mesh3d { layers, rows, columns }
        | Topology::Torus3d { layers, rows, columns } => {
            format!("{} {layers}x{rows}x{columns}", topology.name())
        }
        Topology::Mesh2d { rows, columns } | Topology::Torus2d { rows, columns } => {
            format!("{} {rows}x{columns}", topology.name())
        }
        _ => topology.name().to_owned(),
    }
}

fn grid(grid: &GridSpec) -> String {
    format!("({}x{})", grid.rows, grid.columns)
}

/// One machine in `--json`.
#[derive(Serialize)]
struct MachineRow<'a> {
    name: &'a str,
    description: &'a str,
    sips: u32,
    topology: &'static str,
    cubes_per_sip: u32,
    pes_per_cube: u32,
    pes: u64,
}

impl<'a> MachineRow<'a> {
    fn new(spec: &'a MachineSpec) -> Self {
        Self {
            name: &spec.name,
            description: &spec.description,
            sips: spec.devices(),
            topology: spec.sips.topology.name(),
            cubes_per_sip: spec.cubes.count(),
            pes_per_cube: spec.pes.count(),
            pes: all_pes(spec),
        }
    }
}
