//! Lines of kernels, over all SIPs.

use super::{LineUsage, PathLine};
use crate::machine::World;
use crate::record::{LineSum, LineSums};
use crate::stall::Kind;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Returns the lines that took time or issued operations, the longest first.
pub(super) fn lines(world: &World) -> Vec<LineUsage> {
    let mut all: BTreeMap<(String, String), LineUsage> = BTreeMap::new();
    for sip in &world.sips {
        for table in sip.borrow().record.line_tables() {
            let totals = table.totals.borrow();
            for ((place, text), total) in table.lines.lines.iter().zip(totals.iter()) {
                let kernel = table.lines.kernel.clone();
                let key = (kernel.clone(), place.clone());
                let usage = all.entry(key).or_insert_with(|| LineUsage {
                    kernel,
                    place: place.clone(),
                    text: text.clone(),
                    stack: crate::stall::Stack::default(),
                    bytes: 0,
                    operations: 0,
                });
                for kind in Kind::ALL {
                    usage.stack.add(kind, total.stack.get(kind));
                }
                usage.bytes += total.bytes;
                usage.operations += total.operations;
            }
        }
    }
    let is_used = |usage: &LineUsage| usage.operations > 0 || usage.stack.total().as_ps() > 0;
    let mut lines: Vec<LineUsage> = all.into_values().filter(is_used).collect();
    lines.sort_by_key(|usage| Reverse(usage.stack.total()));
    lines
}

/// Returns the lines of a chain of steps, the longest first.
pub(super) fn path_lines(world: &World, sums: LineSums) -> Vec<PathLine> {
    let mut all: BTreeMap<(String, String), (String, LineSum)> = BTreeMap::new();
    for (line, sum) in sums.finish() {
        let Some((table, number)) = line.place() else { continue };
        let sip = world.sips[line.sip as usize].borrow();
        let Some(table) = sip.record.line_tables().get(table) else { continue };
        let Some((place, text)) = table.lines.lines.get(number) else { continue };
        let key = (table.lines.kernel.clone(), place.clone());
        all.entry(key).or_insert_with(|| (text.clone(), LineSum::default())).1.add(&sum);
    }
    let line = |((kernel, place), (text, LineSum { time, spent, steps }))| PathLine {
        kernel,
        place,
        text,
        time,
        spent,
        steps,
    };
    let mut lines: Vec<PathLine> = all.into_iter().map(line).collect();
    lines.sort_by_key(|line| Reverse(line.time));
    lines
}
