//! Loads and stores: from addresses and masks to views of memory.
//!
//! An affine address with a mask that is a box from the origin is one [`View`]; an affine address with another mask is a view with a
//! mask of single elements; anything else is a list of places (`exec/places.rs`).

use super::tiles::Operand;
use super::values::{Data, Descriptor, dtype_of, tile_shape};
use super::{Run, Val};
use crate::index::{AXES, Index, as_int};
use crate::program::{Instruction, Op, Reg, RegType};
use crate::types::{Element, Extent, Scalar};
use phalanx_sim::DType;
use phalanx_sim::kernel::{KernelError, Mask, View};
use phalanx_sim::memory::Region;
use std::rc::Rc;

/// The addresses of a launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    /// Address as the kernel sees it, and the memory there, by address.
    mapped: Vec<(u64, Region)>,
}

impl Space {
    /// Adds memory at an address of the kernel.
    pub(crate) fn map(&mut self, address: u64, region: Region) {
        let at = self.mapped.partition_point(|(known, _)| *known <= address);
        let is_known = at > 0 && self.mapped[at - 1] == (address, region);
        if !is_known {
            self.mapped.insert(at, (address, region));
        }
    }

    /// Returns the kernel's address of a region, if it has one.
    pub(crate) fn address_of(&self, region: &Region) -> Option<u64> {
        self.mapped.iter().find(|(_, known)| known == region).map(|(address, _)| *address)
    }

    /// Returns the region around an address, and the address in the memory of the SIP.
    fn find(&self, address: i64) -> Option<(&Region, u64)> {
        let address = address.cast_unsigned();
        let (start, region) = &self.mapped[self.place_of(address)?];
        let inside = address - start;
        (inside < region.bytes().max(1)).then(|| (region, region.address + inside))
    }

    /// Returns the place of the last memory that begins at an address or before it.
    #[inline]
    fn place_of(&self, address: u64) -> Option<usize> {
        self.mapped.partition_point(|(known, _)| *known <= address).checked_sub(1)
    }

    /// Translates a range of bytes that lies in one memory.
    #[inline]
    fn translate_inside(&self, low: i64, high: i64) -> Option<(&Region, u64)> {
        let (low, high) = (low.cast_unsigned(), high.cast_unsigned());
        let place = self.place_of(low)?;
        let (start, region) = &self.mapped[place];
        let next = self.mapped.get(place + 1).map_or(u64::MAX, |(next, _)| *next);
        let is_inside = low < high && high <= next && high - start <= region.bytes();
        is_inside.then(|| (region, region.address + (low - start)))
    }

    /// Returns the error of an address outside every region.
    #[cold]
    pub(super) fn outside(&self, address: i64) -> KernelError {
        let number = address.cast_unsigned();
        let distance = |(start, region): &&(u64, Region)| {
            let end = start + region.bytes();
            if number < *start { start - number } else { number.saturating_sub(end) }
        };
        let near =
            self.mapped.iter().min_by_key(distance).map_or_else(String::new, |(start, region)| {
                let end = start + region.bytes();
                let side = if number < *start {
                    format!("{} bytes before it begins", start - number)
                } else {
                    format!("{} bytes after its end", number.saturating_sub(end))
                };
                let (elements, dtype) = (region.elements, region.dtype);
                format!("; the nearest is {start:#x}..{end:#x} ({elements} x {dtype}), {side}")
            });
        KernelError::Other(format!("address {number:#x} is outside every argument{near}"))
    }

    /// Translates a range of bytes; an end outside the region is an error.
    #[inline]
    pub(super) fn translate(&self, low: i64, high: i64) -> Result<(Region, u64), KernelError> {
        match self.translate_inside(low, high) {
            Some((region, address)) => Ok((*region, address)),
            None => self.translate_anywhere(low, high),
        }
    }

