"""Settings of all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Nothing that another run kept, perhaps of another place, is found.
_caches = tempfile.TemporaryDirectory(prefix="phalanx-tests-")
os.environ["TRITON_CACHE_DIR"] = _caches.name
os.environ["PHALANX_CACHE"] = "off"

# The same cases every time; a machine may be busy.
settings.register_profile("phalanx", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("phalanx")


@pytest.fixture(autouse=True)
def _no_context_is_left_entered() -> None:
    import phalanx

    assert phalanx.current_context() is None


@pytest.fixture
def triton_device() -> Iterator[None]:
    """Triton runs on `hgx-h100`, whatever the test before chose."""
    import phalanx.triton
    import triton
    from phalanx.triton.driver import PhalanxDriver

    triton.runtime.driver.set_active(PhalanxDriver())
    phalanx.triton.use("hgx-h100")
    yield
    phalanx.triton.use("hgx-h100")
