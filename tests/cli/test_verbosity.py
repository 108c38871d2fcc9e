"""How much commands say: the options --quiet and --verbose."""

import json

import numpy as np
import pytest

from commands import assert_fails, run, run_successfully
from maxnorm.cli import main

WITHOUT_LONG_WORK = {"completion"}


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 8))
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header=",".join("abcdefgh"), comments="")
    lines = [f"u{i % 20},i{(i * 7) % 13},{1 + i % 5}" for i in range(120)]
    (tmp_path / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines))
    return tmp_path


@pytest.mark.parametrize("name", sorted(set(main.commands) - WITHOUT_LONG_WORK))
def test_every_command_that_works_has_both_options(name, tmp_path):
    shown = run_successfully(name, "--help", folder=tmp_path).stdout
    assert "-q, --quiet" in shown
    assert "-v, --verbose" in shown


COMMANDS = {
    "fit": ("fit", "x.csv", "--resume", "--model", "m.maxnorm"),
    "decompose": ("decompose", "x.csv", "--rank", 2, "--low-rank", "a.csv"),
    "complete": ("complete", "x.csv", "--rank", 2, "-o", "a.csv"),
    "clean": ("clean", "x.csv", "-o", "cleaned"),
    "recommend": ("recommend", "ratings.csv", "--user", "u1", "--user", "nobody"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_quiet_command_prints_its_results_and_nothing_else(name, folder):
    result = run_successfully(*COMMANDS[name], "--quiet", "--json", folder=folder)
    assert result.stderr == ""
    assert json.loads(result.stdout)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fit", ("does not exist yet", "opened x.csv", "8 features", "fitting", "2 components", "lambda1")),
        ("decompose", ("opened x.csv", "fitting", "2 components", "writing", "300 samples")),
        ("complete", ("opened x.csv", "MaxNormCompletion with 2 components", "300 samples")),
        ("clean", ("reading", "300 rows; sensors: a, b", "comparing", "writing")),
        ("recommend", ("120 ratings", "learning", "20 users and 13 items", "ranking", "nobody")),
    ],
)
def test_a_verbose_command_prints_what_it_does_and_since_when(name, words, folder):
    result = run_successfully(*COMMANDS[name], "--verbose", "--json", folder=folder)
    for word in (*words, " s] "):
        assert word in result.stderr
    assert json.loads(result.stdout)


def test_a_usual_command_prints_notes_but_no_details(folder):
    result = run_successfully(*COMMANDS["fit"], folder=folder)
    assert "m.maxnorm does not exist yet" in result.stderr
    assert "opened" not in result.stderr


def test_a_quiet_command_still_reports_errors(folder):
    (folder / "words.csv").write_text("a,b\n1,2\n3,four\n")
    result = run("fit", "words.csv", "--model", "m", "-q", folder=folder)
    assert_fails(result, "line 3", "'four'")


def test_only_a_verbose_command_prints_the_traceback_of_an_error(folder):
    assert_fails(run("inspect", "x.csv", folder=folder), "x.csv: not a model file")
    result = run("inspect", "x.csv", "-v", folder=folder)
    assert result.returncode == 1
    assert result.stderr.index("Traceback") < result.stderr.index("Error: x.csv: not a model file")


def test_a_traceback_has_no_control_characters(folder):
    (folder / "bad.csv").write_text("a,b\n1,2\n3,\x1b[2Jfour\n")
    result = run("fit", "bad.csv", "--model", "m", "-v", folder=folder)
    assert "Traceback" in result.stderr
    assert "\x1b" not in result.stderr


def test_quiet_and_verbose_together_are_refused(folder):
    assert_fails(run(*COMMANDS["fit"], "-q", "-v", folder=folder), "--quiet and --verbose", code=2)


def test_a_quiet_command_leaves_the_filters_of_warnings_as_they_were(folder):
    import warnings

    before = list(warnings.filters)
    run_successfully(*COMMANDS["fit"], "-q", folder=folder)
    assert list(warnings.filters) == before
