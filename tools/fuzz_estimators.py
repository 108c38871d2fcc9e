"""Give the estimators random data and settings, and check that every answer is right or a clear refusal.

A case is one estimator with random settings that is given several random arrays. It follows from the seed and
its number alone, so that it can be repeated:

    python tools/fuzz_estimators.py 1 10000
    python tools/fuzz_estimators.py 1 10000 --only 942

Cases with even numbers have data and settings such as people have. Those with odd numbers have extreme ones,
which the library may refuse by a ``ValueError`` or ``TypeError`` with a message of its own.
"""

import json
import pickle
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from fuzz_data import NOISES, Draw
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.core import noise
from maxnorm.core.norms import DivergenceError
from maxnorm.core.precision import range_of
from maxnorm.learner import OVERFLOW

SECONDS_PER_CASE = 60
# Refusals in the words of Python or LAPACK do not tell a user what to do.
UNCLEAR = ("math domain error", "math range error", "converge", "cannot convert float")


class Finding(Exception):
    """A check that has failed: what is wrong, and details that do not belong to the class of the finding."""

    def __init__(self, what: str, detail: object = "") -> None:
        super().__init__(what, detail)
        self.what = what


# -- checks -------------------------------------------------------------------------------------------


def check_finite(name: str, values: Any) -> None:
    """Find numbers that are not finite."""
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise Finding(f"not finite: {name}")


def content(value: Any) -> Any:
    """Return everything in a value in a form that can be compared."""
    if sp.issparse(value):
        entries = value.tocoo()
        return [content(part) for part in (entries.data, entries.row, entries.col)]
    if isinstance(value, np.ndarray):
        data = pickle.dumps(value.tolist()) if value.dtype == object else value.tobytes()
        return value.shape, str(value.dtype), data
    if is_dataclass(value):
        return {field.name: content(getattr(value, field.name)) for field in fields(value)}
    return [content(item) for item in value] if isinstance(value, list | tuple) else repr(value)


def learnt(model: Any) -> Any:
    """Return everything that a model has learnt in a form that can be compared; not what it has cached."""
    return {name: content(value) for name, value in vars(model).items() if name != "_cache"}


def check_learnt(model: Any, context: str = "") -> None:
    """Check the attributes of a fitted model."""
    check_finite(f"components_{context}", model.components_)
    if hasattr(model, "objective_"):
        check_finite(f"objective_{context}", model.objective_)
        check_finite(f"lambda1_{context}", model.lambda1_)
        if np.isinf(model.lambda2_):
            raise Finding(f"infinite: lambda2_{context}")


def check_answers(model: Any, X: Any, draw: Draw) -> None:
    """Check the answers for some samples: finite, adding up to X, within the ball, and X left unchanged."""
    before = content(X)
    if draw.chance(0.3):
        answer = model.transform(X)
        check_finite("transform", answer)
        if len(answer) != X.shape[0]:
            raise Finding("transform returns another number of samples", len(answer))
    else:
        parts = model.decompose(X)
        for name in ("low_rank", "noise", "residual", "coefficients"):
            check_finite(f"decompose.{name}", getattr(parts, name))
        if hasattr(model, "score_samples"):
            scores = model.score_samples(X)
            check_finite("score_samples", scores)
            # The losses are differences of sums, which rounding may make negative.
            is_loss = not isinstance(model, MaxNormCompletion) and not hasattr(model, "noise_variance_")
            if is_loss and scores.max() > 1e-9 * (1.0 + np.abs(scores).max()):
                raise Finding("a loss below zero", scores.max())
        if not sp.issparse(X) and X.dtype != object:
            check_parts(model, np.asarray(X, dtype=np.float64), parts)
    if content(X) != before:
        raise Finding("X was changed by transform or decompose")


def check_parts(model: Any, X: Any, parts: Any) -> None:
    """Check that the parts add up to X and are zero where X is missing, and the norms of the coefficients."""
    observed = ~np.isnan(X)
    if (parts.noise[~observed] != 0).any() or (parts.residual[~observed] != 0).any():
        raise Finding("noise or residual where X is missing")
    low_rank, R = (part.astype(np.float64) for part in (parts.low_rank, parts.coefficients))
    is_double = parts.low_rank.dtype == np.float64
    if not isinstance(model, MaxNormCompletion):
        gap = np.where(observed, low_rank + parts.noise + parts.residual - np.where(observed, X, 0.0), 0.0)
        largest = max(np.abs(part).max(initial=0.0) for part in (low_rank, parts.noise, X[observed]))
        # The coefficients are rounded or underflow, and terms of their products with the basis may cancel.
        digits, basis = np.finfo(parts.low_rank.dtype), np.abs(model.components_).astype(np.float64)
        rounding = float(np.max((digits.eps * np.abs(R) + digits.tiny) @ basis + digits.tiny))
        rounding += float(
            digits.eps * np.abs(getattr(model, "mean_", 0.0)).max()
        )  # the mean may cancel as well
        if np.abs(gap).max() > (1e-9 if is_double else 1e-3) * largest + 16.0 * rounding:
            raise Finding("parts do not add up to X", np.abs(gap).max())
    if isinstance(model, MaxNormDecomposition) and not hasattr(model, "noise_variance_"):
        norm = np.sqrt((R**2).sum(axis=1)).max()
        if norm > 1.0 + (1e-6 if is_double else 1e-4):
            raise Finding("coefficients outside of the unit ball", norm)


