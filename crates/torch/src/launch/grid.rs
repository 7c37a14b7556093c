//! Grids: the programs of a launch, and the PEs that run them.

use crate::error::Error;
use crate::rank::Rank;
use phalanx_sim::topology::PeId;

/// The programs of a launch, and the PEs of the rank's SIP that run them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grid {
    /// One program on each of the first PEs, cube by cube.
    Pes(usize),
    /// One program on each of the first `pes` of each of the first `cubes`.
    Cubes {
        /// Number of cubes.
        cubes: usize,
        /// Number of PEs of each cube.
        pes: usize,
    },
    /// One program on each PE.
    All,
    /// One program on each of these PEs, in this order.
    On(Vec<PeId>),
    /// Programs in up to three axes, the first axis fastest. The PEs of `on` take them in order, each the next one when it is
    /// free, so that there may be more programs than PEs.
    Programs {
        /// The number of programs along each axis.
        axes: Vec<usize>,
        /// The PEs.
        on: Box<Grid>,
    },
}

impl Grid {
    /// Programs in up to three axes on all PEs.
    ///
    /// ```
    /// use phalanx_sim::{DType, MachineSpec, kernel::View, machine::Options};
    /// use phalanx_torch::{Arg, Context, Grid};
    /// let mut context = Context::new(MachineSpec::preset("pair").unwrap(), Options::default());
    /// let numbers = context.run(|cx| async move {
    ///     let x = cx.zeros([3, 40], DType::F32)?;
    ///     let grid = Grid::programs([40, 3]).over(Grid::Pes(2));
    ///     cx.launch("fill", grid, &[Arg::write(&x)], |tl, args| async move {
    ///         let [column, row] = [tl.program_id_along(0), tl.program_id_along(1)];
    ///         let number = tl.full(DType::F32, [1, 1], (10 * row + column) as f64)?;
    ///         let place = View::block(&args.region(0)?, 40, (row, column), [1, 1]);
    ///         tl.store(&place, &number).await
    ///     })?;
    ///     x.to_vec().await
    /// });
    /// assert_eq!(numbers.unwrap()[119], 59.0);
    /// ```
    pub fn programs(axes: impl AsRef<[usize]>) -> Self {
        Self::Programs { axes: axes.as_ref().to_vec(), on: Box::new(Self::All) }
    }

    /// Runs the same programs on the PEs of `pes`.
    #[must_use]
    pub fn over(self, pes: Grid) -> Self {
        match self {
            Self::Programs { axes, .. } => Self::Programs { axes, on: Box::new(pes) },
            _ => pes,
        }
    }

    /// Returns the PEs of the grid on this rank.
    pub fn pes(&self, rank: &Rank) -> Result<Vec<PeId>, Error> {
        let all = rank.host().pes();
        let machine = rank.machine();
        match self {
            Self::All => Ok(all),
            Self::Pes(count) if (1..=all.len()).contains(count) => Ok(all[..*count].to_vec()),
            Self::Pes(count) => refuse(rank, &format!("{count} PEs")),
            Self::Cubes { cubes, pes } => {
                let (cubes, pes) = (*cubes, *pes);
                if cubes == 0
                    || cubes > machine.cubes.count() as usize
                    || pes == 0
                    || pes > machine.pes.count() as usize
                {
                    return refuse(rank, &format!("{cubes} cubes by {pes} PEs"));
                }
                let inside = |pe: &PeId| usize::from(pe.cube) < cubes && usize::from(pe.pe) < pes;
                Ok(all.into_iter().filter(inside).collect())
            }
            Self::On(pes) => chosen(rank, pes, &all),
            Self::Programs { on, .. } => on.pes(rank),
        }
    }

    /// The PEs of the grid, and the number of programs along each axis.
    pub(crate) fn layout(self, rank: &Rank) -> Result<(Vec<PeId>, [usize; 3]), Error> {
        let Self::Programs { axes, on } = self else {
            let pes = self.pes(rank)?;
            let count = pes.len();
            return Ok((pes, [count, 1, 1]));
        };
        let count = axes.iter().try_fold(1_usize, |product, axis| product.checked_mul(*axis));
        if axes.is_empty() || axes.len() > 3 || count.is_none_or(|count| count == 0) {
            return Err(Error::argument(format!(
                "grid of {axes:?} programs: a grid has one to three axes, each of at least one program"
            )));
        }
        let axis = |number: usize| axes.get(number).copied().unwrap_or(1);
        // No program is left for further PEs.
        let pes = match *on {
            Self::All => rank.host().first_pes(count.unwrap_or(usize::MAX)),
            on => on.pes(rank)?,
        };
        Ok((pes, [axis(0), axis(1), axis(2)]))
    }
}

/// The PEs of a list, each of this rank and named once.
fn chosen(rank: &Rank, pes: &[PeId], all: &[PeId]) -> Result<Vec<PeId>, Error> {
    if pes.is_empty() {
        return refuse(rank, "no PEs");
    }
    for (index, pe) in pes.iter().enumerate() {
        if pe.sip != rank.host().sip() {
            return Err(Error::argument(format!(
                "grid on {pe}: it is not a PE of rank {}, which has those of sip{}",
                rank.rank(),
                rank.host().sip()
            )));
        }
        if !all.contains(pe) {
            return refuse(rank, &pe.to_string());
        }
        if pes[..index].contains(pe) {
            return Err(Error::argument(format!(
                "grid on {pe}: it is named twice; `Grid::programs` runs more programs than PEs"
            )));
        }
    }
    Ok(pes.to_vec())
}

fn refuse<T>(rank: &Rank, what: &str) -> Result<T, Error> {
    let machine = rank.machine();
    let (cubes, pes) = (machine.cubes.count(), machine.pes.count());
    Err(Error::argument(format!(
        "grid of {what}: a SIP of `{}` has {cubes} cubes of {pes} PEs",
        machine.name
    )))
}
