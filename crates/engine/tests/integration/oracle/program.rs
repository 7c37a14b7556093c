//! A program, decoded from random words so that it shrinks, and its sequential meaning.

use phalanx_engine::{Mode, Tag};

/// The bytes of each buffer and each slab.
pub(crate) const BYTES: usize = 32;
/// The number of buffers.
pub(crate) const BUFFERS: usize = 2;

/// A set of bytes, as it is handed to the engine.
#[expect(clippy::struct_field_names, reason = "a view has a shape")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) offset: u64,
    pub(crate) shape: Vec<u64>,
    pub(crate) strides: Vec<u64>,
}

/// The memory that an argument is a view of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Buffer(usize),
    /// The slab of an earlier operation.
    Slab(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) base: Base,
    pub(crate) shape: Shape,
    pub(crate) tag: Tag,
    /// The bytes that the access touches, one bit each.
    pub(crate) touched: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Where {
    Pool,
    Worker(usize),
    Group,
    PoolGroup,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "any combination is a program")]
pub(crate) struct Task {
    pub(crate) place: Where,
    pub(crate) members: Vec<Vec<Argument>>,
    pub(crate) has_slab: bool,
    pub(crate) is_unordered: bool,
    pub(crate) priority: u8,
    pub(crate) fails: bool,
    /// In a manual scope.
    pub(crate) is_manual: bool,
    pub(crate) run: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Task(Task),
    Open(Mode),
    Close,
    NextRun,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) ops: Vec<Op>,
    /// `needs[i]`: earlier tasks that must have ended before task `i` begins, and whether that must be said.
    pub(crate) needs: Vec<Vec<(usize, bool)>>,
}

/// Takes bits off a word.
struct Bits(u64);

impl Bits {
    fn take(&mut self, below: u64) -> u64 {
        let value = self.0 % below;
        self.0 /= below;
        value
    }
}

impl Argument {
    pub(crate) fn writes(&self) -> bool {
        matches!(self.tag, Tag::Output | Tag::InOut | Tag::OutputExisting)
    }

    /// `NoDep` arguments are read.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.tag, Tag::Input | Tag::InOut | Tag::NoDep)
    }

    /// The bytes that the access writes: `OutputExisting` leaves some as they were.
    pub(crate) fn written(&self) -> u32 {
        match self.tag {
            Tag::OutputExisting => self.touched & 0x5555_5555,
            Tag::Output | Tag::InOut => self.touched,
            Tag::Input | Tag::NoDep => 0,
        }
    }

    fn conflicts(&self, other: &Argument) -> bool {
        self.base == other.base
            && (self.writes() || other.writes())
            && self.touched & other.touched != 0
    }
}

fn shape(bits: &mut Bits) -> Shape {
    match bits.take(3) {
        0 => Shape { offset: bits.take(16), shape: vec![1 + bits.take(16)], strides: vec![1] },
        1 => Shape {
            offset: bits.take(8),
            shape: vec![2 + bits.take(4)],
            strides: vec![2 + bits.take(3)],
        },
        _ => {
            let (offset, rows, columns) = (bits.take(8), 2 + bits.take(2), 1 + bits.take(4));
            Shape {
                offset,
                shape: vec![rows, columns],
                strides: vec![[8, 4][usize::from(bits.take(4) == 0)], 1],
            }
        }
    }
}

/// One bit for each byte, the slow way.
pub(crate) fn bytes_of(shape: &Shape) -> Option<u32> {
    let mut offsets = vec![shape.offset];
    for (count, stride) in shape.shape.iter().zip(&shape.strides) {
        offsets =
            offsets.iter().flat_map(|at| (0..*count).map(move |step| at + step * stride)).collect();
    }
    offsets.iter().try_fold(0u32, |all, at| (*at < BYTES as u64).then(|| all | 1 << at))
}

impl Program {
    pub(crate) fn decode(words: &[u64], seed: u64) -> Self {
        let scopes = vec![(Mode::Automatic, Vec::new())];
        // In some programs buffers are always, mostly, sometimes or never named whole.
        let whole = [4, 3, 2, 0][usize::try_from(seed >> 8 & 3).unwrap_or_default()];
        let mut decoder = Decoder { ops: Vec::new(), scopes, run: 0, whole };
        let may_fail = seed.is_multiple_of(4);
        for word in words {
            decoder.add(Bits(*word), may_fail);
        }
        let needs = needs(&decoder.ops);
        Self { ops: decoder.ops, needs }
    }

    pub(crate) fn task(&self, at: usize) -> Option<&Task> {
        if let Op::Task(task) = &self.ops[at] { Some(task) } else { None }
    }
}

struct Decoder {
    ops: Vec<Op>,
    /// Open scopes, each with the slabs made in it.
    scopes: Vec<(Mode, Vec<usize>)>,
    run: usize,
    /// The number of whole buffers among four arguments.
    whole: u64,
}

