"""The Python code of the README and the documentation prints what the pages say, and links lead to files."""

import io
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from commands import run_successfully
from maxnorm import MaxNormDecomposition
from maxnorm.core.noise import NOISES
from maxnorm.streams.opening import READERS_OF_ONE_ARRAY

ROOT = Path(__file__).parent.parent
X = np.random.default_rng(0).standard_normal((300, 5)) @ np.random.default_rng(1).standard_normal((5, 20))
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/guide").glob("*.md")),
]
# Python code, and the block of text that follows it directly, if any, which is its output.
CODE_AND_OUTPUT = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
DECIMAL = re.compile(r"[-+]?\d+\.\d*(?:e[-+]?\d+)?")
NAMES = {"ids": lambda page: str(page.relative_to(ROOT))}


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], **NAMES)
def test_the_python_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with mock.patch.dict(NOISES), mock.patch.dict(READERS_OF_ONE_ARRAY):  # which a page may extend
        for code, output in CODE_AND_OUTPUT.findall(page.read_text()):
            with redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, str(page), "exec"), namespace)
            if output:
                assert_printed(printed.getvalue(), output)


def assert_printed(printed, expected):
    """Compare two texts: words and whole numbers exactly, and decimal fractions within a tenth."""
    assert DECIMAL.sub("x", printed).split() == DECIMAL.sub("x", expected).split(), printed
    found, wanted = (np.array(DECIMAL.findall(text), dtype=float) for text in (printed, expected))
    np.testing.assert_allclose(found, wanted, rtol=0.1, atol=0.011, err_msg=printed)


@pytest.mark.parametrize("printed", ["2 of 3, 0.52", "2 of 3, 0.48", "2  of\n3, 0.50"])
def test_printed_decimal_fractions_may_differ_a_little(printed):
    assert_printed(printed, "2 of 3, 0.50")


@pytest.mark.parametrize("printed", ["2 of 4, 0.50", "2 of 3, 0.60", "2 of 3", "2 in 3, 0.50", ""])
def test_other_differences_of_printed_text_are_noticed(printed):
    with pytest.raises(AssertionError):
        assert_printed(printed, "2 of 3, 0.50")


def test_the_commands_of_the_readme_run_after_its_code(tmp_path, monkeypatch):
    page = (ROOT / "README.md").read_text()
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        if "large.npy" in code or "plant.csv" in code:
            exec(code, {"np": np, "X": X, "MaxNormDecomposition": MaxNormDecomposition})
    commands = re.findall(r"^\$ maxnorm (.*)$", page, flags=re.MULTILINE)
    assert len(commands) >= 2
    for command in commands:
        run_successfully(*shlex.split(command, comments=True), folder=tmp_path)


@pytest.mark.parametrize("page", PAGES, **NAMES)
def test_links_between_pages_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
