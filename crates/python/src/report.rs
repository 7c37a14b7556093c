//! Reports for Python.

use phalanx_sim::stall::{Kind, Stack};
use phalanx_sim::{report, timeline};
use phalanx_trace::{Format, Writer};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

/// The report of a run.
#[pyclass(frozen, module = "phalanx._core")]
pub(crate) struct Report(report::Report);

impl Report {
    pub(crate) fn new(report: report::Report) -> Self {
        Self(report)
    }
}

fn stack<'py>(py: Python<'py>, stack: &Stack) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for kind in Kind::ALL {
        dict.set_item(kind.name(), stack.get(kind).as_ps())?;
    }
    Ok(dict)
}

#[pymethods]
impl Report {
    /// The simulated time, in picoseconds.
    #[getter]
    fn simulated_ps(&self) -> u64 {
        self.0.simulated.as_ps()
    }

    /// The number of events.
    #[getter]
    fn events(&self) -> u64 {
        self.0.events
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    /// One line for each operation, if the context records.
    fn op_log(&self) -> String {
        self.0.op_log()
    }

    /// Writes a timeline, for Perfetto (`.pftrace`) or any viewer of Chrome traces (`.json`), if the context records.
    fn write_trace(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let refused = |text: String| crate::error::exception(py, "ArgumentError", text);
        let format = Format::from_path(&path).map_err(|unknown| refused(unknown.to_string()))?;
        if self.0.ops.is_empty() {
            return Err(refused(
                "nothing was recorded: make the context with `record=True`".into(),
            ));
        }
        let mut writer = Writer::new(BufWriter::new(File::create(&path)?), format)?;
        timeline::write(&self.0, &mut writer)?;
        writer.finish()?.flush()?;
        Ok(())
    }

    /// The report cut to a named range.
    fn within(&self, py: Python<'_>, name: &str) -> PyResult<Self> {
        let cut = self.0.within(name);
        cut.map(Self).map_err(|error| crate::error::exception(py, "ArgumentError", error))
    }

    /// Every number whole and exact, times in picoseconds.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        all.set_item("simulated_ps", self.0.simulated.as_ps())?;
        all.set_item("events", self.0.events)?;
        all.set_item("utilisation", self.utilisation(py)?)?;
        all.set_item("stalls", self.stalls(py)?)?;
        all.set_item("critical_path", self.critical_path(py)?)?;
        all.set_item("ranges", self.ranges(py)?)?;
        all.set_item("edges", self.edges(py)?)?;
        if !self.0.lines.is_empty() {
            all.set_item("lines", self.lines(py)?)?;
        }
        Ok(all)
    }
}

impl Report {
    fn utilisation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for usage in &self.0.utilisation {
            let row = PyDict::new(py);
            row.set_item("resource", usage.resource.to_string())?;
            row.set_item("busy_ps", usage.busy.as_ps())?;
            row.set_item("bytes", usage.bytes)?;
            row.set_item("operations", usage.operations)?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn stalls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for stalls in &self.0.stalls {
            let row = PyDict::new(py);
            row.set_item("resource", stalls.resource.to_string())?;
            row.set_item("time_ps", stack(py, &stalls.stack)?)?;
            row.set_item("idle_ps", stalls.stack.idle(self.0.simulated).as_ps())?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn critical_path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let path = &self.0.critical_path;
        let parts = PyList::empty(py);
        for part in &path.parts {
            let row = PyDict::new(py);
            row.set_item("resource", part.resource.to_string())?;
            row.set_item("kind", part.kind.name())?;
            row.set_item("count", part.count)?;
            row.set_item("time_ps", part.time.as_ps())?;
            parts.append(row)?;
        }
        let dict = PyDict::new(py);
        dict.set_item("end", path.end.map(|owner| owner.to_string()))?;
        dict.set_item("time_ps", stack(py, &path.spent)?)?;
        dict.set_item("complete", path.complete)?;
        dict.set_item("parts", parts)?;
        if !path.lines.is_empty() {
            dict.set_item("lines", self.path_lines(py)?)?;
        }
        Ok(dict)
    }

    fn path_lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for line in &self.0.critical_path.lines {
            let row = PyDict::new(py);
            row.set_item("kernel", &line.kernel)?;
            row.set_item("line", &line.place)?;
            row.set_item("source", &line.text)?;
            row.set_item("steps", line.steps)?;
            row.set_item("total_ps", line.time.as_ps())?;
            row.set_item("time_ps", stack(py, &line.spent)?)?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn ranges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for range in &self.0.ranges {
            let row = PyDict::new(py);
            row.set_item("range", &range.name)?;
            row.set_item("count", range.count)?;
            row.set_item("total_ps", range.total.as_ps())?;
            row.set_item("from_ps", range.from.as_ps())?;
            row.set_item("to_ps", range.to.as_ps())?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for line in &self.0.lines {
            let row = PyDict::new(py);
            row.set_item("kernel", &line.kernel)?;
            row.set_item("line", &line.place)?;
            row.set_item("source", &line.text)?;
            row.set_item("total_ps", line.stack.total().as_ps())?;
            row.set_item("time_ps", stack(py, &line.stack)?)?;
            row.set_item("bytes", line.bytes)?;
            row.set_item("operations", line.operations)?;
            list.append(row)?;
        }
        Ok(list)
    }

    fn edges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for edge in &self.0.edges {
            let row = PyDict::new(py);
            row.set_item("edge", edge.edge.to_string())?;
            row.set_item("messages", edge.messages)?;
            row.set_item("bytes", edge.bytes)?;
            row.set_item("credit_wait_ps", edge.credit_wait.as_ps())?;
            row.set_item("most_slots", edge.most_slots)?;
            list.append(row)?;
        }
        Ok(list)
    }
}
