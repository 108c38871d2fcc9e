"""Fixtures of the tests and of the examples in docstrings."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of a test, because Matplotlib keeps those that were made with pyplot."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
