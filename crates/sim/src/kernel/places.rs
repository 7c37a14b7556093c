//! Loads, stores and atomic operations at a list of elements.
//!
//! A [`View`](super::View) is a pattern; [`Places`] are a list: an offset from a base for each element of a tile.
//! Neighbours in the list that are neighbours in memory form a run; with `dma.burst` each run takes whole bursts, as in a
//! view. An atomic operation goes to the HBM and back as a load does, and takes one burst (one element, without
//! `dma.burst`) for each element: elements in one place take turns.
//!
//! - **PLC-1 (list order).** Elements are read and written in the order of the list: of several stores to one place the last
//!   stays, and each of several atomic operations on one place sees those before it.
//! - **PLC-2 (order of asking).** Atomic operations of all programs on one place happen one after the other, in the order in
//!   which simulated time asks for them; each returns the element before it.
//! - **PLC-3 (bounded).** A place outside the region of the base is an error that names its address; masked places are not
//!   touched.

use super::math::{counted, misfit};
use super::memory::{boxed, load, store};
use super::program::Program;
use super::{KernelError, Loading, Shape, Storing, Tile, Tl};
use crate::machine::{BlockKey, Engine, Piece};
use crate::memory::{Mmu, Region, Translation};
use crate::value::{Atomic, DType, Value};
use std::rc::Rc;

/// Elements of memory: an offset from a base for each element of a tile.
#[derive(Clone, Debug)]
pub struct Places {
    /// Virtual address from which offsets count.
    pub address: u64,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape of the tile.
    pub shape: Shape,
    /// Distance of each element from the base, in elements, in row-major order of the shape.
    pub offsets: Rc<[i64]>,
    /// The elements that are accessed; all of them if there is none.
    pub mask: Option<Rc<[bool]>>,
}

impl Places {
    /// Returns places in a region, counted from its first element.
    pub fn of(region: &Region, shape: impl Into<Shape>, offsets: impl Into<Rc<[i64]>>) -> Self {
        let (address, dtype) = (region.address, region.dtype);
        Self { address, dtype, shape: shape.into(), offsets: offsets.into(), mask: None }
    }

    /// Accesses only the elements marked `true`.
    #[must_use]
    pub fn masked(mut self, mask: impl Into<Rc<[bool]>>) -> Self {
        self.mask = Some(mask.into());
        self
    }

    /// Returns the address of an offset; far outside the address space, an address that is never mapped.
    fn address_of(&self, offset: i64) -> u64 {
        let exact = i128::from(self.address) + (i128::from(offset) << self.dtype.size_shift());
        u64::try_from(exact.clamp(0, 1 << 62)).unwrap_or_default()
    }

    fn is_touched(&self, at: usize) -> bool {
        self.mask.as_ref().is_none_or(|mask| mask[at])
    }

    /// Returns the number and the offset of each accessed element, in the order of the list.
    fn touched(&self) -> impl Iterator<Item = (usize, i64)> + '_ {
        self.offsets.iter().copied().enumerate().filter(|(at, _)| self.is_touched(*at))
    }

    /// Returns the bytes that the accessed elements take, in runs of neighbours.
    fn run_bytes(&self, burst: u64) -> u64 {
        let (size, mut bytes, mut run, mut last) = (self.dtype.size() as u64, 0, 0_u64, None);
        for (_, offset) in self.touched() {
            if last == Some(offset) {
                continue;
            }
            if last.is_none_or(|last: i64| last.wrapping_add(1) != offset) {
                bytes += (run * size).next_multiple_of(burst.max(1));
                run = 0;
            }
            run += 1;
            last = Some(offset);
        }
        bytes + (run * size).next_multiple_of(burst.max(1))
    }

    /// Checks that list, mask and shape fit.
    fn check(&self) -> Result<(), Box<KernelError>> {
        let elements = self.shape.elements();
        let fits = |len: usize, what: &str| {
            if len == elements {
                return Ok(());
            }
            let left = format!("a list of {}", counted(len, what));
            let right = format!("{}{}", self.dtype, self.shape);
            Err(Box::new(misfit("places", left, &right, "one for each element")))
        };
        fits(self.offsets.len(), "offset")?;
        self.mask.as_ref().map_or(Ok(()), |mask| fits(mask.len(), "mask"))
    }
}

