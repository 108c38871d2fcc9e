"""Model files: ZIP archives of readable JSON and plain arrays, replaced atomically.

``model.json`` holds the format version, the class, its parameters, what it has learnt (with arrays by
reference) and the versions of the libraries; the arrays are ``.npy`` members. Every member has a checksum.
Nothing in a file is ever executed: classes are looked up in a list, and arrays are read without pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator

import maxnorm
from maxnorm import __version__
from maxnorm.core import noise, norms
from maxnorm.core.batch import Batch
from maxnorm.core.bias import BiasModel
from maxnorm.core.drift import Change, Drift
from maxnorm.core.entry_model import EntryModel, EntrySums
from maxnorm.core.factor_model import FactorModel
from maxnorm.core.gauge import Gauge
from maxnorm.core.patterns import Pattern
from maxnorm.core.scales import Scales
from maxnorm.core.scene import Scene
from maxnorm.core.state import Selection, State
from maxnorm.core.statistics import SufficientStatistics
from maxnorm.core.types import Array
from maxnorm.detection import Judge, Memory
from maxnorm.files import replacing
from maxnorm.learner import Progress
from maxnorm.model_checks import check_model, check_random_state, check_rows, learnt_attributes
from maxnorm.ratings import Ratings

FORMAT = 2
HEADER = "model.json"
HEADER_TYPES = {
    "format": int,
    "estimator": str,
    "parameters": dict,
    "learnt": dict,
    "about": dict,
    "versions": dict,
    "sha256": dict,
}
ESTIMATORS = (
    "AnomalyDetector",
    "MaxNormCompletion",
    "MaxNormDecomposition",
    "OnlineRobustPCA",
    "PrincipalComponentPursuit",
    "Recommender",
    "SeriesImputer",
    "VideoBackground",
)
VALUES = {
    cls.__name__: cls
    for cls in (
        State,
        SufficientStatistics,
        Scales,
        BiasModel,
        Batch,
        Selection,
        Progress,
        Gauge,
        FactorModel,
        Drift,
        Change,
        EntryModel,
        EntrySums,
        Pattern,
        Memory,
        Judge,
        Scene,
        Ratings,
        noise.CappedL1,
        noise.L1,
        noise.L21,
        noise.NoNoise,
        noise.Squared,
        norms.MaxNorm,
        norms.NuclearNorm,
    )
}
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # a constant, so that the same model gives the same bytes
CALLBACK_PREFIXES = ("_skl_", "_callback_", "_parent_callback_")  # attributes of scikit-learn's callbacks

# Names of parameters, classes and fields that format 1 (maxnorm 0.1) had, and what they are called now.
PARAMETERS_OF_FORMAT_1 = {"basis": "basis_update", "statistics": "gram"}
VALUES_OF_FORMAT_1 = {"Biases": "BiasModel"}
FIELDS_OF_FORMAT_1 = {("L21", "doubt"): "downweight"}
# Parameters that later versions have, with the values that give what files without them meant.
DECOMPOSITIONS = ("MaxNormDecomposition", "OnlineRobustPCA")
DEFAULTS_OF_FORMAT_1 = {"center": False, "scale": None, "drift": None}
DEFAULTS_OF_COMPLETION = {"norm": "max", "implicit": "auto"}


class ModelFileError(ValueError):
    """A file is not a model file, or is damaged."""


def save(
    estimator: BaseEstimator, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None
) -> None:
    """Write an estimator to a file, with remarks ``about`` it that JSON can represent.

    The file is written under a temporary name, flushed to disk and renamed, so that readers see either the
    previous model or the complete new one.
    """
    arrays: dict[str, Array] = {}
    described = _described(estimator, arrays)
    contents = {f"{key}.npy": _npy(array) for key, array in arrays.items()}
    header = {
        "format": FORMAT,
        **described,
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
    with replacing(Path(path)) as part, zipfile.ZipFile(part, "w") as archive:
        for member, content in contents.items():
            archive.writestr(zipfile.ZipInfo(member, ARCHIVE_DATE), content)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file that its method ``save`` has written.

    Nothing in the file is executed, so that files from untrusted sources can be loaded.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    estimator : object
        An estimator of the class that was saved, which continues as if it had never been saved.

    Raises
    ------
    ModelFileError
        If the file is not a model file or is damaged.

    See Also
    --------
    MaxNormDecomposition.save : Writes such a file.

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
    """Return the estimator in a file and the header of the file."""
    path = Path(path)
    try:
        file = path.open("rb")
    except IsADirectoryError as error:
        raise ModelFileError(f"{path}: is a folder, not a model file") from error
    with file:
        try:
            header, arrays = _contents(file, path)
            estimator = _estimator(header, arrays)
        except (ModelFileError, MemoryError):
            raise
        except Exception as error:  # a damaged file may cause any error in the readers
            raise ModelFileError(f"{path}: not a model file, or damaged ({error}); fit it again") from error
    return estimator, header


def _contents(file: BinaryIO, path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and the arrays of a model file, after checks of their sizes and checksums."""
    with _open_archive(file) as archive:
        # Models are stored without compression, so that no file can be larger in memory than on disk.
        members = archive.infolist()
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
                raise ValueError(f"its member {member.filename} is compressed")
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its members overlap")
        header = json.loads(archive.read(HEADER))
        for key, kind in HEADER_TYPES.items():
            if not isinstance(header[key], kind) or isinstance(header[key], bool):
                raise ValueError(f"{key} in {HEADER} is not valid")
        if header["format"] > FORMAT:
            made_by = header["versions"].get("maxnorm", "?")
            raise ModelFileError(
                f"{path}: has format {header['format']}, written by maxnorm {made_by}, but maxnorm "
                f"{__version__} reads formats up to {FORMAT}; upgrade maxnorm"
            )
        if header["estimator"] not in ESTIMATORS:
            raise ModelFileError(
                f"{path}: contains the unknown estimator {header['estimator']!r}; upgrade maxnorm"
            )
        arrays = {}
        for member, digest in header["sha256"].items():
            content = archive.read(member)
            if hashlib.sha256(content).hexdigest() != digest:
                raise ModelFileError(f"{path}: is damaged (the checksum of {member} is wrong); fit it again")
            arrays[member.removesuffix(".npy")] = _array(content)
    return header, arrays


