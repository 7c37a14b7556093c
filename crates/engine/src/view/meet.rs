//! Overlap and cover of two regions.

use super::{Axis, Region};

/// Pairs of rows that are compared before two regions count as overlapping.
const EFFORT: u32 = 4096;

impl Region {
    fn axes(&self) -> &[Axis] {
        self.geometry.as_ref().map_or(&[], |geometry| &geometry.axes[..usize::from(geometry.rank)])
    }

    fn run(&self) -> i64 {
        self.geometry.as_ref().map_or(self.end - self.start, |geometry| geometry.run)
    }

    /// True if the two share a byte (VIEW-1).
    #[inline]
    pub(crate) fn overlaps(&self, other: &Region) -> bool {
        if self.start >= other.end
            || other.start >= self.end
            || self.start == self.end
            || other.start == other.end
        {
            return false;
        }
        if self.geometry.is_none() && other.geometry.is_none() {
            return true;
        }
        if !self.residues_meet(other) {
            return false;
        }
        let mut pair = Pair { runs: (self.run(), other.run()), effort: EFFORT };
        pair.meet(self.axes(), other.axes(), other.start - self.start)
    }

    /// Compares residues: all strides of both regions are multiples of one number, so the runs meet only if their
    /// residues modulo that number do.
    fn residues_meet(&self, other: &Region) -> bool {
        let strides = self.axes().iter().chain(other.axes()).map(|axis| axis.stride);
        let common = strides.fold(0, greatest_common_divisor);
        let at = (other.start - self.start).rem_euclid(common);
        at < self.run() || at + other.run() > common
    }

    /// True if `self` surely holds every byte of `other` (VIEW-3); may be wrong the other way.
    #[inline]
    pub(crate) fn covers(&self, other: &Region) -> bool {
        if other.start < self.start || other.end > self.end {
            return false;
        }
        self.geometry.is_none() || self.holds(other)
    }

    fn holds(&self, other: &Region) -> bool {
        let mut shift = other.start - self.start;
        let mut theirs = other.axes();
        for mine in self.axes() {
            let step = shift / mine.stride;
            let count = match theirs.first() {
                Some(axis) if axis.stride == mine.stride => {
                    theirs = &theirs[1..];
                    axis.count
                }
                Some(axis) if axis.stride > mine.stride => return false,
                _ => 1,
            };
            if step + count > mine.count {
                return false;
            }
            shift -= step * mine.stride;
        }
        shift + span(theirs, other.run()) <= self.run()
    }
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// From the first byte to behind the last.
fn span(axes: &[Axis], run: i64) -> i64 {
    axes.iter().map(|axis| (axis.count - 1) * axis.stride).sum::<i64>() + run
}

struct Pair {
    runs: (i64, i64),
    effort: u32,
}

impl Pair {
    /// True if rows of `left` and rows of `right`, which lie `shift` further on, share a byte.
    fn meet(&mut self, left: &[Axis], right: &[Axis], shift: i64) -> bool {
        if self.effort == 0 {
            return true;
        }
        self.effort -= 1;
        if shift >= span(left, self.runs.0) || shift + span(right, self.runs.1) <= 0 {
            return false;
        }
        let outer = |axes: &[Axis]| axes.first().map_or(0, |axis| axis.stride);
        match outer(left).cmp(&outer(right)) {
            std::cmp::Ordering::Equal if left.is_empty() => true,
            std::cmp::Ordering::Equal => self.rows(left, right, shift, (&left[1..], &right[1..])),
            std::cmp::Ordering::Greater => self.rows(left, right, shift, (&left[1..], right)),
            std::cmp::Ordering::Less => self.rows(left, right, shift, (left, &right[1..])),
        }
    }

    /// Tries each distance between two rows at which they could meet.
    fn rows(
        &mut self,
        left: &[Axis],
        right: &[Axis],
        shift: i64,
        inner: (&[Axis], &[Axis]),
    ) -> bool {
        let is_cut = |outer: &[Axis], inner: &[Axis]| {
            if outer.len() > inner.len() { outer[0].count - 1 } else { 0 }
        };
        let stride = if left.len() > inner.0.len() { left[0].stride } else { right[0].stride };
        let (down, up) = (is_cut(left, inner.0), is_cut(right, inner.1));
        // Rows meet if -span(right row) < shift + steps * stride < span(left row).
        let from = 1 - span(inner.1, self.runs.1) - shift;
        let to = span(inner.0, self.runs.0) - 1 - shift;
        let first = (from + stride - 1).div_euclid(stride).max(-down);
        let last = to.div_euclid(stride).min(up);
        (first..=last).any(|steps| self.meet(inner.0, inner.1, shift + steps * stride))
    }
}
