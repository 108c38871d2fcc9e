"""Commands that are killed or stopped with Ctrl-C, and resumed.

The commands run in processes of their own, which stop at a given moment and wait for the signal. The tests
therefore do not depend on the speed of the machine. ``benchmarks/survival.py`` kills at random moments.
"""

import signal
import subprocess
import sys

import numpy as np
import pytest

import maxnorm
from commands import assert_fails, run, run_successfully, wait_until
from maxnorm.datasets import make_corrupted_low_rank

HANG_SECONDS = 600  # a process that takes so long has failed
DATA = make_corrupted_low_rank(6000, 40, 3, corruption=0.1, random_state=0)

# Runs a command that stops at the n-th call of a function, before or after the call, and waits for a signal.
STOPPING = """
import importlib, pathlib, sys, time
_, when, module, name, n, *arguments = sys.argv
*owners, name = name.split(".")
owner = importlib.import_module(module)
for attribute in owners:
    owner = getattr(owner, attribute)
function, calls = getattr(owner, name), []

def stop():
    pathlib.Path("stopped").touch()
    time.sleep(600)

def stopping(*arguments, **keywords):
    calls.append(None)
    if len(calls) == int(n) and when == "before":
        stop()
    result = function(*arguments, **keywords)
    if len(calls) == int(n) and when == "after":
        stop()
    return result

setattr(owner, name, stopping)
from maxnorm.cli import main
main(arguments, prog_name="maxnorm")
"""
# A checkpoint is written to a temporary file, flushed to disk and renamed; then its folder is flushed.
LEARNING = ("before", "maxnorm.dense", "DenseLearner.measure", "30")
WRITING = ("before", "os", "fsync", "5")
RENAMED = ("after", "os", "replace", "3")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "x.npy", DATA.X)
    return tmp_path


def fit_command(*options):
    return ("fit", "x.npy", "--rank", "3", "--epochs", "1", "--model", "m.maxnorm", *options)


def interrupt(moment, number, *arguments, folder):
    """Run a command up to a moment, send it a signal, and return its exit code and its messages."""
    command = [sys.executable, "-c", STOPPING, *moment, *arguments]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    wait_until((folder / "stopped").exists, process)
    (folder / "stopped").unlink()
    process.send_signal(number)
    _, printed = process.communicate(timeout=HANG_SECONDS)
    assert "Traceback" not in printed
    return process.returncode, printed


def assert_as_uninterrupted(folder, n_epochs=1):
    """Assert that the saved model equals one that was fitted without interruption."""
    model = maxnorm.load(folder / "m.maxnorm")
    expected = maxnorm.MaxNormDecomposition(3, n_epochs=n_epochs, random_state=0).fit(DATA.X)
    np.testing.assert_array_equal(model.components_, expected.components_)
    np.testing.assert_array_equal(model.state_.statistics.A, expected.state_.statistics.A)
    assert model.n_samples_seen_ == expected.n_samples_seen_
    assert sorted(file.name for file in folder.iterdir()) == ["m.maxnorm", "x.npy"]


def test_a_run_that_is_killed_again_and_again_leaves_a_valid_model_and_resumes_exactly(folder):
    seen = [0]
    for moment in (WRITING, LEARNING, RENAMED):
        command = fit_command("--checkpoint-every", "100", "--resume")
        assert interrupt(moment, signal.SIGKILL, *command, folder=folder)[0] == -signal.SIGKILL
        seen.append(maxnorm.load(folder / "m.maxnorm").n_samples_seen_)
    assert seen == sorted(set(seen))  # every process has saved something
    assert seen[-1] < len(DATA.X)
    run_successfully(*fit_command("--resume"), folder=folder)
    assert_as_uninterrupted(folder)


@pytest.mark.parametrize(
    ("moment", "number", "reason"),
    [
        (LEARNING, signal.SIGINT, "interrupted"),
        (WRITING, signal.SIGINT, "interrupted"),
        (RENAMED, signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_a_signal_saves_the_model_and_explains_how_to_resume(moment, number, reason, folder):
    command = fit_command("--checkpoint-every", "100", "--epochs", "3")
    code, printed = interrupt(moment, number, *command, folder=folder)
    assert code == 128 + number
    seen = maxnorm.load(folder / "m.maxnorm").n_samples_seen_
    assert f"{reason}; the model learnt from {seen:,} samples was saved to m.maxnorm" in printed
    assert "repeat the command with --resume to continue" in printed
    run_successfully(*fit_command("--epochs", "3", "--resume"), folder=folder)
    assert_as_uninterrupted(folder, n_epochs=3)


def test_an_interrupted_run_is_resumed_only_with_its_own_options(folder):
    interrupt(LEARNING, signal.SIGINT, *fit_command("--epochs", "3"), folder=folder)
    for options, message in (
        (
            ["--epochs", "3"],
            "m.maxnorm already exists: use --resume to continue or --overwrite to replace it",
        ),
        (["--resume"], "it was fitted with n_epochs=3, but this command has n_epochs=1"),
    ):
        result = run(*fit_command(*options), folder=folder)
        assert_fails(result, message)
    run_successfully(*fit_command("--epochs", "3", "--resume"), folder=folder)
    assert_as_uninterrupted(folder, n_epochs=3)
    again = run_successfully(*fit_command("--epochs", "3", "--resume"), folder=folder)
    assert "already finished" in again.stderr


def test_sigterm_during_decompose_leaves_no_partial_result(folder):
    run_successfully(*fit_command(), folder=folder)
    command = ("decompose", "x.npy", "--model", "m.maxnorm", "--low-rank", "a.csv")
    moment = ("after", "maxnorm.streams.writing", "TextWriter.append", "1")
    code, printed = interrupt(moment, signal.SIGTERM, *command, folder=folder)
    assert code == 143
    assert printed == "ended by SIGTERM; no results were written\n"
    assert sorted(file.name for file in folder.iterdir()) == ["m.maxnorm", "x.npy"]
