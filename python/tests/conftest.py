"""Settings of all tests."""

from __future__ import annotations

import os
import tempfile

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
