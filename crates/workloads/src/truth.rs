//! Measurements beside the simulation: tables of measured times, the simulated times of the same calls, and figures of a
//! machine that are fitted to measurements.
//!
//! ```
//! use phalanx_sim::MachineSpec;
//! use phalanx_workloads::truth::{Bench, Selection, compare, read};
//!
//! let text = "op,ranks,dtype,size_bytes,time_us\nall_reduce,4,float,1024,20\n";
//! let tables = read("mine.csv", text, &Selection::default()).unwrap();
//! let bench = Bench::new(MachineSpec::preset("quad-sip").unwrap());
//! let compared = compare(&bench, &tables, 1, &|_| {}).unwrap();
//! assert_eq!(compared[0].points.len(), 1);
//! ```
//!
//! - **TRU-1 (read or refused).** A table is read whole, or refused with every error at its line and column; no text makes the
//!   readers panic or hang.
//! - **TRU-2 (one path).** The simulated time of a row is that of the call itself: of `phalanx ccl` with the configured choice on
//!   the first `ranks` devices, and of `phalanx run gemm`.
//! - **TRU-3 (same at any width).** Points are simulated by several threads; results and their order do not depend on the number
//!   of threads.

mod compare;
mod csv;
pub(crate) mod drawing;
mod figures;
mod fit;
mod linear;
mod nccl;
mod table;

pub use compare::{
    Bench, Compared, ComparedPoint, Done, PointError, Simulated, Summary, compare, summary,
};
pub use drawing::svg;
pub use figures::{Value, fitted};
pub use fit::{Change, Fit, FitError, Unclear, fit};
pub use table::{LONGEST, Point, Selection, Size, Subject, Table, dtype_name, read};
