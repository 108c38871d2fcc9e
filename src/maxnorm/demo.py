"""The demonstration ``maxnorm demo``: a real table with slips of the decimal point and gaps is repaired."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  (makes IterativeImputer importable)
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxnorm.core.types import Array, Mask
from maxnorm.estimators import Decomposition, MaxNormDecomposition
from maxnorm.files import replacing
from maxnorm.streams import open_stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_ROWS = 60  # of the heat maps
LARGEST = 4.0  # deviations at which the colours of the heat maps end


@dataclass(frozen=True)
class DamagedTable:
    """A table as it was, and as it was received.

    Parameters
    ----------
    names : list of str
        Names of the columns.
    true : array of shape (n_rows, n_columns)
        The table as it was.
    received : array of shape (n_rows, n_columns)
        The table with slips and gaps, which are NaN.
    is_slip, is_gap : array of bool, of shape (n_rows, n_columns)
        Which entries were damaged.
    """

    names: list[str]
    true: Array
    received: Array
    is_slip: Mask
    is_gap: Mask

    def error(self, filled: Array, where: Mask) -> float:
        """Return the root mean square error of some entries, in standard deviations of their columns."""
        deviations = (filled - self.true) / self.true.std(axis=0)
        return float(np.sqrt(np.mean(deviations[where] ** 2)))


def damage_table(slips: float = 0.03, gaps: float = 0.1, seed: int = 0) -> DamagedTable:
    """Return scikit-learn's table of breast-cancer cells with slips of the decimal point and gaps.

    Parameters
    ----------
    slips : float, default=0.03
        Share of the entries that are multiplied by ten.
    gaps : float, default=0.1
        Share of the entries that are missing.
    seed : int, default=0
        Random seed.

    Returns
    -------
    DamagedTable
        569 rows of 30 measurements in very different units.
    """
    data = load_breast_cancer()
    rng = np.random.default_rng(seed)
    is_gap = rng.random(data.data.shape) < gaps
    is_slip = (rng.random(data.data.shape) < slips) & ~is_gap
    received = np.where(is_slip, 10.0 * data.data, data.data)
    received[is_gap] = np.nan
    return DamagedTable(list(data.feature_names), data.data, received, is_slip, is_gap)


def write_table(values: Array, names: list[str], path: Path) -> None:
    """Write a table as CSV, with the names of the columns; gaps are "nan"."""
    with replacing(path) as part:
        np.savetxt(part, values, delimiter=",", header=",".join(names), comments="", fmt="%.10g")


def repair(path: Path) -> tuple[MaxNormDecomposition, Decomposition]:
    """Return a model of the table in a file, with nothing set but the seed, and the parts of the table."""
    model = MaxNormDecomposition(random_state=0).fit(open_stream(path))
    return model, model.decompose(open_stream(path))


def gap_errors(table: DamagedTable, parts: Decomposition) -> dict[str, float]:
    """Return the error of the filled gaps, by method: scikit-learn's imputers on scaled data, and ours."""
    imputers = {
        "column mean": SimpleImputer(),
        "KNNImputer": KNNImputer(),
        "IterativeImputer": IterativeImputer(random_state=0),
    }
    errors = {}
    for name, imputer in imputers.items():
        scaler = StandardScaler()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # ten rounds are its default
            scaled = make_pipeline(scaler, imputer).fit_transform(table.received)
        errors[name] = table.error(scaler.inverse_transform(scaled), table.is_gap)
    return errors | {"maxnorm": table.error(parts.low_rank, table.is_gap)}


def draw(table: DamagedTable, parts: Decomposition, errors: dict[str, float], path: Path) -> None:
    """Draw the table as it was received, the errors found, the table repaired, and the error of the gaps.

    Parameters
    ----------
    table : DamagedTable
        The table.
    parts : Decomposition
        Low-rank part and noise of the table.
    errors : dict
        Error of the filled gaps, by method.
    path : Path
        File to write.
    """
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    grid = figure.add_gridspec(1, 4, width_ratios=[1.0, 1.0, 1.0, 0.9])
    centre, deviation = table.true.mean(axis=0), table.true.std(axis=0)
    repaired = np.where(table.is_gap | (parts.noise != 0.0), parts.low_rank, table.received)
    colours = matplotlib.colormaps["RdBu_r"].with_extremes(bad="#ffd24d")
    panels = {
        "as received": (table.received - centre) / deviation,
        "gross errors found": parts.noise / deviation,
        "repaired": (repaired - centre) / deviation,
    }
    for i, (title, values) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[i])
        shown = values[:SHOWN_ROWS]
        image = axes.imshow(shown, cmap=colours, vmin=-LARGEST, vmax=LARGEST, aspect="auto")
        axes.set(title=title, xlabel="30 measurements", xticks=[], yticks=[])
    figure.axes[0].set_ylabel(f"the first {SHOWN_ROWS} of {len(values)} patients; gaps are yellow")
    figure.colorbar(image, ax=figure.axes, label="standard deviations", shrink=0.8, location="left")
    draw_bars(figure.add_subplot(grid[3]), errors)
    with replacing(path) as part:
        figure.savefig(part, dpi=130, format="png")


def draw_bars(axes: Axes, errors: dict[str, float]) -> None:
    """Draw the error of the filled gaps, one bar for each method."""
    bars = axes.barh(list(errors), list(errors.values()), color=["0.7"] * (len(errors) - 1) + ["#2b5c8a"])
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set(title="error of the filled gaps", xlabel="standard deviations")
    axes.set_xlim(0, 1.2 * max(errors.values()))
    axes.spines[["top", "right"]].set_visible(False)