impl Decoder {
    fn add(&mut self, mut bits: Bits, may_fail: bool) {
        match bits.take(16) {
            0 => {
                let outer = self.scopes.last().map_or(Mode::Automatic, |scope| scope.0);
                let mode = if outer == Mode::Manual || bits.take(3) == 0 {
                    Mode::Manual
                } else {
                    Mode::Automatic
                };
                self.scopes.push((mode, Vec::new()));
                self.ops.push(Op::Open(mode));
            }
            1 if self.scopes.len() > 1 => {
                self.scopes.pop();
                self.ops.push(Op::Close);
            }
            2 if bits.take(2) == 0 => {
                while self.scopes.len() > 1 {
                    self.scopes.pop();
                    self.ops.push(Op::Close);
                }
                self.scopes = vec![(Mode::Automatic, Vec::new())];
                self.run += 1;
                self.ops.push(Op::NextRun);
            }
            _ => self.add_task(bits, may_fail),
        }
    }

    fn add_task(&mut self, mut bits: Bits, may_fail: bool) {
        let place = match bits.take(8) {
            0 => Where::Group,
            1 => Where::PoolGroup,
            2..4 => Where::Worker(usize::try_from(bits.take(3)).unwrap_or_default()),
            _ => Where::Pool,
        };
        let has_slab = bits.take(5) == 0;
        let is_unordered = bits.take(16) == 0;
        let priority = u8::from(bits.take(8) == 0);
        let fails = may_fail && bits.take(8) == 0;
        let count = if matches!(place, Where::Group | Where::PoolGroup) { 2 } else { 1 };
        let mut members: Vec<Vec<Argument>> = Vec::new();
        for _ in 0..count {
            let mut args: Vec<Argument> = Vec::new();
            for _ in 0..bits.take(4) {
                let arg = self.argument(&mut bits);
                // Not in one member, and here not between members either: that would be a race by request.
                let others = members.iter().flatten().chain(&args);
                args.extend(arg.filter(|arg| !others.clone().any(|other| arg.conflicts(other))));
            }
            members.push(args);
        }
        let is_manual = self.scopes.last().is_some_and(|scope| scope.0 == Mode::Manual);
        if let Some(scope) = self.scopes.last_mut().filter(|_| has_slab) {
            scope.1.push(self.ops.len());
        }
        let run = self.run;
        let task = Task { place, members, has_slab, is_unordered, priority, fails, is_manual, run };
        self.ops.push(Op::Task(task));
    }

    fn argument(&self, bits: &mut Bits) -> Option<Argument> {
        let slabs: Vec<usize> = self.scopes.iter().flat_map(|scope| &scope.1).copied().collect();
        let base = match bits.take(3) {
            0 if !slabs.is_empty() => {
                Base::Slab(slabs[usize::try_from(bits.take(8)).ok()? % slabs.len()])
            }
            other => Base::Buffer(usize::try_from(other).ok()? % BUFFERS),
        };
        let tag = match bits.take(8) {
            0..3 => Tag::Input,
            3..5 => Tag::Output,
            5 => Tag::InOut,
            6 => Tag::OutputExisting,
            _ => Tag::NoDep,
        };
        let shape = if bits.take(4) < self.whole {
            Shape { offset: 0, shape: vec![BYTES as u64], strides: vec![1] }
        } else {
            shape(bits)
        };
        let touched = bytes_of(&shape)?;
        Some(Argument { base, shape, tag, touched })
    }
}

/// For each operation, the earlier tasks of its run that it must wait for.
fn needs(ops: &[Op]) -> Vec<Vec<(usize, bool)>> {
    let task = |at: usize| if let Op::Task(task) = &ops[at] { Some(task) } else { None };
    let need = |later: usize, earlier: usize| -> Option<(usize, bool)> {
        let (b, a) = (task(later)?, task(earlier)?);
        if a.run != b.run {
            return None;
        }
        let pairs = || {
            a.members.iter().flatten().flat_map(|x| b.members.iter().flatten().map(move |y| (x, y)))
        };
        let owns = b.members.iter().flatten().any(|arg| arg.base == Base::Slab(earlier));
        let conflicts = pairs().any(|(x, y)| x.conflicts(y));
        let hidden = a.is_manual || b.is_manual || b.is_unordered;
        let by_no_dep =
            pairs().any(|(x, y)| x.conflicts(y) && (x.tag == Tag::NoDep || y.tag == Tag::NoDep));
        let no_dep_on_owner = b
            .members
            .iter()
            .flatten()
            .any(|arg| arg.base == Base::Slab(earlier) && arg.tag == Tag::NoDep);
        (conflicts || owns).then_some((earlier, hidden || by_no_dep || no_dep_on_owner))
    };
    (0..ops.len())
        .map(|later| (0..later).filter_map(|earlier| need(later, earlier)).collect())
        .collect()
}
