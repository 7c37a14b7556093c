//! The step of a worker with its task, in one number that its parent can read at any time.

/// Activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Idle,
    /// A task.
    Running,
    /// A task that waits for a peer.
    Waits {
        /// The lowest 24 bits of the domain's number.
        domain: u32,
        /// Rank that has to write.
        rank: u8,
        /// Cell that it has to write.
        cell: u32,
    },
}

/// A number of which 24 bits are told.
const BITS: u64 = 0xff_ffff;

impl Step {
    /// As a number.
    pub fn encode(self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Running => 1,
            Self::Waits { domain, rank, cell } => {
                let (domain, cell) = (u64::from(domain) & BITS, u64::from(cell) & BITS);
                2 | u64::from(rank) << 8 | cell << 16 | domain << 40
            }
        }
    }

    /// Returns the part of a domain's number that a step has.
    pub(crate) fn short(domain: u64) -> u32 {
        u32::try_from(domain & BITS).unwrap_or(0)
    }

    /// Decodes a number; an unknown one is `Running`.
    pub fn decode(number: u64) -> Self {
        let [kind, rank, cell @ .., a, b, c] = number.to_le_bytes();
        match kind {
            0 if number == 0 => Self::Idle,
            2 => Self::Waits {
                domain: u32::from_le_bytes([a, b, c, 0]),
                rank,
                cell: u32::from_le_bytes([cell[0], cell[1], cell[2], 0]),
            },
            _ => Self::Running,
        }
    }
}
