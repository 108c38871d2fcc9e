"""The tools that test other versions of the dependencies."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def versions():
    spec = importlib.util.spec_from_file_location("test_versions", ROOT / "tools" / "test_versions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_dependency_has_a_lower_bound(versions, tmp_path):
    floors = versions.read_floors((ROOT / "pyproject.toml").read_text())
    assert {"numpy", "scipy", "scikit-learn", "click", "rich", "pandas", "dask", "numba"} <= set(floors)
    assert not {"maxnorm", "pytest", "ruff", "sphinx"} & set(floors)
    lines = versions.write_constraints(tmp_path, floors).read_text().splitlines()
    assert f"numpy=={floors['numpy']}" in lines
    assert not any("[" in line for line in lines)  # constraints have no extras


def test_a_dependency_without_a_lower_bound_is_refused(versions):
    text = '[project]\nname = "p"\ndependencies = ["numpy"]\noptional-dependencies = {}\n'
    with pytest.raises(ValueError, match="'numpy' has no lower bound"):
        versions.read_floors(text)


def test_tools_that_need_newer_dependencies_are_left_out_with_the_oldest(versions):
    pyproject = (ROOT / "pyproject.toml").read_text()
    newest = versions.list_tools(pyproject, oldest=False)
    oldest = versions.list_tools(pyproject, oldest=True)
    left_out = {line.partition(">=")[0] for line in set(newest) - set(oldest)}
    assert left_out == set(versions.NEEDS_NEWER)
    tests = [test for tests in versions.NEEDS_NEWER.values() for test in tests]
    assert all((ROOT / test.partition("::")[0]).is_file() for test in tests)
