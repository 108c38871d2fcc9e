"""Modules import only from their own layer and the layers above it in the list."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import maxnorm

LAYERS = (
    ("core", "files", "svg"),  # arrays only, files that are replaced as a whole, and charts as text
    (
        "learner",
        "dense",
        "sparse",
        "entries",
        "completion",
        "selection",
        "variational",
        "factor_steps",
        "crowded",
        "changes",
        "detection",
        "series",
    ),  # what learns online
    (
        "streams",
        "video",
        "dask",
        "persistence",
        "model_checks",
        "metrics",
        "datasets",
        "ratings",
    ),  # where data come from, and where models go
    (
        "estimators",
        "plot",
        "report",
        "report_data",
        "report_page",
        "report_samples",
    ),  # scikit-learn, and pictures of its models
    ("paper", "sensors", "demo"),  # the experiments of the paper, logs of sensors, and a demonstration
    ("cli", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ROOT = Path(maxnorm.__file__).parent
SOURCES = [path for path in ROOT.glob("**/*.py") if path != ROOT / "__init__.py"]


def layer_of(path):
    return LEVEL[path.relative_to(ROOT).with_suffix("").parts[0]]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.name for alias in node.names]
            yield from ([f"maxnorm.{name}" for name in names] if node.module == "maxnorm" else [node.module])
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_from_its_own_layer_and_those_above(path):
    for module in imported(path):
        package, _, rest = module.partition(".")
        part = rest.partition(".")[0]
        if package == "maxnorm" and part in LEVEL:
            assert LEVEL[part] <= layer_of(path), f"{path.relative_to(ROOT)} imports {module}"


def test_core_and_learners_do_not_need_scikit_learn():
    block = "import sys; sys.modules['sklearn'] = None"
    code = f"{block}; import maxnorm.learner, maxnorm.core.defaults, maxnorm.paper.reference"
    subprocess.run([sys.executable, "-c", code], check=True)
