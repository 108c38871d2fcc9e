"""Models in files: one archive of readable JSON and plain arrays, written whole or not at all.

A file is a ZIP archive. ``model.json`` holds the format version, the class, its parameters, what it has
learnt (with arrays by reference) and the versions of the libraries; the arrays are ``.npy`` members. Every
member has a checksum. Nothing in a file is ever executed: classes are looked up in a list, and arrays are
read without pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator

import maxnorm
from maxnorm import __version__
from maxnorm.core import noise
from maxnorm.core.state import Progress, State
from maxnorm.core.statistics import Biases, Scales, Selection, SufficientStatistics
from maxnorm.core.types import Array

FORMAT = 1
HEADER = "model.json"
ESTIMATORS = ("MaxNormCompletion", "MaxNormDecomposition", "OnlineRobustPCA", "PrincipalComponentPursuit")
VALUES = {
    cls.__name__: cls
    for cls in (
        State,
        SufficientStatistics,
        Scales,
        Biases,
        Selection,
        Progress,
        noise.CappedL1,
        noise.L1,
        noise.L21,
        noise.NoNoise,
        noise.Squared,
    )
}
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


class ModelFileError(ValueError):
    """A file is not a model, or not one that can be trusted."""


def save(
    estimator: BaseEstimator, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None
) -> None:
    """Write an estimator to a file, with remarks ``about`` it that JSON can hold.

    The file is written beside its place, flushed to disk and moved there: whoever opens it sees the model of
    before or the new one, whatever happens.
    """
    path = Path(path)
    name = type(estimator).__name__
    if name not in ESTIMATORS or type(estimator) is not getattr(maxnorm, name):
        raise TypeError(f"{name} is not an estimator of maxnorm; pickle it instead")
    arrays: dict[str, Array] = {}
    parameters = {k: _packed(v, arrays, k) for k, v in estimator.get_params(deep=False).items()}
    learnt = {k: _packed(v, arrays, k) for k, v in vars(estimator).items() if k not in parameters}
    contents = {f"{key}.npy": _npy(array) for key, array in arrays.items()}
    header = {
        "format": FORMAT,
        "estimator": name,
        "parameters": parameters,
        "learnt": learnt,
        "about": dict(about or {}),
        "versions": {
            "maxnorm": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "sha256": {key: hashlib.sha256(content).hexdigest() for key, content in contents.items()},
    }
    contents = {HEADER: json.dumps(header, indent=1).encode(), **contents}
    _write_whole(path, contents)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that ``save`` has written.

    Parameters
    ----------
    path : path
        The file. Nothing in it is executed.

    Returns
    -------
    estimator
        Of the class that was saved; it goes on as if it had never been saved.

    Examples
    --------
    >>> import maxnorm, tempfile
    >>> from pathlib import Path
    >>> model = maxnorm.OnlineRobustPCA(2, random_state=0).fit([[1.0, 2.0], [2.0, 4.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.maxnorm")
    ...     again = maxnorm.load(Path(folder) / "model.maxnorm")
    >>> bool((again.components_ == model.components_).all())
    True
    """
    return read(path)[0]


def read(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Return an estimator and the header of its file."""
    path = Path(path)
    try:
        file = path.open("rb")
    except IsADirectoryError as error:
        raise ModelFileError(f"{path}: is a folder, not a model") from error
    with file:
        try:
            header, arrays = _contents(file, path)
            if header["estimator"] not in ESTIMATORS:
                raise ModelFileError(f"{path}: holds a {header['estimator']}, which is not known here")
            estimator = getattr(maxnorm, header["estimator"])(
                **{k: _unpacked(v, arrays) for k, v in header["parameters"].items()}
            )
            for key, value in header["learnt"].items():
                setattr(estimator, key, _unpacked(value, arrays))
        except ModelFileError:
            raise
        except Exception as error:  # whatever a damaged file makes of the readers
            raise ModelFileError(f"{path}: not a model file, or damaged ({error}); fit it again") from error
    return estimator, header


def _contents(file: Any, path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    with zipfile.ZipFile(file) as archive:
        header = json.loads(archive.read(HEADER))
        if header["format"] > FORMAT:
            made_by = header.get("versions", {}).get("maxnorm", "?")
            raise ModelFileError(
                f"{path}: has format {header['format']}, written by maxnorm {made_by}; this is "
                f"{__version__}, which reads up to {FORMAT}: upgrade maxnorm"
            )
        arrays = {}
        for member, digest in header["sha256"].items():
            content = archive.read(member)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ModelFileError(f"{path}: is damaged ({member} has another checksum); fit it again")
            arrays[member.removesuffix(".npy")] = np.load(io.BytesIO(content), allow_pickle=False)
    return header, arrays


def _packed(value: Any, arrays: dict[str, Array], name: str) -> Any:
    """Return a value as JSON, its arrays put aside under names that say where they belong."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays, name)
    if isinstance(value, np.ndarray) and value.dtype == object:  # names of features
        return {"strings": [str(item) for item in value]}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, sp.csr_array):
        parts = {
            key: _packed(getattr(value, key), arrays, f"{name}.{key}")
            for key in ("data", "indices", "indptr")
        }
        return {"rows": parts, "width": value.shape[1]}
    if isinstance(value, np.random.RandomState):
        kind, keys, *rest = value.get_state(legacy=True)
        return {"random_state": [kind, _packed(keys, arrays, f"{name}.keys"), *rest]}
    if is_dataclass(value) and type(value) is VALUES.get(type(value).__name__):
        inner = {f.name: getattr(value, f.name) for f in fields(value) if f.name != "ahead"}
        packed = {key: _packed(item, arrays, f"{name}.{key}") for key, item in inner.items()}
        return {"value": type(value).__name__, "fields": packed}
    if isinstance(value, dict):
        return {"dict": {key: _packed(item, arrays, f"{name}.{key}") for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]}
    raise TypeError(
        f"{name} is a {type(value).__name__}, which a model file cannot hold; pickle the estimator instead"
    )


def _unpacked(value: Any, arrays: Mapping[str, Array]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "strings" in value:
        return np.array(value["strings"], dtype=object)
    if "rows" in value:
        parts = {key: _unpacked(item, arrays) for key, item in value["rows"].items()}
        shape = (len(parts["indptr"]) - 1, value["width"])
        return sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
    if "random_state" in value:
        state = np.random.RandomState()
        state.set_state(tuple(_unpacked(item, arrays) for item in value["random_state"]))
        return state
    if "value" in value:
        inner = {key: _unpacked(item, arrays) for key, item in value["fields"].items()}
        return VALUES[value["value"]](**inner)
    if "dict" in value:
        return {key: _unpacked(item, arrays) for key, item in value["dict"].items()}
    (kind, items), *_ = value.items()
    return {"list": list, "tuple": tuple}[kind](_unpacked(item, arrays) for item in items)


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _write_whole(path: Path, contents: Mapping[str, bytes]) -> None:
    path = path.resolve()  # through links, so that they stay links
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: {path.parent} is not a folder")
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for member, content in contents.items():
                    archive.writestr(zipfile.ZipInfo(member, EPOCH), content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """See to it that the move itself is on disk, where folders can be flushed."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
