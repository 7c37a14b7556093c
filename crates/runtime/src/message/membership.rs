//! A task's membership in a domain, as bytes behind its scalars.

use super::{BadMessage, Reader};
use crate::domain::roster::{
    LINE, MAX_BUFFERS, MAX_NAME, MAX_RANKS, MAX_SIGNALS, Member, Part, Roster,
};
use crate::tensor::{DType, Layout, MAX_RANK};
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// The most domains of a task.
pub(crate) const MAX_DOMAINS: usize = 8;
/// Changes when the meaning of what follows does.
const VERSION: u8 = 2;

/// Membership of a task in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Its rank.
    pub rank: usize,
    /// The domain.
    pub roster: Arc<Roster>,
}

/// Head of a membership; windows, chips, the name and the buffers follow.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct MembershipHead {
    version: u8,
    rank: u8,
    ranks: u8,
    parts: u8,
    memory: u8,
    name: u8,
    zero: [u8; 2],
    signals: [u8; 4],
    also_zero: [u8; 4],
    id: [u8; 8],
    notices: [u8; 8],
    data: [u8; 8],
}

/// Head of a window's buffer; its shape and its name follow.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PartHead {
    offset: [u8; 8],
    dtype: u8,
    rank: u8,
    name: u8,
    zero: [u8; 5],
}

/// A count that the maker of the roster has checked.
fn small(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

pub(super) fn encode_membership(bytes: &mut Vec<u8>, membership: &Membership) {
    let Roster { id, name, memory, notices, data, signals, members, parts } = &*membership.roster;
    let head = MembershipHead {
        version: VERSION,
        rank: small(membership.rank),
        ranks: small(members.len()),
        parts: small(parts.len()),
        memory: *memory,
        name: small(name.len()),
        zero: [0; 2],
        signals: signals.to_le_bytes(),
        also_zero: [0; 4],
        id: id.to_le_bytes(),
        notices: notices.to_le_bytes(),
        data: data.to_le_bytes(),
    };
    bytes.extend_from_slice(bytemuck::bytes_of(&head));
    for member in members {
        bytes.extend_from_slice(&member.window.to_le_bytes());
        bytes.extend_from_slice(&u64::from(member.chip).to_le_bytes());
    }
    bytes.extend_from_slice(name.as_bytes());
    for part in parts {
        encode_part(bytes, part);
    }
}

fn encode_part(bytes: &mut Vec<u8>, part: &Part) {
    let head = PartHead {
        offset: part.offset.to_le_bytes(),
        dtype: part.layout.dtype as u8,
        rank: small(part.layout.shape().len()),
        name: small(part.name.len()),
        zero: [0; 5],
    };
    bytes.extend_from_slice(bytemuck::bytes_of(&head));
    for axis in part.layout.shape() {
        bytes.extend_from_slice(&axis.to_le_bytes());
    }
    bytes.extend_from_slice(part.name.as_bytes());
}

pub(super) fn decode_membership(reader: &mut Reader<'_>) -> Result<Membership, BadMessage> {
    let head: MembershipHead = reader.record("the head of a domain")?;
    let within = |what, count: u64, from: u64, to: u64| {
        if (from..=to).contains(&count) { Ok(()) } else { Err(reader.refuse(what, count)) }
    };
    within("version of a domain", head.version.into(), VERSION.into(), VERSION.into())?;
    within("count of ranks", head.ranks.into(), 1, MAX_RANKS as u64)?;
    within("rank", head.rank.into(), 0, u64::from(head.ranks) - 1)?;
    within("count of buffers", head.parts.into(), 0, MAX_BUFFERS as u64)?;
    let signals = u32::from_le_bytes(head.signals);
    within("count of cells", signals.into(), 0, MAX_SIGNALS.into())?;
    let padding = [u16::from_le_bytes(head.zero).into(), u32::from_le_bytes(head.also_zero)];
    within("padding", padding.into_iter().map(u64::from).sum(), 0, 0)?;
    let data = u64::from_le_bytes(head.data);
    within("bytes of buffers", data % LINE, 0, 0)?;
    let mut members = Vec::with_capacity(head.ranks.into());
    for _ in 0..head.ranks {
        let window = reader.long("window")?;
        let chip = reader.long("chip")?;
        let chip = u32::try_from(chip).map_err(|_| reader.refuse("chip", chip))?;
        members.push(Member { chip, window });
    }
    let name = decode_name(reader, head.name)?;
    let mut roster = Roster {
        id: u64::from_le_bytes(head.id),
        name,
        memory: head.memory,
        notices: u64::from_le_bytes(head.notices),
        data,
        signals,
        members,
        parts: Vec::with_capacity(head.parts.into()),
    };
    check_windows(reader, &roster)?;
    for _ in 0..head.parts {
        let part = decode_part(reader, &roster)?;
        roster.parts.push(part);
    }
    Ok(Membership { rank: head.rank.into(), roster: Arc::new(roster) })
}

/// Windows and notices begin at a line, do not wrap, and no two overlap; no two windows are of one chip.
fn check_windows(reader: &Reader<'_>, roster: &Roster) -> Result<(), BadMessage> {
    let bytes = roster.window_bytes().ok_or_else(|| reader.refuse("window", roster.data))?;
    let windows = roster.members.iter().map(|member| (member.window, bytes));
    let notices = (roster.notices, roster.notice_bytes());
    let mut pieces: Vec<(u64, u64)> = windows.chain([notices]).collect();
    pieces.sort_unstable();
    let mut chips = roster.chips();
    chips.sort_unstable();
    if let Some(pair) = chips.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(reader.refuse("two ranks of one chip", pair[0].into()));
    }
    let mut free = 0;
    for (at, bytes) in pieces {
        let end = at.checked_add(bytes).filter(|_| at % LINE == 0 && at >= free);
        free = end.ok_or_else(|| reader.refuse("window", at))?;
    }
    Ok(())
}

fn decode_name(reader: &mut Reader<'_>, bytes: u8) -> Result<String, BadMessage> {
    const { assert!(MAX_NAME == u8::MAX as usize) };
    let bytes = reader.bytes(usize::from(bytes), "name")?;
    let name = std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty());
    Ok(name.ok_or_else(|| reader.refuse("name", bytes.len() as u64))?.to_owned())
}

fn decode_part(reader: &mut Reader<'_>, roster: &Roster) -> Result<Part, BadMessage> {
    let head: PartHead = reader.record("the head of a buffer")?;
    let dtype = DType::from_byte(head.dtype)
        .ok_or_else(|| reader.refuse("dtype", u64::from(head.dtype)))?;
    let rank = usize::from(head.rank);
    if rank > MAX_RANK || head.zero != [0; 5] {
        return Err(reader.refuse("rank of a buffer", rank as u64));
    }
    let mut shape = [0; MAX_RANK];
    for axis in &mut shape[..rank] {
        *axis = reader.long("shape")?;
    }
    let layout = Layout::dense(dtype, &shape[..rank]);
    let layout = layout.map_err(|_| reader.refuse("shape", shape[0]))?;
    let offset = u64::from_le_bytes(head.offset);
    let before = roster.parts.last().map_or(0, |part| part.offset + part.layout.extent);
    let end = offset.checked_add(layout.extent);
    let is_inside = end.is_some_and(|end| end <= roster.data);
    if !is_inside || !offset.is_multiple_of(LINE) || offset < before {
        return Err(reader.refuse("place of a buffer", offset));
    }
    let name = decode_name(reader, head.name)?;
    if roster.part(&name).is_some() {
        return Err(reader.refuse("two buffers of one name", offset));
    }
    Ok(Part { name, offset, layout })
}
