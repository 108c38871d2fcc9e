"""Kill ``maxnorm fit`` and ``maxnorm decompose`` again and again, and check what is left.

    python benchmarks/survival.py --kills 1000

``maxnorm fit --checkpoint-every --resume`` is killed at random moments, many of them in the middle of a save,
until it has read all of its data; then the next run begins. After each kill the model file must load, and at
the end of a run the model must equal that of an uninterrupted run bit by bit. ``maxnorm decompose`` is killed
at random moments, and its result must then be complete or that of an earlier run. With ``--signal TERM`` or
``INT`` the command must end with its documented exit code, and save all rows that it has learnt from.

The commands run in forks of this process, so that each of them starts in milliseconds. The exit status is 0
if everything was as it must be.
"""

import io
import os
import random
import re
import signal
import tempfile
import threading
import time
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

import maxnorm
from maxnorm import persistence
from maxnorm.cli import main as maxnorm_command
from maxnorm.datasets import make_corrupted_low_rank

FEATURES = 40
KILLS_PER_RUN = 40  # after so many kills, a run is left to finish
CHECKPOINT_ROWS = 500
HANG_SECONDS = 120  # a command that takes so long has failed
EXIT_CODES = {"KILL": -signal.SIGKILL, "TERM": 128 + signal.SIGTERM, "INT": 128 + signal.SIGINT}
FITS = {  # options of the runs, which take turns
    "max-norm": (),
    "robust PCA": ("--estimator", "robust-pca"),
    "two epochs": ("--epochs", "2"),
    "completion": ("--estimator", "completion"),
}
RESULTS = ("out.npy", "out.csv")


class Failure(click.ClickException):
    """Something is not as it must be."""


class Command:
    """A ``maxnorm`` command in a fork of this process, with its messages in a file."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        self.before = set(folder.glob(".*"))  # left by earlier commands
        self.begin = time.monotonic()
        self.code = None
        self.pid = os.fork()
        if not self.pid:
            run_in_child(folder, arguments)

    def is_running(self):
        """Return whether the command is running; when it has ended, ``code`` is its exit code."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > self.begin + HANG_SECONDS:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise Failure(f"a command has not ended after {HANG_SECONDS} seconds")
        return self.code is None

    def wait(self, is_reached=lambda: False, pause=0.0002):
        """Wait until a condition holds or the command ends, and return whether it is still running."""
        while self.is_running() and not is_reached():
            time.sleep(pause)
        return self.is_running()

    def temporary_files(self):
        """Return the temporary files of this command."""
        return set(self.folder.glob(".*")) - self.before

    def send(self, name):
        """Send a signal and wait for the end; return whether the command was writing a file when it came."""
        was_writing = bool(self.temporary_files())
        os.kill(self.pid, signal.Signals[f"SIG{name}"])
        self.wait()
        return bool(self.temporary_files()) if name == "KILL" else was_writing

    def messages(self):
        """Return what the command has printed."""
        return (self.folder / "messages.txt").read_text()


