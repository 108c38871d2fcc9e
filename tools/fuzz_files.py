"""Read damaged and hostile files, and report every outcome other than data or a clear error.

    python tools/fuzz_files.py SEED COUNT

Small valid files of all formats are written, changed at random, and read to the end in a child process with
limits on memory and time. A file may be read, or refused with an error that names it. Everything else is a
finding: a crash, another exception, an error that does not name the file, more than 500 MB of memory, or
more than 10 seconds of processor time. A finding is repeated with ``--only NUMBER``, which prints the error
and keeps the file. The exit code is 1 if there are findings.
"""

import os

# Threads and the arenas of memory pools reserve address space, which the limit on memory counts.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", ARROW_DEFAULT_MEMORY_POOL="system")

import ctypes
import gzip
import io
import json
import multiprocessing
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
import pandas
import pyarrow
import scipy.io
import scipy.sparse as sp
import zarr

from maxnorm import open_stream
from maxnorm.streams import StreamError

MEMORY_BYTES = 500 * 2**20  # that reading a file may add to the process
SECONDS = 10  # of processor time that a file may take
SILENT_SECONDS = 60.0  # after which a child process that takes no processor time is ended
MOST_SECONDS = 3.0  # after which a file that still yields batches is not read to the end
CASES_PER_CHILD = 400
N_VARIANTS = 3  # valid files of each format
NAMES = list("abcdefg")
HOSTILE_INTEGERS = [0, 1, -1, 2, 3, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32]
HOSTILE_INTEGERS += [2**40, 2**53, 2**62, 2**63 - 1, -(2**63), 10**6, 10**9, 10**12]

Content = dict[str, bytes]
"""Files by their paths within a folder; a format of one file has the single path ``""``."""


# -- valid files ------------------------------------------------------------------------------------------


def write_npy(path: Path, X: np.ndarray) -> None:
    """Write an array in C or Fortran order."""
    np.save(path, np.asfortranarray(X) if len(X) % 2 else X)


def write_npz(path: Path, X: np.ndarray) -> None:
    """Write two arrays, one of which is two-dimensional."""
    np.savez_compressed(path, data=np.asfortranarray(X) if len(X) % 2 else X, scale=np.array(3.0))


def write_sparse_npz(path: Path, X: np.ndarray) -> None:
    """Write a sparse matrix in one of its formats."""
    matrix = sp.coo_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
    sp.save_npz(path, matrix.asformat(["csr", "csc", "coo", "bsr", "dia"][len(X) % 5]))


def write_csv(path: Path, X: np.ndarray) -> None:
    """Write text with a header."""
    pandas.DataFrame(X, columns=NAMES[: X.shape[1]]).to_csv(path, index=bool(len(X) % 2))


def write_tsv(path: Path, X: np.ndarray) -> None:
    """Write text with tabs."""
    pandas.DataFrame(X).to_csv(path, sep="\t", header=False, index=False)


def write_parquet(path: Path, X: np.ndarray) -> None:
    """Write a Parquet file with several row groups."""
    frame = pandas.DataFrame(X, columns=NAMES[: X.shape[1]])
    frame.to_parquet(path, row_group_size=20, compression=["zstd", "snappy", "gzip"][len(X) % 3])


def write_parquet_folder(path: Path, X: np.ndarray) -> None:
    """Write a folder of Parquet files."""
    path.mkdir()
    for i in range(0, len(X), 20):
        write_parquet(path / f"part-{i:03}.parquet", X[i : i + 20])


def write_arrow(path: Path, X: np.ndarray) -> None:
    """Write an Arrow file without compression."""
    pandas.DataFrame(X, columns=NAMES[: X.shape[1]]).to_feather(
        path, chunksize=20, compression="uncompressed"
    )


def write_feather(path: Path, X: np.ndarray) -> None:
    """Write a Feather file with compression."""
    frame = pandas.DataFrame(X, columns=NAMES[: X.shape[1]])
    frame.to_feather(path, chunksize=20, compression=["lz4", "zstd"][len(X) % 2])


