"""The Python code in the README and the documentation runs, and links between pages lead to files."""

import re
import shlex
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
NAMES = {"ids": lambda page: str(page.relative_to(ROOT))}


@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], **NAMES)
def test_the_python_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    with mock.patch.dict(NOISES), mock.patch.dict(READERS_OF_ONE_ARRAY):  # which a page may extend
        for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
            exec(compile(code, str(page), "exec"), namespace)


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
