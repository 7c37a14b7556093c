//! Lines of kernels, over all SIPs.

use super::LineUsage;
use crate::machine::World;
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