def write_hdf5(path: Path, X: np.ndarray) -> None:
    """Write an HDF5 file, in chunks or contiguously."""
    chunked = {"chunks": (8, 2), "compression": ["gzip", "lzf", None][len(X) % 3], "shuffle": True}
    with h5py.File(path, "w", libver=["earliest", "latest"][len(X) % 2]) as file:
        file.create_dataset("group/data", data=X, **({} if len(X) % 5 == 0 else chunked))
        file["scalar"] = 1.0
        file["link"] = h5py.SoftLink("/group/data")


def write_zarr(path: Path, X: np.ndarray) -> None:
    """Write a Zarr array of version 2 or 3."""
    version = 2 + len(X) % 2
    zarr.create_array(path, shape=X.shape, chunks=(16, 3), dtype=X.dtype, zarr_format=version)[:] = X


def write_zarr_group(path: Path, X: np.ndarray) -> None:
    """Write a Zarr group."""
    group = zarr.open_group(path, mode="w", zarr_format=2 + len(X) % 2)
    group.create_array("inner", shape=X.shape, chunks=(16, 3), dtype=X.dtype)[:] = X


def write_mat(path: Path, X: np.ndarray) -> None:
    """Write a MATLAB file of version 4 or 5, dense or sparse."""
    values = sp.csc_matrix(np.where(np.abs(X) > 1.0, X, 0.0)) if len(X) % 3 == 0 else X
    version = "4" if len(X) % 5 == 0 else "5"
    scipy.io.savemat(
        path, {"data": values}, format=version, do_compression=version == "5" and len(X) % 2 == 0
    )


def write_mat_v73(path: Path, X: np.ndarray) -> None:
    """Write a MATLAB file of version 7.3, which is an HDF5 file with a header."""
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("data", data=X.T, chunks=(2, 8), compression="gzip")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


# -- mutations of bytes -----------------------------------------------------------------------------------


