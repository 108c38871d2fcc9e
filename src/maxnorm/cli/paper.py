"""``maxnorm demo`` and ``maxnorm reproduce``."""

import importlib.util
from pathlib import Path

import click


@click.command()
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

    from maxnorm.metrics import relative_error
    from maxnorm.paper.demo import Curve, draw, learn, make_spectrum_image

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


@click.command()
@click.argument("figures", nargs=-1, metavar="[FIGURE]...")
@click.option("--quick", "size", flag_value="quick", help="Small problems: a few minutes.")
@click.option("--full", "size", flag_value="full", help="The paper's sizes, ten repetitions: days.")
@click.option("--repetitions", type=click.IntRange(1), help="Repetitions of each cell.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Cells at a time.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("maxnorm-reproduction"),
    show_default=True,
    help="Folder for results and figures; cells that are there already are not computed again.",
)
def reproduce(
    figures: tuple[str, ...], size: str | None, repetitions: int | None, jobs: int, output: Path
) -> None:
    """Repeat the paper's experiments: all of them, or those named.

    FIGURE is one of grid, rank-low, rank-mid, samples, large, norms, theory, noise. Without --quick or --full
    the sizes are the paper's with one repetition, which takes hours. Ctrl-C loses only the cells under way.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("the figures need matplotlib: pip install 'maxnorm[plot]'")
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from maxnorm.paper.reproduce import claims, page, plan, store

    unknown = [name for name in figures if name not in plan.FIGURES]
    if unknown:
        raise click.ClickException(f"no figure {unknown[0]!r}; there are {', '.join(plan.FIGURES)}")
    try:
        (output / "cells").mkdir(parents=True, exist_ok=True)
        (output / "cells" / ".writable").touch()
    except OSError as error:
        raise click.ClickException(f"cannot write to {output}: {error.strerror}") from error

    size = size or "standard"
    times = repetitions or plan.SIZES[size].repetitions
    wanted = {name: plan.cells(name, plan.SIZES[size], times) for name in figures or plan.FIGURES}
    console = Console()
    columns = (TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("cells", total=None)
            results = store.run(
                [cell for cells in wanted.values() for cell in cells],
                output,
                jobs,
                lambda done, total: bar.update(task, completed=done, total=total),
            )
    except KeyboardInterrupt:
        console.print(f"stopped; finished cells are in {output}, and the same command goes on from there")
        raise click.exceptions.Exit(130) from None
    except (store.CellError, OSError) as error:
        raise click.ClickException(str(error)) from error
    drawn = {name: {cell: results[cell] for cell in cells} for name, cells in wanted.items()}
    path = page.write(drawn, size, times, output)
    for name, these in drawn.items():
        for claim in claims.judge(name, these):
            console.print(f"[bold]{claim.verdict:9}[/] {claim.statement} [dim]({claim.evidence})[/]")
    console.print(f"page: {path}")