/// The accessed places: their region, and for each element of the tile the position among the distinct places.
struct Located {
    translation: Translation,
    /// The distinct places, ascending, counted from the translation.
    distinct: Vec<usize>,
    /// For each accessed element: its number in the tile, and the index of its place.
    elements: Vec<(usize, usize)>,
    /// Address of the first place.
    address: u64,
}

impl Located {
    /// Translates the accessed places; `None` if there are none.
    fn find(mmu: &Mmu, places: &Places) -> Result<Option<Self>, Box<KernelError>> {
        places.check()?;
        let mut distinct: Vec<i64> = places.touched().map(|(_, offset)| offset).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let (Some(&first), Some(&last)) = (distinct.first(), distinct.last()) else {
            return Ok(None);
        };
        let address = |offset: i64| places.address_of(offset);
        let reach = last.abs_diff(first).saturating_add(1);
        let reach = usize::try_from(reach).unwrap_or(usize::MAX / 16).min(usize::MAX / 16);
        let translation = mmu.find(address(first), places.dtype, reach).map_err(|error| {
            // The first place, in the order of the list, that is outside the region of the others.
            let alone = |offset: i64| mmu.find(address(offset), places.dtype, 1).err();
            let fault = places.touched().find_map(|(_, offset)| alone(offset));
            boxed(*fault.unwrap_or(error))
        })?;
        let index = |offset| distinct.binary_search(&offset).unwrap_or_default();
        let elements = places.touched().map(|(at, offset)| (at, index(offset))).collect();
        let from_first = |offset: &i64| usize::try_from(offset.abs_diff(first)).unwrap_or_default();
        let distinct = distinct.iter().map(from_first).collect();
        Ok(Some(Self { translation, distinct, elements, address: address(first) }))
    }

    /// Returns the runs of distinct places: first index, first place, length.
    fn runs(&self) -> Vec<(usize, usize, usize)> {
        let mut runs: Vec<(usize, usize, usize)> = Vec::new();
        for (index, place) in self.distinct.iter().enumerate() {
            match runs.last_mut() {
                Some((_, first, len)) if *first + *len == *place => *len += 1,
                _ => runs.push((index, *place, 1)),
            }
        }
        runs
    }

    /// Returns the distance from the first place to the end of the last.
    fn reach(&self) -> usize {
        self.distinct.last().map_or(0, |last| last + 1)
    }

    /// Reads the distinct places.
    fn read(&self, mmu: &Mmu) -> Result<Value, Box<KernelError>> {
        if let Some((value, at)) = mmu.covering(self.translation, self.reach()) {
            return Ok(match self.runs()[..] {
                [(_, first, len)] => value.slice(at + first, len),
                _ => value.take(self.distinct.iter().map(|place| at + place).collect()),
            });
        }
        let read = |(_, first, len)| mmu.read(self.translation, first, len).map_err(boxed);
        let pieces = self.runs().into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::concat(&pieces))
    }

    /// Writes the distinct places.
    fn write(&self, mmu: &mut Mmu, value: &Value) {
        for (index, first, len) in self.runs() {
            mmu.write(self.translation, first, value.slice(index, len));
        }
    }
}

impl Tl {
    /// Returns places in a region: the elements of a tile of whole numbers are the offsets. The run computes them now, so
    /// it needs data.
    #[track_caller]
    pub fn places(&self, region: &Region, offsets: &Tile) -> Result<Places, KernelError> {
        Ok(Places::of(region, offsets.shape(), self.whole_numbers(offsets)?))
    }

