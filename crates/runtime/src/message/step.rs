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

/// The bits of a domain's number that are told.
pub(crate) const DOMAIN_BITS: u32 = 24;

impl Step {
    /// As a number.
    pub fn encode(self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Running => 1,
            Self::Waits { domain, rank, cell } => {
                let (domain, cell) = (u64::from(domain) & 0xff_ffff, u64::from(cell) & 0xff_ffff);
                2 | u64::from(rank) << 8 | cell << 16 | domain << 40
            }
        }
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
