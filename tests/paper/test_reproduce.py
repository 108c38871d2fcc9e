"""``maxnorm reproduce``: results are saved, found again, and never confused with those of other cells."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import assert_fails, run
from maxnorm.paper.reproduce import claims, page, plan, store
from maxnorm.paper.reproduce.cells import KINDS, Cell

TINY = plan.Size(p=50, n=80, shares=(0.02, 0.1, 0.3), large=(20,), large_n=100, patience=9.0)
HANG_SECONDS = 600  # a process that takes so long has failed


def start_reproduce(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "maxnorm", "reproduce", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def test_the_key_of_a_cell_depends_on_its_settings_but_not_on_their_order():
    one = Cell.of("dense", noise="none", sigma=0.1, p=10, d=2, n=50, seed=0)
    assert one.key == Cell.of("dense", seed=0, n=50, d=2, p=10, sigma=0.1, noise="none").key
    assert one.key != Cell.of("dense", noise="none", sigma=0.1, p=10, d=2, n=50, seed=1).key
    assert one.key != Cell.of("outliers", noise="none", sigma=0.1, p=10, d=2, n=50, seed=0).key


def shortened(cell):
    """Return the cell, or the same with fewer samples if it measures memory, whose plan has one size only."""
    settings = dict(cell.settings)
    if cell.kind != "memory":
        return cell
    return Cell.of("memory", **{**settings, "n": settings["n"] // 20})


def test_every_figure_is_computed_drawn_judged_and_written_to_the_page(tmp_path):
    cells = {name: [shortened(cell) for cell in plan.cells(name, TINY)] for name in plan.FIGURES}
    steps = []
    results = store.run(
        [c for some in cells.values() for c in some], tmp_path, 2, lambda *at: steps.append(at)
    )
    assert steps[-1] == (len(results),) * 2
    figures = {name: {cell: results[cell] for cell in some} for name, some in cells.items()}
    path = page.write(figures, "tiny", tmp_path)
    text = path.read_text()
    assert "http" not in text.replace("http://www.w3.org", "")  # opens offline
    assert text.count("data:image/png") == len(plan.FIGURES)
    for name in plan.FIGURES:
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 1000
    verdicts = [claim for name, results in figures.items() for claim in claims.judge(name, results)]
    assert {claim.verdict for claim in verdicts} <= {"agree", "partly", "disagree"}
    assert len(json.loads((tmp_path / "results.json").read_text())["cells"]) > 50

    elsewhere = tmp_path / "elsewhere"
    store.restore(tmp_path / "results.json", elsewhere)
    assert all(store.load(cell, elsewhere) == store.load(cell, tmp_path) for cell in results)


def test_saved_cells_are_not_computed_again(tmp_path, monkeypatch):
    cell = Cell.of("dense", noise="none", sigma=0.1, p=10, d=2, n=50, seed=0)
    first = store.run([cell], tmp_path, 1, lambda *at: None)
    monkeypatch.setitem(KINDS, "dense", lambda **settings: {"ev": -1.0})
    assert store.run([cell], tmp_path, 1, lambda *at: None) == first
    other = Cell.of("dense", noise="none", sigma=0.2, p=10, d=2, n=50, seed=0)
    store.save(other, other.run(), tmp_path)
    assert store.load(other, tmp_path) == {"ev": -1.0}


def test_the_error_names_the_cell_that_failed(tmp_path):
    bad = Cell.of("dense", noise="unknown", sigma=0.1, p=10, d=2, n=50, seed=0)
    with pytest.raises(store.CellError, match="unknown"):
        store.run([bad], tmp_path, 1, lambda *at: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure-9"], "figure-9"),
        (["theory", "-o", os.devnull + "/x"], "cannot write to"),
    ],
)
def test_invalid_arguments_give_a_message_without_a_traceback(arguments, message, tmp_path):
    assert_fails(run("reproduce", *arguments, folder=tmp_path), message)


def test_an_interrupted_run_keeps_the_finished_cells(tmp_path):
    process = start_reproduce("grid", "--quick", "-o", str(tmp_path), start_new_session=True)
    end = time.monotonic() + HANG_SECONDS
    while not list((tmp_path / "cells").glob("*.json")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    saved = list((tmp_path / "cells").glob("*.json"))
    assert saved
    for path in saved:
        json.loads(path.read_text())


def test_the_documented_verdicts_are_those_of_the_committed_results():
    docs = Path(__file__).parents[2] / "docs"
    run = json.loads((docs / "reproduction" / "results.json").read_text())
    figures = {name: {} for name in plan.FIGURES}
    for row in run["cells"]:
        names, kind, result = row.pop("figures"), row.pop("kind"), row.pop("result")
        for name in names:
            figures[name][Cell.of(kind, **row)] = result
    text = (docs / "reproduction.md").read_text()
    for name, results in figures.items():
        assert len(results) == len(set(plan.cells(name, plan.SIZES["full"])))
        for claim in claims.judge(name, results):
            assert f"| {claim.statement} | {claim.verdict} | {claim.evidence} |" in text
    for row in claims.spread(figures["grid"]):
        assert f"| {' | '.join(row)} |" in text
