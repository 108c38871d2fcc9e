"""``maxnorm inspect``: what a model file holds; ``maxnorm completion``: for the shell."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click

from maxnorm.cli.common import json_option, plain_errors, show, writable

BAR = 40  # characters of the longest bar
SHOWN = 20  # singular values that are shown


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--plot", type=click.Path(path_type=Path), help="Draw spectrum, convergence and components.")
@json_option
def inspect(model: Path, plot: Path | None, as_json: bool) -> None:
    """Say what MODEL is, how it was fitted, and how far it got."""
    with plain_errors():
        if plot is not None:
            writable(plot)
            if importlib.util.find_spec("matplotlib") is None:
                raise click.ClickException("the picture needs matplotlib: pip install 'maxnorm[plot]'")
        summary, spectrum, components = _summary(model)
        if as_json:
            show(summary, as_json=True)
        else:
            _print(summary, spectrum)
        if plot is not None:
            _draw(summary, spectrum, components, plot)
            if not as_json:
                click.echo(f"picture: {plot}")


def _summary(path: Path) -> tuple[dict[str, Any], list[float], Any]:
    import numpy as np

    from maxnorm import persistence

    model, header = persistence.read(path)
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
        return summary, [], None
    spectrum = np.linalg.svd(model.components_, compute_uv=False).tolist()
    summary["features"] = int(model.n_features_in_)
    summary["components"] = len(spectrum)
    summary["feature_names"] = list(getattr(model, "feature_names_in_", [])) or None
    for name in ("n_samples_seen_", "n_iter_", "lambda1_", "lambda2_", "objective_"):
        if hasattr(model, name):
            summary[name.strip("_")] = getattr(model, name)
    summary["spectrum"] = spectrum
    return summary, spectrum, model.components_


def _print(summary: dict[str, Any], spectrum: list[float]) -> None:
    about = summary.pop("about")
    shown = {
        name: ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value
        for name, value in summary.items()
        if name not in ("spectrum", "feature_names")
    }
    if about:
        shown["data"] = about.get("data")
        state = "finished" if about.get("finished") else "not finished: maxnorm fit --resume goes on"
        shown["state"] = f"{state}, {about.get('epoch', 0)} passes, {about.get('seconds', 0):,.1f} s"
    show(shown, as_json=False)
    if spectrum:
        click.echo("\nspectrum of the basis")
        for i, value in enumerate(spectrum[:SHOWN]):
            bar = "█" * max(1, round(BAR * value / spectrum[0])) if spectrum[0] else ""
            click.echo(f"{i + 1:4}  {value:10.4g}  {bar}")
        if len(spectrum) > SHOWN:
            click.echo(f"      ... and {len(spectrum) - SHOWN} more, the least {spectrum[-1]:.4g}")
    history = about.get("history") or []
    if history:
        click.echo("\nconvergence (samples, objective)")
        step = max(1, len(history) // 10)
        for samples, objective in history[::step]:
            click.echo(f"{samples:12,}  {objective:.6g}")


def _draw(summary: dict[str, Any], spectrum: list[float], components: Any, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    if not spectrum:
        raise click.ClickException(f"{summary['file']} is not fitted: there is nothing to draw")
    history = summary.get("about", {}).get("history") or []
    figure, axes = plt.subplots(
        1, 3 if history else 2, figsize=(13 if history else 9, 4), layout="constrained"
    )
    axes[0].bar(range(1, len(spectrum) + 1), spectrum, color="tab:blue")
    axes[0].set(title="Spectrum of the basis", xlabel="component", ylabel="singular value")
    for i, row in enumerate(components[:5]):
        axes[1].plot(row, lw=1, label=f"component {i + 1}")
    axes[1].set(title="Components", xlabel="feature")
    axes[1].legend(frameon=False, fontsize=8)
    if history:
        axes[2].plot(*zip(*history, strict=True), "o-", ms=3)
        axes[2].set(title="Convergence", xlabel="samples", ylabel="objective", xscale="log")
    figure.savefig(path, dpi=120)
    plt.close(figure)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands and options.

    For bash: eval "$(maxnorm completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "maxnorm", "_MAXNORM_COMPLETE").source())
