"""Build the wheel, install it without extras in a new environment, and run the commands on small files.

Commands that need no extra must succeed, and those that need one must name it and fail with exit code 1. The
environment is in a temporary folder, which is removed at the end; ``--keep`` prints its name instead.
``--python python3.13`` uses another interpreter. The exit code is 0 if all is well, and 1 otherwise.
"""

import argparse
import contextlib
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

SUCCEEDING = """
--version
--help
fit x.csv --model m.maxnorm
fit x.npy --model n.maxnorm --epochs 1 --estimator robust-pca
decompose x.csv --model m.maxnorm --low-rank low.csv --noise noise.npy --scores scores.tsv
decompose x.npy --low-rank low.npy
complete gaps.csv -o filled.csv
recommend ratings.csv --user u1
recommend ratings.csv -o list.csv --model r.maxnorm
recommend --use r.maxnorm --user u2
clean x.csv -o cleaned
inspect m.maxnorm
inspect r.maxnorm --json
report m.maxnorm
report m.maxnorm x.csv -o data.html --json
report r.maxnorm -o ratings.html
watch - --headless
completion bash
completion zsh
completion fish
"""
"""Commands that need no extra."""

NAMING_AN_EXTRA = """
plot   demo
plot   reproduce grid --quick
plot   inspect m.maxnorm --plot m.png
video  video film.mp4 -o masks.mp4
video  video film.npy -o masks
view   watch live.csv --port 0
io     fit x.parquet --model p.maxnorm
io     fit x.h5 --model h.maxnorm
io     decompose x.csv --low-rank low.parquet
"""
"""Commands that need an extra, and the extra."""

IMPORTS = """
import maxnorm, warnings
import numpy as np
from importlib.metadata import version
assert maxnorm.__version__ == version("maxnorm")
warnings.simplefilter("error")
for name in maxnorm.__all__:
    getattr(maxnorm, name)
X = np.random.default_rng(0).standard_normal((60, 5))
maxnorm.MaxNormDecomposition(2).fit(X).decompose(X)
"""


class Failure(Exception):
    """Something that is not as it should be."""


def build_wheel(python: Path, folder: Path) -> Path:
    """Return the wheel of this repository, which must contain the package and nothing else."""
    run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT])
    wheel = next(folder.glob("maxnorm-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    foreign = [name for name in names if not name.startswith(("maxnorm/", "maxnorm-"))]
    if foreign:
        raise Failure(f"{wheel.name} contains {foreign[0]}, which is not part of the package")
    if "maxnorm/py.typed" not in names or not any(name.endswith("licenses/LICENSE") for name in names):
        raise Failure(f"{wheel.name} lacks py.typed or the license")
    return wheel


def run(command: list[object], folder: Path | None = None, code: int = 0, text: str = "") -> str:
    """Run a command and return what it has printed; it must end with the exit code ``code``.

    ``text`` is its standard input.
    """
    words = [str(word) for word in command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "default", "PYTHONPATH": ""}
    try:
        ended = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failure(f"{' '.join(words)} did not end within {error.timeout:g} seconds") from error
    printed = ended.stdout + ended.stderr
    if ended.returncode != code or "Traceback" in printed:
        raise Failure(f"{' '.join(words)} ended with exit code {ended.returncode}, not {code}:\n{printed}")
    return printed


def write_data(python: Path, folder: Path) -> None:
    """Write the files that the commands read."""
    draw = random.Random(0)
    factors = [[draw.gauss(0, 1) for _ in range(2)] for _ in range(8)]
    rows = []
    for _ in range(200):
        weights = [draw.gauss(0, 1) for _ in range(2)]
        means = [sum(w * f for w, f in zip(weights, factor, strict=True)) for factor in factors]
        rows.append([mean + draw.gauss(0, 0.05) for mean in means])
    names = [f"s{j}" for j in range(8)]
    gaps = [["" if draw.random() < 0.2 else value for value in row] for row in rows]
    ratings = [
        (f"u{i}", f"i{j}", draw.randint(1, 5)) for i in range(30) for j in range(20) if draw.random() < 0.4
    ]
    tables = {"x": (names, rows), "gaps": (names, gaps), "ratings": (["user", "item", "rating"], ratings)}
    for name, (header, lines) in {**tables, "live": (names, rows)}.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *lines])
    for name in ("film.mp4", "x.parquet", "x.h5"):
        (folder / name).write_bytes(b"not read, because the package that reads it is missing")
    code = (
        "import numpy as np; np.save('x.npy', np.loadtxt('x.csv', delimiter=',', skiprows=1)); "
        "np.save('film.npy', np.random.default_rng(0).integers(90, 110, (30, 24, 32), dtype=np.uint8))"
    )
    run([python, "-c", code], folder)


def check(python: Path, folder: Path) -> Iterator[str]:
    """Run all commands, and yield what is wrong."""
    command = python.with_name("maxnorm")
    tasks = [(line.split(), "") for line in SUCCEEDING.strip().splitlines()]
    tasks += [(line.split()[1:], line.split()[0]) for line in NAMING_AN_EXTRA.strip().splitlines()]
    for words, extra in tasks:
        say(f"maxnorm {' '.join(words)}" + (f"  (must name the extra {extra})" if extra else ""))
        try:
            printed = run([command, *words], folder, 1 if extra else 0, (folder / "x.csv").read_text())
            if extra and f"maxnorm[{extra}]" not in printed:
                yield f"maxnorm {' '.join(words)} does not name the extra {extra}:\n{printed}"
        except Failure as failure:
            yield str(failure)


def say(message: str) -> None:
    """Print what is being done."""
    print(message, flush=True)  # noqa: T201


@contextlib.contextmanager
def temporary_folder(keep: bool) -> Iterator[Path]:
    """Give a new folder, which is removed at the end unless it is to be kept."""
    folder = Path(tempfile.mkdtemp(prefix="maxnorm-wheel-"))
    try:
        yield folder
    finally:
        if keep:
            say(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Make the environment, run the commands and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, metavar="COMMAND", help="interpreter to use")
    parser.add_argument("--keep", action="store_true", help="do not remove the environment")
    options = parser.parse_args()
    with temporary_folder(options.keep) as folder:
        python = folder / "environment" / "bin" / "python"
        data = folder / "data"
        data.mkdir()
        try:
            run([options.python, "-m", "venv", folder / "environment"])
            wheel = build_wheel(python, folder)
            say(f"built {wheel.name}")
            run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel])
            run([python, "-m", "pip", "check"])
            run([python, "-c", IMPORTS], data)
            write_data(python, data)
        except Failure as failure:
            say(f"error: {failure}")
            return 1
        failures = list(check(python, data))
    for text in failures:
        say(f"error: {text}")
    say(f"{len(failures)} errors")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
