"""Draw the figures from the results of their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from maxnorm.core.types import Array
from maxnorm.paper.methods import METHODS
from maxnorm.paper.reproduce.cells import Results, final_ev, repeated_ev
from maxnorm.paper.reproduce.plan import COMPARED, PAIRS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {name: f"C{i}" for i, name in enumerate(COMPARED)}


def draw(figure: str, results: Results) -> Figure:
    """Draw a figure.

    Parameters
    ----------
    figure : str
        Name of the figure, a key of ``plan.FIGURES``.
    results : dict
        Results of the cells of the figure.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    drawers: dict[str, Callable[[Results], Figure]] = {
        "grid": _draw_grid,
        "rank-low": _draw_ranks,
        "rank-mid": _draw_ranks,
        "samples": _draw_samples,
        "large": _draw_large,
        "norms": _draw_norms,
        "theory": _draw_theory,
        "noise": _draw_noise,
    }
    return drawers[figure](results)


def _subplots(rows: int, columns: int) -> tuple[Figure, Any]:
    import matplotlib.pyplot as plt

    return plt.subplots(
        rows, columns, figsize=(4.0 * columns, 3.3 * rows), layout="constrained", squeeze=False
    )


def _distinct(values: Iterable[Any]) -> list[Any]:
    return sorted(set(values))


def _plot_corruption(ax: Any, results: Results, method: str, rank: int, **style: Any) -> None:
    """Plot the final expressed variance of a method at a rank against the share of corrupted entries.

    Points are means over the repetitions, and bars reach from the least of them to the greatest.
    """
    runs = sorted(
        (key[2], list(ev.values())) for key, ev in repeated_ev(results).items() if key[:2] == (method, rank)
    )
    if runs:
        means = np.array([np.mean(ends) for _, ends in runs])
        least, most = ([extreme(ends) for _, ends in runs] for extreme in (min, max))
        bars = np.maximum([means - least, most - means], 0.0)  # which rounding may make negative
        ax.errorbar([rho for rho, _ in runs], means, bars, marker=".", capsize=2, **style)
    ax.set(
        title=f"rank {rank}",
        xlabel="share of entries corrupted",
        ylabel="expressed variance",
        ylim=(0, 1.03),
    )


def _plot_curves(ax: Any, results: Results, against: str) -> None:
    """Plot the learning curves of the first repetition; a batch method is a horizontal line."""
    for cell, result in results.items():
        if cell["seed"]:
            continue
        name = cell["method"]
        style = {"color": COLOURS[name], "label": METHODS[name].title}
        if len(result["ev"]) == 1:
            ax.axhline(result["ev"][0], linestyle=":", **style)
        else:
            # The time of an answer, which may exceed that of learning, does not count for later answers.
            ax.plot(np.maximum.accumulate(result[against]), result["ev"], **style)
    ax.set(xlabel=against, ylabel="expressed variance", ylim=(0, 1.03))


def _draw_grid(results: Results) -> Figure:
    ev = final_ev(results)
    methods = [method for method in COMPARED if any(key[0] == method for key in ev)]
    ranks, rhos = _distinct(key[1] for key in ev), _distinct(key[2] for key in ev)
    p = next(cell["p"] for cell in results)
    figure, axes = _subplots(1, len(methods))
    for ax, method in zip(axes[0], methods, strict=True):
        image: Array = np.array([[ev.get((method, d, rho), np.nan) for rho in rhos] for d in ranks])
        half = 0.5 * (rhos[1] - rhos[0]) if len(rhos) > 1 else 0.5
        edges = (rhos[0] - half, rhos[-1] + half, ranks[0] / p - half, ranks[-1] / p + half)
        shown = ax.imshow(image, origin="lower", vmin=0, vmax=1, extent=edges, aspect="auto")
        ax.set(title=METHODS[method].title, xlabel="share of entries corrupted", ylabel="rank / p")
    figure.colorbar(shown, ax=axes, label="expressed variance")
    return figure


