"""Shell completion: what is offered after a part of a command."""

import contextlib

import pytest
from click.shell_completion import ShellComplete

from maxnorm.cli import main
from maxnorm.cli.reproduce import FIGURE_NAMES
from maxnorm.paper.reproduce import plan


def offered(*words, incomplete="", folder):
    """Return the values and types of the completions of the word ``incomplete`` after ``words``."""
    with contextlib.chdir(folder):
        items = ShellComplete(main, {}, "maxnorm", "_MAXNORM_COMPLETE").get_completions(
            list(words), incomplete
        )
    return [(item.value, item.type) for item in items]


@pytest.mark.parametrize("command", ["fit", "decompose", "complete", "clean", "watch", "video", "recommend"])
def test_the_data_of_a_command_are_completed_as_files(command, tmp_path):
    assert offered(command, incomplete="x", folder=tmp_path) == [("x", "file")]


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("report",),
        ("fit", "--model"),
        ("decompose", "x.npy", "--model"),
        ("recommend", "--use"),
    ],
)
def test_model_files_are_offered_where_a_model_is_expected(words, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("b.maxnorm", "a.maxnorm", "x.npy", "folder/c.maxnorm"):
        (tmp_path / name).touch()
    assert offered(*words, folder=tmp_path) == [("a.maxnorm", "plain"), ("b.maxnorm", "plain")]
    assert offered(*words, incomplete="folder/", folder=tmp_path) == [("folder/c.maxnorm", "plain")]
    assert offered(*words, incomplete="x", folder=tmp_path) == [("x", "file")]
    assert offered(*words, incomplete="missing/", folder=tmp_path) == [("missing/", "file")]


def test_the_data_of_a_report_are_completed_as_files(tmp_path):
    assert offered("report", "m.maxnorm", incomplete="x", folder=tmp_path) == [("x", "file")]


def test_the_figures_of_the_paper_are_offered_once(tmp_path):
    assert tuple(plan.FIGURES) == FIGURE_NAMES
    names = [value for value, _ in offered("reproduce", folder=tmp_path)]
    assert names == list(FIGURE_NAMES)
    assert [value for value, _ in offered("reproduce", incomplete="rank", folder=tmp_path)] == [
        "rank-low",
        "rank-mid",
    ]
    assert "grid" not in [value for value, _ in offered("reproduce", "grid", folder=tmp_path)]
