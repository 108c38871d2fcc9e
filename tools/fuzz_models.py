"""Damage model files and load them.

    python tools/fuzz_models.py SEED COUNT

Half of the cases change bytes of a file, as a bad disk would. The others change values of its header and its
arrays and compute the checksums again, as a hostile author would. Such a file must be refused with a
``ModelFileError`` that names it, or be a valid model: one that can be applied, trained and saved. Anything
else is a finding, and the exit code is 1. Every case follows from the seed and its number alone, so that
``--only NUMBER`` repeats it. The cases run in processes of their own, because a finding may be a crash.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import click
import numpy as np
import scipy.sparse as sp

import maxnorm
from maxnorm.core.noise import CappedL1
from maxnorm.core.norms import MaxNorm
from maxnorm.persistence import HEADER, ModelFileError

CASES_PER_PROCESS = 500
SECONDS_PER_CASE = 20
MEMORY = 500 * 2**20  # bytes that loading and using a small model may take beyond what was taken before
BYTE_DAMAGE = ["flip", "cut", "noise", "insert", "delete", "exchange", "directory"]
HOSTILE_VALUES = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, -(2**70), 10**400, 0.5, -0.5, 1e300, -1e300, 1e-320,
    float("nan"), float("inf"), -float("inf"), "", "auto", "none", "MaxNorm", "\x1b[2J", "x" * 10_000, [], {},
    [1, 2], {"array": "_progress.state.L"}, {"array": "missing"}, {"value": "State", "fields": {}},
    {"list": []}, {"tuple": [1]}, {"dict": {}}, {"strings": ["a"]}, {"strings": [1] * 8},
]  # fmt: skip
HOSTILE_NUMBERS = [0.0, -1.0, 1.0, 1e-300, 1e300, -1e300, np.nan, np.inf, -np.inf, 2**31 - 1, -(2**31)]
DTYPES = ["<f8", "<f4", ">f8", "<i4", "<i8", "<u4", "<u8", "|b1", "<f2", "<c16", "<M8[s]", "<U3"]


class Finding(Exception):
    """A damaged file was neither refused nor a valid model."""


def sample_data():
    """Return data of which the models learn: a dense matrix and a sparse one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 8))
    return X, sp.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0))


def make_models():
    """Return models of all kinds, some of which have rows that wait."""
    X, S = sample_data()
    generator = np.random.RandomState(0)
    generator.normal()
    return [
        maxnorm.OnlineRobustPCA(2, random_state=0).partial_fit(X[:50]),
        maxnorm.MaxNormDecomposition(2, random_state=generator, noise="l1").partial_fit(X[:7]),
        maxnorm.MaxNormDecomposition("auto", random_state=0, half_life=50.0).fit(X.astype(np.float32)),
        maxnorm.MaxNormDecomposition(2, norm=MaxNorm(0.1), noise=CappedL1(0.3, 0.6), init=X[:2]).fit(X),
        maxnorm.MaxNormCompletion(2, random_state=0, biases=True, batch_size=25).partial_fit(S),
        maxnorm.MaxNormCompletion("auto", random_state=0, gram="per-feature").fit(S),
        maxnorm.PrincipalComponentPursuit().fit(X[:20]),
        maxnorm.OnlineRobustPCA(2),
    ]


def make_files(folder):
    """Return the contents of the files of all models."""
    contents = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in make_models():
            model.save(folder / "model")
            contents.append((folder / "model").read_bytes())
    return contents


# -- damage to bytes ----------------------------------------------------------------------------------


def change_bytes(content, rng):
    """Return a file with some bytes flipped, lost, added or exchanged."""
    content = bytearray(content)
    i = int(rng.integers(len(content)))
    j = min(len(content), i + int(rng.integers(1, 300)))
    kind = str(rng.choice(BYTE_DAMAGE))
    if kind == "flip":
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    elif kind == "cut":
        del content[i:]
    elif kind == "noise":
        content[i:j] = rng.bytes(j - i)
    elif kind == "insert":
        content[i:i] = rng.bytes(j - i)
    elif kind == "delete":
        del content[i:j]
    elif kind == "exchange":
        content[i:j], content[: j - i] = content[: j - i], content[i:j]
    else:  # the directory of the archive, which its readers trust
        start = max(0, content.rfind(b"PK\x01\x02", 0, len(content) - int(rng.integers(1500))))
        for _ in range(2):
            content[min(len(content) - 1, start + int(rng.integers(60)))] = rng.integers(256)
    return kind, bytes(content)


