"""``maxnorm clean``: replace what is wrong in a log of sensors, fill its gaps, and report what was found."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors, report_interruption
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.options import json_option, overwrite_option
from maxnorm.cli.output import print_detail, print_message, print_summary
from maxnorm.cli.progress import show_steps
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.sensors.cleaning import CleanedLog
    from maxnorm.sensors.tables import LogTable

NOTHING_WRITTEN = "nothing was written"
COLUMNS = ("row", "time", "kind", "sensor", "value", "expected", "cleaned", "deviation")


@click.command(cls=SectionedCommand, short_help="Repair a log of sensors and report what was found.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results. By default, it is next to DATA and has its name with -cleaned.",
)
@click.option("--time", "time_column", metavar="COLUMN", help="Column that tells the time of a row.")
@click.option("--columns", metavar="COLUMNS", help="Columns that are sensors, separated by commas.")
@click.option("--exclude", metavar="COLUMNS", help="Columns that are not sensors, separated by commas.")
@click.option(
    "--alarm-rate",
    type=click.FloatRange(0.0, 0.5, min_open=True),
    default=0.01,
    show_default=True,
    help="Share of usual rows that may be called unusual.",
)
@click.option(
    "--lags",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of preceding rows that each row is compared together with, for sensors with dynamics.",
)
@click.option("--header/--no-header", default=None, help="Whether the first line of a text file has names.")
@click.option("--key", metavar="NAME", help="Name of the array to read, in a file that holds several.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@overwrite_option
@json_option
@verbosity_options
def clean(
    data: Path,
    output: Path | None,
    time_column: str | None,
    columns: str | None,
    exclude: str | None,
    alarm_rate: float,
    lags: int,
    header: bool | None,
    key: str | None,
    seed: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Replace what is wrong in a log of sensors, fill its gaps, and report what was found.

    DATA is a table with one row per time: CSV and other text, Parquet, Arrow, Excel, or an array. Sensors may
    have any units and gaps. Columns of times and texts, counters and switches are passed through. Three files
    are written: DATA in the same format with its wrong entries replaced and its gaps filled, anomalies.csv
    with every replaced entry, unusual row and change of the process, and report.html to look at.

    A single series has no other sensors to be compared with. A running median does better there.
    """
    folder = output or data.with_name(data.name.partition(".")[0] + "-cleaned")
    paths = {
        "cleaned": folder / data.name,
        "anomalies": folder / "anomalies.csv",
        "report": folder / "report.html",
    }
    check_inputs({"DATA": data})
    with report_errors():
        folder.mkdir(parents=True, exist_ok=True)
    check_outputs(paths, {"DATA": data}, overwrite=overwrite)
    start = time.monotonic()
    with (
        report_errors(),
        report_interruption(NOTHING_WRITTEN),
        warnings.catch_warnings(),
        show_steps(("reading", "finding changes", "comparing", "writing")) as step,
    ):
        warnings.simplefilter("ignore")  # about models of segments; what matters is in the summary
        from threadpoolctl import threadpool_limits

        from maxnorm.sensors.cleaning import clean_log
        from maxnorm.sensors.report import make_report
        from maxnorm.sensors.tables import ColumnChoice, open_table

        step("reading")
        table = open_table(data, ColumnChoice(columns, exclude, time_column), header=header, key=key)
        print_detail(f"{len(table.values):,} rows; sensors: {', '.join(table.sensor_names)}")
        with threadpool_limits(1):  # the matrices are small
            log = clean_log(table.values, alarm_rate=alarm_rate, lags=lags, seed=seed, progress=step)
        step("writing")
        passed = [name for j, name in enumerate(table.names) if j not in table.roles.sensors]
        settings = {
            "columns passed through": ", ".join(passed) or "none",
            "rate of false alarms": f"{alarm_rate:g}",
            "lags": str(lags),
        }
        page = make_report(data.name, table.sensor_names, table.labels, log, settings)
        write_all(paths, table, log, page)
    remarks = list(table.roles.remarks)
    if len(table.roles.sensors) == 1:
        remarks.append(
            "there is only one sensor, which has nothing to be compared with: a running median is better"
        )
    for remark in remarks:
        print_message(f"note: {remark}")
    print_summary(summarise(table, log, paths, time.monotonic() - start), as_json)


def write_all(paths: dict[str, Path], table: LogTable, log: CleanedLog, page: str) -> None:
    """Write the three files; each is renamed when it is complete."""
    from maxnorm.files import replacing

    table.write(paths["cleaned"], log.cleaned, log.is_wrong | (log.values != log.values))
    with replacing(paths["anomalies"]) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(list_anomalies(table, log))
    with replacing(paths["report"]) as part:
        part.write_text(page, encoding="utf-8")


def list_anomalies(table: LogTable, log: CleanedLog) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of the list of anomalies, in the order of time; rows are counted from one."""
    import numpy as np

    names, changes = table.sensor_names, set(log.changes)
    for i in range(len(log.values)):
        if i in changes:
            yield i + 1, table.labels[i], "change", "", "", "", "", ""
        wrong = np.flatnonzero(log.is_wrong[i])
        for j in wrong:
            kind = "stuck" if log.is_stuck[i, j] else "spike"
            numbers = (log.values[i, j], log.expected[i, j], log.cleaned[i, j], log.deviation[i, j])
            yield i + 1, table.labels[i], kind, names[j], *(f"{number:.6g}" for number in numbers)
        if log.decision[i] < 0.0 and not len(wrong):
            largest = np.argsort(-np.abs(log.deviation[i]))[:3]
            yield i + 1, table.labels[i], "row", "; ".join(names[j] for j in largest), "", "", "", ""


def summarise(table: LogTable, log: CleanedLog, paths: dict[str, Path], seconds: float) -> dict[str, Any]:
    """Return the summary that is printed."""
    unusual = log.is_wrong.any(axis=1) | (log.decision < 0.0)
    return {
        "rows": len(log.values),
        "sensors": len(table.roles.sensors),
        "gaps filled": int((log.values != log.values).sum()),
        "spikes replaced": int(log.is_spike.sum()),
        "stuck entries replaced": int(log.is_stuck.sum()),
        "unusual rows": int(unusual.sum()),
        "changes": ", ".join(f"row {i + 1} ({table.labels[i]})" for i in log.changes) or "none",
        "seconds": round(seconds, 2),
        **{name: str(path) for name, path in paths.items()},
    }
