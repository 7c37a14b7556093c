//! Channels: the PEs of a SIP that carry a collective side by side, each with its part of every segment of the vector.
//!
//! - **CHN-1 (cut by segment).** Each channel has the same part of every rank's segment, so that a channel does the whole
//!   operation on a smaller vector, and channels need no messages between them.
//! - **CHN-2 (near the memory).** The channels of a tensor in one piece are on the PEs of its cube and, beyond their number, on a few of
//!   the cubes beside it; those of shards are on the PEs around each. Channels that share a PE share its queues, which have the slots of all of them: up to four join to one large slot, so
//!   that the DMA has less to start.

use super::algorithm::Operation;
use phalanx_sim::ipcq::EdgeSpec;
use std::fmt;
use std::str::FromStr;

/// A number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channels {
    /// So many.
    Number(u32),
    /// One for each PE of the SIP.
    All,
}

impl Channels {
    /// One channel, on the PE of the tensor.
    pub const ONE: Self = Self::Number(1);
    /// The numbers that `auto` tries: PEs near one memory, and the same with large slots.
    pub const WIDE: &'static [Self] = &[Self::Number(8), Self::Number(32)];
    /// The largest number.
    pub const MOST: u32 = 4096;

    /// The PEs of each of `pieces` pieces of the tensors, if the SIP has `pes` PEs, `near` of them near the tensor.
    pub(crate) fn pes_of_piece(self, pes: usize, near: usize, pieces: usize) -> usize {
        let most = pes / pieces.max(1);
        match self {
            Self::All => most,
            Self::Number(number) => {
                let most = if pieces == 1 { near } else { most };
                (number as usize / pieces.max(1)).clamp(1, most.max(1))
            }
        }
    }

    /// The queues of channels that run on `pes` PEs (CHN-2).
    pub(crate) fn queues(self, edge: EdgeSpec, pes: usize) -> EdgeSpec {
        let Self::Number(number) = self else { return edge };
        let share = number.div_ceil(u32::try_from(pes.max(1)).unwrap_or(u32::MAX)).max(1);
        let joined = share.min(JOINED);
        let slot_size = edge.slot_size.saturating_mul(joined.into());
        let n_slots = edge.n_slots.saturating_mul(share / joined);
        EdgeSpec { n_slots: n_slots.min(MOST_SLOTS), slot_size, ..edge }
    }
}

/// Slots of channels that join to one.
const JOINED: u32 = 4;

/// No queue has more slots.
const MOST_SLOTS: u32 = 1 << 20;

/// The word for a channel on every PE.
const ALL: &str = "all";

impl FromStr for Channels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ALL {
            return Ok(Self::All);
        }
        let number = text.parse().ok().filter(|number| (1..=Self::MOST).contains(number));
        let allowed = || format!("allowed: 1 to {} or `{ALL}`", Self::MOST);
        number.map(Self::Number).ok_or_else(allowed)
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::All => f.write_str(ALL),
        }
    }
}

impl Operation {
    /// Returns the segments of a rank's input and of its output: one for each rank where the operation cuts or joins
    /// vectors.
    pub fn segments(self, ranks: usize, is_root: bool) -> [usize; 2] {
        match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce => [1, 1],
            Self::ReduceScatter => [ranks, 1],
            Self::AllGather => [1, ranks],
            Self::AllToAll => [ranks, ranks],
            Self::Scatter => [if is_root { ranks } else { 1 }, 1],
            Self::Gather => [1, if is_root { ranks } else { 1 }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chn_2_channels_that_share_a_pe_add_their_slots() {
        let edge = EdgeSpec { n_slots: 4, ..EdgeSpec::default() };
        let slots = |channels: Channels, pes| {
            let queue = channels.queues(edge, pes);
            (queue.n_slots, queue.slot_size / edge.slot_size)
        };
        assert_eq!(slots(Channels::ONE, 1), (4, 1), "CHN-2");
        assert_eq!(slots(Channels::Number(8), 8), (4, 1), "CHN-2");
        assert_eq!(slots(Channels::Number(32), 8), (4, 4), "CHN-2");
        assert_eq!(slots(Channels::Number(8), 1), (8, 4), "CHN-2");
        assert_eq!(slots(Channels::Number(9), 4), (4, 3), "CHN-2");
        assert_eq!(slots(Channels::All, 1), (4, 1), "CHN-2");
        assert_eq!(slots(Channels::Number(2), 32), (4, 1), "CHN-2: more pieces than channels");
    }

    #[test]
    fn chn_2_pieces_share_the_channels() {
        assert_eq!(Channels::Number(6).pes_of_piece(32, 8, 1), 6, "CHN-2");
        assert_eq!(Channels::Number(64).pes_of_piece(32, 8, 1), 8, "CHN-2");
        assert_eq!(Channels::Number(8).pes_of_piece(32, 8, 4), 2, "CHN-2");
        assert_eq!(Channels::Number(8).pes_of_piece(32, 8, 16), 1, "CHN-2");
        assert_eq!(Channels::All.pes_of_piece(32, 8, 1), 32, "CHN-2");
        assert_eq!(Channels::All.pes_of_piece(32, 8, 4), 8, "CHN-2");
    }

    #[test]
    fn a_number_of_channels_reads_as_it_prints() {
        for channels in [Channels::ONE, Channels::Number(Channels::MOST), Channels::All] {
            assert_eq!(channels.to_string().parse(), Ok(channels));
        }
        for bad in ["0", "-1", "4097", "many", ""] {
            let error = bad.parse::<Channels>().unwrap_err();
            assert_eq!(error, "allowed: 1 to 4096 or `all`", "{bad}");
        }
    }
}
