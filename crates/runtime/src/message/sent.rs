//! What a worker is sent: a task, its dispatch, and what it is behind.
//!
//! The dispatch, the number of dispatches it is behind, those, and then the task; all numbers have eight bytes.

use smallvec::SmallVec;

/// A task on its way to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<'a> {
    /// The number to end it with.
    pub dispatch: u64,
    behind: &'a [[u8; 8]],
    /// The task.
    pub message: &'a [u8],
}

/// What stands before the task in a message: whole numbers.
pub type Head = SmallVec<[u64; 4]>;

impl<'a> Sent<'a> {
    /// What stands before a task that is sent as `dispatch`, behind those.
    #[inline]
    pub fn head(dispatch: u64, behind: &[u64]) -> Head {
        let mut head = Head::from_buf_and_len([dispatch.to_le(), 0, 0, 0], 2);
        if !behind.is_empty() {
            head[1] = (behind.len() as u64).to_le();
            head.extend(behind.iter().map(|other| other.to_le()));
        }
        head
    }

    /// What was sent; nothing if `bytes` are no such message.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [dispatch, count, rest @ ..] = words else { return None };
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let behind = rest.get(..count)?;
        let dispatch = u64::from_le_bytes(*dispatch);
        Some(Self { dispatch, behind, message: &bytes[16 + 8 * count..] })
    }

    /// The dispatches that it is behind: if one of them failed or was skipped, it is skipped.
    pub fn behind(&self) -> impl Iterator<Item = u64> {
        self.behind.iter().map(|number| u64::from_le_bytes(*number))
    }

    /// The callable of the task, if the task has a head.
    #[inline]
    pub fn callable(&self) -> Option<u32> {
        self.message.get(8..12)?.try_into().ok().map(u32::from_le_bytes)
    }
}
