//! A kernel that was read, and its launch on a rank.

use crate::error::{SourceLine, TritonError};
use crate::exec::{Call, Descriptor, Space, Val, run};
use crate::lower::lower;
use crate::number::wrap;
use crate::parser::parse;
use crate::program::Program;
use crate::source_text::{SourceTexts, comments};
use crate::types::{Element, Scalar, Type};
use phalanx_sim::Time;
use phalanx_sim::kernel::Lines;
use phalanx_sim::memory::Region;
use phalanx_torch::{Arg, Error, Grid, Handle, Rank, Tensor};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The most rounds of loops of one program, unless a launch says otherwise.
pub(crate) const STEP_LIMIT: u64 = 10_000_000;

/// A Triton kernel.
///
/// ```
/// let text = "tt.func public @nothing(%n: i32) {\n  tt.return\n}";
/// let kernel = phalanx_triton::Kernel::read(text).unwrap();
/// assert_eq!((kernel.name(), kernel.arguments()), ("nothing", vec!["i32".to_owned()]));
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    program: Rc<Program>,
    lines: Rc<Lines>,
}

/// An argument of a launch.
#[derive(Clone)]
pub enum Argument {
    /// An integer.
    Whole(i64),
    /// A float.
    Float(f64),
    /// No memory: address 0.
    Null,
    /// A pointer into a tensor's storage, in bytes from its beginning.
    Pointer(Tensor, u64),
    /// A descriptor of a tensor.
    Described {
        /// The tensor.
        tensor: Tensor,
        /// The first element, in bytes from the beginning of the storage.
        offset: u64,
        /// The lengths along each axis.
        shape: Vec<i64>,
        /// The strides along each axis, in elements.
        strides: Vec<i64>,
        /// Elements beyond the tensor read as NaN, not as 0.
        pads_with_nan: bool,
    },
}

/// The settings of a launch.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The programs along each axis.
    pub grid: [usize; 3],
    /// The rounds of a loop whose loads are issued ahead, the current one included.
    pub num_stages: usize,
    /// The most rounds of loops of one program.
    pub step_limit: u64,
    /// True if the report tells of the lines of the kernel; without, a launch takes less time of the host.
    pub lines: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { grid: [1; 3], num_stages: 1, step_limit: STEP_LIMIT, lines: true }
    }
}

impl Kernel {
    /// Reads the TTIR of a kernel.
    ///
    /// # Errors
    ///
    /// If the text is not TTIR, or uses an operation that is not supported.
    pub fn read(text: &str) -> Result<Self, TritonError> {
        let program = Rc::new(lower(&parse(text)?)?);
        let lines = Rc::new(lines_of(&program, &mut SourceTexts::carried_by(text)));
        Ok(Self { program, lines })
    }

    /// Returns comments that, at the end of the TTIR, carry the texts of the kernel's source lines.
    pub fn source_comments(&self) -> String {
        let lines = self.program.lines.iter().zip(&self.lines.lines);
        comments(lines.filter_map(|(source, (_, text))| Some((source.clone()?, text.clone()))))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Returns the types of the arguments, in Triton's words: `*fp16`, `i32`, `tensordesc<fp16[32,64]>`.
    pub fn arguments(&self) -> Vec<String> {
        self.program.parameters.iter().map(|parameter| word_of(&parameter.kind)).collect()
    }

    /// Returns which arguments point to memory that the kernel may write.
    pub fn written(&self) -> Vec<bool> {
        self.program.parameters.iter().map(|parameter| parameter.is_written).collect()
    }

    /// True if the kernel makes pointers of numbers, which may come from memory.
    pub fn uses_pointers_from_memory(&self) -> bool {
        self.program.uses_pointers_from_memory
    }

    /// Launches the kernel on a rank's SIP. `mapped` are further tensors, and the addresses at which the kernel finds tensors.
    ///
    /// # Errors
    ///
    /// If the arguments are not those of the kernel. Waiting for the handle returns the error of the kernel.
    pub fn launch(
        &self,
        rank: &Rank,
        arguments: &[Argument],
        mapped: &[(u64, Tensor)],
        settings: &Settings,
    ) -> Result<Launched, Error> {
        let name = &self.program.name;
        let count = self.program.parameters.len();
        if arguments.len() != count {
            let text = format!("kernel `{name}` takes {count} arguments, not {}", arguments.len());
            return Err(Error::argument(text));
        }
        let mut space = Space::default();
        for (address, tensor) in mapped {
            space.map(*address, region_of(tensor)?);
        }
        let mut values = Vec::new();
        let mut touched: Vec<(Tensor, bool)> = Vec::new();
        for (parameter, argument) in self.program.parameters.iter().zip(arguments) {
            if let Argument::Pointer(tensor, _) | Argument::Described { tensor, .. } = argument {
                touch(&mut touched, tensor, parameter.is_written);
            }
            let value = value_of(argument, &parameter.kind, &mut space)?;
            let Some(value) = value else {
                let wanted = word_of(&parameter.kind);
                let text =
                    format!("kernel `{name}`: argument `{}` must be {wanted}", parameter.name);
                return Err(Error::argument(text));
            };
            values.push(value);
        }
        if self.uses_pointers_from_memory() {
            let writes = self.program.code.iter().any(|instruction| instruction.op.writes());
            for (_, tensor) in mapped {
                touch(&mut touched, tensor, writes);
            }
        }
        let args: Vec<Arg> = touched
            .iter()
            .map(|(tensor, writes)| if *writes { Arg::write(tensor) } else { Arg::read(tensor) })
            .collect();
        let call = Rc::new(Call {
            program: self.program.clone(),
            arguments: values,
            space,
            num_stages: settings.num_stages,
            lines: settings.lines.then(|| self.lines.clone()),
            limit: settings.step_limit,
            shared: OnceCell::new(),
        });
        let grid = Grid::programs(settings.grid);
        let span = Rc::new(Cell::new((u64::MAX, 0)));
        let kept = span.clone();
        let handle = rank.launch(name, grid, &args, move |tl, _| {
            let (call, span) = (call.clone(), kept.clone());
            async move {
                let (first, last) = span.get();
                span.set((first.min(tl.now().as_ps()), last));
                let result = run(call, tl.clone()).await;
                let (first, last) = span.get();
                span.set((first, last.max(tl.now().as_ps())));
                result
            }
        })?;
        Ok(Launched { handle, span })
    }
}

/// A launch: wait for its end with [`Launched::wait`].
#[derive(Clone)]
pub struct Launched {
    handle: Handle,
    span: Rc<Cell<(u64, u64)>>,
}

impl Launched {
    /// Waits for the end of all programs.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub async fn wait(&self) -> Result<(), Error> {
        self.handle.wait().await
    }

