//! Loads and stores between a cube's HBM and a PE's scratch, through the PE's two DMA channels.
//!
//! A transfer takes the latencies of DMA, HBM and mesh, and the slowest of them, cut-through. With `dma.burst` each run of
//! adjacent bytes takes whole bursts; with `sip.cache` a transfer takes the cache on its way (`machine/cache.rs`).

use super::issued::{End, Started};
use super::math::{TYPES, counted, difference};
use super::program::Program;
use super::view::{Mask, View};
use super::{KernelError, Loading, Shape, Tile, Tl};
use crate::machine::{Ask, BlockKey, Engine, Piece, Sip};
use crate::memory::{MemoryError, Mmu, Translation};
use crate::record::Gap;
use crate::time::Time;
use crate::value::Value;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

impl<T> Loading<T> {
    /// Moves `bytes` from `cube` into the PE; the load gives `result`.
    pub(super) fn moving(
        program: &Rc<Program>,
        cube: u16,
        bytes: u64,
        result: Result<T, Box<KernelError>>,
    ) -> Self {
        let end = load(program, || [Some(Piece { cube, bytes, block: None }), None]);
        match result {
            Ok(result) => Self::new(program.clone(), Engine::Load, result, end),
            Err(error) => Self::failed(program.clone(), error),
        }
    }
}

/// A store in progress: await it to wait for its end. Every store ends before the kernel ends.
pub struct Storing(Loading<()>);

impl Storing {
    pub(super) fn new(storing: Loading<()>) -> Self {
        Self(storing)
    }

    /// Returns the error of a store that could not be issued; a store that was issued does not fail.
    pub fn error(&self) -> Option<&KernelError> {
        self.0.error()
    }
}