    /// Does the same for a range at the edges of memories, or outside of them.
    #[cold]
    fn translate_anywhere(&self, low: i64, high: i64) -> Result<(Region, u64), KernelError> {
        let Some((region, address)) = self.find(low) else { return Err(self.outside(low)) };
        let last = high.wrapping_sub(1);
        match self.find(last) {
            Some((other, _)) if other == region => Ok((*region, address)),
            _ => {
                let start = low.wrapping_sub((address - region.address).cast_signed());
                Err(beyond(start.cast_unsigned(), region))
            }
        }
    }
}

/// Returns the error of an access that begins in a region and ends behind it.
#[cold]
fn beyond(start: u64, region: &Region) -> KernelError {
    let (end, elements, dtype) = (start + region.bytes(), region.elements, region.dtype);
    KernelError::Other(format!(
        "address {end:#x} is outside: the first behind {start:#x}..{end:#x} ({elements} x {dtype})"
    ))
}

/// Returns the number that masked elements of a load read as, if it is one.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(super) fn plain_number(other: &Val) -> Option<f64> {
    match other {
        Val::None => Some(0.0),
        Val::Float(number) => Some(*number),
        Val::Whole(number) | Val::Equal(number) => Some(*number as f64),
        Val::Index(index) => index.as_splat().map(|number| number as f64),
        _ => None,
    }
}

/// The elements of an access.
pub(super) enum Elements {
    /// Nothing is accessed.
    Nothing,
    View(View, DType),
    /// Addresses, and which of them are accessed.
    List(Rc<[i64]>, Option<Rc<[i64]>>),
}

impl Run {
    /// Performs an access of memory.
    pub(super) async fn memory(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        match &instruction.op {
            Op::Load { has_mask, has_other } => {
                let data = self.load(instruction, *has_mask, *has_other).await?;
                self.set(instruction.to, Val::Data(data));
            }
            Op::Ahead { queue, has_mask, has_other } => {
                let data = self.load(instruction, *has_mask, *has_other).await?;
                self.queues[*queue].push_back(data);
            }
            Op::Store { has_mask } => self.store(instruction, *has_mask).await?,
            Op::DescriptorLoad { order } => {
                let data = self.load_block(instruction, order.as_deref()).await?;
                self.set(instruction.to, Val::Data(data));
            }
            Op::DescriptorAhead { queue, order } => {
                let data = self.load_block(instruction, order.as_deref()).await?;
                self.queues[*queue].push_back(data);
            }
            Op::DescriptorStore => self.store_block(instruction).await?,
            _ => self.atomic(instruction).await?,
        }
        Ok(())
    }

    /// Returns the known numbers of an operand.
    pub(super) async fn index_of(&self, reg: Reg) -> Result<Rc<Index>, KernelError> {
        match self.known_value(reg).await? {
            Val::Index(index) => Ok(index),
            Val::Whole(number) | Val::Equal(number) => Ok(Rc::new(Index::splat(number))),
            _ => Err(KernelError::Other("expected addresses, or a mask".to_owned())),
        }
    }

    async fn load(
        &mut self,
        instruction: &Instruction,
        has_mask: bool,
        has_other: bool,
    ) -> Result<Data, KernelError> {
        let pointers = self.index_of(instruction.args[0]).await?;
        let mask = if has_mask { Some(self.index_of(instruction.args[1]).await?) } else { None };
        let kind = self.kind(instruction.args[0]).clone();
        let (scalar, shape) = (kind.pointee(), kind.extent.clone());
        let other = if has_other { self.operand(instruction, 2) } else { Val::None };
        let elements = self.elements(&pointers, mask.as_deref(), &kind.extent, scalar)?;
        let plain = plain_number(&other);
        let data = self
            .load_elements(elements, plain.unwrap_or(0.0), dtype_of(scalar), shape.clone())
            .await?;
        let is_all = mask
            .as_ref()
            .is_none_or(|mask| mask.as_splat() == Some(1) || mask.covers(&kind.extent));
        self.release(instruction);
        let (None, Some(mask), false) = (plain, mask, is_all) else { return Ok(data) };
        // Masked elements are those of another tensor.
        let value_kind = RegType { element: Element::Number(scalar), ..kind.clone() };
        let mask_kind = RegType { element: Element::Number(Scalar::Int(1)), ..kind };
        let other = self.as_tile(other, &value_kind).await?;
        let choice = self.as_tile(Val::Index(mask), &mask_kind).await?;
        let loaded = self.as_tile(Val::Data(data), &value_kind).await?;
        let operation = self.tl.select(&choice.see(), &loaded.see(), &other.see());
        Ok(Data::issued(operation, shape))
    }

