"""Signals and closed pipes end a command in good order, and nothing that was learnt is lost."""

import os
import signal
import subprocess
import threading

import numpy as np
import pytest

import maxnorm
from commands import COMMAND, wait_until
from maxnorm.cli.interruption import Interruption, check_signals, handle_signals, postpone_signals

X = np.random.default_rng(0).standard_normal((2000, 2)) @ np.random.default_rng(1).standard_normal((2, 10))
ROWS = [",".join(map(repr, row)) + "\n" for row in X[:50].tolist()]
SECONDS = 120  # only to end a test that hangs


def start(*arguments, folder, **options):
    return subprocess.Popen([*COMMAND, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True, **options)


def start_on_rows(folder, rows):
    """Start a fit on standard input, send rows, and wait until they are learnt from."""
    command = ("fit", "-", "--no-header", "--rank", "2", "--model", "m.maxnorm", "--checkpoint-every", "1")
    process = start(*command, folder=folder, stdin=subprocess.PIPE)
    process.stdin.writelines(rows)
    process.stdin.flush()
    wait_until(lambda: n_rows_in(folder / "m.maxnorm") == len(rows), process)
    return process


def n_rows_in(path):
    return maxnorm.load(path).n_samples_seen_ if path.exists() else 0


def end(process, number):
    """Send a signal to a process, and return its exit code and what it printed on standard error."""
    process.send_signal(number)
    printed = process.communicate(timeout=SECONDS)[1]
    assert "Traceback" not in printed
    return process.returncode, printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_rows_on_standard_input_are_learnt_while_no_further_ones_arrive(number, tmp_path):
    process = start_on_rows(tmp_path, ROWS[:7])
    code, printed = end(process, number)
    assert code == 128 + number
    assert "the model learnt from 7 samples was saved to m.maxnorm" in printed
    assert n_rows_in(tmp_path / "m.maxnorm") == 7


def test_a_signal_loses_no_rows_that_have_arrived(tmp_path):
    process = start_on_rows(tmp_path, ROWS[:7])
    process.stdin.writelines(ROWS[7:20])
    process.stdin.flush()
    wait_until(lambda: pipe_is_empty(process.stdin), process)
    _, printed = end(process, signal.SIGTERM)
    assert "ended by SIGTERM; the model learnt from 20 samples was saved" in printed


def pipe_is_empty(stdin):
    """Return whether the process has read everything that was written to its standard input."""
    import fcntl
    import struct
    import termios

    return struct.unpack("i", fcntl.ioctl(stdin, termios.FIONREAD, b"\0" * 4)) == (0,)


def test_closed_standard_output_and_error_do_not_lose_the_model(tmp_path):
    np.save(tmp_path / "x.npy", X)
    reader, writer = os.pipe()
    os.close(reader)  # whoever read the output has ended
    command = [*COMMAND, "fit", "x.npy", "--rank", "2", "--model", "m.maxnorm"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=writer, stderr=writer)
    os.close(writer)
    process.wait(timeout=SECONDS)
    assert n_rows_in(tmp_path / "m.maxnorm") == len(X)


def test_closed_standard_input_is_reported(tmp_path):
    command = [*COMMAND, "fit", "-", "--model", "m.maxnorm"]
    closed = ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command]
    result = subprocess.run(closed, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: standard input is closed")


def test_signals_that_the_shell_ignores_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with handle_signals():
            signal.raise_signal(signal.SIGHUP)
            check_signals()
            with pytest.raises(Interruption, match="ended by SIGTERM"):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_is_postponed_and_not_forgotten():
    with handle_signals():
        with postpone_signals():
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Interruption, match="ended by SIGTERM"):
            check_signals()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_handlers_are_not_needed_outside_the_main_thread():
    def run():
        with handle_signals():
            reached.append(True)

    reached = []
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert reached
