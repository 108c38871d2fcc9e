"""The command line: thin commands over the library."""

import importlib.util
from pathlib import Path

import click

from maxnorm import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maxnorm")
def main() -> None:
    """Streaming robust low-rank decomposition and completion with the max-norm."""


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("maxnorm-demo.png"),
    show_default=True,
    help="Where to write the picture.",
)
@click.option("--side", type=click.IntRange(8, 512), default=64, show_default=True, help="Pixels a side.")
def demo(output: Path, side: int) -> None:
    """Recover a spectrum image of which 30 % of the entries are corrupted, in one pass."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from maxnorm.demo import Curve, draw, learn, make_spectrum_image
    from maxnorm.metrics import relative_error

    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("the picture needs matplotlib: pip install 'maxnorm[plot]'")
    if not output.parent.is_dir():
        raise click.ClickException(f"cannot write {output}: {output.parent} is not a folder")

    console = Console()
    scene = make_spectrum_image(side)
    samples, channels = scene.measured.shape
    materials = scene.basis.shape[1]
    console.print(
        f"[bold]Streaming {samples:,} spectra[/] of {channels} channels, mixtures of {materials} materials. "
        "30 % of the entries have errors many times the signal.\n"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("learning", total=samples)

        def progress(seen: int, curves: dict[str, Curve]) -> None:
            bar.update(task, completed=seen, description=f"OMRMD at {curves['OMRMD'][-1][1]:.3f}")

        curves, parts = learn(scene, progress)

    table = Table(title="Expressed variance of the true subspace (1 = recovered)", title_justify="left")
    table.add_column("samples seen", justify="right")
    for name in curves:
        table.add_column(name, justify="right")
    ticks = [n for n, _ in curves["OMRMD"]]
    shown = [i for i, n in enumerate(ticks) if n & (n - 1) == 0 or n == ticks[-1]]
    for i in shown:
        values = [curve[i][1] for curve in curves.values()]
        best = max(values)
        cells = (f"[bold green]{v:.4f}[/]" if v == best else f"{v:.4f}" for v in values)
        table.add_row(f"{ticks[i]:,}", *cells)
    console.print(table)
    console.print(
        f"error of the spectra: measured {relative_error(scene.true, scene.measured):.1f}, "
        f"recovered [bold]{relative_error(scene.true, parts.low_rank):.3f}[/] (relative to the true ones)"
    )
    try:
        draw(scene, parts, curves, output)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from error
    console.print(f"picture: {output}")