    /// Issues a load; masked elements read as `other`.
    async fn load_elements(
        &mut self,
        elements: Elements,
        other: f64,
        dtype: DType,
        shape: Extent,
    ) -> Result<Data, KernelError> {
        match elements {
            Elements::Nothing => {
                let tile = self.tl.full(dtype, tile_shape(&shape), other)?;
                Ok(Data::of_tile(tile, shape))
            }
            Elements::View(view, holds) => {
                let loading = self.tl.load_or(&view, other);
                if holds == dtype {
                    return Ok(Data::issued(loading, shape));
                }
                Ok(self.reinterpreted(loading.await?, dtype, shape))
            }
            Elements::List(addresses, mask) => {
                self.load_list(&addresses, mask.as_deref(), other, dtype, shape).await
            }
        }
    }

    /// Returns a loaded tile as another type of the same size: bits and bytes of one memory.
    pub(super) fn reinterpreted(
        &self,
        tile: phalanx_sim::kernel::Tile,
        dtype: DType,
        shape: Extent,
    ) -> Data {
        if tile.dtype() == DType::Bool || dtype == DType::Bool {
            return Data::issued(self.tl.cast(&tile, dtype), shape);
        }
        Data::of_tile(tile, shape)
    }

    async fn store(
        &mut self,
        instruction: &Instruction,
        has_mask: bool,
    ) -> Result<(), KernelError> {
        let pointers = self.index_of(instruction.args[0]).await?;
        let mask = if has_mask { Some(self.index_of(instruction.args[2]).await?) } else { None };
        let kind = self.kind(instruction.args[0]).clone();
        let elements = self.elements(&pointers, mask.as_deref(), &kind.extent, kind.pointee())?;
        let operand = self.full_tile(instruction, 1).await?;
        self.release(instruction);
        self.store_elements(elements, operand).await
    }

    async fn store_elements(
        &mut self,
        elements: Elements,
        operand: Operand,
    ) -> Result<(), KernelError> {
        match elements {
            Elements::Nothing => Ok(()),
            Elements::View(view, holds) => {
                let operand = self.as_held(operand, holds).await?;
                let storing = self.tl.store(&view, &operand.see());
                storing.error().map_or(Ok(()), |error| Err(error.clone()))
            }
            Elements::List(addresses, mask) => {
                self.store_list(&addresses, mask.as_deref(), operand).await
            }
        }
    }

    /// Returns a tile as the type that memory holds.
    pub(super) async fn as_held(
        &self,
        operand: Operand,
        holds: DType,
    ) -> Result<Operand, KernelError> {
        if operand.dtype == holds {
            return Ok(operand);
        }
        if operand.dtype == DType::Bool || holds == DType::Bool {
            let operation = self.tl.cast(&operand.see(), holds);
            let tile = operation.await?;
            return Ok(Operand::of(Data::of_tile(tile, operand.shape), holds));
        }
        let shape = operand.shape.clone();
        Ok(Operand::of(operand.into_data(shape), holds))
    }