    /// Returns the request, which other requests can wait for.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns when the first program began and the last one issued its last operation; `None` if none has ended.
    pub fn span(&self) -> Option<(Time, Time)> {
        let (first, last) = self.span.get();
        (first <= last).then(|| (Time::ps(first), Time::ps(last)))
    }
}

/// Notes an access to a tensor, once for all arguments that are the same tensor.
fn touch(touched: &mut Vec<(Tensor, bool)>, tensor: &Tensor, writes: bool) {
    match touched.iter_mut().find(|(known, _)| known.is(tensor)) {
        Some((_, known)) => *known |= writes,
        None => touched.push((tensor.clone(), writes)),
    }
}

/// Returns the source lines of a program, with their texts.
fn lines_of(program: &Program, texts: &mut SourceTexts) -> Lines {
    let line = |source: &Option<SourceLine>| {
        let Some(source) = source else { return (String::new(), String::new()) };
        (source.to_string(), texts.text_of(source))
    };
    Lines { kernel: program.name.clone(), lines: program.lines.iter().map(line).collect() }
}

fn region_of(tensor: &Tensor) -> Result<Region, Error> {
    let shards = tensor.shards();
    match shards.first() {
        Some(first) if shards.len() == 1 => Ok(first.region),
        _ => Err(Error::argument(format!(
            "{} is cut into {} shards; a Triton kernel takes tensors in one piece",
            tensor.describe(),
            shards.len()
        ))),
    }
}

/// Returns the kernel's address of a tensor; a tensor without one gets that of its memory.
fn address_of(tensor: &Tensor, offset: u64, space: &mut Space) -> Result<i64, Error> {
    let region = region_of(tensor)?;
    let address = space.address_of(&region).unwrap_or_else(|| {
        space.map(region.address, region);
        region.address
    });
    Ok((address + offset).cast_signed())
}

/// Returns the value of an argument, if it is of its parameter's type.
fn value_of(argument: &Argument, kind: &Type, space: &mut Space) -> Result<Option<Val>, Error> {
    Ok(match (argument, kind) {
        (Argument::Whole(number), Type::One(Element::Number(Scalar::Int(bits)))) => {
            Some(Val::Whole(wrap(*number, *bits)))
        }
        #[expect(clippy::cast_precision_loss, reason = "a whole number for a float")]
        (Argument::Whole(number), Type::One(Element::Number(scalar))) => {
            Some(Val::Float(crate::number::round(*number as f64, *scalar)))
        }
        (Argument::Float(number), Type::One(Element::Number(scalar))) if scalar.is_float() => {
            Some(Val::Float(crate::number::round(*number, *scalar)))
        }
        (Argument::Null, Type::One(Element::Pointer(_))) => Some(Val::Whole(0)),
        (Argument::Pointer(tensor, offset), Type::One(Element::Pointer(_))) => {
            Some(Val::Whole(address_of(tensor, *offset, space)?))
        }
        (
            Argument::Described { tensor, offset, shape, strides, pads_with_nan },
            Type::Descriptor(..),
        ) if shape.len() == strides.len() => {
            let base = address_of(tensor, *offset, space)?;
            let (lengths, strides) = (shape.clone(), strides.clone());
            let pads_with_nan = *pads_with_nan;
            Some(Val::Descriptor(Rc::new(Descriptor { base, lengths, strides, pads_with_nan })))
        }
        _ => None,
    })
}

/// Returns a type in Triton's words.
fn word_of(kind: &Type) -> String {
    let scalar = |scalar: Scalar| match scalar {
        Scalar::Int(bits) => format!("i{bits}"),
        Scalar::F16 => "fp16".to_owned(),
        Scalar::BF16 => "bf16".to_owned(),
        Scalar::F32 => "fp32".to_owned(),
        Scalar::F64 => "fp64".to_owned(),
        Scalar::F8E4M3 => "fp8e4nv".to_owned(),
        Scalar::F8E5M2 => "fp8e5".to_owned(),
    };
    match kind {
        Type::One(Element::Number(number)) => scalar(*number),
        Type::One(Element::Pointer(number)) => format!("*{}", scalar(*number)),
        Type::Descriptor(extent, number) => {
            let dims: Vec<String> = extent.iter().map(ToString::to_string).collect();
            format!("tensordesc<{}[{}]>", scalar(*number), dims.join(","))
        }
        Type::Tensor(..) => kind.to_string(),
    }
}
