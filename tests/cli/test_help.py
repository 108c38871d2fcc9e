"""Help texts: headings, colours and exit codes."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from commands import COMMAND, run, run_successfully
from maxnorm.cli import EXIT_CODES, SECTIONS, main


def read_terminal(arguments, **environment):
    """Return what a command prints in a terminal."""
    ours, theirs = pty.openpty()
    variables = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}
    variables |= {"TERM": "xterm-256color", **environment}
    with subprocess.Popen([*COMMAND, *arguments], stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux reports the end of a terminal as an error
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


def test_every_command_is_listed_under_a_heading(tmp_path):
    shown = run_successfully("--help", folder=tmp_path).stdout
    assert sorted(command.name for group in SECTIONS.values() for command in group) == sorted(main.commands)
    positions = [shown.index(f"\n{title}:\n") for title in SECTIONS]
    assert positions == sorted(positions)
    assert "Other commands" not in shown
    assert "..." not in shown.partition("Clean and watch")[2]  # no description is cut off


def test_the_options_of_a_command_are_listed_under_headings(tmp_path):
    shown = run_successfully("fit", "--help", folder=tmp_path).stdout
    places = [shown.index(f"\n{title}:\n") for title in ("Options", "Reading the data", "Model", "Messages")]
    assert places == sorted(places)
    assert places[0] < shown.index("\n  --checkpoint-every") < places[1]
    assert places[1] < shown.index("--transpose") < places[2] < shown.index("--lambda1") < places[3]
    assert shown.count("--quiet") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"]])
def test_help_has_colours_in_a_terminal_and_not_elsewhere(arguments, tmp_path):
    assert "\x1b[" in read_terminal(arguments)
    assert "\x1b[" not in read_terminal(arguments, NO_COLOR="1")
    assert "\x1b[" not in read_terminal(arguments, TERM="dumb")
    assert "\x1b[" not in run_successfully(*arguments, folder=tmp_path).stdout


def test_the_exit_codes_are_explained_and_true(tmp_path):
    shown = run_successfully("--help", folder=tmp_path).stdout
    listed = shown.partition("Exit codes:")[2]
    assert all(f"\n  {code} " in listed for code in EXIT_CODES)
    (tmp_path / "no-model").write_text("hello")
    for code, arguments in ((0, ["--version"]), (1, ["inspect", "no-model"]), (2, ["fit", "--wrong"])):
        assert run(*arguments, folder=tmp_path).returncode == code
    assert run("unknown-command", folder=tmp_path).returncode == 2


def test_the_exit_codes_of_the_documentation_are_those_of_the_help():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    listed = re.findall(r"^\| (\d+) \| (.*) \|$", page, flags=re.MULTILINE)
    assert {int(code): meaning for code, meaning in listed} == EXIT_CODES


def test_every_command_is_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    listed = re.findall(r"^\| `([a-z]+)` \| .* \| `.*maxnorm ", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(main.commands)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGTERM"])
def test_the_exit_code_of_a_signal_is_explained(name, tmp_path):
    command = [*COMMAND, "watch", "-", "--headless"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:
        assert "reading" in process.stderr.readline()
        process.send_signal(getattr(signal, name))
        code = process.wait(120)
    assert code == 128 + getattr(signal, name)
    assert code in EXIT_CODES


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("watch", "view,video"),
        ("video", "video"),
        ("reproduce", "plot"),
        ("inspect", "plot"),
        ("demo", "plot"),
    ],
)
def test_a_command_that_needs_an_extra_says_which(command, extra, tmp_path):
    shown = run_successfully(command, "--help", folder=tmp_path).stdout
    assert f"pip install 'maxnorm[{extra}]'" in " ".join(shown.split())
