"""``maxnorm watch``: judge the rows of a live log as they arrive."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxnorm.cli.errors import report_errors
from maxnorm.cli.files import check_inputs, check_outputs
from maxnorm.cli.help import SectionedCommand
from maxnorm.cli.interruption import check_signals, postpone_signals
from maxnorm.cli.output import print_detail, print_error, print_message
from maxnorm.cli.paths import ModelPath
from maxnorm.cli.verbosity import verbosity_options

if TYPE_CHECKING:
    from maxnorm.sensors.watching import LiveLog, LiveReader

FILMS = (".mp4", ".avi", ".mov", ".mkv", ".gif", ".npy")


@click.command(cls=SectionedCommand, short_help="Judge rows or frames as they arrive, live.")
@click.argument("source", type=click.Path(allow_dash=True))
@click.option("--time", "time_column", metavar="COLUMN", help="Column that tells the time of a row.")
@click.option("--columns", metavar="COLUMNS", help="Columns that are sensors, separated by commas.")
@click.option("--exclude", metavar="COLUMNS", help="Columns that are not sensors, separated by commas.")
@click.option(
    "--alarm-rate",
    type=click.FloatRange(0.0, 0.5, min_open=True),
    default=0.01,
    show_default=True,
    help="Share of usual rows that may give an alarm.",
)
@click.option(
    "--lags",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Number of preceding rows that each row is compared together with, for sensors with dynamics.",
)
@click.option(
    "--header/--no-header", default=None, help="Whether the first line has the names of the columns."
)
@click.option(
    "--model",
    "model_path",
    type=ModelPath(),
    help="Save what was learnt to this file at the end, on Ctrl-C and on SIGTERM.",
)
@click.option("--resume", is_flag=True, help="Continue with the file of --model, if it exists.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file of --model.")
@click.option(
    "--headless", is_flag=True, help="Show no page; write alarms as lines of JSON to standard output."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=5006, show_default=True, help="Port of the page."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@verbosity_options
def watch(
    source: str,
    time_column: str | None,
    columns: str | None,
    exclude: str | None,
    alarm_rate: float,
    lags: int,
    header: bool | None,
    model_path: Path | None,
    resume: bool,
    overwrite: bool,
    headless: bool,
    port: int,
    seed: int,
) -> None:
    """Judge the rows of a live log, or the frames of a film, as they arrive, and show them in the browser.

    SOURCE is - for CSV on standard input, a file that grows, or tcp://127.0.0.1:PORT, where lines of CSV are
    accepted. Each row is compared with what was learnt before it, and then learnt from. The page, on a server
    that only this machine can reach, shows the latest rows of a sensor, what is expected, alarms, and
    changes of the process. With --headless, alarms are written as lines of JSON.

    SOURCE may also be a film, the number of a camera or the address of a stream. The page then shows the
    frame, its background and its foreground, and only --port, --model and --resume have an effect.

    The page needs the extra "view", and films the extra "video": pip install 'maxnorm[view,video]'.
    """
    if "://" not in source and not source.isdecimal():
        check_inputs({"SOURCE": source})
    if model_path is not None:
        check_outputs({"--model": model_path}, {"SOURCE": source}, overwrite=overwrite or resume)
    elif resume:
        raise click.UsageError("--resume needs --model, the file to continue with")
    if is_film(source):
        if headless:
            raise click.UsageError("films are shown in the browser only: use maxnorm video to write masks")
        with report_errors():
            watch_film(source, port, model_path, resume)
        return
    with report_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models of few rows, which are soon replaced
        from threadpoolctl import threadpool_limits

        from maxnorm import AnomalyDetector, load
        from maxnorm.sensors.tables import ColumnChoice
        from maxnorm.sensors.watching import LiveLog, LiveReader

        if resume and model_path is not None and model_path.exists():
            detector = load(model_path)
            if not isinstance(detector, AnomalyDetector):
                raise click.ClickException(f"{model_path} was not saved by `maxnorm watch`: use another file")
        else:
            detector = AnomalyDetector(alarm_rate=alarm_rate, lags=lags, random_state=seed)
        log = LiveLog(detector)
        print_detail(f"rate of false alarms {detector.alarm_rate:g}, lags {detector.lags}")
        reader = LiveReader(source, ColumnChoice(columns, exclude, time_column), header)
        print_message(f"reading {reader.title}")
        try:
            with threadpool_limits(1):  # the matrices are small
                if headless:
                    print_alarms(reader, log)
                else:
                    serve_log(reader, log, port)
        except KeyboardInterrupt as interruption:
            save(detector, model_path)
            code = getattr(interruption, "exit_code", 130)
            print_error(f"{interruption or 'interrupted'}; {log.n_rows:,} rows, {log.n_alarms:,} alarms")
            raise click.exceptions.Exit(code) from None
        save(detector, model_path)
        print_message(f"{log.n_rows:,} rows, {log.n_alarms:,} alarms")


def print_alarms(reader: LiveReader, log: LiveLog) -> None:
    """Feed all rows to a log, and print the alarms.

    Signals do not interrupt the learning from rows, only the waiting for them.
    """
    for labels, rows in reader:
        with postpone_signals():
            alarms = log.feed(reader.names, labels, rows)
        for alarm in alarms:
            click.echo(json.dumps(alarm))
        check_signals()


def serve(build: Any, run: Any, feeding: Any, port: int) -> None:
    """Show a page in the browser until the program is interrupted, while a thread feeds what it shows."""
    from maxnorm.streams.pages import start_server

    failures: list[BaseException] = []
    server = start_server(build, port, lambda address: print_message(f"open {address}"))

    def work() -> None:
        try:
            run()
        except BaseException as failure:
            failures.append(failure)
            server.io_loop.add_callback(server.io_loop.stop)

    thread = threading.Thread(target=work, name="maxnorm-watch", daemon=True)
    thread.start()
    try:
        server.io_loop.start()
    finally:
        with feeding:  # rows or frames that are being learnt from
            server.stop()
    if failures:
        raise failures[0]


def serve_log(reader: LiveReader, log: LiveLog, port: int) -> None:
    """Show a log in the browser until the program is interrupted."""
    from maxnorm.sensors.page import build_page

    def run() -> None:
        for labels, rows in reader:
            log.feed(reader.names, labels, rows)
        log.is_ended = True

    serve(lambda document: build_page(document, log, reader.title), run, log.feeding, port)


def is_film(source: str) -> bool:
    """Return whether a source is a film rather than a log."""
    addresses = ("rtsp://", "rtmp://", "http://", "https://", "udp://")
    return source.isdecimal() or source.startswith(addresses) or Path(source).suffix.lower() in FILMS


def watch_film(source: str, port: int, model_path: Path | None, resume: bool) -> None:
    """Show a film with its background and its mask until the program is interrupted."""
    from maxnorm import VideoBackground, load, open_film
    from maxnorm.video.page import LiveFilm, build_page

    subtractor = VideoBackground()
    if resume and model_path is not None and model_path.exists():
        subtractor = load(model_path)
        if not isinstance(subtractor, VideoBackground):
            raise click.ClickException(f"{model_path} is not the model of a film: use another file")
    live = LiveFilm(open_film(source), subtractor)
    print_message(f"reading {live.film.title}")
    try:
        serve(lambda document: build_page(document, live), live.run, live.feeding, port)
    except KeyboardInterrupt as interruption:
        if model_path is not None and live.n_frames:
            with postpone_signals():
                subtractor.save(model_path)
            print_message(f"saved {model_path}")
        print_error(f"{interruption or 'interrupted'}; {live.n_frames:,} frames")
        raise click.exceptions.Exit(getattr(interruption, "exit_code", 130)) from None


def save(detector: Any, path: Path | None) -> None:
    """Save what was learnt, if anything was and if a file was given."""
    if path is not None and detector.__sklearn_is_fitted__():
        with postpone_signals():
            detector.save(path)
        print_message(f"saved {path}")
