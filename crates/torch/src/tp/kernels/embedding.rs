//! `embedding`: looks up rows of a table by id; this rank has a part of the table.
//!
//! An id outside the part loads the first row and stores zeros, so that the time does not depend on ids.

use super::{Dense, blocks};
use crate::error::Error;
use crate::launch::Arg;
use crate::request::Handle;
use crate::tensor::Tensor;
use crate::tp::compute::Compute;
use phalanx_sim::kernel::{KernelError, Tile, Tl};
use std::ops::Range;
use std::rc::Rc;

struct Lookup {
    ids: Dense,
    table: Dense,
    out: Dense,
    /// The ids whose rows this rank has.
    own: Range<usize>,
    /// Number of ids.
    all: usize,
}

/// Launches `out[i] = table[ids[i] - own.start]`, and zeros where `ids[i]` is outside of `own`.
pub(crate) fn lookup(
    out: &Tensor,
    ids: &Tensor,
    table: &Tensor,
    own: Range<usize>,
    all: usize,
    compute: Compute,
) -> Result<Handle, Error> {
    let flat = ids.reshape([ids.numel(), 1])?;
    let lookup = Rc::new(Lookup {
        ids: Dense::of(&flat)?,
        table: Dense::of(table)?,
        out: Dense::of(out)?,
        own,
        all,
    });
    let args = [Arg::read(ids), Arg::read(table), Arg::write(out)];
    let cx = ids.owner().clone();
    cx.launch("embedding", compute.grid(), &args, move |tl, _| run(lookup.clone(), tl))
}

async fn run(lookup: Rc<Lookup>, tl: Tl) -> Result<(), KernelError> {
    let Lookup { ids, table, out, .. } = &*lookup;
    let zeros = tl.zeros(out.near(&tl).dtype, [1, out.columns])?;
    for block in blocks(&tl, ids.rows, 1, 16) {
        let numbers = ids.load(&tl, &block).await?;
        for (index, row) in block.enumerate() {
            let found = lookup.row(&tl, &numbers, index)?;
            let at = found.unwrap_or(0);
            let tile = table.load(&tl, &(at..at + 1)).await?;
            out.store(&tl, &(row..row + 1), if found.is_some() { &tile } else { &zeros });
        }
    }
    Ok(())
}

impl Lookup {
    /// The row of an id in this rank's table, if the rank has it.
    fn row(&self, tl: &Tl, numbers: &Tile, index: usize) -> Result<Option<usize>, KernelError> {
        if !tl.has_data() {
            return Ok(Some(0));
        }
        let number = tl.item(numbers, index)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an i32")]
        let id = if number < 0.0 { usize::MAX } else { number as usize };
        if id >= self.all {
            let all = self.all;
            return Err(KernelError::Other(format!(
                "embedding: {number} is not one of the {all} numbers from 0 on"
            )));
        }
        Ok(self.own.contains(&id).then(|| id - self.own.start))
    }
}
