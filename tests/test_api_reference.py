"""The API reference has everything that is public, and everything in it exists."""

import ast
import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = (
    "maxnorm",
    "maxnorm.datasets",
    "maxnorm.metrics",
    "maxnorm.plot",
    "maxnorm.streams",
    "maxnorm.video",
)
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.py")),
]
TABLES = {"maxnorm.core.noise.NOISES", "maxnorm.streams.opening.READERS_OF_ONE_ARRAY"}
"""Tables that extensions add to, which are no classes or functions and are described in docs/extending.md."""

FUNCTIONS_OF_READERS = {"maxnorm.streams.memory.open_array"}


def listed_names():
    """Yield the full names in the tables of the reference."""
    module, is_table = "", False
    for line in (ROOT / "docs/api/index.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. "):
            is_table = line.startswith(".. autosummary::")
            module = line.split()[-1] if line.startswith(".. currentmodule::") else module
        elif is_table and re.fullmatch(r"   [\w.]+", line):
            yield f"{module}.{line.strip()}"
        elif line and not line.startswith(" "):
            is_table = False


def look_up(name):
    """Return the object with a full name."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


LISTED = list(listed_names())


def test_nothing_is_listed_twice():
    assert len(LISTED) == len({id(look_up(name)) for name in LISTED})


@pytest.mark.parametrize("module", MODULES)
def test_everything_that_a_public_module_exports_is_listed(module):
    listed = {id(look_up(name)) for name in LISTED}
    missing = [
        name for name in import_module(module).__all__ if id(look_up(f"{module}.{name}")) not in listed
    ]
    assert not missing


def test_every_module_with_exports_is_public_or_private():
    private = {"maxnorm.estimators", "maxnorm.estimators.callbacks"}  # maxnorm exports what is public
    found = set()
    for path in sorted((ROOT / "src/maxnorm").rglob("*.py")):
        if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            parts = path.relative_to(ROOT / "src").with_suffix("").parts
            found.add(".".join(parts).removesuffix(".__init__"))
    assert found == private | set(MODULES)


def imported_names():
    """Yield the full names that the documentation and the gallery import from submodules of maxnorm."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [text] if page.suffix == ".py" else re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        for block in blocks:
            for node in ast.walk(ast.parse(textwrap.dedent(block))):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maxnorm"):
                    yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_everything_that_the_documentation_imports_is_listed():
    listed = {id(look_up(name)) for name in LISTED}
    names = set(imported_names()) - TABLES - FUNCTIONS_OF_READERS - {"maxnorm.plot"}
    assert "maxnorm.learner.take" in names
    assert sorted(name for name in names if id(look_up(name)) not in listed) == []
