"""Run the tests with the oldest supported dependencies, or with another version of Python.

``python tools/test_versions.py --oldest`` reads the lower bounds of all dependencies out of pyproject.toml,
installs exactly these versions in a virtual environment of its own and runs the tests there. Tools that only
developers use (the extra ``dev``) have their newest versions. ``--floor pyarrow=14.0.1`` replaces a lower
bound, to find out whether another one works.

``--python python3.13`` creates the environment with another interpreter, and without ``--oldest`` the newest
versions are installed. Arguments after ``--`` are given to pytest, for example ``-- -q tests/core``; without
them, all tests run. The environment is kept in the folder ``build`` and used again as long as pyproject.toml
does not change; ``--fresh`` makes it anew.

The exit code is that of pytest, or 1 if the environment could not be made.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDS_NEWER = {
    "hyperspy": (
        "tests/test_hyperspy.py",
        "tests/test_docs.py::test_the_python_code_of_a_page_runs[docs/hyperspy.md]",
    )
}
"""Tools of the extra ``dev`` that need newer dependencies than this library, and the tests that use them."""

REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*>=\s*(?P<floor>[0-9][0-9A-Za-z.]*)")


def read_extras(pyproject: str) -> dict[str, list[str]]:
    """Return the extras for users; those for developers, such as ``dev``, contain the package itself."""
    project = tomllib.loads(pyproject)["project"]
    own = f"{project['name']}["
    extras = project["optional-dependencies"].items()
    return {name: lines for name, lines in extras if not any(line.startswith(own) for line in lines)}


def read_floors(pyproject: str) -> dict[str, str]:
    """Return the lower bound of each dependency of the package and of its extras for users."""
    floors = {}
    extras = chain.from_iterable(read_extras(pyproject).values())
    for line in (*tomllib.loads(pyproject)["project"]["dependencies"], *extras):
        match = REQUIREMENT.match(line)
        if match is None:
            raise ValueError(f"pyproject.toml: {line!r} has no lower bound; write it as name>=version")
        floors[match["name"]] = match["floor"]
    return floors


def write_constraints(folder: Path, floors: dict[str, str]) -> Path:
    """Write a file of constraints for pip that pins every dependency to its lower bound."""
    path = folder / "constraints.txt"
    path.write_text("".join(f"{name}=={floor}\n" for name, floor in sorted(floors.items())))
    return path


def list_tools(pyproject: str, *, oldest: bool) -> list[str]:
    """Return the requirements of the extra ``dev`` other than the package itself."""
    project = tomllib.loads(pyproject)["project"]
    left_out = (f"{project['name']}[", *(NEEDS_NEWER if oldest else ()))
    return [line for line in project["optional-dependencies"]["dev"] if not line.startswith(left_out)]


def make_environment(folder: Path, python: str, floors: dict[str, str] | None, *, fresh: bool) -> Path:
    """Return the interpreter of an environment with the package and all extras, which is made if needed.

    Dependencies have the versions ``floors``, or the newest ones if that is None.
    """
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{pyproject}{floors}".encode()).hexdigest()
    mark = folder / "made-from"
    interpreter = folder / "bin" / "python"
    if not fresh and mark.is_file() and mark.read_text() == digest:
        return interpreter
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = [] if floors is None else ["-c", write_constraints(folder, floors)]
    extras = ",".join(read_extras(pyproject))
    tools = list_tools(pyproject, oldest=floors is not None)
    subprocess.run([*install, *options, "-e", f"{ROOT}[{extras}]", *tools], check=True)
    mark.write_text(digest)
    return interpreter


def print_versions(interpreter: Path) -> None:
    """Print the installed versions of the dependencies, so that a log says what was tested."""
    names = sorted(read_floors((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    code = (
        "import sys; from importlib.metadata import version\n"
        "print('Python', sys.version.split()[0])\n"
        "for name in sys.argv[1:]: print(name, version(name))"
    )
    subprocess.run([interpreter, "-c", code, *names], check=True)


def main() -> int:
    """Make the environment, run the tests in it, and return the exit code."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oldest", action="store_true", help="install the lower bounds of the dependencies")
    parser.add_argument("--floor", action="append", default=[], metavar="NAME=VERSION", dest="replaced")
    parser.add_argument(
        "--python", default=sys.executable, metavar="COMMAND", help="interpreter to test with"
    )
    parser.add_argument("--fresh", action="store_true", help="make the environment anew")
    parser.add_argument("--only-install", action="store_true", help="make the environment and run no tests")
    parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="arguments of pytest")
    options = parser.parse_args()
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        found = subprocess.run([options.python, "-c", code], check=True, capture_output=True, text=True)
        name = f"{'oldest' if options.oldest else 'newest'}-{found.stdout.strip()}"
        folder = ROOT / "build" / "environments" / name
        floors = None
        if options.oldest:
            floors = read_floors((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
            floors.update(text.split("=", 1) for text in options.replaced)
        interpreter = make_environment(folder, options.python, floors, fresh=options.fresh)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"the environment could not be made: {error}", file=sys.stderr)  # noqa: T201
        return 1
    print_versions(interpreter)
    if options.only_install:
        return 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arguments = options.arguments or ["-q", "-n", "auto", "--dist", "loadgroup"]
    if options.oldest:
        # New packages warn about what old ones do, such as pytest about the checks of scikit-learn and
        # pyparsing about Matplotlib, which must not be an error.
        arguments += ["-W", "default::DeprecationWarning"]
        left_out = [test for tests in NEEDS_NEWER.values() for test in tests]
        arguments += [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in left_out]
    return subprocess.run([interpreter, "-m", "pytest", *arguments], cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