    /// Finds the elements of an access.
    pub(super) fn elements(
        &self,
        pointers: &Index,
        mask: Option<&Index>,
        extent: &[usize],
        scalar: Scalar,
    ) -> Result<Elements, KernelError> {
        let mask = match mask.map(|mask| (mask, mask.as_splat())) {
            Some((_, Some(0))) => return Ok(Elements::Nothing),
            Some((mask, None)) if !mask.covers(extent) => Some(mask),
            _ => None,
        };
        let size = i64::try_from(scalar.bytes()).unwrap_or(1);
        let list = || {
            let mask = mask.map(|mask| mask.list(extent));
            Ok(Elements::List(pointers.list(extent), mask))
        };
        let Index::Affine(base, strides) = pointers else { return list() };
        // A size is a power of two.
        let is_regular = strides.iter().all(|stride| *stride >= 0 && stride & (size - 1) == 0);
        if !is_regular || extent.len() > 4 {
            return list();
        }
        let mut reach = *base;
        let view_mask = match mask {
            None => {
                reach = pointers.bounds(extent).1;
                Mask::All
            }
            Some(Index::Box(low, high)) if low.iter().all(|low| *low <= 0) => {
                let mut bounds = [0; 4];
                for (axis, dim) in extent.iter().enumerate() {
                    let bound = high[axis].clamp(0, as_int(*dim));
                    if bound == 0 {
                        return Ok(Elements::Nothing);
                    }
                    reach = reach.saturating_add(strides[axis].saturating_mul(bound - 1));
                    bounds[axis] = usize::try_from(bound).unwrap_or(0);
                }
                Mask::below(&bounds[..extent.len()])
            }
            Some(mask) => {
                let each = mask.list(extent);
                // The base of a view is its first element, which must be accessed.
                if each.first() != Some(&1) {
                    return list();
                }
                let addresses = pointers.list(extent);
                let touched = addresses.iter().zip(each.iter()).filter(|(_, is_set)| **is_set != 0);
                reach = touched.map(|(address, _)| *address).max().unwrap_or(*base);
                Mask::Each(each.iter().map(|is_set| *is_set != 0).collect())
            }
        };
        self.view(*base, reach.saturating_add(size), strides, extent, size, view_mask)
    }

    fn view(
        &self,
        base: i64,
        end: i64,
        strides: &[i64; AXES],
        extent: &[usize],
        size: i64,
        mask: Mask,
    ) -> Result<Elements, KernelError> {
        let (region, address) = self.call.space.translate(base, end)?;
        if as_int(region.dtype.size()) != size {
            let text =
                format!("memory of {} is accessed by elements of {size} bytes", region.dtype);
            return Err(KernelError::Other(text));
        }
        let mut steps = [0; 4];
        for ((step, stride), dim) in steps.iter_mut().zip(strides).zip(extent) {
            let distance = stride >> size.trailing_zeros();
            *step = if *dim == 1 { 0 } else { usize::try_from(distance).unwrap_or(0) };
        }
        if steps.iter().any(|step| u32::try_from(*step).is_err()) {
            return Err(KernelError::Other("strides of 2^32 elements or more".to_owned()));
        }
        let strides = (&steps[..extent.len()]).into();
        let view = View { address, dtype: region.dtype, shape: extent.into(), strides, mask };
        Ok(Elements::View(view, region.dtype))
    }

    /// Returns the descriptor and the position of a block.
    async fn block(
        &self,
        instruction: &Instruction,
        rank: usize,
    ) -> Result<(Rc<Descriptor>, Vec<i64>), KernelError> {
        let Val::Descriptor(descriptor) = self.look(instruction, 0).clone() else {
            return Err(KernelError::Other("expected a descriptor".to_owned()));
        };
        let mut at = Vec::new();
        for number in 1..=rank.min(instruction.args.len() - 1) {
            match self.known_value(instruction.args[number]).await? {
                Val::Whole(number) => at.push(number),
                _ => return Err(KernelError::Other("expected an integer".to_owned())),
            }
        }
        Ok((descriptor, at))
    }

