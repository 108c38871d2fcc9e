"""Draw the figures from the cells' results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.paper.reproduce.cells import Cell, Result
from maxnorm.paper.reproduce.plan import METHODS, PAIRS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = dict[Cell, Result]
COLOURS = {name: f"C{i}" for i, name in enumerate(METHODS)}


def final_ev(results: Results) -> dict[tuple[str, int, float], float]:
    """Return the expressed variance at the end of each curve, averaged over repetitions."""
    values: dict[tuple[str, int, float], list[float]] = {}
    for cell, result in results.items():
        if cell.kind == "curve":
            values.setdefault((cell["method"], cell["d"], cell["rho"]), []).append(result["ev"][-1])
    return {key: float(np.mean(ev)) for key, ev in values.items()}


def draw(figure: str, results: Results) -> Figure:
    """Return a figure by its name."""
    import matplotlib as mpl

    mpl.use("Agg")
    drawers: dict[str, Callable[[Results], Figure]] = {
        "grid": _grid,
        "rank-low": _ranks,
        "rank-mid": _ranks,
        "samples": _samples,
        "large": _large,
        "norms": _norms,
        "theory": _theory,
        "noise": _noise,
    }
    return drawers[figure](results)


def _axes(rows: int, columns: int, width: float = 4.0, height: float = 3.3) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    return figure, axes


def _sorted(values: Iterable[Any]) -> list[Any]:
    return sorted(set(values))


def _grid(results: Results) -> Figure:
    ev = final_ev(results)
    methods = [m for m in METHODS if any(key[0] == m for key in ev)]
    ranks, rhos = _sorted(key[1] for key in ev), _sorted(key[2] for key in ev)
    p = next(cell["p"] for cell in results)
    figure, axes = _axes(1, len(methods))
    for ax, method in zip(axes[0], methods, strict=True):
        image: Array = np.array([[ev.get((method, d, rho), np.nan) for rho in rhos] for d in ranks])
        half = 0.5 * (rhos[1] - rhos[0]) if len(rhos) > 1 else 0.5
        edges = (rhos[0] - half, rhos[-1] + half, ranks[0] / p - half, ranks[-1] / p + half)
        shown = ax.imshow(image, origin="lower", vmin=0, vmax=1, extent=edges, aspect="auto")
        ax.set(title=METHODS[method], xlabel="share of entries corrupted", ylabel="rank / p")
    figure.colorbar(shown, ax=axes, label="expressed variance")
    return figure


def _ranks(results: Results) -> Figure:
    ev = final_ev(results)
    ranks = _sorted(key[1] for key in ev)
    columns = min(3, len(ranks))
    figure, axes = _axes(-(-len(ranks) // columns), columns)
    for ax in axes.flat[len(ranks) :]:
        ax.set_axis_off()
    for ax, d in zip(axes.flat, ranks, strict=False):
        for method in METHODS:
            points = sorted((key[2], value) for key, value in ev.items() if key[:2] == (method, d))
            if points:
                ax.plot(*zip(*points, strict=True), marker=".", color=COLOURS[method], label=METHODS[method])
        ax.set(
            title=f"rank {d}",
            xlabel="share of entries corrupted",
            ylabel="expressed variance",
            ylim=(0, 1.03),
        )
    axes.flat[0].legend(fontsize="small")
    return figure


def _curves(ax: Any, results: Results, against: str) -> None:
    for cell, result in results.items():
        if cell["seed"]:
            continue  # one repetition is shown
        name = cell["method"]
        if len(result["ev"]) == 1:
            ax.axhline(result["ev"][0], color=COLOURS[name], linestyle=":", label=METHODS[name])
        else:
            ax.plot(result[against], result["ev"], color=COLOURS[name], label=METHODS[name])
    ax.set(xlabel=against, ylabel="expressed variance", ylim=(0, 1.03))


def _samples(results: Results) -> Figure:
    rhos = _sorted(cell["rho"] for cell in results)
    figure, axes = _axes(1, len(rhos))
    for ax, rho in zip(axes[0], rhos, strict=True):
        _curves(ax, {cell: r for cell, r in results.items() if cell["rho"] == rho}, "samples")
        ax.set_title(f"{rho:.0%} corrupted")
    axes[0, 0].legend(fontsize="small")
    return figure


def _large(results: Results) -> Figure:
    sizes = _sorted(cell["p"] for cell in results)
    figure, axes = _axes(2, len(sizes))
    for column, p in zip(axes.T, sizes, strict=True):
        these = {cell: r for cell, r in results.items() if cell["p"] == p}
        for ax, against in zip(column, ("samples", "seconds"), strict=True):
            _curves(ax, these, against)
            ax.set(title=f"p = {p}, d = {p // 10}", xscale="log")
    axes[0, 0].legend(fontsize="small")
    return figure


def _norms(results: Results) -> Figure:
    ev = final_ev(results)
    ranks = _sorted(key[1] for key in ev)
    figure, axes = _axes(1, len(ranks))
    for ax, d in zip(axes[0], ranks, strict=True):
        for i, (way, pair) in enumerate(PAIRS.items()):
            for method, line, norm in zip(pair, ("-", "--"), ("max-norm", "nuclear norm"), strict=True):
                points = sorted((key[2], value) for key, value in ev.items() if key[:2] == (method, d))
                ax.plot(
                    *zip(*points, strict=True),
                    color=f"C{i}",
                    linestyle=line,
                    marker=".",
                    label=f"{way}, {norm}",
                )
        ax.set(
            title=f"rank {d}",
            xlabel="share of entries corrupted",
            ylabel="expressed variance",
            ylim=(0, 1.03),
        )
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small"
    )
    return figure


def _theory(results: Results) -> Figure:
    values = next(result for cell, result in results.items() if cell.kind == "theory")
    figure, axes = _axes(1, 4)
    t = np.array(values["samples"])
    axes[0, 0].plot(t, values["surrogate"], label="surrogate g_t(L_t)")
    axes[0, 0].plot(t, values["loss"], label="empirical loss f_t(L_t)")
    axes[0, 0].legend()
    gap = np.maximum(np.subtract(values["surrogate"], values["loss"]), 1e-12)
    axes[0, 1].loglog(t, gap, label="g_t(L_t) - f_t(L_t)")
    axes[0, 1].loglog(t, values["gradient"], label="norm of the gradient of f_t")
    axes[0, 1].legend()
    axes[0, 2].semilogx(t, values["move"])
    axes[0, 2].set_title("t times the move of the basis")
    for method in _sorted(cell["method"] for cell in results if cell.kind == "memory"):
        points = sorted(
            (cell["n"], r["megabytes"])
            for cell, r in results.items()
            if cell.kind == "memory" and cell["method"] == method
        )
        axes[0, 3].plot(*zip(*points, strict=True), marker="o", label=METHODS[method])
    axes[0, 3].set(title="megabytes held", ylim=(0, None))
    axes[0, 3].legend()
    for ax in axes[0]:
        ax.set_xlabel("samples")
    return figure


def _noise(results: Results) -> Figure:
    figure, axes = _axes(1, 3)
    shown = (("outliers", "share", "ev"), ("dense", "sigma", "ev"), ("completion", "observed", "error"))
    titles = ("outlying samples", "dense noise", "completion: error in missing entries")
    for ax, (kind, x, y), title in zip(axes[0], shown, titles, strict=True):
        these = {cell: r for cell, r in results.items() if cell.kind == kind}
        labels = _sorted(dict(cell.settings).get("noise", "none") for cell in these)
        for label in labels:
            points: dict[float, list[float]] = {}
            for cell, result in these.items():
                if dict(cell.settings).get("noise", "none") == label:
                    points.setdefault(cell[x], []).append(1.0 - result[y] if y == "ev" else result[y])
            xs = sorted(points)
            ax.semilogy(
                xs, [float(np.mean(points[value])) for value in xs], marker="o", label=f"noise={label!r}"
            )
        ax.set(
            title=title,
            xlabel=x,
            ylabel="1 - expressed variance" if y == "ev" else "relative error",
        )
        ax.legend(fontsize="small")
    return figure
