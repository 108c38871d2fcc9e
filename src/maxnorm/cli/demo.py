"""``maxnorm demo``: a demonstration on a synthetic spectrum image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from maxnorm.cli.errors import require_matplotlib
from maxnorm.cli.files import check_outputs
from maxnorm.cli.options import overwrite_option
from maxnorm.cli.progress import make_count_progress

if TYPE_CHECKING:
    from rich.table import Table

    from maxnorm.paper.demo import Curve


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("maxnorm-demo.png"),
    show_default=True,
    help="Write the figure to this file.",
)
@click.option(
    "--side",
    type=click.IntRange(8, 512),
    default=64,
    show_default=True,
    help="Width and height of the image in pixels.",
)
@overwrite_option
def demo(output: Path, side: int, overwrite: bool) -> None:
    """Recover a corrupted spectrum image and draw the result.

    Every pixel of the synthetic image is a spectrum, and 30 % of the entries are replaced by gross errors.
    Three estimators read the pixels once, in random order: OMRMD (online max-norm regularised matrix
    decomposition, the class MaxNormDecomposition), OR-PCA (online robust PCA, the class OnlineRobustPCA) and
    online PCA (IncrementalPCA of scikit-learn). A table shows their expressed variance, which is 1 if the
    subspace of the true spectra is recovered exactly.
    """
    require_matplotlib()
    check_outputs({"--output": output}, {}, overwrite=overwrite)

    from rich.console import Console

    from maxnorm.metrics import relative_error
    from maxnorm.paper.demo import draw, learn, make_spectrum_image

    console = Console()
    image = make_spectrum_image(side)
    n_samples, n_channels = image.measured.shape
    console.print(
        f"[bold]Streaming {n_samples:,} spectra[/] of {n_channels} channels, which are mixtures of "
        f"{image.basis.shape[1]} materials. 30 % of the entries have errors many times as large as the "
        "signal.\n"
    )
    with make_count_progress(console) as bar:
        task = bar.add_task("learning", total=n_samples)

        def show_progress(n_seen: int, curves: dict[str, Curve]) -> None:
            variance = curves["OMRMD"][-1][1]
            bar.update(task, completed=n_seen, description=f"OMRMD: expressed variance {variance:.3f}")

        curves, parts = learn(image, show_progress)

    console.print(make_table(curves))
    console.print(
        f"relative error of the spectra: measured {relative_error(image.true, image.measured):.1f}, "
        f"recovered [bold]{relative_error(image.true, parts.low_rank):.3f}[/]"
    )
    try:
        draw(image, parts, curves, output)
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from error
    console.print(f"figure: {output}")


def make_table(curves: dict[str, Curve]) -> Table:
    """Return a table of the learning curves after 1, 2, 4, ... samples and after the last, best in bold."""
    from rich.table import Table

    table = Table(title="Expressed variance of the true subspace (1 = recovered)", title_justify="left")
    table.add_column("samples", justify="right")
    for name in curves:
        table.add_column(name, justify="right")
    counts = [n_samples for n_samples, _ in curves["OMRMD"]]
    for i, n_samples in enumerate(counts):
        is_power_of_two = n_samples & (n_samples - 1) == 0
        if is_power_of_two or n_samples == counts[-1]:
            values = [curve[i][1] for curve in curves.values()]
            best = max(values)
            cells = (f"[bold green]{v:.4f}[/]" if v == best else f"{v:.4f}" for v in values)
            table.add_row(f"{n_samples:,}", *cells)
    return table
