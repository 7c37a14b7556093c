"""The package: what importing it does, versions, machines, exceptions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import phalanx
import pytest
from phalanx.errors import MachineError, PhalanxError


def test_importing_loads_neither_numpy_nor_torch_nor_triton() -> None:
    code = "import sys, phalanx; print([name for name in ('numpy', 'torch', 'triton', 'asyncio') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version_is_that_of_the_crates() -> None:
    assert phalanx.__version__.count(".") == 2


def test_a_machine_by_name_file_dict_and_keyword(tmp_path: Path) -> None:
    quad = phalanx.machine("quad-sip")
    assert (quad.name, quad.sips, quad.cubes, quad.pes) == ("quad-sip", 4, 4, 8)
    file = tmp_path / "my.yaml"
    file.write_text(quad.to_yaml())
    assert phalanx.machine(file) == quad
    assert phalanx.machine(str(file)) == quad
    dotted = phalanx.machine("quad-sip", **{"system.sips.link.bandwidth": "64 GB/s"})
    assert dotted == phalanx.machine(quad, system__sips__link__bandwidth="64 GB/s")
    assert dotted == phalanx.machine(quad, system={"sips": {"link": {"bandwidth": "64 GB/s"}}})
    assert dotted != quad


def test_a_machine_as_a_dict() -> None:
    import json

    link = {"bandwidth": "128 GB/s", "latency": "500 ns"}
    machine = {
        "name": "mine",
        "description": "a machine of a test",
        "system": {"sips": {"count": 2, "topology": "ring_1d", "link": link}, "host": {"link": link}},
        "sip": {"cubes": {"rows": 1, "columns": 1, "link": link}},
        "cube": {
            "pes": {"rows": 1, "columns": 2, "link": link},
            "hbm": {"capacity": "1 GiB", "bandwidth": "1 TB/s", "latency": "100 ns"},
        },
        "pe": {
            "tcm": {"capacity": "1 MiB"},
            "dma": link,
            "gemm": {"rate": "1 TFLOP/s", "tile": [16, 16, 16]},
            "vector": {"bandwidth": "512 GB/s"},
        },
    }
    made = phalanx.machine(machine)
    assert (made.name, made.sips, made.pes) == ("mine", 2, 2)
    del machine["pe"]
    with pytest.raises(MachineError, match="pe"):
        phalanx.machine(machine)
    assert json.dumps(machine)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: phalanx.machine("quad-spi"), "did you mean `quad-sip`"),
        (lambda: phalanx.machine("quad-sip", system__sips__cuont=3), "did you mean"),
        (lambda: phalanx.machine("quad-sip", system__sips__link__latency="5 nm"), "change:1:"),
        (lambda: phalanx.machine("no/such.yaml"), "cannot read"),
        (lambda: phalanx.machine(5), "a machine is a name"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_machine_says_what_is_wrong(make: object, words: str) -> None:
    with pytest.raises(MachineError, match=words) as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, (PhalanxError, ValueError))


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(TypeError, match="`f32`, `f16`, `bf16`, `i32`"):
        phalanx.Context("pair").run(lambda: phalanx.zeros(4, dtype="f128"))


def test_a_context_belongs_to_its_thread() -> None:
    import threading

    context = phalanx.Context("pair")
    found: list[BaseException] = []

    def use() -> None:
        try:
            context.spawn(lambda rank: None, nprocs=1)
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "belongs to the thread that made it" in str(found[0])
    assert context.run(lambda: 5) == 5


def test_a_closed_context_says_so() -> None:
    with phalanx.Context("pair") as context:
        assert phalanx.current_context() is context
    with pytest.raises(PhalanxError, match="closed"):
        context.run(lambda: None)


def test_machines_can_be_pickled_and_copied() -> None:
    import copy
    import pickle

    for machine in (phalanx.machine("hgx-h100"), phalanx.machine("pair", system__sips__link__latency="1us")):
        for again in (pickle.loads(pickle.dumps(machine)), copy.copy(machine), copy.deepcopy(machine)):
            assert again == machine and again.name == machine.name
