//! The blocks of a product: the parameters `tile` and `split_k`.

use crate::parameters::Settings;
use phalanx_sim::MachineSpec;
use phalanx_sim::kernel::{GemmPlan, GemmProblem};
use phalanx_sim::units;
use phalanx_torch::limits::ParameterError;

/// The word for the fastest by the machine's figures.
pub(super) const AUTO: &str = "auto";
/// The word for the tile of the matrix engine.
pub(super) const ENGINE: &str = "engine";
/// The longest side of a tile.
const MOST_SIDE: u64 = 1 << 16;
/// The most parts of k.
const MOST_PARTS: u64 = 1 << 16;

/// A machine whose PEs share a cache gets the fastest plan; on others the engine's tile is the block.
pub(super) fn default_tile(machine: &MachineSpec) -> String {
    if machine.cache.is_some() { AUTO.into() } else { ENGINE.into() }
}

/// As [`default_tile`], for the parts of k.
pub(super) fn default_split(machine: &MachineSpec) -> String {
    if machine.cache.is_some() { AUTO.into() } else { "1".into() }
}

/// As [`default_tile`], for the operand buffers.
pub(super) fn default_buffers(machine: &MachineSpec) -> String {
    if machine.cache.is_some() { "5".into() } else { "2".into() }
}

/// The plan of a product, `None` for the tile of the matrix engine with k in one part: blocks row by row.
pub(super) fn plan(
    machine: &MachineSpec,
    settings: &Settings,
    (dims, pes): ([usize; 3], usize),
) -> Result<Option<GemmPlan>, ParameterError> {
    let engine = machine.gemm.tile.map(|side| side as usize);
    let (tile, parts) = (settings.word("tile"), settings.word("split_k"));
    if tile == ENGINE && parts == "1" {
        return Ok(None);
    }
    let tile = match tile {
        AUTO => None,
        ENGINE => Some(engine),
        text => Some(sides(text)?),
    };
    let parts = match parts {
        AUTO => None,
        text => Some(count(text)?),
    };
    let steps = tile.map(|tile| dims[2].div_ceil(tile[2]));
    if let (Some(parts), Some(steps)) = (parts, steps)
        && parts > steps
    {
        let message = format!("parameter `split_k`: {parts} parts of k, which has {steps} steps");
        return Err(ParameterError::new(message, format!("allowed: 1 to {steps}, or `{AUTO}`")));
    }
    let buffers = u32::try_from(settings.count("buffers")).unwrap_or(u32::MAX);
    let dtype = settings.dtype("dtype");
    let product = GemmProblem { dims, dtype, pes, buffers, tile, split_k: parts };
    Ok(Some(GemmPlan::fastest(machine, &product)))
}

/// `128x256x64`.
fn sides(text: &str) -> Result<[usize; 3], ParameterError> {
    let sides: Vec<Option<usize>> = text.split('x').map(|side| number(side, MOST_SIDE)).collect();
    if let [Some(m), Some(n), Some(k)] = sides[..] {
        return Ok([m, n, k]);
    }
    let message = format!("parameter `tile`: `{text}` is not a tile");
    let help = format!(
        "allowed: `{AUTO}`, `{ENGINE}`, or sides from 1 to {MOST_SIDE} as in `128x256x64` (m, n, k)"
    );
    Err(ParameterError::new(message, help))
}

fn count(text: &str) -> Result<usize, ParameterError> {
    number(text, MOST_PARTS).ok_or_else(|| {
        let message = format!("parameter `split_k`: `{text}` is not a number of parts");
        ParameterError::new(message, format!("allowed: 1 to {MOST_PARTS}, or `{AUTO}`"))
    })
}

/// A whole number from 1 to `most`.
fn number(text: &str, most: u64) -> Option<usize> {
    let count = units::parse_count(text.trim()).ok()?;
    (1..=most).contains(&count).then_some(count).and_then(|count| usize::try_from(count).ok())
}