# -- damage to values ---------------------------------------------------------------------------------


def change_values(content, rng):
    """Return a file with some values of the header or of an array changed, and with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop(HEADER))
    arrays = {name: np.load(io.BytesIO(member)) for name, member in members.items()}
    kinds = ["header", "header", "shape", "entries", "type", "drop", "npy"] if arrays else ["header"]
    kind = str(rng.choice(kinds))
    for _ in range(rng.integers(1, 3)):
        name = str(rng.choice(list(arrays))) if arrays else ""
        if kind == "header":
            change_header(header, rng)
        elif kind == "shape":
            arrays[name] = change_shape(arrays[name], rng)
        elif kind == "entries":
            arrays[name] = change_entries(arrays[name], rng)
        elif kind == "type" and arrays[name].dtype.kind in "fiub":
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays[name] = arrays[name].astype(str(rng.choice(DTYPES)))
        elif kind == "drop" and name in arrays:
            other = str(rng.choice(list(arrays)))
            arrays[name] = arrays[other]
    packed = {name: to_npy(array) for name, array in arrays.items()}
    if kind == "npy":
        name = str(rng.choice(list(packed)))
        packed[name] = change_npy_header(packed[name], rng)
    header["sha256"] = {name: hashlib.sha256(member).hexdigest() for name, member in packed.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in {HEADER: json.dumps(header).encode(), **packed}.items():
            archive.writestr(name, member)
    return f"values: {kind}", buffer.getvalue()


def change_header(header, rng):
    """Replace, remove or add one value somewhere in the header."""
    places = [(header, key) for key in ("format", "estimator", "parameters", "learnt", "about")]
    for key in ("parameters", "learnt"):
        if isinstance(header.get(key), dict):
            places += list(list_places(header[key])) * 3
    node, key = places[rng.integers(len(places))]
    value = copy.deepcopy(HOSTILE_VALUES[rng.integers(len(HOSTILE_VALUES))])
    action = rng.integers(10)
    if action == 0 and isinstance(node, dict):
        node.pop(key, None)
    elif action == 1 and isinstance(node, dict):
        node[str(rng.choice(["__class__", "fit", "_cache", "extra", "n_features_in_", "state"]))] = value
    elif action == 2:
        other, other_key = places[rng.integers(len(places))]
        node[key] = copy.deepcopy(other.get(other_key) if isinstance(other, dict) else other[other_key])
    else:
        node[key] = value


def list_places(node):
    """Yield the containers and keys of all values in nested lists and dictionaries."""
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from list_places(node[key])


def change_shape(array, rng):
    """Return an array with another shape and about the same entries."""
    kind = rng.integers(6)
    if kind == 0:
        return array.ravel()
    if kind == 1:
        return array.T
    if kind == 2:
        return array[: rng.integers(len(array) + 1)] if array.ndim else array.reshape(1)
    if kind == 3:
        return array[None]
    if kind == 4:
        return np.concatenate([array, array]) if array.ndim else array
    return np.zeros((0, *array.shape[1:]), array.dtype)


def change_entries(array, rng):
    """Return an array with some entries replaced by hostile numbers."""
    array = array.copy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        share = rng.choice([0.05, 0.5, 1.0])
        chosen = rng.random(array.shape) < share
        array[chosen] = np.array(HOSTILE_NUMBERS)[rng.integers(len(HOSTILE_NUMBERS))].astype(array.dtype)
    return array


def change_npy_header(member, rng):
    """Return a ``.npy`` file whose header declares another shape."""
    shape = rng.choice(["(10000000000,)", "(1, 1)", "(-1,)", "(0, 10000000000)", "(99999, 99999)", "()"])
    start = member.index(b"'shape': ")
    end = member.index(b")", start) + 1
    text = f"'shape': {shape}".encode().ljust(end - start)
    end = start + len(
        text
    )  # the length of the header must not change, so that blanks behind it are overwritten
    return member[:start] + text + member[end:]


def to_npy(array):
    """Return an array as a ``.npy`` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


# -- the check ----------------------------------------------------------------------------------------