    /// Returns the elements of a tile of whole numbers. The run computes them now, so it needs data.
    #[track_caller]
    pub fn whole_numbers(&self, offsets: &Tile) -> Result<Vec<i64>, KernelError> {
        let Some(value) = offsets.value() else {
            return Err(*self.fault(Box::new(KernelError::NoData)));
        };
        if offsets.dtype().is_float() {
            return Err(*self.fault(Box::new(super::math::not_taken("places", offsets))));
        }
        self.force(&value)?;
        Ok(value.to_i64())
    }

    /// Loads the elements at some places into a new tile; masked elements read as `other`.
    #[track_caller]
    pub fn load_at(&self, places: &Places, other: f64) -> Loading<Tile> {
        let other = |n| Value::full(places.dtype, n, other);
        self.gathered(places, other)
    }

    /// Loads the elements at some places into a new tile; masked elements are those of `other`, of the same type and
    /// shape.
    #[track_caller]
    pub fn load_at_or(&self, places: &Places, other: &Tile) -> Loading<Tile> {
        if !other.is(places.dtype, &places.shape) {
            let wanted = format!("{}{}", places.dtype, places.shape);
            let error =
                misfit("load", other.describe(), &wanted, "`other` has an element for each");
            return self.failed(error);
        }
        let value = other.value();
        self.gathered(places, |n| value.unwrap_or_else(|| Value::zeros(places.dtype, n)))
    }

    #[track_caller]
    fn gathered(&self, places: &Places, other: impl FnOnce(usize) -> Value) -> Loading<Tile> {
        let program = self.program().clone();
        match self.read_places(places, other) {
            Ok((tile, found)) => {
                let burst = program.world().spec.dma.burst;
                let bytes = places.run_bytes(burst);
                let end = load(&program, || [Some(piece(&program, found.as_ref(), bytes)), None]);
                Loading::new(program, Engine::Load, tile, end)
            }
            Err(error) => Loading::failed(program, self.fault(error)),
        }
    }

    fn read_places(
        &self,
        places: &Places,
        other: impl FnOnce(usize) -> Value,
    ) -> Result<(Tile, Option<Located>), Box<KernelError>> {
        let program = self.program();
        let elements = places.shape.elements();
        let (value, found) = {
            let sip = program.world().sips[program.pe().sip as usize].borrow();
            let found = Located::find(&sip.mmu, places)?;
            let value = match &found {
                _ if !self.has_data() => None,
                None => Some(other(elements)),
                Some(found) => {
                    let distinct = found.read(&sip.mmu)?;
                    let mut index = vec![0; elements];
                    found.elements.iter().for_each(|(at, place)| index[*at] = *place);
                    let taken = distinct.take(index);
                    Some(match &places.mask {
                        Some(mask) if mask.contains(&false) => {
                            Value::select(&truths(mask), &taken, &other(elements))
                        }
                        _ => taken,
                    })
                }
            };
            (value, found)
        };
        let tile = Tile::in_scratch(program, places.dtype, places.shape, value, "a load")?;
        if self.has_data() {
            tile.start_if_deep();
        }
        Ok((tile, found))
    }

    /// Stores a tile to some places; masked elements are not stored.
    #[track_caller]
    pub fn store_at(&self, places: &Places, tile: &Tile) -> Storing {
        let program = self.program().clone();
        Storing::new(match self.write_places(places, tile) {
            Ok(found) => {
                let bytes = places.run_bytes(program.world().spec.dma.burst);
                let end = store(&program, || piece(&program, found.as_ref(), bytes));
                Loading::new(program, Engine::Store, (), end)
            }
            Err(error) => Loading::failed(program, self.fault(error)),
        })
    }

    fn write_places(
        &self,
        places: &Places,
        tile: &Tile,
    ) -> Result<Option<Located>, Box<KernelError>> {
        fits("store", places, tile)?;
        let program = self.program();
        let sip = &mut *program.world().sips[program.pe().sip as usize].borrow_mut();
        let Some(found) = Located::find(&sip.mmu, places)? else { return Ok(None) };
        program.group().check_store(found.address)?;
        if let Some(value) = tile.value().filter(|_| self.has_data()) {
            // The last element of the list stays.
            let mut last = vec![0; found.distinct.len()];
            found.elements.iter().for_each(|(at, place)| last[*place] = *at);
            found.write(&mut sip.mmu, &value.take(last));
        }
        Ok(Some(found))
    }

