"""The examples of the gallery have a title and a question, and need neither a network nor a fixed path.

They are executed when the documentation is built.
"""

import ast
import re
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


def test_there_are_a_dozen():
    assert [path.name[5:7] for path in EXAMPLES] == [f"{number:02d}" for number in range(1, 13)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_asks_a_question(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    title, underline, empty, *lead = text.splitlines()
    assert underline == "=" * len(title)
    assert not empty
    assert "?" in " ".join(lead)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_needs_neither_a_network_nor_a_fixed_path(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|urllib|requests|fetch_|[\"'](/|~|[A-Z]:\\)", text)