def _draw_ranks(results: Results) -> Figure:
    ranks = _distinct(cell["d"] for cell in results)
    columns = min(3, len(ranks))
    figure, axes = _subplots(-(-len(ranks) // columns), columns)
    for ax in axes.flat[len(ranks) :]:
        ax.set_axis_off()
    for ax, d in zip(axes.flat, ranks, strict=False):
        for method in COMPARED:
            _plot_corruption(ax, results, method, d, color=COLOURS[method], label=METHODS[method].title)
    axes.flat[0].legend(fontsize="small")
    return figure


def _draw_samples(results: Results) -> Figure:
    rhos = _distinct(cell["rho"] for cell in results)
    figure, axes = _subplots(1, len(rhos))
    for ax, rho in zip(axes[0], rhos, strict=True):
        _plot_curves(ax, {cell: r for cell, r in results.items() if cell["rho"] == rho}, "samples")
        ax.set_title(f"{rho:.0%} corrupted")
    axes[0, 0].legend(fontsize="small")
    return figure


def _draw_large(results: Results) -> Figure:
    sizes = _distinct(cell["p"] for cell in results)
    figure, axes = _subplots(2, len(sizes))
    for column, p in zip(axes.T, sizes, strict=True):
        selected = {cell: r for cell, r in results.items() if cell["p"] == p}
        for ax, against in zip(column, ("samples", "seconds"), strict=True):
            _plot_curves(ax, selected, against)
            ax.set(title=f"p = {p}, d = {p // 10}", xscale="log")
    axes[0, 0].legend(fontsize="small")
    return figure


def _draw_norms(results: Results) -> Figure:
    ranks = _distinct(cell["d"] for cell in results)
    figure, axes = _subplots(1, len(ranks))
    for ax, d in zip(axes[0], ranks, strict=True):
        for i, (way, pair) in enumerate(PAIRS.items()):
            for method, line, norm in zip(pair, ("-", "--"), ("max-norm", "nuclear norm"), strict=True):
                _plot_corruption(
                    ax, results, method, d, color=f"C{i}", linestyle=line, label=f"{way}, {norm}"
                )
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small"
    )
    return figure


def _draw_theory(results: Results) -> Figure:
    values = next(result for cell, result in results.items() if cell.kind == "theory")
    figure, axes = _subplots(1, 4)
    t = np.array(values["samples"])
    axes[0, 0].plot(t, values["surrogate"], label="surrogate g_t(L_t)")
    axes[0, 0].plot(t, values["loss"], label="empirical loss f_t(L_t)")
    axes[0, 0].legend()
    gap = np.maximum(np.subtract(values["surrogate"], values["loss"]), 1e-12)
    axes[0, 1].loglog(t, gap, label="g_t(L_t) - f_t(L_t)")
    axes[0, 1].loglog(t, values["gradient"], label="norm of the gradient of f_t")
    axes[0, 1].legend()
    axes[0, 2].semilogx(t, values["move"])
    axes[0, 2].set_title("t times the change of the basis")
    memory = {cell: r["megabytes"] for cell, r in results.items() if cell.kind == "memory"}
    for method in _distinct(cell["method"] for cell in memory):
        points = sorted((cell["n"], held) for cell, held in memory.items() if cell["method"] == method)
        axes[0, 3].plot(*zip(*points, strict=True), marker="o", label=METHODS[method].title)
    axes[0, 3].set(title="peak memory in megabytes", ylim=(0, None))
    axes[0, 3].legend()
    for ax in axes[0]:
        ax.set_xlabel("samples")
    return figure


def _draw_noise(results: Results) -> Figure:
    figure, axes = _subplots(1, 3)
    shown = (("outliers", "share", "ev"), ("dense", "sigma", "ev"), ("completion", "observed", "error"))
    titles = ("outlying samples", "dense noise", "completion: error of the missing entries")
    for ax, (kind, x, y), title in zip(axes[0], shown, titles, strict=True):
        points: dict[str, dict[float, list[float]]] = {}
        for cell, result in results.items():
            if cell.kind == kind:
                noise = dict(cell.settings).get("noise", "none")
                error = 1.0 - result[y] if y == "ev" else result[y]
                points.setdefault(noise, {}).setdefault(cell[x], []).append(error)
        for noise, errors in sorted(points.items()):
            xs = sorted(errors)
            means = [float(np.mean(errors[value])) for value in xs]
            ax.semilogy(xs, means, marker="o", label=f"noise={noise!r}")
        ax.set(title=title, xlabel=x, ylabel="1 - expressed variance" if y == "ev" else "relative error")
        ax.legend(fontsize="small")
    return figure
