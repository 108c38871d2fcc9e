"""Check the docstrings of the public API against the numpydoc standard.

The public API consists of the names in ``__all__`` of the modules in ``MODULES`` and of the extension points,
with those public methods and properties of classes that this library defines. Errors are printed as
``file:line: code object: message``. Arguments, if there are any, are prefixes of the names to be checked, for
example ``python tools/check_docstrings.py maxnorm.metrics``.
"""

import dataclasses
import inspect
import os
import sys
from collections.abc import Iterator
from importlib import import_module

from numpydoc.validate import ERROR_MSGS, validate

MODULES = (
    "maxnorm",
    "maxnorm.datasets",
    "maxnorm.metrics",
    "maxnorm.plot",
    "maxnorm.streams",
    "maxnorm.video",
)
EXTENSION_POINTS = (
    ("maxnorm.core.noise", "Noise"),
    ("maxnorm.core.norms", "FactorNorm"),
    ("maxnorm.learner", "Learner"),
    ("maxnorm.learner", "Progress"),
    ("maxnorm.learner", "StepResult"),
    ("maxnorm.learner", "flush"),
    ("maxnorm.learner", "learn"),
    ("maxnorm.learner", "take"),
)

# RT02 forbids a name for a single return value. Such names are the convention of scikit-learn
# ("self : object"), and say more than the type alone.
CHECKS = set(ERROR_MSGS) - {"RT02"}

# Classes and functions need an extended summary, links and an example. A method or property is read together
# with its class, which has them, and may be clear from one sentence.
NOT_FOR_MEMBERS = {"ES01", "SA01", "EX01"}

# Users do not call the constructor of a record or protocol: it has attributes, but need not have parameters.
NOT_FOR_RECORDS = {"PR01"}


def public_objects() -> Iterator[tuple[str, set[str]]]:
    """Yield the name of each public object, with the checks that apply to it."""
    exported = [(module, name) for module in MODULES for name in import_module(module).__all__]
    for module, name in (*exported, *EXTENSION_POINTS):
        item = getattr(import_module(module), name)
        yield f"{module}.{name}", CHECKS - NOT_FOR_RECORDS if is_record(item) else CHECKS
        for member in own_members(item) if inspect.isclass(item) else ():
            yield f"{module}.{name}.{member}", CHECKS - NOT_FOR_MEMBERS


def is_record(item: object) -> bool:
    """Return whether an object is a dataclass, a named tuple or a protocol."""
    is_named_tuple = inspect.isclass(item) and issubclass(item, tuple)
    return is_named_tuple or dataclasses.is_dataclass(item) or getattr(item, "_is_protocol", False)


def own_members(cls: type) -> Iterator[str]:
    """Yield the names of the public methods and properties that are defined in this library."""
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else member
        module = getattr(function, "__module__", None) or ""
        if inspect.isroutine(function) and module.startswith("maxnorm") and not name.startswith("_"):
            yield name


def errors(prefixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the errors of the objects whose names begin with one of the prefixes, or of all objects."""
    reported = set()  # an inherited method is reported for one class only
    for name, checks in public_objects():
        if prefixes and not name.startswith(prefixes):
            continue
        report = validate(name)
        where = f"{os.path.relpath(report['file'])}:{report['file_line']}"
        for code, message in report["errors"]:
            if code in checks and (where, code, message) not in reported:
                reported.add((where, code, message))
                yield f"{where}: {code} {name}: {message}"


if __name__ == "__main__":
    found = list(errors(tuple(sys.argv[1:])))
    if found:
        sys.exit("\n".join([*found, f"{len(found)} errors"]))
