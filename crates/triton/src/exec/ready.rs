//! Operations on tiles that are there: they are issued at once.
//!
//! Most operations of a loop need no more than whole tiles and known addresses. Those are found here, wait for one tile after the other,
//! and are issued without a future of their own. Everything else takes the way of `exec/tiles.rs`, which gives the same.

use super::access::{Elements, plain_number};
use super::product::{Sum, is_zero};
use super::shapes::plain_reduction;
use super::tiles::{Operand, is_exact};
use super::values::{Data, Slot, dtype_of};
use super::{Next, Run, Val};
use crate::index::Index;
use crate::program::{Instruction, Op};
use phalanx_sim::kernel::{KernelError, View};
use std::borrow::Cow;
use std::rc::Rc;

/// Known addresses, or a known mask.
enum Known<'a> {
    Numbers(Cow<'a, Index>),
    /// A mask of all elements.
    All,
    No,
}

impl Run {
    /// Issues an operation, if that is possible at once: else it needs a tile first, or the way of all operations on tiles.
    pub(super) fn at_once(&mut self, instruction: &Instruction) -> Result<Next, Box<KernelError>> {
        match &instruction.op {
            Op::Load { has_mask, has_other } => {
                let Some(data) = self.load_at_once(instruction, *has_mask, *has_other)? else {
                    return Ok(Next::Tiles);
                };
                self.set(instruction.to, Val::Data(data));
                Ok(Next::Follows)
            }
            Op::Ahead { queue, has_mask, has_other } => {
                let Some(data) = self.load_at_once(instruction, *has_mask, *has_other)? else {
                    return Ok(Next::Tiles);
                };
                self.queues[*queue].push_back(data);
                Ok(Next::Follows)
            }
            Op::Store { has_mask } => self.store_at_once(instruction, *has_mask),
            Op::Dot => self.dot_at_once(instruction),
            Op::Reduce { axis, combine } => {
                let Some(how) = plain_reduction(combine) else { return Ok(Next::Tiles) };
                if !self.is_whole(instruction, 0) {
                    return Ok(Next::Tiles);
                }
                if let Some(slot) = self.unready(instruction, 1)? {
                    return Ok(Next::Waits(slot));
                }
                let source = self.ready_operand(instruction, 0)?;
                self.reduce_tile(instruction, *axis, how, &source);
                Ok(Next::Follows)
            }
            op if op.is_element_wise()
                && !self.is_made_known(instruction)
                && !self.is_negated_bit(instruction) =>
            {
                self.element_wise_at_once(instruction)
            }
            _ => Ok(Next::Tiles),
        }
    }

    /// Returns the first tile among `count` operands that is not there yet.
    fn unready(
        &self,
        instruction: &Instruction,
        count: usize,
    ) -> Result<Option<Rc<Slot>>, Box<KernelError>> {
        for number in 0..count {
            if let Val::Data(data) = self.look(instruction, number)
                && !data.slot.is_there()?
            {
                return Ok(Some(data.slot.clone()));
            }
        }
        Ok(None)
    }

    /// True if an operand is a tile of all its elements.
    fn is_whole(&self, instruction: &Instruction, number: usize) -> bool {
        let Val::Data(data) = self.look(instruction, number) else { return false };
        let extent = &self.kind(instruction.args[number]).extent;
        Rc::ptr_eq(&data.shape, extent) || data.shape == *extent
    }

    /// Takes an operand that is there: a tile, or one number.
    fn ready_operand(
        &mut self,
        instruction: &Instruction,
        number: usize,
    ) -> Result<Operand, KernelError> {
        let value = self.operand(instruction, number);
        let kind = self.kind(instruction.args[number]);
        match value {
            Val::Data(data) => Ok(Operand::of(data, kind.dtype())),
            other => self.one_number(&other, kind),
        }
    }

    fn element_wise_at_once(
        &mut self,
        instruction: &Instruction,
    ) -> Result<Next, Box<KernelError>> {
        let count = instruction.args.len();
        let is_there = |number| match self.look(instruction, number) {
            Val::Data(_) | Val::Float(_) => true,
            Val::Whole(number) | Val::Equal(number) => is_exact(*number),
            _ => false,
        };
        if count > 3 || !(0..count).all(is_there) {
            return Ok(Next::Tiles);
        }
        if let Some(slot) = self.unready(instruction, count)? {
            return Ok(Next::Waits(slot));
        }
        let mut operands = [const { None }; 3];
        for (number, place) in operands.iter_mut().enumerate().take(count) {
            *place = Some(self.ready_operand(instruction, number)?);
        }
        self.element_wise(instruction, operands)?;
        Ok(Next::Follows)
    }

