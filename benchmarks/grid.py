"""Compare the estimators in one pass with batch PCP on the paper's grid of ranks and corruptions.

    python benchmarks/grid.py                # about half an hour on two cores
    python benchmarks/grid.py --step 4       # every fourth rank and corruption: two minutes

p = 400, n = 5000, errors up to 1000. Writes grid.json, grid.md and grid.png to docs/benchmarks. Finished
cells are kept in build/grid, so that an interrupted run continues.
"""

import json
from pathlib import Path

import click
from machine import describe
from rich.progress import Progress

from maxnorm.paper.methods import METHODS
from maxnorm.paper.reproduce import store
from maxnorm.paper.reproduce.cells import Cell
from maxnorm.paper.reproduce.claims import THRESHOLDS
from maxnorm.paper.reproduce.figures import draw
from maxnorm.paper.reproduce.plan import SHARES

COMPARED = ("ours", "nuclear", "pcp")
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


def format_report(table, step):
    """Return the Markdown report of a table with rows (rank share, corruption, expressed variances)."""
    titles = [METHODS[method].title for method in COMPARED]
    command = "python benchmarks/grid.py" + (f" --step {step}" if step > 1 else "")
    lines = [
        "# The grid of the paper: one pass against batch PCP",
        "",
        f"`{command}`: p = {N_FEATURES}, n = {N_SAMPLES}, errors up to 1000, one repetition per cell.",
        "EV is the expressed variance of the true subspace: 1 means that it is recovered.",
        "",
        "![expressed variance over rank and corruption](grid.png)",
        "",
        f"| | cells with EV of at least 0.999 | 0.99 | 0.9 | below PCP by more than {THRESHOLDS.ahead} |",
        "|---|---|---|---|---|",
    ]
    for i, title in enumerate(titles):
        counts = [sum(values[i] >= level for *_, values in table) for level in (0.999, 0.99, 0.9)]
        counts.append(sum(values[i] < values[-1] - THRESHOLDS.ahead for *_, values in table))
        lines.append(f"| {title} | " + " | ".join(map(str, counts)) + " |")
    lines += [
        "",
        f"There are {len(table)} cells. `MaxNormDecomposition` is below PCP in these:",
        "",
        "| rank | corrupted | " + " | ".join(titles) + " |",
        "|---|---|" + "---|" * len(titles),
    ]
    for share, corruption, values in table:
        if values[0] < values[-1] - THRESHOLDS.ahead:
            numbers = " | ".join(f"{value:.4f}" for value in values)
            lines.append(f"| {round(N_FEATURES * share)} | {corruption:g} | {numbers} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.option("--step", default=1, help="Use only every step-th rank and corruption.")
@click.option("--jobs", default=2, help="Number of processes.")
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("docs/benchmarks"), help="Report folder."
)
@click.option(
    "--cells", "folder", type=click.Path(path_type=Path), default=Path("build/grid"), help="Cell folder."
)
def main(step, jobs, output, folder):
    """Run the grid and write the report."""
    output.mkdir(parents=True, exist_ok=True)
    pairs = [(share, corruption) for share in SHARES[::step] for corruption in SHARES[::step]]
    cells = {pair: [make_cell(method, *pair) for method in COMPARED] for pair in pairs}
    with Progress() as progress:
        task = progress.add_task("cells", total=None)
        results = store.run(
            [cell for row in cells.values() for cell in row],
            folder,
            jobs,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    table = [(*pair, [round(results[cell]["ev"], 4) for cell in row]) for pair, row in cells.items()]
    (output / "grid.json").write_text(json.dumps({"machine": describe(), "cells": table}, indent=1))
    (output / "grid.md").write_text(format_report(table, step))
    draw("grid", results).savefig(output / "grid.png", dpi=110)


if __name__ == "__main__":
    main()
