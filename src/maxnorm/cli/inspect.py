"""``maxnorm inspect``: describe a model file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors, require_matplotlib
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import json_option, overwrite_option
from maxnorm.cli.output import print_summary
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.record import TrainingRecord
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.core.types import Array


@click.command(cls=SectionedCommand)
@click.argument("model", type=ModelPath())
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    help="Draw the singular values of the basis, the first components and the convergence of the objective "
    "to this file, for example model.png. Needs the extra plot: pip install 'maxnorm[plot]'.",
)
@overwrite_option
@json_option
@verbosity_options
def inspect(model: Path, plot: Path | None, overwrite: bool, as_json: bool) -> None:
    """Describe the model in the file MODEL.

    MODEL is written by `maxnorm fit` or by the method save of an estimator. The description contains the
    estimator, its parameters, the progress of the training and the singular values of the basis.
    """
    check_inputs({"MODEL": model})
    check_outputs({"--plot": plot}, {"MODEL": model}, overwrite=overwrite)
    with report_errors():
        if plot is not None:
            require_matplotlib()
        description = Description.read(model)
        if as_json:
            print_summary(description.summary, as_json=True)
        else:
            print_description(description)
        if plot is not None:
            draw_description(description, plot)
            if not as_json:
                click.echo(f"figure: {plot}")


@dataclass(frozen=True)
class Description:
    """The contents of a model file."""

    summary: dict[str, Any]  # as printed with --json
    components: Array | None  # n_components x n_features; None if the model is not fitted
    record: TrainingRecord | None  # None if the model was not written by `maxnorm fit`

    @classmethod
    def read(cls, path: Path) -> Description:
        """Return the description of a model file."""
        import numpy as np

        from maxnorm import persistence

        model, header = persistence.read(path)
        record = TrainingRecord.read(header["about"])
        summary: dict[str, Any] = {
            "file": str(path),
            "format": header["format"],
            "estimator": header["estimator"],
            "parameters": {k: v for k, v in header["parameters"].items() if not isinstance(v, dict)},
            "versions": header["versions"],
            "about": header["about"],
            "fitted": hasattr(model, "n_features_in_"),
        }
        if not summary["fitted"]:
            return cls(summary, None, record)
        spectrum = np.linalg.svd(model.components_, compute_uv=False).tolist()
        summary["features"] = int(model.n_features_in_)
        summary["components"] = len(spectrum)
        summary["feature_names"] = list(getattr(model, "feature_names_in_", [])) or None
        for name in ("n_samples_seen_", "n_iter_", "lambda1_", "lambda2_", "objective_"):
            if hasattr(model, name):
                summary[name.strip("_")] = getattr(model, name)
        summary["spectrum"] = spectrum
        return cls(summary, model.components_, record)

    @property
    def spectrum(self) -> list[float]:
        """Singular values of the basis in descending order; empty if the model is not fitted."""
        return self.summary.get("spectrum", [])

    @property
    def history(self) -> list[tuple[int, float]]:
        """Numbers of samples, and the values of the objective after them."""
        return self.record.history if self.record else []


def print_description(description: Description) -> None:
    """Print a description for people."""
    record = description.record
    shown = {
        name: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value
        for name, value in description.summary.items()
        if name not in ("about", "spectrum", "feature_names")
    }
    if record:
        state = "finished" if record.finished else "not finished (continue with maxnorm fit --resume)"
        shown["data"] = record.data
        shown["training"] = f"{state}, epochs completed: {record.epoch}"
        shown["seconds"] = record.seconds
    print_summary(shown, as_json=False)
    if description.spectrum:
        click.echo("\nsingular values of the basis")
        for line in format_spectrum(description.spectrum):
            click.echo(line)
    if description.history:
        click.echo("\nconvergence (samples, objective)")
        for line in format_history(description.history):
            click.echo(line)


def format_spectrum(spectrum: Sequence[float], max_lines: int = 20, width: int = 40) -> Iterator[str]:
    """Yield a bar chart of singular values, at most ``max_lines`` of them in bars of up to ``width``."""
    for i, value in enumerate(spectrum[:max_lines]):
        bar = "█" * max(1, round(width * value / spectrum[0])) if spectrum[0] else ""
        yield f"{i + 1:4}  {value:10.4g}  {bar}"
    if len(spectrum) > max_lines:
        yield f"      ... and {len(spectrum) - max_lines} more, the smallest {spectrum[-1]:.4g}"


def format_history(history: Sequence[tuple[int, float]], n_lines: int = 10) -> Iterator[str]:
    """Yield about ``n_lines`` numbers of samples with their objectives."""
    step = max(1, len(history) // n_lines)
    for n_samples, objective in history[::step]:
        yield f"{n_samples:12,}  {objective:.6g}"


def draw_description(description: Description, path: Path) -> None:
    """Draw the spectrum, the first components and, if it was recorded, the convergence to a file."""
    from matplotlib.figure import Figure

    spectrum, history, components = description.spectrum, description.history, description.components
    if components is None:
        raise click.ClickException(f"cannot draw {description.summary['file']}: the model is not fitted")
    figure = Figure(figsize=(13 if history else 9, 4), layout="constrained")
    axes = figure.subplots(1, 3 if history else 2)
    axes[0].bar(range(1, len(spectrum) + 1), spectrum, color="tab:blue")
    axes[0].xaxis.get_major_locator().set_params(integer=True)
    axes[0].set(title="Singular values of the basis", xlabel="component", ylabel="singular value")
    for i, component in enumerate(components[:5]):
        axes[1].plot(component, lw=1, label=f"component {i + 1}")
    axes[1].set(title="Components", xlabel="feature")
    axes[1].legend(frameon=False, fontsize=8)
    if history:
        axes[2].plot(*zip(*history, strict=True), "o-", ms=3)
        axes[2].set(title="Convergence", xlabel="samples", ylabel="objective", xscale="log")
    figure.savefig(path, dpi=120)