impl Future for Storing {
    type Output = Result<(), KernelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Tl {
    /// Loads the elements of a view into a new tile; masked elements read as 0.
    #[inline]
    #[track_caller]
    pub fn load(&self, view: &View) -> Loading<Tile> {
        self.load_or(view, 0.0)
    }

    /// Loads the elements of a view into a new tile; masked elements read as `other`.
    #[inline]
    #[track_caller]
    pub fn load_or(&self, view: &View, other: f64) -> Loading<Tile> {
        Loading::of(self.program(), Engine::Load, self.start_load(view, other))
    }

    #[track_caller]
    fn start_load(&self, view: &View, other: f64) -> Started<Tile> {
        let program = self.program();
        match self.read_tile(view, &Other::Number(other)) {
            Ok((tile, cube)) => {
                let end = load(program, || [Some(piece(program, cube, view)), None]);
                Ok((tile, end))
            }
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Loads the elements of a view into a new tile; masked elements are those of `other`, of the same type and shape.
    #[track_caller]
    pub fn load_over(&self, view: &View, other: &Tile) -> Loading<Tile> {
        if !other.is(view.dtype, &view.shape) {
            let wanted = format!("{}{}", view.dtype, view.shape);
            let why = "`other` has an element for each";
            return self.failed(super::math::misfit("load", other.describe(), &wanted, why));
        }
        let program = self.program().clone();
        match self.read_tile(view, &Other::Tile(other.value())) {
            Ok((tile, cube)) => {
                let end = load(&program, || [Some(piece(&program, cube, view)), None]);
                Loading::new(program, Engine::Load, tile, end)
            }
            Err(error) => Loading::failed(program, self.fault(error)),
        }
    }

    /// Loads two views as one transfer, which takes the latency once: the operands of a product.
    #[track_caller]
    pub fn load_pair(&self, left: &View, right: &View) -> Loading<(Tile, Tile)> {
        let program = self.program().clone();
        let both = self
            .read_tile(left, &ZERO)
            .and_then(|first| Ok((first, self.read_tile(right, &ZERO)?)));
        match both {
            Ok(((first, cube), (second, other))) => {
                let pieces =
                    || [Some(piece(&program, cube, left)), Some(piece(&program, other, right))];
                let end = load(&program, pieces);
                Loading::new(program, Engine::Load, (first, second), end)
            }
            Err(error) => Loading::failed(program, self.fault(error)),
        }
    }

    /// Returns the tile of a view, and the cube that holds its bytes.
    #[inline]
    fn read_tile(&self, view: &View, other: &Other) -> Result<(Tile, u16), Box<KernelError>> {
        let program = self.program();
        let (cube, value) = read(program, view, other)?;
        let tile = Tile::in_scratch(program, view.dtype, view.shape, value, "a load")?;
        if self.has_data() {
            tile.start_if_deep();
        }
        Ok((tile, cube))
    }

    /// Stores a tile to the elements of a view; masked elements do not change.
    #[inline]
    #[track_caller]
    pub fn store(&self, view: &View, tile: &Tile) -> Storing {
        Storing(Loading::of(self.program(), Engine::Store, self.start_store(view, tile)))
    }

    #[track_caller]
    fn start_store(&self, view: &View, tile: &Tile) -> Started<()> {
        let program = self.program();
        match write(program, view, tile) {
            Ok(cube) => Ok(((), store(program, || piece(program, cube, view)))),
            Err(error) => Err(self.fault(error)),
        }
    }
}

/// The value that masked elements of a load read as.
enum Other {
    Number(f64),
    /// The elements of a tile; `None` without data.
    Tile(Option<Value>),
}

const ZERO: Other = Other::Number(0.0);

impl Other {
    /// Returns `len` elements from element `start` of the view's tile.
    fn elements(&self, view: &View, start: usize, len: usize) -> Value {
        match self {
            Self::Number(number) => Value::full(view.dtype, len, *number),
            Self::Tile(Some(value)) => value.slice(start, len),
            Self::Tile(None) => Value::zeros(view.dtype, len),
        }
    }
}

/// Returns the transfer of a view's accessed elements.
#[inline]
fn piece(program: &Program, cube: u16, view: &View) -> Piece {
    let spec = &program.world().spec;
    if spec.dma.burst == 0 && spec.cache.is_none() {
        let bytes = (view.touched() * view.dtype.size()) as u64;
        return Piece { cube, bytes, block: None };
    }
    piece_in_blocks(program, cube, view)
}

/// Returns the transfer of a view's accessed elements on a machine with bursts or a cache.
#[inline(never)]
fn piece_in_blocks(program: &Program, cube: u16, view: &View) -> Piece {
    let world = program.world();
    let bytes = match world.spec.dma.burst {
        0 => (view.touched() * view.dtype.size()) as u64,
        burst => view.burst_bytes(burst),
    };
    let mut block = None;
    if world.spec.cache.is_some() && bytes > 0 {
        let sip = &mut *world.sips[program.pe().sip as usize].borrow_mut();
        let reach = reach(view).unwrap_or_default() as u64;
        let key = BlockKey { address: view.address, bytes, reach };
        block = sip.cache.as_mut().map(|cache| cache.blocks.block(key, cube, bytes));
    }
    Piece { cube, bytes, block }
}

/// Issues a load of one piece, or of two. A load that takes no time occupies nothing and is not logged.
#[inline]
pub(super) fn load(program: &Program, pieces: impl FnOnce() -> [Option<Piece>; 2]) -> End {
    if program.world().costs.zero.memory {
        return End::At(Time::ZERO);
    }
    let pieces = pieces();
    let bytes = pieces.iter().flatten().map(|piece| piece.bytes).sum();
    let count = if pieces[1].is_some() { 2 } else { 1 };
    let transfer = program.transfer(bytes, count);
    program.count_transfer(&transfer);
    issue(program, count, |sip, ask| {
        program.world().ask_load(sip, ask, &transfer, pieces);
    });
    End::Of(transfer)
}

/// Issues a store; as [`load`].
#[inline]
pub(super) fn store(program: &Program, piece: impl FnOnce() -> Piece) -> End {
    if program.world().costs.zero.memory {
        return End::At(Time::ZERO);
    }
    let piece = piece();
    let transfer = program.transfer(piece.bytes, 1);
    program.count_transfer(&transfer);
    issue(program, 1, |sip, ask| {
        program.world().ask_store(sip, ask, &transfer, piece);
    });
    program.set_last_store(transfer.clone());
    End::Of(transfer)
}

/// Gives a load or a store of some pieces to its DMA channel.
#[inline]
fn issue(program: &Program, pieces: u8, ask: impl FnOnce(&mut Sip, &Ask)) {
    let (world, pe, at) = (program.world(), program.pe(), program.sim().now());
    let mut path = program.path();
    path.advance(at, Gap::Dependency);
    let sip = &mut *world.sips[pe.sip as usize].borrow_mut();
    let number = sip.flights.issue(pieces);
    ask(sip, &Ask { pe, at, number, path });
}

/// Returns the cube that holds a view's elements, and their value.
#[inline]
fn read(
    program: &Program,
    view: &View,
    other: &Other,
) -> Result<(u16, Option<Value>), Box<KernelError>> {
    let world = program.world();
    let sip = world.sips[program.pe().sip as usize].borrow();
    let translation = locate(&sip.mmu, view)?;
    let cube = match translation {
        Some(translation) => translation.cube,
        None => cube_of_nothing(program, &sip.mmu, view),
    };
    if !world.options.data {
        return Ok((cube, None));
    }
    let value = match translation {
        Some(translation) => gather(&sip.mmu, translation, view, other).map_err(boxed)?,
        None => other.elements(view, 0, view.shape.elements()),
    };
    Ok((cube, Some(value)))
}

/// Returns the cube of a view that accesses nothing: the cube of the region at its address, or the cube of the PE.
#[cold]
fn cube_of_nothing(program: &Program, mmu: &Mmu, view: &View) -> u16 {
    mmu.cube_at(view.address).unwrap_or(program.pe().cube)
}

/// Translates a view's base address; `None` if the view accesses nothing.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a translation stays in registers")]
fn locate(mmu: &Mmu, view: &View) -> Result<Option<Translation>, Box<KernelError>> {
    let reach = match view.dense_len() {
        Some(len) => len,
        None => reach(view)?,
    };
    if reach == 0 {
        return Ok(None);
    }
    match mmu.find(view.address, view.dtype, reach) {
        Ok(translation) => Ok(Some(translation)),
        Err(error) => Err(boxed(*error)),
    }
}

#[cold]
pub(super) fn boxed(error: MemoryError) -> Box<KernelError> {
    Box::new(KernelError::Memory(error))
}

/// Returns the distance from the base to the end of the last accessed element.
fn reach(view: &View) -> Result<usize, Box<KernelError>> {
    if !view.mask_fits() || view.strides.dims().len() != view.shape.dims().len() {
        return Err(Box::new(bad_view(view)));
    }
    Ok(match &view.mask {
        Mask::All => span_of(view.shape, view.strides),
        Mask::Below(bounds) => span_of(view.shape.within(bounds), view.strides),
        Mask::Each(_) => view.reach(),
    })
}

/// Returns the error of a view whose strides or mask have another shape.
#[cold]
fn bad_view(view: &View) -> KernelError {
    let dims = view.shape.dims().len();
    let of_dims = |count: usize| counted(count, "dimension");
    let (left, right) = match &view.mask {
        _ if view.strides.dims().len() != dims => {
            let strides = counted(view.strides.dims().len(), "stride");
            (format!("{strides} {}", view.strides), of_dims(dims))
        }
        Mask::Below(bounds) => {
            let of_mask = of_dims(bounds.dims().len());
            (format!("a mask of {of_mask} {bounds}"), of_dims(dims))
        }
        Mask::Each(each) => {
            let elements = counted(view.shape.elements(), "element");
            (format!("a mask of {}", counted(each.len(), "element")), elements)
        }
        Mask::All => (String::new(), of_dims(dims)),
    };
    let right = format!("a view of {right} {}", view.shape);
    KernelError::Shape { operation: "view", left, right }
}

/// Returns the number of elements from the first to the last of a view without mask, both included.
fn span_of(shape: Shape, strides: Shape) -> usize {
    if shape.elements() == 0 {
        return 0;
    }
    shape
        .dims()
        .iter()
        .zip(strides.dims().iter())
        .map(|(dim, stride)| (dim - 1) * stride)
        .sum::<usize>()
        + 1
}

fn gather(
    mmu: &Mmu,
    translation: Translation,
    view: &View,
    other: &Other,
) -> Result<Value, MemoryError> {
    if matches!(view.mask, Mask::All)
        && let Some((value, at)) = mmu.covering(translation, span_of(view.shape, view.strides))
    {
        return Ok(value.strided(at, &view.shape.dims(), &view.strides.dims()));
    }
    let mut pieces = Vec::new();
    for run in view.runs() {
        pieces.push(match run.memory {
            Some(at) => mmu.read(translation, at, run.len)?,
            None => other.elements(view, run.tile, run.len),
        });
    }
    Ok(Value::concat(&pieces))
}

/// Writes a tile to a view; returns the cube that holds the view.
#[inline]
fn write(program: &Program, view: &View, tile: &Tile) -> Result<u16, Box<KernelError>> {
    if !tile.is(view.dtype, &view.shape) {
        return Err(misfit(view, tile));
    }
    let sip = &mut *program.world().sips[program.pe().sip as usize].borrow_mut();
    let Some(translation) = locate(&sip.mmu, view)? else {
        return Ok(cube_of_nothing(program, &sip.mmu, view));
    };
    program.group().check_store(view.address)?;
    if program.world().options.data
        && let Some(value) = tile.value()
    {
        for run in view.runs() {
            if let Some(at) = run.memory {
                sip.mmu.write(translation, at, value.slice(run.tile, run.len));
            }
        }
    }
    Ok(translation.cube)
}

#[cold]
#[expect(
    clippy::unnecessary_box_returns,
    reason = "a result with a thin error is passed in registers"
)]
fn misfit(view: &View, tile: &Tile) -> Box<KernelError> {
    let right = format!("{}{}", view.dtype, view.shape);
    let same_type = tile.dtype() == view.dtype;
    let why = if same_type { difference(tile.shape(), view.shape) } else { TYPES.to_owned() };
    Box::new(super::math::misfit("store", tile.describe(), &right, &why))
}