    /// Replaces the element at each place by `operation` of it and an operand; gives the elements before. Masked elements
    /// give 0.
    #[track_caller]
    pub fn atomic(&self, operation: Atomic, places: &Places, operand: &Tile) -> Loading<Tile> {
        self.atomically(operation, places, [operand].as_slice())
    }

    /// Replaces the element at each place by `new` if it equals `expected` (in its bits); gives the elements before.
    #[track_caller]
    pub fn atomic_cas(&self, places: &Places, expected: &Tile, new: &Tile) -> Loading<Tile> {
        self.atomically(Atomic::CompareAndSwap, places, [expected, new].as_slice())
    }

    #[track_caller]
    fn atomically(&self, operation: Atomic, places: &Places, operands: &[&Tile]) -> Loading<Tile> {
        let program = self.program().clone();
        match self.update_places(operation, places, operands) {
            Ok((tile, found)) => {
                let one = program.world().spec.dma.burst.max(places.dtype.size() as u64);
                let bytes = found.as_ref().map_or(0, |found| found.elements.len() as u64 * one);
                let end = load(&program, || [Some(piece(&program, found.as_ref(), bytes)), None]);
                Loading::new(program, Engine::Load, tile, end)
            }
            Err(error) => Loading::failed(program, self.fault(error)),
        }
    }

    fn update_places(
        &self,
        operation: Atomic,
        places: &Places,
        operands: &[&Tile],
    ) -> Result<(Tile, Option<Located>), Box<KernelError>> {
        let program = self.program();
        let name = operation.name();
        operands.iter().try_for_each(|operand| fits(name, places, operand))?;
        if !operation.takes(places.dtype) {
            return Err(Box::new(super::math::not_taken(name, operands[0])));
        }
        let elements = places.shape.elements();
        let (found, value) = {
            let sip = &mut *program.world().sips[program.pe().sip as usize].borrow_mut();
            let found = Located::find(&sip.mmu, places)?;
            let mut value = self.has_data().then(|| Value::zeros(places.dtype, elements));
            if let Some(found) = &found {
                program.group().check_store(found.address)?;
                if self.has_data() {
                    let now = found.read(&sip.mmu)?;
                    let operands: Vec<Value> =
                        operands.iter().filter_map(|tile| tile.value()).collect();
                    let (new, before) = Value::atomic(operation, &now, &operands, &found.elements);
                    found.write(&mut sip.mmu, &new);
                    value = Some(before);
                }
            }
            (found, value)
        };
        let tile = Tile::in_scratch(program, places.dtype, places.shape, value, name)?;
        if self.has_data() {
            tile.start_if_deep();
        }
        Ok((tile, found))
    }
}

/// Checks that a tile has an element for each place.
fn fits(operation: &'static str, places: &Places, tile: &Tile) -> Result<(), Box<KernelError>> {
    if tile.is(places.dtype, &places.shape) {
        return Ok(());
    }
    let wanted = format!("{}{}", places.dtype, places.shape);
    Err(Box::new(misfit(operation, tile.describe(), &wanted, "an element for each place")))
}

fn truths(mask: &[bool]) -> Value {
    Value::from_vec(mask.iter().map(|truth| crate::value::Bool::new(*truth)).collect())
}

/// Returns the transfer of some places.
fn piece(program: &Program, found: Option<&Located>, bytes: u64) -> Piece {
    let Some(found) = found else { return Piece { cube: 0, bytes: 0, block: None } };
    let (world, cube) = (program.world(), found.translation.cube);
    let sip = &mut *world.sips[program.pe().sip as usize].borrow_mut();
    let key = BlockKey { address: found.address, bytes, reach: found.reach() as u64 };
    let block = sip.cache.as_mut().map(|cache| cache.blocks.block(key, cube, bytes));
    Piece { cube, bytes, block }
}