def cut(X: Any, draw: Draw) -> Iterator[Any]:
    """Yield the rows of X in pieces of random lengths."""
    rows = X.tocsr() if sp.issparse(X) else X
    edges = sorted({0, X.shape[0], *draw.rng.integers(0, X.shape[0] + 1, 3).tolist()})
    for start, end in pairwise(edges):
        yield rows[start:end]


def check_repetition(model: Any, X: Any, draw: Draw) -> None:
    """Check that two fits agree to the last bit, and that cutting the rows into calls makes no difference."""
    if sp.issparse(X) and X.tocsr().nnz < X.nnz:  # SciPy adds up what is stored twice before it cuts rows
        return
    first, second, pieces = (clone(model).set_params(n_epochs=1) for _ in range(3))
    if learnt(first.fit(X)) != learnt(second.fit(X)):
        raise Finding("two fits differ")
    for rows in cut(X, draw):
        pieces.partial_fit(rows)
        if draw.chance(0.3):
            check_learnt(pieces, " between calls")
    if content(pieces.flush().state_) != content(first.state_):
        raise Finding("the result depends on how rows are cut into calls")


def check_refusal(model: Any, p: int, draw: Draw) -> None:
    """Check that bad data are refused and leave the model unchanged."""
    bad = [np.full((2, p), np.inf), np.ones((2, p + 1)), np.ones((0, p)), np.ones(p), [["a"] * p], None, "x"]
    bad += [np.ones((2, p), complex), np.full((2, p), 1e300), [[object()] * p], np.ones((2, p, 0))]
    number, method = int(draw.rng.integers(len(bad))), draw.one_of(["partial_fit", "fit", "transform"])
    if number == 1 and method == "fit":  # another number of features is allowed
        return
    before = learnt(model)
    try:
        getattr(model, method)(bad[number])
    except (ValueError, TypeError):
        if learnt(model) != before:
            raise Finding(f"{method} has changed the model before it refused X", number) from None
    else:
        raise Finding(f"{method} accepts bad data", number)


def check_saved(model: Any) -> None:
    """Check that a model is the same after it was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.maxnorm")
        again = maxnorm.load(Path(folder) / "model.maxnorm")
    if content(again.state_) != content(model.state_):
        raise Finding("a loaded model differs from the saved one")


def check_unit(draw: Draw) -> None:
    """Check that the unit of the data does not matter: the low-rank part of ``2**k X`` is ``2**k`` times it.

    The unit brings the data anywhere into the range of the precision, also near its limits.
    """
    rng, p = draw.rng, int(draw.rng.integers(4, 16))
    dtype = np.dtype(draw.one_of([np.float64, np.float32]))
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, p)) + 0.05 * rng.standard_normal((40, p))
    X = np.where(rng.random(X.shape) < 0.05, 10.0 * rng.standard_normal(X.shape), X)
    kind = draw.one_of([MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion, PrincipalComponentPursuit])
    model = (
        kind() if kind is PrincipalComponentPursuit else kind(2, random_state=0, noise=draw.one_of(NOISES))
    )
    if kind is MaxNormCompletion:
        X[rng.random(X.shape) < draw.one_of([0.1, 0.4])] = np.nan
    limits, largest = range_of(dtype), np.nanmax(np.abs(X))
    low, high = np.log2(limits.smallest / largest), np.log2(limits.largest / np.sqrt(p) / largest)
    unit = 2.0 ** int(draw.one_of([np.ceil(low), np.floor(high), rng.uniform(low + 1, high - 1)]))

    def low_rank(unit: float) -> Any:
        scaled = (unit * X).astype(dtype)
        return clone(model).fit(scaled).decompose(scaled).low_rank / dtype.type(unit)

    def error(unit: float) -> float:
        return float(np.abs(low_rank(unit) - expected).max() / np.abs(expected).max())

    expected, tolerance = low_rank(1.0), 1e-5 if dtype == np.float64 else 1e-2
    # Where an ordinary unit changes the result too, it is rounding errors that decide.
    if not error(unit) < tolerance and error(1.3) < tolerance and error(0.7) < tolerance:
        raise Finding(f"the unit of the data matters: {model!r} {dtype}", f"{unit:.3g}: {error(unit):.2g}")


# -- cases --------------------------------------------------------------------------------------------


def run_case(draw: Draw) -> None:
    """Run one case; raise an error if the data or the settings are refused or a check fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        if draw.chance(0.02):
            check_unit(draw)
            return
        n, p = (int(number) for number in draw.rng.integers(1, 21, 2))
        model = draw.estimator(p)
        is_online = not isinstance(model, PrincipalComponentPursuit)
        is_sparse = is_online and draw.chance(0.4 if isinstance(model, MaxNormCompletion) else 0.05)
        make = draw.sparse if is_sparse else draw.array
        X = make(n, p)
        fit(model, X, draw)
        check_learnt(model)
        check_answers(model, X, draw)
        tolerating_refusals(check_answers, model, make(int(draw.rng.integers(1, 21)), p), draw)
        if not is_online:
            return
        if draw.chance(0.5):
            for _ in range(draw.rng.integers(1, 16)):
                tolerating_refusals(model.partial_fit, make(int(draw.rng.integers(1, 6)), p))
            check_learnt(model, " after a sequence")
            check_answers(model, X, draw)
        if draw.chance(0.3):
            check_repetition(model, X, draw)
        if draw.chance(0.25):
            check_refusal(model, p, draw)
        if draw.chance(0.02) and isinstance(model.noise, str):
            check_saved(model)


