"""Settings of all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The same cases every time; a machine may be busy.
settings.register_profile("phalanx", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("phalanx")


@pytest.fixture(autouse=True)
def _no_context_is_left_entered() -> None:
    import phalanx

    assert phalanx.current_context() is None
