"""``maxnorm demo``: repair a real table, and show what was found."""

from __future__ import annotations

from pathlib import Path

import click

from maxnorm.cli.errors import report_errors, require_matplotlib
from maxnorm.cli.files import check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import overwrite_option
from maxnorm.cli.verbosity import verbosity_options

NAMES = ("received.csv", "repaired.csv", "picture.png", "report.html")


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
    """
    require_matplotlib()
    files = {name: folder / name for name in NAMES}
    with report_errors():
        folder.mkdir(parents=True, exist_ok=True)
        check_outputs(files, {}, overwrite=overwrite)
        run(files, seed)


def run(files: dict[str, Path], seed: int) -> None:
    """Repair the table and write the files."""
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from maxnorm import demo, open_stream

    console = Console()
    table = demo.damage_table(seed=seed)
    console.print(
        f"[bold]A table of {len(table.true)} patients and {len(table.names)} measurements[/]: "
        f"{table.is_slip.sum()} slips of the decimal point, {table.is_gap.sum()} gaps.\n"
    )
    with console.status("repairing the table"):
        demo.write_table(table.received, table.names, files["received.csv"])
        model, parts = demo.repair(files["received.csv"])
        errors = demo.gap_errors(table, parts)
    found = parts.noise != 0.0
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

    repaired = np.where(table.is_gap | found, parts.low_rank, table.received)
    demo.write_table(repaired, table.names, files["repaired.csv"])
    demo.draw(table, parts, errors, files["picture.png"])
    model.report(files["report.html"], open_stream(files["received.csv"]), overwrite=True)
    console.print(f"picture: {files['picture.png']}\nreport:  {files['report.html']}", soft_wrap=True)