    fn dot_at_once(&mut self, instruction: &Instruction) -> Result<Next, Box<KernelError>> {
        let product = self.kind(instruction.args[0]).dtype().product();
        let is_sum = is_zero(self.look(instruction, 2)) || self.is_whole(instruction, 2);
        if self.kind(instruction.args[2]).dtype() != product
            || !is_sum
            || !self.is_whole(instruction, 0)
            || !self.is_whole(instruction, 1)
        {
            return Ok(Next::Tiles);
        }
        if let Some(slot) = self.unready(instruction, 3)? {
            return Ok(Next::Waits(slot));
        }
        let [left, right, sum] = [0, 1, 2].map(|number| self.operand(instruction, number));
        let (Val::Data(left), Val::Data(right)) = (left, right) else { return Ok(Next::Tiles) };
        let dtypes = [0, 1].map(|number| self.kind(instruction.args[number]).dtype());
        let (left, right) = (Operand::of(left, dtypes[0]), Operand::of(right, dtypes[1]));
        let sum = match sum {
            Val::Data(data) => self.whole_sum(instruction, data, product),
            _ => Sum::Zero,
        };
        let operation = self.multiply(instruction, &left, &right, sum);
        let (_, shape) = self.kind_of_sum(instruction);
        self.keep(instruction.to, operation, shape);
        Ok(Next::Follows)
    }

    /// Returns addresses, or a mask, if they are known.
    fn known_numbers(&self, instruction: &Instruction, number: usize) -> Known<'_> {
        match self.look(instruction, number) {
            Val::Index(index) => Known::Numbers(Cow::Borrowed(index)),
            Val::Whole(number) | Val::Equal(number) => {
                Known::Numbers(Cow::Owned(Index::splat(*number)))
            }
            _ => Known::No,
        }
    }

    fn known_mask(&self, instruction: &Instruction, number: usize, has_mask: bool) -> Known<'_> {
        if !has_mask {
            return Known::All;
        }
        match self.look(instruction, number) {
            Val::Whole(bit) | Val::Equal(bit) if *bit != 0 => Known::All,
            _ => self.known_numbers(instruction, number),
        }
    }

    /// Returns the view of an access at known addresses, if it is one of memory of the type that the kernel sees.
    fn known_view(
        &self,
        instruction: &Instruction,
        mask: usize,
        has_mask: bool,
    ) -> Result<Option<View>, KernelError> {
        let Known::Numbers(pointers) = self.known_numbers(instruction, 0) else { return Ok(None) };
        let kind = self.kind(instruction.args[0]);
        let elements = match self.known_mask(instruction, mask, has_mask) {
            Known::No => return Ok(None),
            Known::All => self.elements(&pointers, None, &kind.extent, kind.pointee())?,
            Known::Numbers(mask) => {
                self.elements(&pointers, Some(&mask), &kind.extent, kind.pointee())?
            }
        };
        match elements {
            Elements::View(view, holds) if holds == dtype_of(kind.pointee()) => Ok(Some(view)),
            _ => Ok(None),
        }
    }

    /// Issues a load, if addresses, mask and what masked elements read as are known.
    fn load_at_once(
        &mut self,
        instruction: &Instruction,
        has_mask: bool,
        has_other: bool,
    ) -> Result<Option<Data>, KernelError> {
        let other = if has_other { plain_number(self.look(instruction, 2)) } else { Some(0.0) };
        let Some(other) = other else { return Ok(None) };
        let Some(view) = self.known_view(instruction, 1, has_mask)? else { return Ok(None) };
        let loading = self.tl.load_or(&view, other);
        let shape = self.kind(instruction.args[0]).extent.clone();
        self.release(instruction);
        Ok(Some(Data::issued(loading, shape)))
    }

    /// Issues a store of a whole tile. Addresses are looked at before the tile is waited for.
    fn store_at_once(
        &mut self,
        instruction: &Instruction,
        has_mask: bool,
    ) -> Result<Next, Box<KernelError>> {
        if !self.is_whole(instruction, 1) {
            return Ok(Next::Tiles);
        }
        let Some(view) = self.known_view(instruction, 2, has_mask)? else { return Ok(Next::Tiles) };
        if self.kind(instruction.args[1]).dtype() != view.dtype {
            return Ok(Next::Tiles);
        }
        if let Some(slot) = self.unready(instruction, 2)? {
            return Ok(Next::Waits(slot));
        }
        let operand = self.ready_operand(instruction, 1)?;
        self.release(instruction);
        let storing = self.tl.store(&view, &operand.see());
        storing.error().map_or(Ok(Next::Follows), |error| Err(Box::new(error.clone())))
    }
}
