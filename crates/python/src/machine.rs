//! Machines for Python.

use crate::error::exception;
use phalanx_sim::config::{self, MachineError};
use phalanx_sim::{Bytes, Capacity, Time, spec};
use pyo3::prelude::*;

/// A machine that was read and checked.
#[pyclass(frozen, module = "phalanx._core", name = "MachineSpec")]
pub(crate) struct MachineSpec(pub(crate) spec::MachineSpec);

fn raise(py: Python<'_>, error: &MachineError) -> PyErr {
    exception(py, "MachineError", error.to_string().trim_end())
}

#[pymethods]
impl MachineSpec {
    /// The preset of this name.
    #[staticmethod]
    fn preset(py: Python<'_>, name: &str) -> PyResult<Self> {
        spec::MachineSpec::preset(name).map(Self).map_err(|error| raise(py, &error))
    }

    /// The machine of a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Self> {
        spec::MachineSpec::load(path).map(Self).map_err(|error| raise(py, &error))
    }

    /// The machine of a text; `file` is its name in messages.
    #[staticmethod]
    fn parse(py: Python<'_>, file: &str, text: &str) -> PyResult<Self> {
        config::parse_machine(file, text).map(Self).map_err(|error| raise(py, &error.into()))
    }

    /// This machine with values changed, each as `PATH=VALUE`.
    fn changed(&self, py: Python<'_>, changes: Vec<String>) -> PyResult<Self> {
        self.0.with_all(changes).map(Self).map_err(|error| raise(py, &error))
    }

    /// The machine as the text of a file.
    fn to_yaml(&self) -> String {
        config::to_yaml(&self.0)
    }

    /// The text of its file, for `pickle` and `copy`.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (&'static str, String))> {
        let parse = slf.get_type().getattr("parse")?;
        Ok((parse, ("pickle", slf.get().to_yaml())))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[getter]
    fn sips(&self) -> u32 {
        self.0.sips.count
    }

    #[getter]
    fn cubes(&self) -> u32 {
        self.0.cubes.count()
    }

    #[getter]
    fn pes(&self) -> u32 {
        self.0.pes.count()
    }

    #[getter]
    fn topology(&self) -> &'static str {
        self.0.sips.topology.name()
    }

    /// The picoseconds of one thing by itself: of bytes on a `link`, in a `dma` or a `vector` engine or in `hbm`, or of the
    /// operations of products in a `gemm` engine. With none it is the latency.
    fn time(&self, py: Python<'_>, what: &str, amount: u64) -> PyResult<u64> {
        let machine = &self.0;
        let (rate, latency) = match what {
            "link" => {
                let link = machine.sips.link.wire();
                (link.bandwidth, link.latency)
            }
            "dma" => (machine.dma.bandwidth, machine.dma.latency),
            "hbm" => (machine.hbm.wire().bandwidth, machine.hbm.latency),
            "vector" => (machine.vector, Time::ZERO),
            "gemm" => (machine.gemm.efficiency.of(machine.gemm.rate), Time::ZERO),
            _ => {
                let text = format!("no engine `{what}`: there are link, dma, hbm, vector, gemm");
                return Err(exception(py, "ArgumentError", text));
            }
        };
        Ok(if amount == 0 { latency } else { rate.time_for(amount) }.as_ps())
    }

    /// Facts of one SIP, `None` if unlimited: bytes of scratch memory of a PE, of HBM and of the cache; bytes a second of HBM; operations
    /// a second of a matrix engine.
    #[expect(clippy::type_complexity, reason = "five numbers")]
    fn device(&self) -> (Option<u64>, Option<u64>, Option<u64>, Option<u64>, Option<u64>) {
        let spec = &self.0;
        let bytes = |capacity: Capacity| match capacity {
            Capacity::Limited(Bytes(bytes)) => Some(bytes),
            Capacity::Unlimited => None,
        };
        let cubes = spec.cubes.count().into();
        let all = |each: Option<u64>| each.map(|each: u64| each.saturating_mul(cubes));
        (
            bytes(spec.tcm),
            all(bytes(spec.hbm.capacity)),
            spec.cache.map_or(Some(0), |cache| bytes(cache.capacity)),
            all(spec.hbm.bandwidth.as_per_second()),
            spec.gemm.rate.as_per_second(),
        )
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The names of the machines that come with the package.
#[pyfunction]
pub(crate) fn presets() -> Vec<&'static str> {
    config::presets().iter().map(|preset| preset.name).collect()
}
