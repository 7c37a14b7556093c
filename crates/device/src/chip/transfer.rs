//! What a program on a chip is given, on its way there and back.

use phalanx_runtime::{Access, DType as Shared, Data, Failure};
use phalanx_sim::value::{Buffer, DType, Element, Slice, Value, bf16, f16};
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::Tensor;

/// Elements that a program on a chip is given: an argument of its task, or a slice of the callable's own.
pub struct Operand<'a> {
    copied: Copied,
    back: Option<Back<'a>>,
}

/// Puts what has come back where it belongs.
pub(super) type Back<'a> = Box<dyn FnOnce(&Buffer) -> Result<(), Failure> + 'a>;

/// Elements as the thread of the machine gets them.
pub(super) struct Copied {
    access: Access,
    shape: Vec<usize>,
    dtype: DType,
    /// What they are, if the program reads them.
    value: Option<Value>,
}

impl<'a> Operand<'a> {
    /// Elements that are read, row by row.
    pub fn input<T: Element>(elements: &[T], shape: &[usize]) -> Result<Self, Failure> {
        let value = Some(Value::from_vec(elements.to_vec()));
        let copied = Copied::new::<T>(Access::Read, elements.len(), shape, value)?;
        Ok(Self { copied, back: None })
    }

    /// Elements that are written, all of them.
    pub fn output<T: Element>(elements: &'a mut [T], shape: &[usize]) -> Result<Self, Failure> {
        let copied = Copied::new::<T>(Access::Write, elements.len(), shape, None)?;
        Ok(Self { copied, back: Some(into_slice(elements)) })
    }

    /// Elements that are read and written.
    pub fn in_out<T: Element>(elements: &'a mut [T], shape: &[usize]) -> Result<Self, Failure> {
        let value = Some(Value::from_vec(elements.to_vec()));
        let copied = Copied::new::<T>(Access::ReadWrite, elements.len(), shape, value)?;
        Ok(Self { copied, back: Some(into_slice(elements)) })
    }

    /// An argument of a task, as it was declared; `index` is for messages.
    pub fn argument(index: usize, data: &'a mut Data<'_>) -> Result<Self, Failure> {
        let (layout, access) = (*data.layout(), data.access());
        let dtype = dtype_of(layout.dtype).ok_or_else(|| {
            Failure::new(format!(
                "argument {index} holds {:?}, and a chip computes in F32, F16, BF16 and I32",
                layout.dtype
            ))
        })?;
        let shape = layout.shape().iter().map(|axis| usize::try_from(*axis));
        let shape = shape.collect::<Result<Vec<usize>, _>>()?;
        let value = match access {
            Access::Write => None,
            Access::Read | Access::ReadWrite => Some(read(data, dtype)?),
            Access::Unordered => {
                return Err(Failure::new(format!(
                    "argument {index} was submitted without order: it cannot be copied to the chip as a whole; \
                     use `run_on` with the others, and copy what is safe to copy"
                )));
            }
        };
        let back: Option<Back<'a>> = (access != Access::Read)
            .then(|| Box::new(move |buffer: &Buffer| write(data, buffer)) as Back<'a>);
        Ok(Self { copied: Copied { access, shape, dtype, value }, back })
    }

    /// What goes to the chip, and what to do with what comes back.
    pub(super) fn apart(self) -> (Copied, Option<Back<'a>>) {
        (self.copied, self.back)
    }
}

fn into_slice<T: Element>(elements: &mut [T]) -> Back<'_> {
    Box::new(move |buffer| {
        elements.copy_from_slice(T::slice(slice_of(buffer)));
        Ok(())
    })
}

fn slice_of(buffer: &Buffer) -> Slice<'_> {
    match buffer {
        Buffer::F32(elements) => Slice::F32(elements),
        Buffer::F16(elements) => Slice::F16(elements),
        Buffer::Bf16(elements) => Slice::Bf16(elements),
        Buffer::I32(elements) => Slice::I32(elements),
    }
}

impl Copied {
    fn new<T: Element>(
        access: Access,
        count: usize,
        shape: &[usize],
        value: Option<Value>,
    ) -> Result<Self, Failure> {
        if shape.iter().product::<usize>() != count {
            let words = format!("{count} elements are no tensor of {shape:?}");
            return Err(Failure::new(words));
        }
        Ok(Self { access, shape: shape.to_vec(), dtype: T::DTYPE, value })
    }

    /// Makes a tensor of them; what the program reads crosses the host link.
    pub(super) fn into_tensor(self, rank: &Rank) -> Result<(Tensor, Access), Error> {
        let here = rank.placed(phalanx_torch::DpPolicy::default());
        let tensor = match self.value {
            Some(value) => here.of_value(&self.shape, self.dtype, || value)?,
            None => here.empty(&self.shape, self.dtype)?,
        };
        Ok((tensor, self.access))
    }
}

fn dtype_of(dtype: Shared) -> Option<DType> {
    match dtype {
        Shared::F32 => Some(DType::F32),
        Shared::F16 => Some(DType::F16),
        Shared::BF16 => Some(DType::Bf16),
        Shared::I32 => Some(DType::I32),
        Shared::U8 | Shared::I64 | Shared::F64 | Shared::U32 => None,
    }
}

fn read(data: &Data<'_>, dtype: DType) -> Result<Value, Failure> {
    Ok(match dtype {
        DType::F32 => Value::from_vec(data.read_elements::<f32>()?),
        DType::F16 => Value::from_vec(data.read_elements::<f16>()?),
        DType::Bf16 => Value::from_vec(data.read_elements::<bf16>()?),
        DType::I32 => Value::from_vec(data.read_elements::<i32>()?),
    })
}

fn write(data: &mut Data<'_>, elements: &Buffer) -> Result<(), Failure> {
    match elements {
        Buffer::F32(elements) => data.write_elements(elements)?,
        Buffer::F16(elements) => data.write_elements(elements)?,
        Buffer::Bf16(elements) => data.write_elements(elements)?,
        Buffer::I32(elements) => data.write_elements(elements)?,
    }
    Ok(())
}
