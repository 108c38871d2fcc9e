"""Compare the estimators in one pass with batch PCP and trimmed PCA on the paper's grid.

    python benchmarks/grid.py                # about an hour on two cores
    python benchmarks/grid.py --keep-pcp     # a third of that: batch PCP as recorded before
    python benchmarks/grid.py --step 4       # every fourth rank and corruption: five minutes

p = 400, n = 5000, errors up to 1000. Writes grid.json, grid.md and grid.png to docs/benchmarks. Finished
cells are kept in build/grid, so that an interrupted run continues.
"""

import json
from pathlib import Path

import click
from machine import describe
from rich.progress import Progress
from rivals import TrimmedPCA

from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance
from maxnorm.paper.methods import METHODS
from maxnorm.paper.reproduce import store
from maxnorm.paper.reproduce.cells import Cell
from maxnorm.paper.reproduce.claims import THRESHOLDS
from maxnorm.paper.reproduce.figures import draw
from maxnorm.paper.reproduce.plan import SHARES

COMPARED = ("default-max", "default-nuclear", "pcp")
TITLES = [METHODS[method].title for method in COMPARED] + ["trimmed PCA"]
N_FEATURES, N_SAMPLES = 400, 5000


def make_cell(method, share, corruption):
    """Return the cell of a method at the rank ``share * N_FEATURES``, with a seed of its own."""
    return Cell.of(
        "recovery",
        method=method,
        p=N_FEATURES,
        d=round(share * N_FEATURES),
        n=N_SAMPLES,
        rho=corruption,
        seed=round(1e4 * share + 100 * corruption),
    )


def trimmed_ev(cell):
    """Return the expressed variance of trimmed PCA on the data of a cell."""
    data = make_corrupted_low_rank(
        cell["n"], cell["p"], cell["d"], corruption=cell["rho"], random_state=cell["seed"]
    )
    return expressed_variance(data.basis, TrimmedPCA(cell["d"]).partial_fit(data.X).components_.T)


def recorded_pcp(path):
    """Return the expressed variances of batch PCP in a report that was written before, by cell."""
    cells = json.loads(path.read_text())["cells"]
    return {(share, corruption): values[2] for share, corruption, values in cells}


def format_report(table, step):
    """Return the Markdown report of a table with rows (rank share, corruption, expressed variances)."""
    command = "python benchmarks/grid.py" + (f" --step {step}" if step > 1 else "")
    lines = [
        "# The grid of the paper: one pass against batch PCP and trimmed PCA",
        "",
        f"`{command}`: p = {N_FEATURES}, n = {N_SAMPLES}, errors up to 1000, one repetition per cell.",
        "EV is the expressed variance of the true subspace: 1 means that it is recovered.",
        "",
        "![expressed variance over rank and corruption](grid.png)",
        "",
        f"| | cells with EV of at least 0.999 | 0.99 | 0.9 | least | below PCP or trimmed PCA by more than "
        f"{THRESHOLDS.ahead} |",
        "|---|---|---|---|---|---|",
    ]
    for i, title in enumerate(TITLES):
        counts = [sum(values[i] >= level for *_, values in table) for level in (0.999, 0.99, 0.9)]
        counts.append(f"{min(values[i] for *_, values in table):.4f}")
        counts.append(sum(is_behind(values, i) for *_, values in table))
        lines.append(f"| {title} | " + " | ".join(map(str, counts)) + " |")
    apart = max(abs(values[0] - values[1]) for *_, values in table)
    lines += [
        "",
        f"There are {len(table)} cells. The two norms differ by at most {apart:.4f}. The table has the ten",
        "cells with the least expressed variance of `MaxNormDecomposition`, and all in which it is behind.",
        "",
        "| rank | corrupted | " + " | ".join(TITLES) + " |",
        "|---|---|" + "---|" * len(TITLES),
    ]
    hardest = sorted(values[0] for *_, values in table)[: min(10, len(table))]
    for share, corruption, values in table:
        if values[0] <= hardest[-1] or is_behind(values, 0):
            numbers = " | ".join(f"{value:.4f}" for value in values)
            lines.append(f"| {round(N_FEATURES * share)} | {corruption:g} | {numbers} |")
    return "\n".join(lines) + "\n"


def is_behind(values, i):
    """Return whether a method is behind batch PCP or trimmed PCA."""
    return values[i] < max(values[2:]) - THRESHOLDS.ahead


@click.command()
@click.option("--step", default=1, help="Use only every step-th rank and corruption.")
@click.option("--jobs", default=2, help="Number of processes.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("docs/benchmarks"), help="Report folder."
)
@click.option(
    "--cells", "folder", type=click.Path(path_type=Path), default=Path("build/grid"), help="Cell folder."
)
@click.option("--keep-pcp", is_flag=True, help="Take batch PCP from the report that is there.")
def main(step, jobs, output, folder, keep_pcp):
    """Run the grid and write the report."""
    kept = recorded_pcp(output / "grid.json") if keep_pcp else {}
    output.mkdir(parents=True, exist_ok=True)
    pairs = [(share, corruption) for share in SHARES[::step] for corruption in SHARES[::step]]
    cells = {pair: [make_cell(method, *pair) for method in COMPARED] for pair in pairs}
    with Progress() as progress:
        task = progress.add_task("cells", total=None)
        results = store.run(
            [cell for pair, row in cells.items() for cell in (row[:2] if pair in kept else row)],
            folder,
            jobs,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    table = []
    for pair, row in cells.items():
        if pair in kept:
            results[row[2]] = {"ev": kept[pair]}
        values = [results[cell]["ev"] for cell in row] + [trimmed_ev(row[0])]
        table.append((*pair, [round(value, 4) for value in values]))
    (output / "grid.json").write_text(json.dumps({"machine": describe(), "cells": table}, indent=1))
    (output / "grid.md").write_text(format_report(table, step))
    draw("grid", {cell: results[cell] for row in cells.values() for cell in row}).savefig(
        output / "grid.png", dpi=110
    )


if __name__ == "__main__":
    main()
