//! Totals by line of a kernel's source.

use crate::kernel::{LineTotals, Lines};
use crate::stall::Stack;
use std::cell::RefCell;
use std::rc::Rc;

/// The time, waiting and bytes of a kernel's programs at one line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineTotal {
    pub(crate) stack: Stack,
    pub(crate) bytes: u64,
    pub(crate) operations: u64,
}

impl LineTotal {
    /// Counts an operation.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
    }
}

crate::portable!(struct LineTotal { stack, bytes, operations });

/// The lines of a kernel on one SIP.
pub(crate) struct LineTable {
    pub(crate) lines: Rc<Lines>,
    pub(crate) totals: LineTotals,
}

impl LineTable {
    pub(super) fn new(lines: &Rc<Lines>) -> Self {
        let totals = vec![LineTotal::default(); lines.lines.len()];
        Self { lines: lines.clone(), totals: Rc::new(RefCell::new(totals)) }
    }
}
