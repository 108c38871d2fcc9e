"""The benchmarks run; what they say is another matter."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in [path.stem for path in BENCHMARKS.glob("*.py")]:
        sys.modules.pop(name, None)


def test_every_method_runs_on_a_problem_and_is_reported(modules, tmp_path):
    import bench
    import scaling
    from machine import describe
    from methods import METHODS
    from problems import Problem
    from report import write_report

    problem = Problem("tiny", 3, 0.05, n_samples=200, n_features=30)
    records = bench.compare([problem], [method for method in METHODS if method.installed], patience=30.0)
    assert records[0]["ev"] > 0.9
    assert all(0 <= record["ev"] <= 1 and record["megabytes"] >= 0 for record in records)
    tables = {
        "samples": scaling.with_samples([1000, 2000]),
        "features": scaling.with_sizes([(20, 2), (40, 2)], 100),
        "components": scaling.with_sizes([(20, 2), (20, 3)], 100),
        "large": scaling.large(120, 6, goals=(0.3,)),
        "film": scaling.frames_a_second(30, p=300),
        "single": scaling.single_rows(20),
        "threads": scaling.with_threads([(20, 2)], 100),
    }
    results = {
        "machine": describe(),
        "quick": True,
        "missing": ["a peer"],
        "compared": records,
        "scaling": tables,
    }
    write_report(results, tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| MaxNormDecomposition |" in page
    assert "a peer" in page
    assert (tmp_path / "curves.png").stat().st_size > 1000
