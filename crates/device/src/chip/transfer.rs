//! Operands of a program on a chip, and their way to the chip and back.

use phalanx_runtime::{Access, DType as Shared, Data, Failure};
use phalanx_sim::value::{Buffer, DType, Element, Value, bf16, f16};
use phalanx_torch::Error;
use phalanx_torch::Rank;
use phalanx_torch::Tensor;

/// An operand of a program on a chip: an argument of its task, or a slice of the callable.
pub struct Operand<'a> {
    staged: StagedTensor,
    back: Option<CopyBack<'a>>,
}

/// Copies the elements of an output to their place on the host.
pub(super) type CopyBack<'a> = Box<dyn FnOnce(&Buffer) -> Result<(), Failure> + 'a>;

/// An operand on its way to the thread of the machine.
pub(super) struct StagedTensor {
    access: Access,
    shape: Vec<usize>,
    dtype: DType,
    /// The elements, if the program reads them.
    value: Option<Value>,
}

impl<'a> Operand<'a> {
    /// Makes an operand that the program reads, row by row.
    pub fn input<T: Element>(elements: &[T], shape: &[usize]) -> Result<Self, Failure> {
        let value = Some(Value::from_vec(elements.to_vec()));
        let staged = StagedTensor::new::<T>(Access::Read, elements.len(), shape, value)?;
        Ok(Self { staged, back: None })
    }

    /// Makes an operand whose elements the program writes, all of them.
    pub fn output<T: Element>(elements: &'a mut [T], shape: &[usize]) -> Result<Self, Failure> {
        let staged = StagedTensor::new::<T>(Access::Write, elements.len(), shape, None)?;
        Ok(Self { staged, back: Some(into_slice(elements)) })
    }

    /// Makes an operand of an argument of a task, with its declared access; `index` is for messages.
    pub fn argument(index: usize, data: &'a mut Data<'_>) -> Result<Self, Failure> {
        let (layout, access) = (*data.layout(), data.access());
        let dtype = dtype_of(layout.dtype);
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
        let back: Option<CopyBack<'a>> = (access != Access::Read)
            .then(|| Box::new(move |buffer: &Buffer| write(data, buffer)) as CopyBack<'a>);
        Ok(Self { staged: StagedTensor { access, shape, dtype, value }, back })
    }

    /// The part that goes to the chip, and the part that copies the result back.
    pub(super) fn split(self) -> (StagedTensor, Option<CopyBack<'a>>) {
        (self.staged, self.back)
    }
}

fn into_slice<T: Element>(elements: &mut [T]) -> CopyBack<'_> {
    Box::new(move |buffer| {
        elements.copy_from_slice(T::slice(buffer.view()));
        Ok(())
    })
}

impl StagedTensor {
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

    /// Makes a tensor on the chip; elements that the program reads cross the host link.
    pub(super) fn into_tensor(self, rank: &Rank) -> Result<(Tensor, Access), Error> {
        let here = rank.placed(phalanx_torch::DpPolicy::default());
        let tensor = match self.value {
            Some(value) => here.of_value(&self.shape, self.dtype, || value)?,
            None => here.empty(&self.shape, self.dtype)?,
        };
        Ok((tensor, self.access))
    }
}

fn dtype_of(dtype: Shared) -> DType {
    match dtype {
        Shared::F32 => DType::F32,
        Shared::F16 => DType::F16,
        Shared::BF16 => DType::Bf16,
        Shared::I32 => DType::I32,
        Shared::U8 => DType::U8,
        Shared::I64 => DType::I64,
        Shared::F64 => DType::F64,
        Shared::U32 => DType::U32,
    }
}

fn no_tensor_of(dtype: DType) -> Failure {
    Failure::new(format!("tensors of tasks hold no {dtype}"))
}

fn read(data: &Data<'_>, dtype: DType) -> Result<Value, Failure> {
    Ok(match dtype {
        DType::F32 => Value::from_vec(data.read_elements::<f32>()?),
        DType::F16 => Value::from_vec(data.read_elements::<f16>()?),
        DType::Bf16 => Value::from_vec(data.read_elements::<bf16>()?),
        DType::I32 => Value::from_vec(data.read_elements::<i32>()?),
        DType::U8 => Value::from_vec(data.read_elements::<u8>()?),
        DType::I64 => Value::from_vec(data.read_elements::<i64>()?),
        DType::F64 => Value::from_vec(data.read_elements::<f64>()?),
        DType::U32 => Value::from_vec(data.read_elements::<u32>()?),
        other => return Err(no_tensor_of(other)),
    })
}

fn write(data: &mut Data<'_>, elements: &Buffer) -> Result<(), Failure> {
    match elements {
        Buffer::F32(elements) => data.write_elements(elements)?,
        Buffer::F16(elements) => data.write_elements(elements)?,
        Buffer::Bf16(elements) => data.write_elements(elements)?,
        Buffer::I32(elements) => data.write_elements(elements)?,
        Buffer::U8(elements) => data.write_elements(elements)?,
        Buffer::I64(elements) => data.write_elements(elements)?,
        Buffer::F64(elements) => data.write_elements(elements)?,
        Buffer::U32(elements) => data.write_elements(elements)?,
        other => return Err(no_tensor_of(other.dtype())),
    }
    Ok(())
}
