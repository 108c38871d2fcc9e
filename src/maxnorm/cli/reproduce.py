"""``maxnorm reproduce``: repeat the experiments of the paper."""

from __future__ import annotations

from pathlib import Path

import click

from maxnorm.cli.errors import report_interruption, require_matplotlib
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.output import print_detail
from maxnorm.cli.paths import complete_names
from maxnorm.cli.progress import make_count_progress
from maxnorm.cli.verbosity import verbosity_options

FIGURE_NAMES = ("grid", "rank-low", "rank-mid", "samples", "large", "norms", "theory", "noise")
"""The figures, as in :mod:`maxnorm.paper.reproduce.plan`, whose import would make shell completion slow."""


@click.command(cls=SectionedCommand)
@click.argument("figures", nargs=-1, metavar="[FIGURE]...", shell_complete=complete_names(FIGURE_NAMES))
@click.option(
    "--quick", "size", flag_value="quick", help="Use small problems, which take a few minutes in total."
)
@click.option(
    "--full",
    "size",
    flag_value="full",
    help="Use the sizes of the paper, with repetitions on the grid: about five hours on two cores.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    help="Number of repetitions of each experiment. By default 1, but on the grid with --full 10 of our "
    "estimators, and 3 of the published methods in a part of the cells.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Number of experiments to run in parallel.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("maxnorm-reproduction"),
    show_default=True,
    help="Folder for results and figures. Results that it already contains are not computed again.",
)
@verbosity_options
def reproduce(
    figures: tuple[str, ...], size: str | None, repetitions: int | None, jobs: int, output: Path
) -> None:
    """Repeat the experiments of the paper.

    The paper is J. Shen, H. Xu and P. Li, Online optimization for large-scale max-norm regularization,
    Machine Learning 106, 2017.

    FIGURE is one of grid, rank-low, rank-mid, samples, large, norms, theory and noise; by default, all of
    them are reproduced. Without --quick or --full, the problems have the sizes of the paper with one
    repetition, which takes hours. Each finished experiment is saved; after Ctrl-C, repeat the command to
    continue. Experiments in a results.json of the output folder count as finished. Figures need the extra
    "plot": pip install 'maxnorm[plot]'.
    """
    require_matplotlib()
    from rich.console import Console

    from maxnorm.paper.reproduce import claims, page, plan, store

    unknown = [name for name in figures if name not in plan.FIGURES]
    if unknown:
        raise click.ClickException(f"unknown figure {unknown[0]!r}: use one of {', '.join(plan.FIGURES)}")
    try:
        (output / "cells").mkdir(parents=True, exist_ok=True)
        (output / "cells" / ".writable").touch()
        if (output / "results.json").exists():
            store.restore(output / "results.json", output)
    except OSError as error:
        raise click.ClickException(f"cannot write to {output}: {error.strerror}") from error

    size = size or "standard"
    cells = {name: plan.cells(name, plan.SIZES[size], repetitions) for name in figures or plan.FIGURES}
    console = Console()
    for name, group in cells.items():
        print_detail(f"{plan.FIGURES[name]}: {len(group)} experiments")
    interrupted = f"finished experiments are saved in {output}: repeat the command to continue"
    try:
        with report_interruption(interrupted), make_count_progress(console) as bar:
            task = bar.add_task("experiments", total=None)
            results = store.run(
                [cell for group in cells.values() for cell in group],
                output,
                jobs,
                lambda done, total: bar.update(task, completed=done, total=total),
            )
    except (store.CellError, OSError) as error:
        raise click.ClickException(str(error)) from error
    results_by_figure = {name: {cell: results[cell] for cell in group} for name, group in cells.items()}
    path = page.write(results_by_figure, size, output)
    for name, figure_results in results_by_figure.items():
        for claim in claims.judge(name, figure_results):
            console.print(f"[bold]{claim.verdict:9}[/] {claim.statement} [dim]({claim.evidence})[/]")
    console.print(f"page: {path}")
