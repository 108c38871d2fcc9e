"""The harness measures what it states, and the scripts in benchmarks/ run on small problems."""

import json
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.paper.measure import LearningCurve, measure_curve
from maxnorm.paper.methods import METHODS, Setup
from maxnorm.paper.problems import Problem, corrupted_stream

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in [path.stem for path in BENCHMARKS.glob("*.py")]:
        sys.modules.pop(name, None)


class Identity:
    """A learner that has learnt the whole space from the start."""

    components_ = np.eye(4)

    def partial_fit(self, X):
        pass


def test_a_learning_curve_ends_at_the_time_limit_and_counts_all_learning_and_one_answer():
    ticks = iter(range(100))
    blocks = (np.ones((3, 4)) for _ in range(10))
    curve = measure_curve(Identity(), blocks, np.eye(4), time_limit=2.0, clock=lambda: float(next(ticks)))
    assert curve == LearningCurve([3, 6, 9], [2.0, 3.0, 4.0], [1.0, 1.0, 1.0])


def test_a_learning_curve_reaches_a_level_at_its_first_point_above_it():
    curve = LearningCurve([10, 20, 30], [0.1, 0.2, 0.3], [0.4, 0.8, 0.7])
    assert curve.first_reaching(0.6) == (20, 0.2)
    assert curve.first_reaching(0.9) is None


def test_a_stream_has_all_samples_in_its_subspace_apart_from_the_corrupted_entries():
    basis, blocks = corrupted_stream(20, 3, 50, 0.0, seed=0, block=20)
    X = np.concatenate(list(blocks))
    assert X.shape == (50, 20)
    np.testing.assert_allclose(X @ basis @ basis.T, X, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.installed])
def test_every_method_learns_a_basis_of_the_given_rank(name):
    X = make_corrupted_low_rank(60, 20, 3, corruption=0.0, random_state=0).X
    learner = METHODS[name].make(Setup(20, 3))
    learner.partial_fit(X)
    assert learner.components_.shape == (3, 20)


