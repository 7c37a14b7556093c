//! Messages to a worker: a task, its dispatch, and the dispatches it is behind.
//!
//! The dispatch and then the task. A task that is behind others has a mark on its dispatch; the number of dispatches it is
//! behind, and those, stand before the task then. All numbers have eight bytes.

use super::callable_of;
use smallvec::SmallVec;

/// On the dispatch of a task that is behind others.
const IS_BEHIND: u64 = 1 << 63;

/// A task on its way to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent<'a> {
    /// The number to end it with.
    pub dispatch: u64,
    behind: &'a [[u8; 8]],
    /// The task.
    pub message: &'a [u8],
}

/// Head of a message, before the task: whole numbers.
pub(crate) type Head = SmallVec<[u64; 4]>;

impl<'a> Sent<'a> {
    /// Returns the head of a task that is sent as `dispatch`, behind no other.
    #[inline]
    pub(crate) fn plain_head(dispatch: u64) -> u64 {
        dispatch.to_le()
    }

    /// Returns the head of a task that is sent as `dispatch`, behind others.
    pub(crate) fn head(dispatch: u64, behind: &[u64]) -> Head {
        let mut head = Head::from_buf_and_len([Self::plain_head(dispatch), 0, 0, 0], 1);
        if !behind.is_empty() {
            head[0] = (dispatch | IS_BEHIND).to_le();
            head.push((behind.len() as u64).to_le());
            head.extend(behind.iter().map(|other| other.to_le()));
        }
        head
    }

    /// Reads a message; `None` if `bytes` are none.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (dispatch, message) = bytes.split_first_chunk::<8>()?;
        let dispatch = u64::from_le_bytes(*dispatch);
        if dispatch & IS_BEHIND == 0 {
            return Some(Self { dispatch, behind: &[], message });
        }
        let (count, rest) = message.split_first_chunk::<8>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let behind = rest.as_chunks::<8>().0.get(..count).filter(|behind| !behind.is_empty())?;
        Some(Self { dispatch: dispatch & !IS_BEHIND, behind, message: &rest[8 * count..] })
    }

    /// Returns the dispatches that it is behind: if one of them failed or was skipped, it is skipped.
    pub(crate) fn behind(&self) -> impl Iterator<Item = u64> {
        self.behind.iter().map(|number| u64::from_le_bytes(*number))
    }

    /// Returns the callable of the task, if the task has a head.
    #[inline]
    pub(crate) fn callable(&self) -> Option<u32> {
        let (words, _) = self.message.as_chunks::<8>();
        words.get(1).map(|first| callable_of(u64::from_le_bytes(*first)))
    }
}
