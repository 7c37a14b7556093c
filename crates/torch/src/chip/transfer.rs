//! Arguments of a task on their way to the chip and back.

use crate::error::Error;
use crate::rank::Rank;
use crate::tensor::Tensor;
use phalanx_runtime::{Access, DType as Shared, Data, Failure};
use phalanx_sim::value::{Buffer, DType, Value, bf16, f16};

/// An argument as the thread of the machine gets it.
pub(super) struct Copied {
    pub(super) access: Access,
    shape: Vec<usize>,
    dtype: DType,
    /// What it holds, if the task reads it.
    value: Option<Value>,
}

impl Copied {
    /// Copies argument `index` if it is read.
    pub(super) fn of(index: usize, data: &Data) -> Result<Self, Failure> {
        let (layout, access) = (data.layout(), data.access());
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
        Ok(Self { access, shape, dtype, value })
    }

    /// Makes a tensor of it; what the task reads crosses the host link.
    pub(super) fn into_tensor(self, rank: &Rank) -> Result<(Tensor, Access), Error> {
        let here = rank.placed(crate::placement::DpPolicy::default());
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

fn read(data: &Data, dtype: DType) -> Result<Value, Failure> {
    Ok(match dtype {
        DType::F32 => Value::from_vec(data.read_elements::<f32>()?),
        DType::F16 => Value::from_vec(data.read_elements::<f16>()?),
        DType::Bf16 => Value::from_vec(data.read_elements::<bf16>()?),
        DType::I32 => Value::from_vec(data.read_elements::<i32>()?),
    })
}

/// Puts what came back into the argument.
pub(super) fn write(data: &mut Data, elements: &Buffer) -> Result<(), Failure> {
    match elements {
        Buffer::F32(elements) => data.write_elements(elements)?,
        Buffer::F16(elements) => data.write_elements(elements)?,
        Buffer::Bf16(elements) => data.write_elements(elements)?,
        Buffer::I32(elements) => data.write_elements(elements)?,
    }
    Ok(())
}