def fit(model: Any, X: Any, draw: Draw) -> None:
    """Fit a model to X at once or in pieces, and check that X is left unchanged and its rows are counted."""
    before = content(X)
    if isinstance(model, PrincipalComponentPursuit) or draw.chance(0.6):
        model.fit(X)
    else:
        for rows in cut(X, draw):
            model.partial_fit(rows)
    if content(X) != before:
        raise Finding("X was changed by fit")
    if hasattr(model, "n_samples_seen_") and model.n_samples_seen_ % X.shape[0]:
        raise Finding("samples are miscounted", model.n_samples_seen_)


def tolerating_refusals(function: Any, *arguments: Any) -> None:
    """Call a function that may refuse the data it is given, whose scale may differ from that before."""
    try:
        function(*arguments)
    except ValueError as error:
        if str(error) == OVERFLOW:  # such samples may be waiting, so that no further answer is possible
            raise ValueError("samples that differ too much in scale from those before are refused") from error
        if "X contains" not in str(error):
            raise


def classify(error: BaseException, is_sane: bool) -> str | None:
    """Return the class of a finding, or None if the error is a clear refusal."""
    message = re.sub(r"-?\d[\d.e+-]*", "#", re.sub(r"'[^']*'", "'..'", str(error).split("\n")[0]))[:100]
    kind, half = type(error).__name__, "sane" if is_sane else "extreme"
    if isinstance(error, Finding):
        return f"{half}: {error.what}"
    is_refusal = isinstance(error, ValueError | TypeError) and not isinstance(error, np.linalg.LinAlgError)
    is_clear = not any(words in str(error) for words in UNCLEAR) and not (is_sane and str(error) == OVERFLOW)
    if isinstance(error, DivergenceError) or (is_refusal and is_clear):
        return None
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/maxnorm/" in frame.filename]
    place = f" in {Path(frames[-1].filename).name}, {frames[-1].name}" if frames else ""
    return f"{half}: {kind}: {message}{place}"


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise a ``TimeoutError`` if the body takes too long."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(seed: int, count: int, seconds: float = np.inf) -> dict[str, Any]:
    """Run cases; return how many there were, and for each class of findings and refusals the first cases."""
    findings, refusals = defaultdict(list), Counter()
    begin, n_cases, n_arrays = time.monotonic(), 0, 0
    with threadpool_limits(1):
        while n_cases < count and time.monotonic() - begin < seconds:
            draw = Draw(seed, n_cases)
            try:
                with time_limit(SECONDS_PER_CASE):
                    run_case(draw)
            except Exception as error:
                found = classify(error, draw.is_sane)
                if found is not None:
                    findings[found].append(n_cases)
                else:
                    refusals[type(error).__name__] += 1
            n_cases, n_arrays = n_cases + 1, n_arrays + draw.n_arrays
    numbers = {"seed": seed, "cases": n_cases, "arrays": n_arrays}
    return numbers | {"refused": dict(refusals), "findings": dict(findings)}


@click.command()
@click.argument("seed", type=int)
@click.argument("count", type=int)
@click.option("--seconds", type=float, default=np.inf, help="Stop after this time.")
@click.option("--only", type=int, help="Run this case alone, and show where it fails.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--without-numba", is_flag=True, help="Use the NumPy code in place of the compiled loops.")
def main(seed: int, count: int, seconds: float, only: int | None, as_json: bool, without_numba: bool) -> None:
    """Run COUNT cases of SEED; the exit code is 1 if there are findings."""
    if without_numba:
        noise.compiled = lambda: None  # type: ignore[assignment]
    if only is not None:
        with threadpool_limits(1):
            run_case(Draw(seed, only))
        return
    result = fuzz(seed, count, seconds)
    if as_json:
        click.echo(json.dumps(result))
    else:
        click.echo(f"{result['cases']} cases with {result['arrays']} arrays, refused: {result['refused']}")
        for found, cases in sorted(result["findings"].items(), key=lambda item: -len(item[1])):
            click.echo(f"{len(cases):6d}  {found}  {cases[:6]}")
    sys.exit(bool(result["findings"]))


if __name__ == "__main__":
    main()
