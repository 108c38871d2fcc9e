"""Modules import only from the layers below theirs, so that the engine stays free of scikit-learn."""

import ast
import subprocess
import sys
from pathlib import Path

import maxnorm

LAYERS = [
    {"_typing"},
    {"streams"},
    {"_linalg", "_threads", "_fast"},
    {"noise", "statistics"},
    {"norms"},
    {"encoding"},
    {"online"},
    {"persistence", "observed", "distributed"},
    {"auto", "selection", "batch", "published", "metrics", "datasets"},
    {"_validation"},
    {"_rounds"},
    {"_base"},
    {"estimators", "pursuit"},
    {"completion"},
    {"demo", "reproduce"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
ROOT = Path(maxnorm.__file__).parent
SOURCES = {
    path.relative_to(ROOT): path.relative_to(ROOT).with_suffix("").parts[0]
    for path in ROOT.glob("**/*.py")
    if path != ROOT / "__init__.py"
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [alias.name for alias in node.names]
            yield from ([f"maxnorm.{name}" for name in names] if node.module == "maxnorm" else [node.module])
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_module_has_a_layer():
    assert set(SOURCES.values()) == set(LEVEL)


def test_imports_point_downwards():
    for path, name in SOURCES.items():
        for module in imported(ROOT / path):
            parts = module.split(".")
            if parts[0] == "maxnorm" and len(parts) > 1 and parts[1] in LEVEL and parts[1] != name:
                assert LEVEL[parts[1]] < LEVEL[name], f"{path} imports {parts[1]}"


def test_the_engine_does_not_need_scikit_learn():
    code = "import sys; sys.modules['sklearn'] = None; import maxnorm.online, maxnorm.auto, maxnorm.published"
    subprocess.run([sys.executable, "-c", code], check=True)
