//! Layers spread over ranks, for `phalanx/tp`.

use crate::distributed::{Group, given};
use crate::error::{OrRaise, exception};
use crate::one_thread::OneThread;
use crate::rank::{Rank, read_dtype};
use crate::tensor::Tensor;
use phalanx_torch::tp::parallel_state as state;
use phalanx_torch::tp::{
    Activation, BlockOptions, ColumnOptions, ColumnParallelLinear, Compute, Config,
    EmbeddingOptions, Init, Mlp, MlpOptions, ModelParallel, RowOptions, RowParallelLinear,
    TransformerBlock, VocabParallelEmbedding, mappings,
};
use phalanx_torch::{Error, distributed::ProcessGroup};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::rc::Rc;

/// A parallel layer.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Layer(OneThread<Kind>);

#[expect(clippy::large_enum_variant, reason = "a program has few layers")]
enum Kind {
    Column(ColumnParallelLinear),
    Row(RowParallelLinear),
    Mlp(Mlp),
    Block(TransformerBlock),
    Embedding(VocabParallelEmbedding),
}

/// Returns an option of a layer, as `phalanx/tp/layers.py` gives it.
fn option<'py, T>(options: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    options.as_any().get_item(name)?.extract().map_err(Into::into)
}

/// Reads the settings that all layers share.
fn config(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Config> {
    let compute: Option<(usize, usize)> = option(options, "compute")?;
    let group: Option<Py<Group>> = option(options, "group")?;
    Ok(Config {
        dtype: read_dtype(py, &option::<String>(options, "dtype")?)?,
        sequence_parallel: option(options, "sequence_parallel")?,
        compute: compute.map(|(cubes, pes)| Compute { cubes, pes }),
        group: given(group.as_ref())?.cloned(),
        seed: option(options, "seed")?,
    })
}

/// Reads the initial weights: the name of a distribution and its parameter, or the elements of the whole matrix as f32.
fn init(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Init> {
    read_init(py, &option(options, "init")?)
}

fn read_init(py: Python<'_>, from: &Bound<'_, PyAny>) -> PyResult<Init> {
    if let Ok((name, parameter)) = from.extract::<(String, f32)>() {
        return match name.as_str() {
            "zeros" => Ok(Init::Zeros),
            "normal" => Ok(Init::Normal(parameter)),
            "uniform" => Ok(Init::Uniform(parameter)),
            _ => Err(exception(py, "ArgumentError", format!("no distribution `{name}`"))),
        };
    }
    let elements: Vec<f32> = PyBuffer::get(from)?.to_vec(py)?;
    Ok(Init::Of(Rc::new(move |index| elements.get(index).copied().unwrap_or_default())))
}

/// Reads the initial weights of several matrices.
fn inits<const N: usize>(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<[Init; N]> {
    let from: Vec<Bound<'_, PyAny>> = option(options, "init")?;
    let all: Vec<Init> = from.iter().map(|one| read_init(py, one)).collect::<PyResult<_>>()?;
    let wrong = |all: Vec<Init>| {
        exception(
            py,
            "ArgumentError",
            format!("{} initial weights are wanted, not {}", N, all.len()),
        )
    };
    all.try_into().map_err(wrong)
}

fn activation(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Activation> {
    let name: String = option(options, "activation")?;
    Activation::ALL.into_iter().find(|activation| activation.name() == name).ok_or_else(|| {
        let text = format!("no activation `{name}`: allowed are none, relu, gelu");
        exception(py, "ArgumentError", text)
    })
}

impl Layer {
    fn made(py: Python<'_>, layer: Result<Kind, Error>) -> PyResult<Self> {
        Ok(Self(OneThread::new(layer.or_raise(py)?)))
    }
}

#[pymethods]
impl Layer {
    /// The output, and the bias if it was not added.
    #[pyo3(signature = (x, weight=None, gather_output=None))]
    fn forward(
        &self,
        py: Python<'_>,
        x: &Tensor,
        weight: Option<Py<Tensor>>,
        gather_output: Option<bool>,
    ) -> PyResult<(Tensor, Option<Tensor>)> {
        let x = x.get()?;
        let weight = weight.as_ref().map(|weight| weight.get().get()).transpose()?;
        let output = match self.0.get()? {
            Kind::Column(layer) => layer.forward_with(x, weight, gather_output),
            Kind::Row(layer) => layer.forward(x),
            Kind::Mlp(layer) => layer.forward(x).map(|y| (y, None)),
            Kind::Block(layer) => layer.forward(x).map(|y| (y, None)),
            Kind::Embedding(layer) => layer.forward(x).map(|y| (y, None)),
        };
        let (y, bias) = output.or_raise(py)?;
        Ok((Tensor::new(y), bias.map(Tensor::new)))
    }

    fn weight(&self) -> PyResult<Option<Tensor>> {
        let weight = match self.0.get()? {
            Kind::Column(layer) => layer.weight(),
            Kind::Row(layer) => Some(layer.weight()),
            Kind::Embedding(layer) => Some(layer.weight()),
            Kind::Mlp(_) | Kind::Block(_) => None,
        };
        Ok(weight.cloned().map(Tensor::new))
    }

    fn bias(&self) -> PyResult<Option<Tensor>> {
        let bias = match self.0.get()? {
            Kind::Column(layer) => layer.bias(),
            Kind::Row(layer) => layer.bias(),
            Kind::Mlp(_) | Kind::Block(_) | Kind::Embedding(_) => None,
        };
        Ok(bias.cloned().map(Tensor::new))
    }
}

#[pymethods]
impl Rank {
    fn column_linear(
        &self,
        py: Python<'_>,
        input_size: usize,
        output_size: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Layer> {
        let options = ColumnOptions {
            bias: option(options, "bias")?,
            gather_output: option(options, "gather_output")?,
            skip_bias_add: option(options, "skip_bias_add")?,
            skip_weight_param_allocation: option(options, "skip_weight_param_allocation")?,
            stride: option(options, "stride")?,
            init: init(py, options)?,
            config: config(py, options)?,
        };
        let layer = ColumnParallelLinear::new(self.get()?, input_size, output_size, &options);
        Layer::made(py, layer.map(Kind::Column))
    }

    fn row_linear(
        &self,
        py: Python<'_>,
        input_size: usize,
        output_size: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Layer> {
        let (bias, skip_bias_add) = (option(options, "bias")?, option(options, "skip_bias_add")?);
        let input_is_parallel = option(options, "input_is_parallel")?;
        let options = RowOptions {
            stride: option(options, "stride")?,
            init: init(py, options)?,
            config: config(py, options)?,
            ..RowOptions::new(bias, input_is_parallel, skip_bias_add)
        };
        let layer = RowParallelLinear::new(self.get()?, input_size, output_size, &options);
        Layer::made(py, layer.map(Kind::Row))
    }

    fn mlp(
        &self,
        py: Python<'_>,
        hidden: usize,
        ffn: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Layer> {
        let options = MlpOptions {
            activation: activation(py, options)?,
            bias: option(options, "bias")?,
            init: inits(py, options)?,
            config: config(py, options)?,
        };
        Layer::made(py, Mlp::new(self.get()?, hidden, ffn, &options).map(Kind::Mlp))
    }

    fn transformer_block(
        &self,
        py: Python<'_>,
        hidden: usize,
        heads: usize,
        ffn: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Layer> {
        let options = BlockOptions {
            activation: activation(py, options)?,
            causal: option(options, "causal")?,
            bias: option(options, "bias")?,
            epsilon: option(options, "epsilon")?,
            init: inits(py, options)?,
            config: config(py, options)?,
            ..BlockOptions::new(heads, ffn)
        };
        Layer::made(py, TransformerBlock::new(self.get()?, hidden, &options).map(Kind::Block))
    }

    fn embedding(
        &self,
        py: Python<'_>,
        num_embeddings: usize,
        embedding_dim: usize,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Layer> {
        let options = EmbeddingOptions {
            reduce_scatter_embeddings: option(options, "reduce_scatter_embeddings")?,
            init: init(py, options)?,
            config: config(py, options)?,
        };
        let rank = self.get()?;
        let layer = VocabParallelEmbedding::new(rank, num_embeddings, embedding_dim, &options);
        Layer::made(py, layer.map(Kind::Embedding))
    }

    #[expect(clippy::too_many_arguments, reason = "the sizes of all kinds of groups")]
    fn initialize_model_parallel(
        &self,
        py: Python<'_>,
        tensor: usize,
        pipeline: usize,
        context: usize,
        expert: usize,
        expert_tensor: Option<usize>,
        order: String,
    ) -> PyResult<()> {
        let sizes = ModelParallel { tensor, pipeline, context, expert, expert_tensor, order };
        state::initialize_model_parallel(self.get()?, &sizes).or_raise(py)
    }

    fn destroy_model_parallel(&self) -> PyResult<()> {
        state::destroy_model_parallel(self.get()?);
        Ok(())
    }

    fn model_parallel_is_initialized(&self) -> PyResult<bool> {
        Ok(state::model_parallel_is_initialized(self.get()?))
    }

    /// This rank's group of a kind.
    fn parallel_group(&self, py: Python<'_>, kind: &str) -> PyResult<Group> {
        let get: fn(&phalanx_torch::Rank) -> Result<ProcessGroup, Error> = match kind {
            "tensor_model" => state::get_tensor_model_parallel_group,
            "pipeline_model" => state::get_pipeline_model_parallel_group,
            "data" => state::get_data_parallel_group,
            "context" => state::get_context_parallel_group,
            "model" => state::get_model_parallel_group,
            "expert_model" => state::get_expert_model_parallel_group,
            "expert_tensor" => state::get_expert_tensor_parallel_group,
            _ => return Err(exception(py, "ArgumentError", format!("no group `{kind}`"))),
        };
        get(self.get()?).or_raise(py).map(Group::new)
    }

    /// A number of Megatron's `parallel_state`, by the name of its getter.
    fn parallel_number(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        let get: fn(&phalanx_torch::Rank) -> Result<usize, Error> = match name {
            "tensor_model_parallel_rank" => state::get_tensor_model_parallel_rank,
            "tensor_model_parallel_world_size" => state::get_tensor_model_parallel_world_size,
            "tensor_model_parallel_src_rank" => state::get_tensor_model_parallel_src_rank,
            "pipeline_model_parallel_rank" => state::get_pipeline_model_parallel_rank,
            "pipeline_model_parallel_world_size" => state::get_pipeline_model_parallel_world_size,
            "pipeline_model_parallel_first_rank" => state::get_pipeline_model_parallel_first_rank,
            "pipeline_model_parallel_last_rank" => state::get_pipeline_model_parallel_last_rank,
            "pipeline_model_parallel_next_rank" => state::get_pipeline_model_parallel_next_rank,
            "pipeline_model_parallel_prev_rank" => state::get_pipeline_model_parallel_prev_rank,
            "data_parallel_rank" => state::get_data_parallel_rank,
            "data_parallel_world_size" => state::get_data_parallel_world_size,
            "data_parallel_src_rank" => state::get_data_parallel_src_rank,
            "context_parallel_rank" => state::get_context_parallel_rank,
            "context_parallel_world_size" => state::get_context_parallel_world_size,
            "expert_model_parallel_rank" => state::get_expert_model_parallel_rank,
            "expert_model_parallel_world_size" => state::get_expert_model_parallel_world_size,
            _ => return Err(exception(py, "ArgumentError", format!("no number `{name}`"))),
        };
        get(self.get()?).or_raise(py)
    }

    /// One of Megatron's mappings, by its name.
    fn mapping(
        &self,
        py: Python<'_>,
        name: &str,
        x: &Tensor,
        group: Option<Py<Group>>,
    ) -> PyResult<Tensor> {
        type Mapping = fn(
            &phalanx_torch::Rank,
            &phalanx_torch::Tensor,
            Option<&ProcessGroup>,
        ) -> Result<phalanx_torch::Tensor, Error>;
        let map: Mapping = match name {
            "copy_to_tensor_model_parallel_region" => {
                mappings::copy_to_tensor_model_parallel_region
            }
            "reduce_from_tensor_model_parallel_region" => {
                mappings::reduce_from_tensor_model_parallel_region
            }
            "scatter_to_tensor_model_parallel_region" => {
                mappings::scatter_to_tensor_model_parallel_region
            }
            "gather_from_tensor_model_parallel_region" => {
                mappings::gather_from_tensor_model_parallel_region
            }
            "all_gather_last_dim_from_tensor_parallel_region" => {
                mappings::all_gather_last_dim_from_tensor_parallel_region
            }
            "reduce_scatter_last_dim_to_tensor_parallel_region" => {
                mappings::reduce_scatter_last_dim_to_tensor_parallel_region
            }
            "scatter_to_sequence_parallel_region" => mappings::scatter_to_sequence_parallel_region,
            "gather_from_sequence_parallel_region" => {
                mappings::gather_from_sequence_parallel_region
            }
            "reduce_scatter_to_sequence_parallel_region" => {
                mappings::reduce_scatter_to_sequence_parallel_region
            }
            "all_to_all" => mappings::all_to_all,
            "all_to_all_sp2hp" => mappings::all_to_all_sp2hp,
            "all_to_all_hp2sp" => mappings::all_to_all_hp2sp,
            _ => return Err(exception(py, "ArgumentError", format!("no mapping `{name}`"))),
        };
        map(self.get()?, x.get()?, given(group.as_ref())?).or_raise(py).map(Tensor::new)
    }
}