def _open_archive(file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except MemoryError as error:  # the directory declares any size, for which memory is reserved at once
        raise ValueError("the directory of the archive is damaged") from error


def _array(content: bytes) -> Array:
    """Return the array in a member of a model file."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array has an unknown format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "fiub":
        raise ValueError(f"an array holds {dtype}, not numbers")
    if math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array has not the size that its shape {shape} demands")
    file.seek(0)
    return np.load(file, allow_pickle=False)


def _estimator(header: dict[str, Any], arrays: Mapping[str, Array]) -> BaseEstimator:
    """Return the estimator that a header describes, after a check of all its parts."""
    parameters = {k: _unpacked(v, arrays) for k, v in header["parameters"].items()}
    if header["format"] == 1:
        parameters = {PARAMETERS_OF_FORMAT_1.get(k, k): v for k, v in parameters.items()}
    if header["estimator"] in DECOMPOSITIONS:
        parameters = DEFAULTS_OF_FORMAT_1 | parameters  # which version 0.1 did not write
    if header["estimator"] == "MaxNormCompletion":
        parameters = DEFAULTS_OF_COMPLETION | parameters
    estimator = getattr(maxnorm, header["estimator"])(**parameters)
    learnt = {key: _unpacked(value, arrays) for key, value in header["learnt"].items()}
    unknown = sorted(learnt.keys() - set(learnt_attributes(estimator)))
    if unknown:
        raise ValueError(f"the attribute {unknown[0]!r} is not known")
    vars(estimator).update(learnt)
    check_model(estimator)
    return estimator


def _described(estimator: BaseEstimator, arrays: dict[str, Array], prefix: str = "") -> dict[str, Any]:
    """Return the class of an estimator, its parameters and what it has learnt as JSON."""
    name = type(estimator).__name__
    if name not in ESTIMATORS or type(estimator) is not getattr(maxnorm, name):
        raise TypeError(f"{name} is not an estimator of maxnorm, so that it cannot be saved; pickle it")
    learnt = learnt_attributes(estimator)
    parameters = estimator.get_params(deep=False)
    return {
        "estimator": name,
        "parameters": {k: _packed(v, arrays, prefix + k) for k, v in parameters.items()},
        "learnt": {k: _packed(v, arrays, prefix + k) for k, v in vars(estimator).items() if k in learnt},
    }


def _packed(value: Any, arrays: dict[str, Array], name: str) -> Any:
    """Return a value as JSON; its arrays go to ``arrays``, under names that tell their place."""
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
        inner = {f.name: getattr(value, f.name) for f in fields(value)}
        packed = {key: _packed(item, arrays, f"{name}.{key}") for key, item in inner.items()}
        return {"value": type(value).__name__, "fields": packed}
    if isinstance(value, BaseEstimator):
        return {"model": _described(value, arrays, f"{name}.")}
    if isinstance(value, dict):
        return {"dict": {key: _packed(item, arrays, f"{name}.{key}") for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(item, arrays, f"{name}.{i}") for i, item in enumerate(value)]}
    raise TypeError(
        f"{name} is a {type(value).__name__}, which cannot be saved in a model file; pickle the estimator"
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
        rows = sp.csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
        check_rows(rows)
        return rows
    if "random_state" in value:
        state = tuple(_unpacked(item, arrays) for item in value["random_state"])
        check_random_state(state)
        generator = np.random.RandomState()
        generator.set_state(state)
        return generator
    if "model" in value:
        return _estimator({"format": FORMAT, **value["model"]}, arrays)
    if "value" in value:
        return _value(value["value"], {k: _unpacked(v, arrays) for k, v in value["fields"].items()})
    if "dict" in value:
        return {key: _unpacked(item, arrays) for key, item in value["dict"].items()}
    (kind, items), *_ = value.items()
    return {"list": list, "tuple": tuple}[kind](_unpacked(item, arrays) for item in items)


def _value(name: str, items: dict[str, Any]) -> Any:
    """Return a value of a class in ``VALUES``, also from the names that format 1 had."""
    name = VALUES_OF_FORMAT_1.get(name, name)
    items = {FIELDS_OF_FORMAT_1.get((name, key), key): item for key, item in items.items()}
    if name == "Progress":  # format 1 had arrays in place of batches, and a number that is not needed
        waiting = [rows if isinstance(rows, Batch) else Batch(rows) for rows in items["waiting"]]
        items = {"state": items["state"], "waiting": waiting}
    return VALUES[name](**items)


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
