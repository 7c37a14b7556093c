//! What arguments must be like, with the words that users of torch know.

use crate::ccl::part::ReduceOp;
use crate::error::Error;
use crate::tensor::Tensor;
use phalanx_sim::DType;

/// An average needs numbers that can be divided.
pub(super) fn combinable(operation: &str, tensor: &Tensor, combine: ReduceOp) -> Result<(), Error> {
    if combine == ReduceOp::Avg && tensor.dtype() == DType::I32 {
        return Err(Error::argument(format!(
            "{operation}: Cannot use ReduceOp::Avg with i32 inputs"
        )));
    }
    Ok(())
}
