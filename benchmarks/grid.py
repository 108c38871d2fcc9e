"""The paper's grid, rank x corruption: our defaults in one pass against batch PCP.

    python benchmarks/grid.py                # about half an hour on two cores
    python benchmarks/grid.py --step 4       # every fourth rank and corruption: two minutes

p = 400, n = 5000, errors up to 1000 in size. Writes grid.json, grid.md and grid.png to docs/benchmarks.
"""

import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import click
import numpy as np
from machine import describe
from rich.progress import Progress
from threadpoolctl import threadpool_limits

from maxnorm import MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.metrics import expressed_variance

SHARES = np.arange(0.02, 0.51, 0.04).round(2)  # of 400 features: the ranks; of the entries: those corrupted
METHODS = ("MaxNormDecomposition", "OnlineRobustPCA", "PCP, batch")


def cell(rank_share, corruption, p=400, n=5000):
    """Return the expressed variance of each method in one cell."""
    d = round(rank_share * p)
    seed = round(1e4 * rank_share + 100 * corruption)
    data = make_corrupted_low_rank(n, p, d, corruption=corruption, random_state=seed)
    with threadpool_limits(1):
        pcp = PrincipalComponentPursuit(tol=1e-5, max_iter=300).fit(data.X)
        bases = (
            MaxNormDecomposition(d, random_state=0).fit(data.X).components_,
            OnlineRobustPCA(d, random_state=0).fit(data.X).components_,
            pcp.components_[:d],
        )
    return [round(expressed_variance(data.basis, basis.T), 4) for basis in bases]


def report(results, folder):
    """Write the verdict in words and the three images."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shares = np.unique([rank for rank, *_ in results])
    place = {share: i for i, share in enumerate(shares)}
    images = np.full((len(METHODS), len(shares), len(shares)), np.nan)
    for rank, corruption, values in results:
        images[:, place[rank], place[corruption]] = values
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for ax, image, name in zip(axes, images, METHODS, strict=True):
        edges = (shares[0] - 0.02, shares[-1] + 0.02)
        shown = ax.imshow(image, origin="lower", vmin=0, vmax=1, extent=(*edges, *edges), cmap="viridis")
        ax.set(title=name, xlabel="share of entries corrupted", ylabel="rank / features")
    figure.colorbar(shown, ax=axes, label="expressed variance")
    figure.savefig(folder / "grid.png", dpi=110)

    ours, nuclear, pcp = images
    lines = [
        "# The grid of the paper, one pass against batch PCP",
        "",
        "`python benchmarks/grid.py` · p = 400, n = 5000, errors up to 1000 in size, one repetition a cell.",
        "",
        "![expressed variance over rank and corruption](grid.png)",
        "",
        "| | cells with EV of at least 0.999 | 0.99 | 0.9 | below PCP by more than 0.0005 |",
        "|---|---|---|---|---|",
    ]
    for image, name in zip(images, METHODS, strict=True):
        reached = " | ".join(str(int((image >= level).sum())) for level in (0.999, 0.99, 0.9))
        lines.append(f"| {name} | {reached} | {int((image < pcp - 0.0005).sum())} |")
    lines += ["", f"Of {ours.size} cells. Those in which `MaxNormDecomposition` is below PCP:", ""]
    lines += ["| rank | corrupted | MaxNormDecomposition | OnlineRobustPCA | PCP |", "|---|---|---|---|---|"]
    for i, j in np.argwhere(ours < pcp - 0.0005):
        values = " | ".join(f"{image[i, j]:.4f}" for image in (ours, nuclear, pcp))
        lines.append(f"| {round(400 * shares[i])} | {shares[j]:g} | {values} |")
    (folder / "grid.md").write_text("\n".join(lines) + "\n")


@click.command()
@click.option("--step", default=1, help="Take every step-th rank and corruption.")
@click.option("--jobs", default=2, help="Processes.")
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/benchmarks"))
def main(step, jobs, output):
    """Run the grid and write the report."""
    output.mkdir(parents=True, exist_ok=True)
    shares = [float(share) for share in SHARES[::step]]
    results = []
    with ProcessPoolExecutor(jobs) as pool, Progress() as progress:
        task = progress.add_task("cells", total=len(shares) ** 2)
        cells = {pool.submit(cell, rank, share): (rank, share) for rank in shares for share in shares}
        for future in as_completed(cells):
            results.append((*cells[future], future.result()))
            progress.advance(task)
    results.sort()
    (output / "grid.json").write_text(json.dumps({"machine": describe(), "cells": results}, indent=1))
    report(results, output)


if __name__ == "__main__":
    main()