def run_case(seed, number, files, path):
    """Damage a file, load it and return what happened; raise a Finding if that must not happen."""
    rng = np.random.default_rng([seed, number])
    content = files[rng.integers(len(files))]
    kind, damaged = (change_values if rng.random() < 0.5 else change_bytes)(content, rng)
    path.write_bytes(damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = maxnorm.load(path)
        except ModelFileError as error:
            if str(path) not in str(error):
                raise Finding("the message does not name the file") from error
            return kind, "refused"
        except Exception as error:
            raise Finding(f"load raised {type(error).__name__}: {error}") from error
        if kind in BYTE_DAMAGE:
            model.save(path)
            if path.read_bytes() != content:
                raise Finding("another model was loaded")
        use(model, path)
    return kind, "valid"


def use(model, path):
    """Apply, train and save a model that was loaded; it may refuse data, but must not do anything else."""
    X = sample_data()[0]
    is_online = hasattr(model, "partial_fit")
    model.set_params(max_iter=5)
    if hasattr(model, "n_features_in_"):
        rows = np.resize(X, (10, model.n_features_in_))
        finite(allow_refusal(lambda: model.transform(rows)), "transform")
        finite(allow_refusal(lambda: model.decompose(rows).low_rank), "low_rank")
    if is_online and hasattr(model, "n_features_in_"):
        finite(allow_refusal(lambda: model.components_), "components_")
        finite(allow_refusal(lambda: model.objective_), "objective_")
        rows = np.resize(X, (40, model.n_features_in_))
        allow_refusal(lambda: model.partial_fit(rows))
        finite(allow_refusal(lambda: model.components_), "components_ after partial_fit")
    allow_refusal(lambda: model.save(path))


def allow_refusal(action):
    """Return the result of an action, or None if it raises an error with which users must reckon."""
    try:
        return action()
    except (np.linalg.LinAlgError, ZeroDivisionError, OverflowError, FloatingPointError) as error:
        raise Finding(f"use raised {type(error).__name__}: {error}") from error
    except (ValueError, TypeError) as error:
        if "math domain error" in str(error):
            raise Finding("use raised a math domain error") from error
        return None
    except Exception as error:
        raise Finding(f"use raised {type(error).__name__}: {error}") from error


def finite(values, name):
    """Raise a Finding if values are not finite."""
    if values is not None and not np.isfinite(np.asarray(values, dtype=float)).all():
        raise Finding(f"{name} is not finite")


# -- processes ----------------------------------------------------------------------------------------


def run_cases(seed, numbers, files, folder, results):
    """Run cases one after the other, and report before and after each of them."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    path = folder / f"damaged-{os.getpid()}"
    for number in numbers:
        results.send((number, None, None))
        signal.alarm(SECONDS_PER_CASE)
        try:
            kind, outcome = run_case(seed, number, files, path)
        except Finding as finding:
            kind, outcome = "finding", str(finding)
        except Exception as error:
            kind, outcome = "finding", f"{type(error).__name__}: {error}"
        signal.alarm(0)
        results.send((number, kind, outcome))
    results.close()


def fuzz(seed, count, show_progress=lambda done: None):
    """Return a table of outcomes by kind of damage, and the findings by number of the case."""
    table, findings = Counter(), {}
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = make_files(folder)
        done = 0
        while done < count:
            numbers = range(done, min(count, done + CASES_PER_PROCESS))
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=run_cases, args=(seed, numbers, files, folder, sender))
            process.start()
            sender.close()
            running = None
            while True:
                try:
                    number, kind, outcome = receiver.recv()
                except EOFError:
                    break
                if kind is None:
                    running = number
                    continue
                running, done = None, number + 1
                if kind == "finding":
                    findings[number] = outcome
                else:
                    table[kind, outcome] += 1
            process.join()
            if running is not None:
                findings[running] = f"the process ended with exit code {process.exitcode}"
                done = running + 1
            show_progress(done)
    return table, findings


@click.command(help=__doc__.split("\n\n")[0])
@click.argument("seed", type=int)
@click.argument("count", type=int)
@click.option("--only", type=int, metavar="NUMBER", help="Repeat one case in this process.")
def main(seed, count, only):
    """Run the cases and print a table."""
    if only is not None:
        with tempfile.TemporaryDirectory() as name:
            click.echo(run_case(seed, only, make_files(Path(name)), Path(name) / "damaged"))
        return
    with click.progressbar(length=count, file=sys.stderr) as bar:
        table, findings = fuzz(seed, count, lambda done: bar.update(done - bar.pos))
    for (kind, outcome), number in sorted(table.items()):
        click.echo(f"{kind:20}  {outcome:10}  {number:8,}")
    for number, finding in list(findings.items())[:20]:
        click.echo(f"FINDING in case {number}: {finding}")
    click.echo(f"{count:,} damaged models, seed {seed}: {len(findings)} findings")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
