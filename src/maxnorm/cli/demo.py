"""``maxnorm demo``: repair a real table, and show what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from maxnorm.cli.errors import report_errors, require_matplotlib
from maxnorm.cli.files import check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import overwrite_option
from maxnorm.cli.output import print_message
from maxnorm.cli.progress import show_steps
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.demo import DamagedTable
    from maxnorm.estimators import Decomposition

NAMES = ("received.csv", "repaired.csv", "picture.png", "report.html")
REPAIR, COMPARE, DRAW = "repairing the table", "filling the gaps by other methods", "writing the results"


@click.command(cls=SectionedCommand, short_help="Repair a real table and show what was found.")
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("maxnorm-demo"),
    show_default=True,
    help="Write the tables, the picture and the report to this folder.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the damage.")
@overwrite_option
@verbosity_options
def demo(folder: Path, seed: int, overwrite: bool) -> None:
    """Repair a real table with wrong entries and gaps, and show what was found.

    The table is scikit-learn's: 30 measurements of cells of 569 patients, in units that differ by a factor of
    ten thousand. In 3 % of the entries the decimal point slips by one place, and 10 % are missing. The errors
    are found and the gaps are filled with nothing set, and compared with scikit-learn's imputers. The folder
    then has the table as it was received and repaired, a picture, and a report to look at in a browser.
    Needs the extra plot: pip install 'maxnorm[plot]'.
    """
    require_matplotlib()
    files = {name: folder / name for name in NAMES}
    with report_errors():
        folder.mkdir(parents=True, exist_ok=True)
        check_outputs(files, {}, overwrite=overwrite)
        run(files, seed)


def run(files: dict[str, Path], seed: int) -> None:
    """Repair the table, write the files and print what was found."""
    import numpy as np

    from maxnorm import demo, open_stream

    table = demo.damage_table(seed=seed)
    print_message(
        f"a table of {len(table.true)} patients and {len(table.names)} measurements, with "
        f"{table.is_slip.sum()} slips of the decimal point and {table.is_gap.sum()} gaps"
    )
    with show_steps([REPAIR, COMPARE, DRAW]) as begin:
        begin(REPAIR)
        demo.write_table(table.received, table.names, files["received.csv"])
        model, parts = demo.repair(files["received.csv"])
        begin(COMPARE)
        errors = demo.gap_errors(table, parts)
        begin(DRAW)
        repaired = np.where(table.is_gap | (parts.noise != 0.0), parts.low_rank, table.received)
        demo.write_table(repaired, table.names, files["repaired.csv"])
        demo.draw(table, parts, errors, files["picture.png"])
        model.report(files["report.html"], open_stream(files["received.csv"]), overwrite=True)
    print_results(table, parts, errors)
    for name in ("picture.png", "report.html"):
        click.echo(f"{name.partition('.')[0] + ':':8} {files[name]}")


def print_results(table: DamagedTable, parts: Decomposition, errors: dict[str, float]) -> None:
    """Print which slips were found, and how far the filled gaps are from the truth."""
    from rich.console import Console
    from rich.table import Table

    console, found = Console(), parts.noise != 0.0
    n_other = int((found & ~table.is_slip).sum())
    console.print(
        f"{int((found & table.is_slip).sum())} of {table.is_slip.sum()} slips were found, and "
        f"{n_other} other entries ({n_other / found.size:.1%}) were called errors.\n"
        f"Where the slips were, the error fell from {table.error(table.received, table.is_slip):.1f} to "
        f"[bold]{table.error(parts.low_rank, table.is_slip):.2f}[/] standard deviations.\n"
    )
    shown = Table(title="Error of the filled gaps in standard deviations", title_justify="left")
    shown.add_column("method")
    shown.add_column("error", justify="right")
    best = min(errors.values())
    for name, error in errors.items():
        shown.add_row(name, f"[bold green]{error:.2f}[/]" if error == best else f"{error:.2f}")
    console.print(shown)
