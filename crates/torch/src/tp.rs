//! Tensor parallelism: layers whose weights are spread over ranks, after Megatron-LM's core.
//!
//! Layers launch their kernels and collectives without waiting and return a tensor; a read of the tensor waits. Weights are in
//! memory when the program begins: loading them takes no simulated time.
//!
//! ```
//! use phalanx_sim::{MachineSpec, machine::Options};
//! use phalanx_torch::tp::{Init, Mlp, MlpOptions, ModelParallel, parallel_state};
//! use phalanx_torch::{Context, distributed as dist, multiprocessing};
//! let quad = MachineSpec::preset("quad-sip").unwrap();
//! let mut context = Context::new(quad, Options::default());
//! let outputs = multiprocessing::spawn(&mut context, 4, |_, cx| async move {
//!     dist::init_process_group(&cx)?;
//!     parallel_state::initialize_model_parallel(&cx, &ModelParallel::new(4, 1))?;
//!     let mlp = Mlp::new(&cx, 8, 32, &MlpOptions::default())?;
//!     let x = cx.randn([3, 8], mlp.dtype())?;
//!     mlp.forward(&x)?.to_vec().await
//! });
//! let outputs = outputs.unwrap();
//! assert!(outputs.iter().all(|output| *output == outputs[0]));
//! ```
//!
//! - **TPS-1 (column).** The outputs of the ranks of a column-parallel layer, side by side, are the whole product bit for bit.
//! - **TPS-2 (row).** The output of a row-parallel layer is the sum of the ranks' products, each rounded to the type, in the
//!   order of the chosen all-reduce; a bias is added once, afterwards. It is bitwise equal on all ranks.
//! - **TPS-3 (one master).** Ranks with the same seed draw the same whole weight and keep their parts; without data nothing is
//!   drawn or computed, and the time is the same.

mod block;
mod column;
mod compute;
mod embedding;
mod init;
pub(crate) mod kernels;
pub mod mappings;
mod mlp;
pub mod parallel_state;
mod row;

pub use block::{BlockOptions, TransformerBlock};
pub use column::{ColumnOptions, ColumnParallelLinear};
pub use compute::{Compute, Config};
pub use embedding::{EmbeddingOptions, VocabParallelEmbedding};
pub use init::Init;
pub use kernels::rows::Activation;
pub use mlp::{Mlp, MlpOptions};
pub use parallel_state::ModelParallel;
pub use row::{RowOptions, RowParallelLinear};
