"""Running the command line in tests."""

import contextlib
import resource
import subprocess
import sys
import time
import traceback
import warnings

from click.testing import CliRunner

from maxnorm.cli import main

COMMAND = [sys.executable, "-m", "maxnorm"]


def run(*arguments, folder, **options):
    """Return the outcome of a command in ``folder``: exit code and what it printed.

    A command with standard input or an environment of its own runs in a new process. The others run in this
    one, which saves the two seconds that the libraries take to import.
    """
    arguments = list(map(str, arguments))
    if options:
        command = [*COMMAND, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, **options)
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("default")
        result = CliRunner().invoke(main, arguments, prog_name="maxnorm")
    stderr = result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        stderr += "".join(traceback.format_exception(result.exception))
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, stderr)


def run_successfully(*arguments, folder, **options):
    """Return the finished process of a command, which must succeed."""
    result = run(*arguments, folder=folder, **options)
    assert result.returncode == 0, result.stderr
    return result


def assert_fails(result, *words, code=1):
    """Assert that a command failed with an error that contains ``words``, and not with a traceback."""
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@contextlib.contextmanager
def full_disk(n_bytes=1000):
    """Let writing to a file fail beyond a number of bytes, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def wait_until(condition, process, seconds=120.0):
    """Wait until a condition holds while a process runs; the time limit only ends a test that hangs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)
