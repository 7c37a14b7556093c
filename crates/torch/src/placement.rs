//! The placement of a tensor over cubes and over the PEs of each cube.
//!
//! A tensor is laid out as a matrix: its last dimension is the columns, all others together the rows. Each cube gets a block
//! of it (or all of it), and each PE a block of its cube's block. A block is a *shard*: a dense region of its own in the
//! cube's HBM.

use crate::error::Error;
use phalanx_sim::MachineSpec;
use phalanx_sim::memory::Region;
use phalanx_sim::topology::PeId;
use std::ops::Range;

/// The spread of elements over units (cubes, or the PEs of a cube).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Every unit holds all elements.
    Replicate,
    /// Every unit holds some of the rows.
    RowWise,
    /// Every unit holds some of the columns.
    ColumnWise,
}

/// The placement of a tensor on its SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DpPolicy {
    /// The spread over cubes.
    pub cube: Spread,
    /// The spread over the PEs of each cube.
    pub pe: Spread,
    /// Number of cubes.
    pub num_cubes: usize,
    /// Number of PEs of each cube.
    pub num_pes: usize,
}

impl Default for DpPolicy {
    /// All elements in one cube, for one PE.
    fn default() -> Self {
        Self { cube: Spread::Replicate, pe: Spread::Replicate, num_cubes: 1, num_pes: 1 }
    }
}

/// A block of a tensor, in one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The PE that the shard is for.
    pub pe: PeId,
    /// The rows of the tensor.
    pub rows: Range<usize>,
    /// The columns of the tensor.
    pub columns: Range<usize>,
    /// The memory: row by row, without gaps.
    pub region: Region,
}

impl Shard {
    /// The element of the region that holds row `row`, column `column` of the tensor.
    pub(crate) fn at(&self, row: usize, column: usize) -> usize {
        (row - self.rows.start) * self.columns.len() + column - self.columns.start
    }

    /// The number of elements.
    pub(crate) fn elements(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// True if both hold the same block.
    pub(crate) fn is_copy_of(&self, other: &Self) -> bool {
        self.rows == other.rows && self.columns == other.columns
    }
}

/// A block without memory.
pub(crate) struct Block {
    pub(crate) pe: PeId,
    pub(crate) rows: Range<usize>,
    pub(crate) columns: Range<usize>,
}

impl DpPolicy {
    /// Places a copy of the tensor in each of `num_cubes` cubes.
    pub fn replicated(num_cubes: usize) -> Self {
        Self { num_cubes, ..Self::default() }
    }

    /// Places some of the rows in each of `num_cubes` cubes.
    pub fn row_wise(num_cubes: usize) -> Self {
        Self { cube: Spread::RowWise, num_cubes, ..Self::default() }
    }

    /// Places some of the columns in each of `num_cubes` cubes.
    pub fn column_wise(num_cubes: usize) -> Self {
        Self { cube: Spread::ColumnWise, num_cubes, ..Self::default() }
    }

    /// Refuses more cubes or PEs than the machine has.
    pub(crate) fn check(&self, machine: &MachineSpec) -> Result<(), Error> {
        let checked = [
            ("num_cubes", self.num_cubes, machine.cubes.count()),
            ("num_pes", self.num_pes, machine.pes.count()),
        ];
        for (name, asked, most) in checked {
            if asked == 0 || asked > most as usize {
                return Err(Error::argument(format!(
                    "DpPolicy: {name} is {asked}; `{}` allows 1 to {most}",
                    machine.name
                )));
            }
        }
        Ok(())
    }

    /// The blocks of a matrix, cube by cube and PE by PE.
    pub(crate) fn blocks(&self, sip: u32, rows: usize, columns: usize) -> Vec<Block> {
        let small = |n: usize| u16::try_from(n).expect("checked against the machine");
        let mut blocks = Vec::new();
        for cube in 0..self.num_cubes {
            let all = Extent { rows: 0..rows, columns: 0..columns };
            let of_cube = self.cube.part(all, cube, self.num_cubes);
            for pe in 0..self.num_pes {
                let Extent { rows, columns } = self.pe.part(of_cube.clone(), pe, self.num_pes);
                blocks.push(Block {
                    pe: PeId { sip, cube: small(cube), pe: small(pe) },
                    rows,
                    columns,
                });
            }
        }
        blocks
    }
}

impl Spread {
    /// Its name in settings and messages: `row_wise`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Replicate => "replicate",
            Self::RowWise => "row_wise",
            Self::ColumnWise => "column_wise",
        }
    }

    /// The part of a block that unit `index` of `count` holds.
    fn part(self, Extent { rows, columns }: Extent, index: usize, count: usize) -> Extent {
        match self {
            Self::Replicate => Extent { rows, columns },
            Self::RowWise => Extent { rows: share(&rows, index, count), columns },
            Self::ColumnWise => Extent { rows, columns: share(&columns, index, count) },
        }
    }
}

/// Rows and columns of a block.
#[derive(Clone)]
struct Extent {
    rows: Range<usize>,
    columns: Range<usize>,
}

/// Part `index` of `count` nearly equal parts of a range.
pub(crate) fn share(range: &Range<usize>, index: usize, count: usize) -> Range<usize> {
    let cut = |index: usize| range.start + range.len() * index / count;
    cut(index)..cut(index + 1)
}
