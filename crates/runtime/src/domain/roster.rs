//! Members and layout of a domain: the same for the parent and for each rank.
//!
//! ```text
//!   a window:  buffers, one after the other │ bell │ cells of writer 0 │ cells of writer 1 │ …
//!   notices:   of rank 0 │ of rank 1 │ …                                   (apart from all windows)
//! ```
//!
//! The bell is rung by whoever writes a cell; it wakes the owner of the window. Each cell has a line of its own, and only
//! its writer writes to it. The last cell of each writer is the barrier's; in the line of a rank's own barrier cell in its own
//! window stand behind it the task and the process that came to a barrier last. The notices are written by the node.

use super::notice::NOTICE;
use crate::tensor::Layout;
use std::fmt;

/// The most ranks of a domain.
pub(crate) const MAX_RANKS: usize = 64;
/// The most buffers of a window.
pub(crate) const MAX_BUFFERS: usize = 64;
/// The most cells that one rank has in the window of another.
pub(crate) const MAX_SIGNALS: u32 = 4096;
/// The most bytes of a name.
pub(crate) const MAX_NAME: usize = 255;
/// Bytes of a cell, and what everything in a window begins at a multiple of.
pub(crate) const LINE: u64 = 64;

/// A named part of every window of a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its name.
    pub name: String,
    /// Offset in the window.
    pub offset: u64,
    /// Layout, without gaps.
    pub layout: Layout,
}

/// One rank of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Number of the chip.
    pub chip: u32,
    /// Offset of its window in the memory.
    pub window: u64,
}

/// A domain, as everybody in it knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// Number that no other domain of its worker has or had.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Index of the memory that has the windows.
    pub memory: u8,
    /// Offset of the notices in the memory.
    pub notices: u64,
    /// Bytes of a window that are for buffers; a multiple of [`LINE`].
    pub data: u64,
    /// Number of cells that each rank has in each window, beside the barrier's.
    pub signals: u32,
    /// The ranks, in order.
    pub members: Vec<Member>,
    /// The buffers of each window, in order.
    pub parts: Vec<Part>,
}

impl Roster {
    /// Returns the offset of the bell in a window.
    pub(crate) fn bell(&self) -> u64 {
        self.data
    }

    /// Returns the offset of a cell in a window.
    pub(crate) fn cell(&self, writer: usize, number: u32) -> u64 {
        let before = writer as u64 * (u64::from(self.signals) + 1) + u64::from(number);
        self.data + LINE + before * LINE
    }

    /// Returns the bytes of a window; `None` if they overflow.
    pub(crate) fn window_bytes(&self) -> Option<u64> {
        let cells = self.members.len() as u64 * (u64::from(self.signals) + 1);
        self.data.checked_add(LINE)?.checked_add(cells * LINE)
    }

    /// Returns the offset of a rank's notice in the memory; `None` if it overflows.
    pub(crate) fn notice(&self, rank: usize) -> Option<u64> {
        self.notices.checked_add(rank as u64 * NOTICE)
    }

    /// Returns the bytes of all notices.
    pub(crate) fn notice_bytes(&self) -> u64 {
        self.members.len() as u64 * NOTICE
    }

    /// True if a window of this domain and these bytes of a memory have one in common.
    pub(crate) fn touches(&self, memory: u8, offset: u64, bytes: u64) -> bool {
        let size = self.window_bytes().unwrap_or(u64::MAX);
        let meets = |member: &Member| {
            offset < member.window.saturating_add(size)
                && member.window < offset.saturating_add(bytes)
        };
        self.memory == memory && bytes > 0 && self.members.iter().any(meets)
    }

    /// The rank of a chip.
    pub(crate) fn rank_of(&self, chip: u32) -> Option<usize> {
        self.members.iter().position(|member| member.chip == chip)
    }

    /// A buffer by its name.
    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// The chips, in the order of their ranks.
    pub(crate) fn chips(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.chip).collect()
    }

    /// The names of the buffers.
    pub(crate) fn names(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.name.clone()).collect()
    }
}

impl fmt::Display for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "domain `{}`", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    #[test]
    fn cells_have_lines_of_their_own_behind_the_buffers() {
        let layout = Layout::dense(DType::F32, &[16]).expect("small");
        let part = Part { name: "x".into(), offset: 0, layout };
        let members = (0..3).map(|chip| Member { chip, window: u64::from(chip) * 4096 });
        let (members, parts) = (members.collect(), vec![part]);
        let (id, name, memory) = (1, "d".to_owned(), 0);
        let (notices, data, signals) = (1 << 16, 64, 2);
        let roster = Roster { id, name, memory, notices, data, signals, members, parts };
        assert_eq!(
            (roster.notice(2), roster.notice_bytes()),
            (Some((1 << 16) + 2 * NOTICE), 3 * NOTICE)
        );
        let mut lines: Vec<u64> =
            (0..3).flat_map(|writer| [0, 1, 2].map(|cell| roster.cell(writer, cell))).collect();
        lines.push(roster.bell());
        lines.sort_unstable();
        assert_eq!(lines, (1..=10).map(|line| line * LINE).collect::<Vec<_>>());
        assert_eq!(roster.window_bytes(), Some(11 * LINE));
        assert!(roster.touches(0, 4096, 1) && roster.touches(0, 4000, 200));
        assert!(!roster.touches(0, 4096 + 11 * LINE, 1) && !roster.touches(1, 4096, 1));
        assert!(!roster.touches(0, 4096, 0));
    }
}