def test_bench_runs_every_installed_method_and_reports_it(tmp_path):
    import bench
    import scaling
    from machine import describe
    from report import write_report

    problem = Problem("tiny", 3, 0.05, n_samples=200, n_features=30)
    methods = [method for method in bench.COMPARED if method.installed]
    records = bench.compare([problem], methods, time_limit=np.inf)
    assert records[0]["ev"] > 0.9
    assert all(0 <= record["ev"] <= 1 and record["megabytes"] >= 0 for record in records)
    tables = {
        "samples": scaling.measure_samples([1000, 2000]),
        "features": scaling.measure_sizes([(20, 2), (40, 2)], 100),
        "components": scaling.measure_sizes([(20, 2), (20, 3)], 100),
        "large": scaling.measure_large(120, 6, levels=(0.3,)),
        "film": scaling.measure_film(30, p=300),
        "single": scaling.measure_single_rows(20),
        "threads": scaling.measure_threads([(20, 2)], 100),
    }
    assert len(tables["large"]) == 1
    results = {
        "machine": describe(),
        "quick": True,
        "missing": ["another library"],
        "compared": records,
        "scaling": tables,
    }
    write_report(json.loads(json.dumps(results)), tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| MaxNormDecomposition |" in page
    assert "another library" in page
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_the_committed_benchmark_report_is_that_of_the_committed_results():
    from report import format_page

    folder = BENCHMARKS.parent / "docs" / "benchmarks"
    results = json.loads((folder / "results.json").read_text())
    assert (folder / "README.md").read_text() == "\n".join(format_page(results)) + "\n"


def test_the_committed_grid_report_is_that_of_the_committed_results():
    from grid import format_report

    folder = BENCHMARKS.parent / "docs" / "benchmarks"
    table = json.loads((folder / "grid.json").read_text())["cells"]
    assert (folder / "grid.md").read_text() == format_report(table, step=1)


def test_grid_compares_the_estimators_with_pcp(tmp_path, monkeypatch):
    import grid
    from click.testing import CliRunner

    monkeypatch.setattr(grid, "SHARES", (0.1, 0.3))
    monkeypatch.setattr(grid, "N_FEATURES", 30)
    monkeypatch.setattr(grid, "N_SAMPLES", 100)
    arguments = ["--output", str(tmp_path / "report"), "--cells", str(tmp_path), "--jobs", "1"]
    run = CliRunner().invoke(grid.main, arguments)
    assert run.exception is None, run.output
    cells = json.loads((tmp_path / "report" / "grid.json").read_text())["cells"]
    assert [cell[:2] for cell in cells] == [[0.1, 0.1], [0.1, 0.3], [0.3, 0.1], [0.3, 0.3]]
    assert "There are 4 cells" in (tmp_path / "report" / "grid.md").read_text()
    assert (tmp_path / "report" / "grid.png").stat().st_size > 1000


@pytest.mark.filterwarnings("ignore")  # stream 4 has many gross errors
def test_variety_has_streams_of_all_kinds_and_measures_errors():
    import variety

    kinds = {variety.make_stream(seed)[0].split(", ")[2] for seed in range(30)}
    assert kinds == {"normal", "heavy tails", "skewed", "walks", "waves"}
    about, X, clean, odd = variety.make_stream(4)
    assert X.shape == clean.shape == (len(odd), X.shape[1])
    assert about.startswith(f"{len(X)} x {X.shape[1]}, rank ")
    errors = variety.measure_errors(4)
    assert len(errors) == len(variety.METHODS)
    assert all(0.0 < error < 2.0 for error in errors)


def run_script(name, *arguments):
    """Run a benchmark in a process of its own, and return what it prints."""
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_survival_kills_runs_and_compares_models():
    options = ("--kills", "2", "--inside-saves", "0", "--rows", "10000", "--decompose-kills", "1")
    printed = run_script("survival.py", *options)
    assert "fit: 2 x SIGKILL" in printed
    assert "damaged           0" in printed


def test_dask_rounds_are_measured(tmp_path, monkeypatch):
    import dask
    import dask_rounds
    from click.testing import CliRunner
    from distributed.utils import get_mp_context

    (tmp_path / "images").mkdir()
    (tmp_path / "benchmarks").mkdir()
    monkeypatch.setattr(dask_rounds, "RESULTS", tmp_path / "benchmarks")
    monkeypatch.setattr(dask_rounds, "PROBLEMS", {"tiny": (1000, 20, 2, 0.1)})
    monkeypatch.setattr(dask_rounds, "FITTED", [(20, 2, 50, 4), (20, 4, 50, 8), (40, 2, 100, 4)])
    monkeypatch.setattr(dask_rounds, "CHECKED", [(30, 3, 50, 4)])
    # Workers are forked from a process that has imported the libraries, which starts them faster.
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "dask.array", "maxnorm.estimators"])
        run = CliRunner().invoke(dask_rounds.main, ["rounds", "model", "--repetitions", "1"])
    assert run.exception is None, run.output
    assert "checked: error" in run.output
    assert (tmp_path / "images" / "rounds.png").stat().st_size > 1000
    results = json.loads((tmp_path / "benchmarks" / "dask.json").read_text())
    assert len(results["rounds"]["rows"]) == 12
    assert len(results["model"]["rows"]["rounds"]) == 8


def test_dask_rounds_without_a_command_runs_all(monkeypatch):
    import dask_rounds
    from click.testing import CliRunner

    done = []
    for name in ("rounds", "speed", "model"):
        command = click.Command(name, callback=lambda name=name: done.append(name))
        monkeypatch.setattr(dask_rounds, name, command)
    assert CliRunner().invoke(dask_rounds.main, []).exit_code == 0
    assert done == ["rounds", "speed", "model"]


def test_ways_to_fill_gaps_of_series_are_compared(monkeypatch):
    import series
    from click.testing import CliRunner

    monkeypatch.setattr(series, "SHARES", (0.3,))
    run = CliRunner().invoke(series.main, ["--series", "4", "--gross", "0.05"])
    assert run.exception is None, run.output
    lines = run.output.splitlines()
    assert lines[0] == "electricity: 2016 times, 4 series, 5% gross errors"
    assert lines[1].split()[-1] == "SeriesImputer"
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "30% at random",
        "30% in blocks",
        "30% in whole periods",
    ]
