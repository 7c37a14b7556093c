//! Functions of single numbers.

use crate::number::round;
use crate::program::Function;
use crate::types::Scalar;

impl Function {
    /// Returns the function of this operation, or of this symbol of the device library.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "math.exp" | "__nv_expf" | "__nv_exp" => Self::Exp,
            "math.exp2" | "__nv_exp2f" | "__nv_exp2" => Self::Exp2,
            "math.log" | "__nv_logf" | "__nv_log" => Self::Log,
            "math.log2" | "__nv_log2f" | "__nv_log2" => Self::Log2,
            "math.sqrt" | "tt.precise_sqrt" | "__nv_sqrtf" | "__nv_sqrt" => Self::Sqrt,
            "math.rsqrt" | "__nv_rsqrtf" | "__nv_rsqrt" => Self::Rsqrt,
            "math.erf" | "__nv_erff" | "__nv_erf" => Self::Erf,
            "math.sin" | "__nv_sinf" | "__nv_sin" => Self::Sin,
            "math.cos" | "__nv_cosf" | "__nv_cos" => Self::Cos,
            "math.tanh" | "__nv_tanhf" | "__nv_tanh" => Self::Tanh,
            "math.floor" | "__nv_floorf" | "__nv_floor" => Self::Floor,
            "math.ceil" | "__nv_ceilf" | "__nv_ceil" => Self::Ceil,
            "math.absf" | "math.absi" | "__nv_fabsf" | "__nv_fabs" => Self::Abs,
            "arith.negf" => Self::Neg,
            _ => return None,
        })
    }
}

/// Applies a function to a float of a type.
pub(crate) fn apply(function: Function, x: f64, scalar: Scalar) -> f64 {
    let result = match function {
        Function::Exp => x.exp(),
        Function::Exp2 => x.exp2(),
        Function::Log => x.ln(),
        Function::Log2 => x.log2(),
        Function::Sqrt => x.sqrt(),
        Function::Rsqrt => x.sqrt().recip(),
        Function::Erf => erf(x),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tanh => x.tanh(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Abs => x.abs(),
        Function::Neg => -x,
    };
    round(result, scalar)
}

/// The error function by its series, or by its continued fraction for large numbers.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    if size > 6.0 {
        return x.signum();
    }
    if size < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let mut fraction = 0.0;
    for n in (1..=60).rev() {
        fraction = f64::from(n) / 2.0 / (size + fraction);
    }
    let tail = (-size * size).exp() / ((size + fraction) * std::f64::consts::PI.sqrt());
    (1.0 - tail).copysign(x)
}