def truncated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the beginning of a file."""
    return content[: rng.integers(len(content) + 1)]


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few wrong bits."""
    changed = bytearray(content)
    for i in rng.integers(8 * len(content), size=rng.integers(1, 9)) if content else []:
        changed[i // 8] ^= 1 << int(i % 8)
    return bytes(changed)


def inserted(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few bytes more."""
    i = rng.integers(len(content) + 1)
    return content[:i] + rng.bytes(int(rng.integers(1, 20))) + content[i:]


def deleted(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few bytes less."""
    i = rng.integers(len(content) + 1)
    return content[:i] + content[i + rng.integers(1, 20) :]


def swapped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with two parts exchanged."""
    i, j, k = sorted(rng.integers(len(content) + 1, size=3))
    return content[:i] + content[j:k] + content[i:j] + content[k:]


def word_replaced(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with a few integers of 4 or 8 bytes replaced by extreme ones."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        width = int(rng.choice([4, 8]))
        i = int(rng.integers(max(1, len(content) // 4))) * 4
        value = HOSTILE_INTEGERS[rng.integers(len(HOSTILE_INTEGERS))] % 2 ** (8 * width)
        changed[i : i + width] = value.to_bytes(width, "little")
    return bytes(changed[: max(len(content), 1)])


# -- hostile files ----------------------------------------------------------------------------------------


def hostile_integer(rng: np.random.Generator) -> int:
    """Return an integer that programs handle wrongly."""
    return HOSTILE_INTEGERS[rng.integers(len(HOSTILE_INTEGERS))]


def npy_with_header(rng: np.random.Generator, body: bytes) -> bytes:
    """Return an array in NumPy's format whose header declares something else than its body holds."""
    shapes = [
        (hostile_integer(rng), 5),
        (5, hostile_integer(rng)),
        (hostile_integer(rng),) * 2,
        (),
        (5,),
        (3, 0),
    ]
    types = ["<f8", ">f4", "|O", "<M8[s]", "|V1000000", "<U999999999", "|b1", "<f2", "<c16", "[('a', '<f8')]"]
    shape = shapes[rng.integers(len(shapes))]
    header = f"{{'descr': {types[rng.integers(len(types))]!r}, "
    header += f"'fortran_order': {bool(rng.integers(2))}, 'shape': {shape!r}, }}\n"
    if rng.random() < 0.1:
        header = "(" * 5000 + "\n"
    length = hostile_integer(rng) % 2**16 if rng.random() < 0.1 else len(header)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + header.encode() + body


def hostile_npy(content: Content, rng: np.random.Generator) -> Content:
    """Replace the header."""
    return {"": npy_with_header(rng, content[""][128:])}


def zipped(members: dict[str, bytes]) -> Content:
    """Return an archive with valid checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return {"": file.getvalue()}


def hostile_npz(content: Content, rng: np.random.Generator) -> Content:
    """Replace the header of an array, or let the array expand enormously."""
    if rng.random() < 0.05:
        shape = (10, 20_000_000) if rng.random() < 0.5 else (20_000_000, 10)
        return zipped({"data.npy": npy_with_shape(shape, b"\0" * 2**26, bool(rng.integers(2)))})
    return zipped({"data.npy": npy_with_header(rng, bytes(800))})


def npy_with_shape(shape: tuple[int, ...], body: bytes, is_fortran: bool) -> bytes:
    """Return the beginning of an array of float64."""
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": is_fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + body


def hostile_sparse_npz(content: Content, rng: np.random.Generator) -> Content:
    """Change the indices or the shape of a sparse matrix."""
    with np.load(io.BytesIO(content[""])) as loaded:
        parts = {name: np.array(loaded[name]) for name in loaded.files}
    name = list(parts)[rng.integers(len(parts))]
    part = parts[name]
    choice = rng.integers(4)
    if name == "format":
        parts[name] = np.array(["csr", "csc", "coo", "bsr", "dia", "lil", "x"][rng.integers(7)])
    elif choice == 0 and part.size and part.dtype.kind in "iu":
        value = hostile_integer(rng)
        parts[name] = part.astype(np.int64)
        parts[name].flat[rng.integers(part.size)] = value if value < 2**63 else -1
    elif choice == 1:
        parts[name] = part[: rng.integers(len(part) + 1)] if part.ndim else part
    elif choice == 2:
        parts[name] = part.astype(["f4", "u8", "M8[s]", "U3", "i1"][rng.integers(5)])
    else:
        parts[name] = np.array([hostile_integer(rng) % 2**63 for _ in range(2)])
    file = io.BytesIO()
    np.savez_compressed(file, **parts)
    return {"": file.getvalue()}


def hostile_text(text: bytes, rng: np.random.Generator) -> bytes:
    """Return text with extreme cells, characters or lines."""
    pieces = [
        b'"',
        b'"\n',
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b",,,,",
        b"1e999",
        b"nan",
        b"sep=;\n",
        b"\n" * 99,
    ]
    pieces += [
        b"\xe2\x80\xa8",
        b"9" * 5000,
        b"1," * 3000,
        b" " * 10_000,
        b"1,5;2,5\n",
        b"-",
        b"0x1p3",
        b"\x0c",
        b"_",
    ]
    for _ in range(rng.integers(1, 4)):
        i = rng.integers(len(text) + 1)
        text = text[:i] + pieces[rng.integers(len(pieces))] + text[i:]
    return text


def hostile_csv(content: Content, rng: np.random.Generator) -> Content:
    """Insert extreme cells."""
    return {"": hostile_text(content[""], rng)}


def hostile_gzip(content: Content, rng: np.random.Generator) -> Content:
    """Insert extreme cells, or let the text expand enormously."""
    if rng.random() < 0.05:
        piece = [b"1", b" ", b"\n", b"1,", b"1\n", b'"', b"1 "][rng.integers(7)]
        return {"": gzip.compress(piece * 2**27, 1) * 2}
    return {"": gzip.compress(hostile_text(gzip.decompress(content[""]), rng))}


def hostile_words(content: Content, rng: np.random.Generator) -> Content:
    """Replace integers anywhere in a file."""
    name = list(content)[rng.integers(len(content))]
    return {**content, name: word_replaced(content[name], rng)}


def hostile_parquet(content: Content, rng: np.random.Generator) -> Content:
    """Change the metadata at the end of a file, or let a column expand enormously."""
    name = list(content)[rng.integers(len(content))]
    if rng.random() < 0.05:
        column = pyarrow.array(np.zeros(2**24))
        file = io.BytesIO()
        options = {"use_dictionary": bool(rng.integers(2)), "data_page_size": 2**30, "compression": "zstd"}
        pyarrow.parquet.write_table(pyarrow.table(dict.fromkeys("abcd", column)), file, **options)
        return {**content, name: file.getvalue()}
    data = content[name]
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    change = flipped if rng.random() < 0.5 else swapped
    return {**content, name: data[:footer] + change(data[footer:-8], rng) + data[-8:]}


def hostile_hdf5(content: Content, rng: np.random.Generator) -> Content:
    """Write a dataset with an extreme shape, type or storage, or replace integers anywhere in a file."""
    if rng.random() < 0.7:
        return hostile_words(content, rng)
    file = io.BytesIO()
    n, p = ([1, 10, 10**6, 10**9, 10**12, 2**40][rng.integers(6)] for _ in range(2))
    with h5py.File(file, "w", userblock_size=512 if content[""].startswith(b"MATLAB") else 0) as target:
        choice = rng.integers(6)
        if choice == 0:
            chunks = (min(n, 10 ** int(rng.integers(8))), min(p, 10 ** int(rng.integers(3))))
            if np.prod(chunks) < 2**29:
                target.create_dataset("x", (n, p), "f8", chunks=chunks)
        elif choice == 1:
            target.create_dataset("x", (10, 4), "f8", external=[("/etc/hostname", 0, h5py.h5f.UNLIMITED)])
        elif choice == 2:
            layout = h5py.VirtualLayout((10, 4), "f8")
            layout[:] = h5py.VirtualSource("other.h5", "x", (10, 4))
            target.create_virtual_dataset("x", layout)
        elif choice == 3:
            target["x"] = h5py.ExternalLink("other.h5", "x")
        elif choice == 4:
            target.create_dataset("x", (10, 4), h5py.string_dtype())
        else:
            target.create_dataset("x", (4096, 4096), "f8", chunks=(4096, 4096), compression="gzip")[:] = 0.0
    written = file.getvalue()
    return {"": content[""][:512] + written[512:] if content[""].startswith(b"MATLAB") else written}


def hostile_zarr(content: Content, rng: np.random.Generator) -> Content:
    """Replace values in the metadata."""
    names = [name for name in content if name.endswith((".json", ".zarray", ".zgroup"))]
    name = names[rng.integers(len(names))]
    metadata = json.loads(content[name])
    places = list(json_places(metadata))
    holder, key = places[rng.integers(len(places))]
    values = [
        None,
        "",
        [],
        {},
        "|O",
        "<M8[s]",
        "pickle",
        "../x",
        {"id": "pickle"},
        {"name": "gzip"},
        1e300,
        True,
    ]
    values += [hostile_integer(rng) for _ in range(len(values))]
    holder[key] = values[rng.integers(len(values))]
    return {**content, name: json.dumps(metadata).encode()}


def json_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in nested lists and dictionaries, as a container and a key."""
    for key in range(len(value)) if isinstance(value, list) else list(value):
        yield value, key
        if isinstance(value[key], list | dict):
            yield from json_places(value[key])


def hostile_mat(content: Content, rng: np.random.Generator) -> Content:
    """Replace integers, also within compressed variables, or let a variable expand enormously."""
    data = content[""]
    kind = int.from_bytes(data[128:132], "little")
    if kind != 15:
        return {"": data[:128] + word_replaced(data[128:], rng)}
    inner = word_replaced(zlib.decompress(data[136:]), rng)
    if rng.random() < 0.1:
        inner += bytes(2**28)
    packed = zlib.compress(inner, 1)
    return {"": data[:128] + struct.pack("<II", 15, len(packed)) + packed}


# -- cases ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A format: the name of its files, the function that writes one, and the one that makes it hostile."""

    file: str
    write: Callable[[Path, np.ndarray], None]
    make_hostile: Callable[[Content, np.random.Generator], Content]


FORMATS = {
    "npy": Format("x.npy", write_npy, hostile_npy),
    "npz": Format("x.npz", write_npz, hostile_npz),
    "npz, sparse": Format("x.npz", write_sparse_npz, hostile_sparse_npz),
    "csv": Format("x.csv", write_csv, hostile_csv),
    "tsv": Format("x.tsv", write_tsv, hostile_csv),
    "csv.gz": Format("x.csv.gz", write_csv, hostile_gzip),
    "parquet": Format("x.parquet", write_parquet, hostile_parquet),
    "parquet, folder": Format("x", write_parquet_folder, hostile_parquet),
    "arrow": Format("x.arrow", write_arrow, hostile_words),
    "feather": Format("x.feather", write_feather, hostile_words),
    "hdf5": Format("x.h5", write_hdf5, hostile_hdf5),
    "zarr": Format("x.zarr", write_zarr, hostile_zarr),
    "zarr, group": Format("x.zarr", write_zarr_group, hostile_zarr),
    "mat": Format("x.mat", write_mat, hostile_mat),
    "mat, v7.3": Format("x.mat", write_mat_v73, hostile_hdf5),
}
MUTATIONS = {
    "truncated": truncated,
    "flipped": flipped,
    "inserted": inserted,
    "deleted": deleted,
    "swapped": swapped,
    "hostile": None,
}


@dataclass
class Cases:
    """The cases of a seed, numbered from 0, and the folder in which their files are written."""

    seed: int
    folder: Path
    valid: dict[tuple[str, int], Content] = field(default_factory=dict)

    def describe(self, number: int) -> tuple[str, str]:
        """Return the format and the mutation of a case."""
        which, mutation = number % len(FORMATS), number // len(FORMATS) % len(MUTATIONS)
        return list(FORMATS)[which], list(MUTATIONS)[mutation]

    def write(self, number: int) -> tuple[Path, dict[str, Any]]:
        """Write the file of a case, and return its path and the options to open it with."""
        name, mutation = self.describe(number)
        rng = np.random.default_rng([self.seed, number])
        content = self._valid_content(name, int(rng.integers(N_VARIANTS)))
        change = MUTATIONS[mutation]
        if change is None:
            content = FORMATS[name].make_hostile(content, rng)
        else:
            part = list(content)[rng.integers(len(content))]
            content = {**content, part: change(content[part], rng)}
        path = self.folder / FORMATS[name].file
        remove(path)
        for part, data in content.items():
            (path / part).parent.mkdir(parents=True, exist_ok=True)
            (path / part).write_bytes(data)
        transpose = bool(rng.random() < 0.2)
        # Eight samples of millions of features would take the memory that was asked for.
        return path, {"transpose": transpose, "batch_size": None if transpose else [None, 8][rng.integers(2)]}

    def _valid_content(self, name: str, variant: int) -> Content:
        """Return a valid file; each is written once."""
        if (name, variant) not in self.valid:
            rng = np.random.default_rng([self.seed, variant, len(name)])
            X = rng.standard_normal((60 + variant, 6)).astype(["f8", "f4"][variant % 2])
            path = self.folder / FORMATS[name].file
            remove(path)
            FORMATS[name].write(path, X)
            files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            self.valid[name, variant] = {
                "" if file == path else str(file.relative_to(path)): file.read_bytes()
                for file in sorted(files)
            }
        return self.valid[name, variant]


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def read(path: Path, options: dict[str, Any]) -> str:
    """Read a file and return the outcome: ``"read"``, ``"refused"``, or the description of a finding."""
    try:
        stream = open_stream(path, **options)
        end = time.monotonic() + MOST_SECONDS
        for batch in stream:
            if batch.ndim != 2 or batch.shape[1] != stream.n_features != None:  # noqa: E711
                return f"a batch of shape {batch.shape} for {stream.n_features} features"
            if time.monotonic() > end:
                break
    except (StreamError, FileNotFoundError, PermissionError) as error:
        if isinstance(error.__cause__, MemoryError):
            return f"memory: {error}"
        if str(path) not in str(error):
            return f"the error does not name the file: {error}"
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


# -- processes --------------------------------------------------------------------------------------------


def limit_memory() -> None:
    """Limit the address space of this process to what it has now and ``MEMORY_BYTES`` more."""
    ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX: threads share one arena
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def limit_time() -> None:
    """Let this process be ended by a signal after ``SECONDS`` more of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + SECONDS + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def run_cases(seed: int, numbers: range, results: Any) -> None:
    """Read the files of some cases, and send the number and the outcome of each."""
    warnings.simplefilter("ignore")
    pyarrow.set_cpu_count(1)
    pyarrow.set_io_thread_count(1)
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(seed, Path(folder))
        for name in FORMATS:  # starts the threads of the libraries, before memory is limited
            for variant in range(N_VARIANTS):
                cases._valid_content(name, variant)
                path = cases.folder / FORMATS[name].file
                outcome = read(path, {})
                assert outcome == "read", (name, variant, outcome)
        limit_memory()
        for number in numbers:
            path, options = write_unlimited(cases, number)
            results.send((number, None))
            limit_time()
            results.send((number, read(path, options)))


def write_unlimited(cases: Cases, number: int) -> tuple[Path, dict[str, Any]]:
    """Write the file of a case without the limit on memory, which is for reading."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        return cases.write(number)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def run(seed: int, count: int) -> Iterator[tuple[int, str]]:
    """Yield the number and the outcome of every case, which child processes determine."""
    context = multiprocessing.get_context("fork")
    number = 0
    while number < count:
        receiver, sender = context.Pipe(duplex=False)
        numbers = range(number, min(count, number + CASES_PER_CHILD))
        child = context.Process(target=run_cases, args=(seed, numbers, sender), daemon=True)
        child.start()
        sender.close()
        is_reading = False
        try:
            while number < numbers.stop:
                if is_reading and not receiver.poll(SILENT_SECONDS):
                    child.kill()
                    yield number, f"time: no progress in {SILENT_SECONDS:.0f} seconds"
                    number += 1
                    break
                _, outcome = receiver.recv()
                is_reading = outcome is None
                if outcome is not None:
                    yield number, outcome
                    number += 1
        except EOFError:
            child.join()
            if not is_reading:
                raise click.ClickException("a child process ended before it could read a file") from None
            is_slow = child.exitcode == -signal.SIGXCPU
            yield number, f"time: more than {SECONDS} s" if is_slow else f"crash: exit code {child.exitcode}"
            number += 1
        child.join()


def print_table(outcomes: Counter[tuple[str, str, str]]) -> None:
    """Print the number of files that were read, refused and found, for each format and mutation."""
    width = max(map(len, FORMATS))
    click.echo("read/refused/findings".ljust(width) + "".join(f"{name:>15}" for name in MUTATIONS))
    for name in FORMATS:
        cells = (
            "/".join(str(outcomes[name, mutation, kind]) for kind in ("read", "refused", "finding"))
            for mutation in MUTATIONS
        )
        click.echo(f"{name:<{width}}" + "".join(f"{cell:>15}" for cell in cells))


@click.command()
@click.argument("seed", type=int)
@click.argument("count", type=int)
@click.option(
    "--only", type=int, metavar="NUMBER", help="Read the file of one case in this process, and keep it."
)
def main(seed: int, count: int, only: int | None) -> None:
    """Read COUNT damaged and hostile files, generated from SEED."""
    if only is not None:
        cases = Cases(seed, Path(tempfile.mkdtemp()))
        path, options = cases.write(only)
        click.echo(f"{', '.join(cases.describe(only))}: {path}, {options}")
        try:
            click.echo(sum(batch.shape[0] for batch in open_stream(path, **options)))
        except Exception:
            click.echo(traceback.format_exc())
        return
    begin = time.monotonic()
    outcomes: Counter[tuple[str, str, str]] = Counter()
    findings = []
    cases = Cases(seed, Path())
    for number, outcome in run(seed, count):
        place = cases.describe(number)
        kind = outcome if outcome in ("read", "refused") else "finding"
        outcomes[(*place, kind)] += 1
        if kind == "finding":
            findings.append(f"case {number} ({', '.join(place)}): {outcome}")
            click.echo(findings[-1], err=True)
    print_table(outcomes)
    click.echo(f"{count} cases in {time.monotonic() - begin:.0f} s, {len(findings)} findings")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
