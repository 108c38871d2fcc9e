"""The benchmarks run; what they say is another matter."""

import json
import sys
from pathlib import Path

import click
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


def test_rounds_on_dask_are_measured(modules, tmp_path, monkeypatch):
    import dask_rounds
    from click.testing import CliRunner

    (tmp_path / "images").mkdir()
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(dask_rounds, "RESULTS", tmp_path / "benchmarks")
    monkeypatch.setattr(dask_rounds, "PROBLEMS", {"tiny": (1000, 20, 2, 0.1)})
    monkeypatch.setattr(dask_rounds, "FITTED", [(20, 2, 50, 4), (20, 4, 50, 8), (40, 2, 100, 4)])
    monkeypatch.setattr(dask_rounds, "CHECKED", [(30, 3, 50, 4)])
    run = CliRunner().invoke(dask_rounds.main, ["rounds", "model", "--repetitions", "1"])
    assert run.exception is None, run.output
    assert "checked: error" in run.output
    assert (tmp_path / "images" / "rounds.png").stat().st_size > 1000
    results = json.loads((tmp_path / "benchmarks" / "dask.json").read_text())
    assert len(results["rounds"]["rows"]) == 12
    assert len(results["model"]["rows"]["rounds"]) == 8

    done = []
    for name in ("rounds", "speed", "model"):
        monkeypatch.setattr(
            dask_rounds, name, click.Command(name, callback=lambda name=name: done.append(name))
        )
    assert CliRunner().invoke(dask_rounds.main, []).exit_code == 0
    assert done == ["rounds", "speed", "model"]