    /// Returns addresses and mask of a block; the axes of the tile are those of `order`.
    fn block_index(
        descriptor: &Descriptor,
        at: &[i64],
        extent: &[usize],
        scalar: Scalar,
        order: Option<&[usize]>,
    ) -> (Index, Index) {
        let size = i64::try_from(scalar.bytes()).unwrap_or(1);
        // A block of fewer axes than the tensor takes the last ones.
        let skipped = descriptor.lengths.len().saturating_sub(extent.len());
        let mut base = descriptor.base;
        let (mut strides, mut low, mut high) = ([0; AXES], [0; AXES], [1; AXES]);
        for (axis, stride) in descriptor.strides.iter().enumerate() {
            let from = at.get(axis).copied().unwrap_or(0);
            let step = stride.saturating_mul(size);
            base = base.wrapping_add(from.saturating_mul(step));
            let Some(axis_of_block) = axis.checked_sub(skipped) else { continue };
            let place = order.map_or(axis_of_block, |order| {
                order.iter().position(|axis| *axis == axis_of_block).unwrap_or(axis_of_block)
            });
            strides[place] = step;
            low[place] = from.saturating_neg().max(0);
            high[place] = descriptor.lengths[axis].saturating_sub(from);
        }
        (Index::Affine(base, strides), Index::Box(low, high))
    }

    fn block_elements(
        &self,
        descriptor: &Descriptor,
        at: &[i64],
        extent: &[usize],
        scalar: Scalar,
        order: Option<&[usize]>,
    ) -> Result<Elements, KernelError> {
        let (pointers, mask) = Self::block_index(descriptor, at, extent, scalar, order);
        self.elements(&pointers, Some(&mask), extent, scalar)
    }

    /// Returns addresses, mask and tile of an atomic change of a block.
    pub(super) async fn block_operand(
        &mut self,
        instruction: &Instruction,
    ) -> Result<(Rc<[i64]>, Rc<[i64]>, Operand), KernelError> {
        let last = instruction.args.len() - 1;
        let (descriptor, at) = self.block(instruction, last - 1).await?;
        let kind = self.kind(instruction.args[last]).clone();
        let (pointers, mask) =
            Self::block_index(&descriptor, &at, &kind.extent, kind.scalar(), None);
        let operand = self.full_tile(instruction, last).await?;
        self.release(instruction);
        Ok((pointers.list(&kind.extent), mask.list(&kind.extent), operand))
    }

    async fn load_block(
        &mut self,
        instruction: &Instruction,
        order: Option<&[usize]>,
    ) -> Result<Data, KernelError> {
        let rank = instruction.args.len() - 1;
        let (descriptor, at) = self.block(instruction, rank).await?;
        let kind = self.block_kind(instruction, order);
        let (scalar, shape) = (kind.pointee(), kind.extent.clone());
        let elements = self.block_elements(&descriptor, &at, &kind.extent, scalar, order)?;
        self.release(instruction);
        let other = if descriptor.pads_with_nan { f64::NAN } else { 0.0 };
        self.load_elements(elements, other, dtype_of(scalar), shape).await
    }

    /// Returns the type of a block that is loaded.
    fn block_kind(&self, instruction: &Instruction, order: Option<&[usize]>) -> RegType {
        let kind = self.kind(instruction.args[0]).clone();
        match order {
            Some(order) => {
                RegType { extent: order.iter().map(|axis| kind.extent[*axis]).collect(), ..kind }
            }
            None => kind,
        }
    }

    async fn store_block(&mut self, instruction: &Instruction) -> Result<(), KernelError> {
        // The tile comes after the position, or before it.
        let last = instruction.args.len() - 1;
        let (descriptor, at) = self.block(instruction, last - 1).await?;
        let kind = self.kind(instruction.args[last]).clone();
        let elements = self.block_elements(&descriptor, &at, &kind.extent, kind.scalar(), None)?;
        let operand = self.full_tile(instruction, last).await?;
        self.release(instruction);
        self.store_elements(elements, operand).await
    }
}
