//! How far a worker is with its task, in one number that its parent can read at any time.

/// What a worker does now.
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
        /// Who has to write.
        rank: u8,
        /// Which of its cells.
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

    /// What is told of a domain's number.
    pub(crate) fn short(domain: u64) -> u32 {
        u32::try_from(domain & BITS).unwrap_or(0)
    }

    /// What a number says; what nobody writes is taken for running.
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
