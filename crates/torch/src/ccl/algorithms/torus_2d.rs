//! `torus_2d`: rings along the rows and the columns of a grid.
//!
//! A row reduces the vector so that each of its ranks has one segment, a column reduces and gathers this segment, and the
//! row gathers all segments. Segment `c` of a row is combined in the order of `ring` along the row; part `r` of these sums
//! is combined in the order of `ring` along the column.

use super::super::algorithm::{Algorithm, Operation, Running, never, unknown_work};
use super::super::channels::Channels;
use super::super::part::Part;
use super::super::prefetch::LoadFrom;
use super::ring::{Ring, RingPosition};
use crate::placement::share;
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{KernelError, Tl};
use phalanx_sim::spec::Topology;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "torus_2d",
    summary: "rings along rows, then columns, then rows; few steps and the least traffic on a grid",
    operations: &[Operation::AllReduce],
    channels: Channels::ONE,
    wide: Channels::WIDE,
    fits,
    symmetry: never,
    work: unknown_work,
    run: |part, tl| -> Running<'static> { Box::pin(run(part, tl)) },
};

/// Rows and columns of the machine, if its SIPs form a grid.
fn grid(machine: &MachineSpec) -> Option<(usize, usize)> {
    match machine.sips.topology {
        Topology::Torus2d { rows, columns } | Topology::Mesh2d { rows, columns } => {
            Some((rows as usize, columns as usize))
        }
        _ => None,
    }
}

fn fits(machine: &MachineSpec, members: &[u32]) -> Result<(), String> {
    if grid(machine).is_none() {
        let here = machine.sips.topology.name();
        return Err(format!(
            "`torus_2d` needs SIPs in a grid (torus_2d or mesh_2d), and this machine is {here}"
        ));
    }
    let count = machine.sips.count;
    if !members.iter().copied().eq(0..count) {
        let here = match members.len() {
            len if len == count as usize => "another order".to_owned(),
            len => format!("{len} members"),
        };
        return Err(format!(
            "`torus_2d` needs a group of all {count} SIPs in their order, and this one has {here}"
        ));
    }
    Ok(())
}

async fn run(part: Part, tl: Tl) -> Result<(), KernelError> {
    if part.ranks == 1 {
        return part.copy_all(&tl).await;
    }
    let (rows, columns) = grid(tl.machine())
        .filter(|(rows, columns)| rows * columns == part.ranks)
        .ok_or_else(|| KernelError::Other("`torus_2d` on a machine that it does not fit".into()))?;
    let (row, column) = (part.rank / columns, part.rank % columns);
    let in_row = |column: usize| row * columns + column % columns;
    let in_column = |row: usize| row % rows * columns + column;
    let receivers = usize::from(columns > 1) + usize::from(rows > 1);
    let open = |position| Ring::open(&part, &tl, &position, receivers);
    let x = if columns > 1 {
        let (next, previous) = (in_row(column + 1), in_row(column + columns - 1));
        Some(open(RingPosition { next, previous, index: column, count: columns })?)
    } else {
        None
    };
    let y = if rows > 1 {
        let (next, previous) = (in_column(row + 1), in_column(row + rows - 1));
        Some(open(RingPosition { next, previous, index: row, count: rows })?)
    } else {
        None
    };
    let whole = 0..part.input.len;
    let own = share(&whole, column, columns);
    if let Some(x) = &x {
        x.reduce_scatter(&whole, 0, y.is_none()).await?;
    }
    if let Some(y) = &y {
        let from = if x.is_some() { LoadFrom::Output } else { LoadFrom::Input };
        y.all_reduce(&own, from).await?;
    }
    match &x {
        Some(x) => x.gather(&whole).await,
        None => Ok(()),
    }
}