def run_in_child(folder, arguments):
    """Run a command in the child of a fork, which ends here."""
    code = 70  # of an internal error
    try:
        os.chdir(folder)
        messages = os.open("messages.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(messages, stream)
        try:
            maxnorm_command(list(arguments), prog_name="maxnorm")
        except SystemExit as end:
            code = end.code or 0
    finally:
        os._exit(code)


def modification_time(path):
    """Return when a file was last replaced; 0 if it does not exist."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def learnt(path):
    """Return everything in a model file that the data determine, with checksums in place of arrays."""
    header = persistence.read(path)[1]
    return header["parameters"], header["learnt"], header["sha256"]


def run_to_end(folder, *arguments):
    """Run a command that must succeed."""
    command = Command(folder, *arguments)
    command.wait(pause=0.002)
    if command.code:
        raise Failure(f"`maxnorm {' '.join(arguments)}` failed: {command.messages()}")


# -- fit --------------------------------------------------------------------------------------------


def interrupt_fits(folder, kills, name, rng):
    """Interrupt runs of ``fit`` ``kills`` times in all; return counts."""
    counts = Counter()
    expected = {}
    while counts["signals"] < kills:
        kind = list(FITS)[counts["runs"] % len(FITS)]
        model, whole = folder / "m.maxnorm", folder / f"{kind}.maxnorm"
        fit = ("fit", "x.npy", "--rank", "3", "--epochs", "1", *FITS[kind], "--model")
        if kind not in expected:
            run_to_end(folder, *fit, whole.name)
            expected[kind] = learnt(whole)
        model.unlink(missing_ok=True)
        interrupt_run(folder, fit, model, min(KILLS_PER_RUN, kills - counts["signals"]), name, rng, counts)
        counts["runs"] += 1
        counts["identical"] += learnt(model) == expected[kind]
        counts["leftovers"] += len(list(folder.glob(".*.part")))
    return counts


def interrupt_run(folder, fit, model, kills, name, rng, counts):
    """Interrupt one run until it has finished, at most ``kills`` times."""
    resumed = (*fit, model.name, "--checkpoint-every", str(CHECKPOINT_ROWS), "--resume")
    seen = 0
    for _ in range(kills):
        command = Command(folder, *resumed)
        inside = wait_for_moment(command, model, name, rng) and command.send(name)
        if command.code == 0:  # it has finished before the signal
            break
        if command.code != EXIT_CODES[name]:
            raise Failure(f"exit code {command.code} after SIG{name}: {command.messages()}")
        counts["signals"] += 1
        counts["inside"] += inside
        seen_before, seen = seen, maxnorm.load(model).n_samples_seen_ if model.exists() else 0
        counts["loaded"] += model.exists()
        if seen < seen_before:
            raise Failure(f"the model file has {seen:,} rows, but it had {seen_before:,} before")
        if name != "KILL":
            check_all_rows_saved(command, seen)
    run_to_end(folder, *resumed)


def wait_for_moment(command, model, name, rng):
    """Wait for a random moment of a run; return whether the command is still running."""
    before = modification_time(model)
    kind = rng.random()
    if kind < 0.1 and name == "KILL":  # while it starts
        end = time.monotonic() + rng.uniform(0.0, 0.05)
        return command.wait(lambda: time.monotonic() > end)
    if not command.wait(lambda: modification_time(model) != before):  # the first checkpoint of this process
        return False
    if kind < 0.55:  # anywhere
        end = time.monotonic() + rng.uniform(0.0, 0.02)
        return command.wait(lambda: time.monotonic() > end)
    if not command.wait(command.temporary_files, pause=0.0):  # inside a save
        return False
    time.sleep(rng.uniform(0.0, 0.0005))
    return command.is_running()


def check_all_rows_saved(command, n_saved):
    """Check that the model file has all rows that an interrupted command says it has learnt from."""
    message = command.messages()
    found = re.search(r"learnt from ([\d,]+) samples", message)
    if found is None or int(found[1].replace(",", "")) != n_saved:
        raise Failure(f"the model file has {n_saved:,} rows, but the command printed: {message}")


# -- decompose --------------------------------------------------------------------------------------


def kill_decompose(folder, kills, rng):
    """Kill ``decompose`` at random moments; return counts of what is in its result file afterwards."""
    counts = Counter()
    expected, seconds = {}, {}
    for name in RESULTS:
        begin = time.monotonic()
        run_to_end(folder, *decompose(name))
        expected[name], seconds[name] = (folder / name).read_bytes(), time.monotonic() - begin
    while counts["signals"] < kills:
        name = rng.choice(RESULTS)
        old = b"old" if rng.random() < 0.5 else None
        (folder / name).unlink(missing_ok=True)
        if old:
            (folder / name).write_bytes(old)
        command = Command(folder, *decompose(name))
        end = time.monotonic() + rng.uniform(0.0, 1.1 * seconds[name])
        if rng.random() < 0.5 and command.wait(command.temporary_files):  # while it writes
            end = time.monotonic() + rng.uniform(0.0, seconds[name])
        if command.wait(lambda end=end: time.monotonic() > end):
            counts["inside"] += command.send("KILL")
        counts["signals"] += command.code == EXIT_CODES["KILL"]
        found = (folder / name).read_bytes() if (folder / name).exists() else None
        outcome = "complete" if found == expected[name] else "unchanged" if found == old else "damaged"
        counts[outcome] += 1
    for name in RESULTS:
        run_to_end(folder, *decompose(name))
    counts["leftovers"] = len([path for path in folder.glob(".*") if "out." in path.name])
    return counts


def decompose(name):
    """Return the arguments of a command that writes the low-rank part to a file."""
    return ("decompose", "small.npy", "--model", "max-norm.maxnorm", "--low-rank", name, "--overwrite")


# -- command ----------------------------------------------------------------------------------------


@click.command()
@click.option("--kills", type=click.IntRange(1), default=1000, show_default=True, help="Signals to `fit`.")
@click.option(
    "--inside-saves",
    type=click.IntRange(0),
    help="Signals that must arrive during a save.  [default: a fifth of --kills]",
)
@click.option(
    "--decompose-kills",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="SIGKILLs to `decompose`.",
)
@click.option(
    "--signal",
    "name",
    type=click.Choice(list(EXIT_CODES)),
    default="KILL",
    show_default=True,
    help="Signal that `fit` receives.",
)
@click.option(
    "--rows", type=click.IntRange(1000), default=60_000, show_default=True, help="Rows of the data of `fit`."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed of the moments.")
def main(kills, inside_saves, decompose_kills, name, rows, seed):
    """Run the experiment."""
    rng = random.Random(seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as path, threadpool_limits(1):
        folder = Path(path)
        write_data(folder, rows)
        with redirect_stdout(io.StringIO()):
            warm_up(folder)
        fits = interrupt_fits(folder, kills, name, rng)
        results = kill_decompose(folder, decompose_kills, rng)
    click.echo(f"fit: {fits['signals']} x SIG{name}, {fits['inside']} of them during a save")
    missing = fits["signals"] - fits["loaded"]
    click.echo(f"  files that loaded         {fits['loaded']}, and {missing} did not exist yet")
    click.echo(
        f"  runs                      {fits['runs']}, {fits['identical']} of them identical bit by bit"
    )
    click.echo(f"  temporary files left      {fits['leftovers']}")
    click.echo(f"decompose: {results['signals']} x SIGKILL, {results['inside']} of them while it wrote")
    for outcome in ("unchanged", "complete", "damaged"):
        click.echo(f"  results {outcome:17} {results[outcome]}")
    click.echo(f"  temporary files left      {results['leftovers']}")
    click.echo(f"{time.monotonic() - begin:.0f} seconds")
    least = kills // 5 if inside_saves is None else inside_saves
    succeeded = fits["identical"] == fits["runs"] and not results["damaged"] and fits["inside"] >= least
    raise SystemExit(0 if succeeded else 1)


def write_data(folder, rows):
    """Write the data of all commands."""
    block = make_corrupted_low_rank(20_000, FEATURES, 3, corruption=0.1, random_state=0).X
    np.save(folder / "x.npy", np.resize(block, (rows, FEATURES)))
    np.save(folder / "small.npy", block[:10_000])
    np.save(folder / "tiny.npy", block[:300])


def warm_up(folder):
    """Run every command once in this process, so that its forks find all modules imported."""
    for options in FITS.values():
        arguments = ["fit", str(folder / "tiny.npy"), "--rank", "3", "--epochs", "1", *options, "--model"]
        maxnorm_command(
            [*arguments, str(folder / "tiny.maxnorm"), "--overwrite", "--json"], standalone_mode=False
        )
    for name in RESULTS:
        arguments = ["decompose", str(folder / "tiny.npy"), "--rank", "3", "--low-rank", str(folder / name)]
        maxnorm_command(arguments, standalone_mode=False)
    if threading.active_count() > 1:
        raise Failure("a process with threads cannot be forked")


if __name__ == "__main__":
    main()
