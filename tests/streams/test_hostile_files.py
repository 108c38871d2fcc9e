"""Damaged and hostile files: refused with an error that names the file, never a crash or endless memory."""

import io
import json
import re
import struct
import zipfile
import zlib
from contextlib import suppress

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from maxnorm import open_stream
from maxnorm.streams import StreamError, columnar_files, file_checks

RNG = np.random.default_rng(0)
X = RNG.standard_normal((37, 5))


def rows(stream):
    return np.concatenate([batch.toarray() if sp.issparse(batch) else batch for batch in stream])


def refused(path, match=None, **options):
    with pytest.raises(StreamError, match=match) as caught:
        rows(open_stream(path, **options))
    assert str(path) in str(caught.value)


def save_sparse(path, **parts):
    """Write a file by ``scipy.sparse.save_npz`` with some of its members replaced."""
    matrix = sp.random(30, 6, 0.3, random_state=0, format="csr")
    whole = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data}
    np.savez(path, **{**whole, "format": np.array(b"csr"), "shape": np.array(matrix.shape), **parts})


def npy(shape, descr="<f8", fortran=False, body=b""):
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + body


def zip_members(path, **members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)


# -- sparse matrices ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_every_format_of_save_npz_is_read(kind, tmp_path):
    matrix = sp.random(30, 6, 0.3, random_state=0, format="coo").asformat(kind)
    sp.save_npz(tmp_path / "x.npz", matrix)
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.npz", batch_size=7)), matrix.toarray())
    transposed = open_stream(tmp_path / "x.npz", transpose=True)
    np.testing.assert_array_equal(rows(transposed), matrix.toarray().T)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"indptr": np.full(31, 10**9)}, "indptr must begin with 0"),
        ({"indptr": np.r_[0, 10**9, np.zeros(29, int)]}, "must not decrease"),
        ({"indptr": np.zeros(5, int)}, "indptr has 5 entries where 31 are expected"),
        ({"indptr": np.r_[np.zeros(30, int), 10**9]}, "indptr ends with 1000000000"),
        ({"indices": np.full(54, 10**9)}, "column index 1000000000 is not between 0 and 5"),
        ({"indices": np.full(54, -7)}, "column index -7"),
        ({"indices": np.zeros(54)}, "indices must be a vector of integers"),
        ({"shape": np.array([10**12, 6])}, "indptr has 31 entries"),
        ({"shape": np.array([-1, 6])}, "its shape is"),
        ({"data": np.array(["a"] * 54)}, "data must be an array of numbers"),
        ({"format": np.array("lil")}, "unknown format 'lil'"),
        ({"format": np.array("coo")}, "member 'row' of its sparse matrix is missing"),
    ],
)
def test_a_broken_sparse_matrix_in_a_file_is_refused(parts, reason, tmp_path):
    save_sparse(tmp_path / "x.npz", **parts)
    refused(tmp_path / "x.npz", re.escape(reason))


def test_a_sparse_matrix_with_a_gigantic_number_of_empty_rows_is_refused(tmp_path):
    index = {"row": np.array([0, 1]), "col": np.array([0, 1]), "data": np.ones(2), "format": np.array("coo")}
    np.savez(tmp_path / "x.npz", shape=np.array([10**12, 6]), **index)
    refused(tmp_path / "x.npz", "1000000000000 rows has only 2 entries")
    np.savez(tmp_path / "x.npz", shape=np.array([6, 10**12]), **index)
    refused(tmp_path / "x.npz", "1000000000000 features")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_a_broken_sparse_matrix_in_memory_is_refused(kind):
    matrix = sp.random(30, 6, 0.3, random_state=0, format=kind)
    (matrix.col if kind == "coo" else matrix.indices)[3] = 10**6
    with pytest.raises(StreamError, match="index 1000000 is not between"):
        open_stream(matrix)
    with pytest.raises(StreamError, match="index 1000000 is not between"):
        rows(open_stream([matrix]))


# -- files of NumPy and MATLAB ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(10**12, 5), (5, 10**12), (2**62, 2**62), (-1, 5), (-3, -3), (5, 0), (2**63, 2)]
)
@pytest.mark.parametrize("is_fortran", [False, True])
def test_an_impossible_shape_is_refused(shape, is_fortran, tmp_path):
    content = npy(shape, fortran=is_fortran, body=bytes(400))
    (tmp_path / "x.npy").write_bytes(content)
    zip_members(tmp_path / "x.npz", data=content)
    for name in ("x.npy", "x.npz"):
        refused(tmp_path / name, "shape|features|truncated")


@pytest.fixture
def megabyte(monkeypatch):
    """Lower the limit on data that expand from 256 MB to 1 MB."""
    monkeypatch.setattr(file_checks, "LARGEST_UNPROPORTIONAL_BYTES", 2**20)


def test_an_array_that_expands_enormously_is_refused_only_if_it_must_be_loaded_whole(megabyte, tmp_path):
    zeros, shape = bytes(2**21), (2**9, 2**9)
    zip_members(tmp_path / "x.npz", data=npy(shape, fortran=True, body=zeros))
    refused(tmp_path / "x.npz", "would expand to 2097152 bytes in memory.*ascontiguousarray")
    zip_members(tmp_path / "y.npz", data=npy(shape, body=zeros))
    assert sum(len(batch) for batch in open_stream(tmp_path / "y.npz")) == 2**9


@pytest.mark.parametrize("descr", ["|O", "<M8[s]", "<m8[ns]", "<U5", "<c16", [("a", "<f8")]])
def test_types_that_are_not_numbers_are_refused_and_never_unpickled(descr, tmp_path):
    content = npy((5, 2), descr, body=bytes(400))
    (tmp_path / "x.npy").write_bytes(content)
    zip_members(tmp_path / "x.npz", data=content)
    for name in ("x.npy", "x.npz"):
        refused(tmp_path / name, "must be numeric|dates or durations")


def test_a_header_of_nested_brackets_is_not_reported_as_a_lack_of_memory(tmp_path):
    header = b"(" * 5000 + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    refused(tmp_path / "x.npy", "is damaged")


def test_a_header_that_claims_gigabytes_is_refused_before_memory_is_taken(tmp_path):
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31 - 1) + b"{}"
    (tmp_path / "x.npy").write_bytes(content)
    refused(tmp_path / "x.npy", "its header would have 2,147,483,647 bytes")


@pytest.mark.parametrize("version", ["4", "5", "5 compressed"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i2", "u2", "u1"])
def test_variables_of_matlab_are_read_as_scipy_wrote_them(version, dtype, tmp_path):
    dense = (100 * RNG.random((7, 3))).astype(dtype)
    sparse = sp.random(9, 4, 0.4, random_state=0, format="csc")
    path = tmp_path / "x.mat"
    compress = version == "5 compressed"
    scipy.io.savemat(path, {"a": dense, "b": sparse, "t": "text"}, format=version[0], do_compression=compress)
    read = rows(open_stream(path, key="a"))
    np.testing.assert_array_equal(read, dense)
    assert read.dtype == dense.dtype
    np.testing.assert_array_equal(rows(open_stream(path, key="b")), sparse.toarray())
    with pytest.raises(StreamError, match="key='t' names no array; the file holds 'a' 7x3, 'b'"):
        open_stream(path, key="t")


def test_a_compressed_variable_of_matlab_that_expands_enormously_is_refused(megabyte, tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"x": np.zeros((2**9, 2**9))}, do_compression=True)
    refused(tmp_path / "x.mat", "would expand to .* save it in format v7.3")


def test_a_variable_of_matlab_with_wrong_sizes_is_refused(tmp_path):
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"x": X}, do_compression=True)
    content = path.read_bytes()
    inner = bytearray(zlib.decompress(content[136:]))
    for at in range(0, 80, 4):  # sizes, dimensions and types
        changed = inner.copy()
        changed[at : at + 4] = struct.pack("<i", 2**31 - 1)
        packed = zlib.compress(bytes(changed))
        path.write_bytes(content[:128] + struct.pack("<II", 15, len(packed)) + packed)
        with suppress(StreamError):
            assert rows(open_stream(path)).shape == X.shape


def test_a_broken_sparse_variable_of_matlab_is_refused(tmp_path):
    path = tmp_path / "x.mat"
    scipy.io.savemat(path, {"x": sp.random(9, 4, 0.4, random_state=0, format="csc")})
    content = path.read_bytes()
    indptr = np.array(sp.random(9, 4, 0.4, random_state=0, format="csc").indptr, "<i4").tobytes()
    assert content.count(indptr) == 1
    path.write_bytes(content.replace(indptr, struct.pack("<5i", 0, 10**9, 2, 3, 4)))
    refused(path, "sparse matrix is not valid")


def test_a_complex_variable_of_matlab_is_refused(tmp_path):
    scipy.io.savemat(tmp_path / "x.mat", {"x": X + 1j})
    refused(tmp_path / "x.mat", "is complex; save its real part")


# -- HDF5 and Zarr ------------------------------------------------------------------------------------


def write_hdf5(path, *args, **options):
    import h5py

    with h5py.File(path, "w") as file:
        return file.create_dataset("x", *args, **options)


def test_hdf5_shapes_and_chunks_that_do_not_fit_into_memory_are_refused(tmp_path):
    path = tmp_path / "x.h5"
    write_hdf5(path, (10, 10**12), "f8", chunks=(1, 1000))
    refused(path, "1000000000000 features")
    write_hdf5(path, (10**5, 10**4), "f8", chunks=(10**4, 10**4))
    refused(
        path,
        "chunks of 10000 samples x 10000 features take 800000000 bytes.*smaller chunks",
    )
    write_hdf5(path, (1000, 2**20), "f8", chunks=(1000, 1))
    refused(path, "every sample touches 1048576 of them")
    write_hdf5(path, (10**5, 100), "f8", chunks=(1, 1))
    assert len(next(iter(open_stream(path)))) < 200
    assert len(next(iter(open_stream(path, batch_size=500)))) == 500
    write_hdf5(path, (10**12, 5), "f8", chunks=(1000, 5))
    assert next(iter(open_stream(path))).shape[1] == 5  # endless samples are read batch by batch


@pytest.mark.parametrize("kind", ["external storage", "virtual dataset", "link"])
def test_an_hdf5_file_refers_to_other_files_only_if_it_may(kind, tmp_path):
    import h5py

    path, other = tmp_path / "x.h5", tmp_path / "other.h5"
    write_hdf5(other, data=X)
    X.tofile(tmp_path / "raw")
    with h5py.File(path, "w") as file:
        if kind == "external storage":
            file.create_dataset("x", X.shape, "f8", external=[(str(tmp_path / "raw"), 0, X.nbytes)])
        elif kind == "virtual dataset":
            layout = h5py.VirtualLayout(X.shape, "f8")
            layout[:] = h5py.VirtualSource(other, "x", X.shape)
            file.create_virtual_dataset("x", layout)
        else:
            file["link"] = h5py.ExternalLink(other, "x")
            file["x"] = h5py.SoftLink("/link")
    refused(path, f"refers to other files \\({kind}: .*set external to True", key="x")
    np.testing.assert_array_equal(rows(open_stream(path, key="x", external=True)), X)


def test_links_within_an_hdf5_file_are_followed(tmp_path):
    import h5py

    write_hdf5(tmp_path / "x.h5", data=X)
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["group/link"] = h5py.SoftLink("../x")
        file["circle"] = h5py.SoftLink("/circle")
        file["dangling"] = h5py.SoftLink("/nothing")
        file["text"] = h5py.Empty("f4")
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.h5", key="group/link")), X)
    refused(tmp_path / "x.h5", "links in a circle", key="circle")
    refused(tmp_path / "x.h5", "names no array; the file holds 'x' 37x5", key="dangling")
    refused(tmp_path / "x.h5", "reshape", key="text")


def test_an_hdf5_dataset_that_is_not_numeric_is_named(tmp_path):
    import h5py

    write_hdf5(tmp_path / "x.h5", (5, 2), h5py.string_dtype())
    refused(tmp_path / "x.h5", "dataset 'x': must be numeric", key="x")


def write_zarr(path, version=3, **options):
    import zarr

    zarr.create_array(path, shape=X.shape, chunks=(10, 5), dtype="f8", zarr_format=version, **options)[:] = X


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_metadata_that_declare_the_impossible_are_refused(version, tmp_path):
    path = tmp_path / "x.zarr"
    write_zarr(path, version)
    file = path / ("zarr.json" if version == 3 else ".zarray")
    metadata = json.loads(file.read_text())
    for shape in ([37, 10**12], [-37, 5], [37, 0]):
        file.write_text(json.dumps({**metadata, "shape": shape}))
        refused(path)
    grid = {"chunks": [10**5, 10**5]}
    if version == 3:
        grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10**5, 10**5]}}}
    file.write_text(json.dumps({**metadata, **grid}))
    refused(path, "take 80000000000 bytes")


def test_pickles_in_zarr_are_refused(tmp_path):
    write_zarr(tmp_path / "x.zarr", 2)
    file = tmp_path / "x.zarr" / ".zarray"
    metadata = json.loads(file.read_text())
    for change in ({"compressor": {"id": "pickle"}}, {"filters": [{"id": "pickle"}]}, {"dtype": "|O"}):
        file.write_text(json.dumps({**metadata, **change}))
        refused(tmp_path / "x.zarr")


def test_a_zarr_chunk_that_declares_far_too_many_bytes_is_refused(tmp_path):
    import zarr

    write_zarr(tmp_path / "x.zarr", compressors=zarr.codecs.BloscCodec())
    chunk = tmp_path / "x.zarr" / "c" / "2" / "0"
    content = chunk.read_bytes()
    chunk.write_bytes(content[:4] + struct.pack("<I", 2**31 - 1) + content[8:])
    refused(tmp_path / "x.zarr", "chunk 'c/2/0' has 2147483647 bytes where 400 are expected")
    chunk.write_bytes(bytes(10_000))
    refused(tmp_path / "x.zarr", "chunk 'c/2/0' has 10000 bytes where 400 are expected")


def test_an_hdf5_chunk_with_far_too_many_bytes_is_refused(tmp_path):
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", (10, 5), "f8", chunks=(10, 5), compression="gzip")
        data.id.write_direct_chunk((0, 0), RNG.bytes(10_000))
    refused(tmp_path / "x.h5", "its 1 chunks have 10000 bytes where 400 each are expected")


# -- Parquet and Arrow --------------------------------------------------------------------------------


def test_an_error_names_the_damaged_file_of_a_folder(tmp_path):
    import pandas

    for i in range(3):
        pandas.DataFrame({"a": X[:, 0]}).to_parquet(tmp_path / f"{i}.parquet")
    content = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(content[:100])
    refused(tmp_path, re.escape(str(tmp_path / "1.parquet")))
    (tmp_path / "1.parquet").write_bytes(content[:4] + bytes(50) + content[54:])
    refused(tmp_path, re.escape(str(tmp_path / "1.parquet")))


def test_a_row_group_that_expands_enormously_is_refused(megabyte, tmp_path):
    import pyarrow
    from pyarrow import parquet

    column = pyarrow.array(np.zeros(2**17))
    options = {"use_dictionary": False, "compression": "zstd"}
    parquet.write_table(pyarrow.table(dict.fromkeys("abc", column)), tmp_path / "x.parquet", **options)
    refused(tmp_path / "x.parquet", "row group 0: .* write it with smaller row groups")


def test_a_record_batch_that_expands_enormously_is_refused(megabyte, tmp_path):
    import pandas

    frame = pandas.DataFrame(dict.fromkeys("abc", np.zeros(2**17)))
    frame.to_feather(tmp_path / "x.feather", compression="zstd", chunksize=2**17)
    refused(tmp_path / "x.feather", "record batch 0: .* write it in batches of fewer rows")
    frame.to_feather(tmp_path / "x.feather", compression="zstd", chunksize=2**10)
    assert len(rows(open_stream(tmp_path / "x.feather"))) == 2**17


def test_an_arrow_file_whose_lengths_are_wrong_is_refused(tmp_path):
    import pyarrow

    path = tmp_path / "x.arrow"
    with pyarrow.OSFile(str(path), "wb") as sink:
        table = pyarrow.table({"a": X[:, 0]})
        with pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<q", 37), struct.pack("<q", 2**40)))
    refused(path)


@pytest.mark.parametrize("message", ["malloc of size 8796093023360 failed", "capacity too large"])
def test_an_absurd_allocation_of_pyarrow_is_reported_as_damage(message, tmp_path):
    (tmp_path / "x.arrow").write_bytes(bytes(1000))
    with (
        pytest.raises(StreamError, match="is damaged: it declares a block that is far too large"),
        columnar_files._named(tmp_path / "x.arrow"),
    ):
        raise MemoryError(message)


def test_a_transposed_parquet_file_reports_its_row_labels(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[5, 6])
    frame.to_parquet(tmp_path / "x.parquet")
    stream = open_stream(tmp_path / "x.parquet", transpose=True)
    assert "row labels" in stream.remarks[0]
    np.testing.assert_array_equal(rows(stream), [[1, 2], [3, 4]])


# -- errors that are not damage -----------------------------------------------------------------------


def test_a_lack_of_memory_is_not_reported_as_damage(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 8 GiB")

    np.save(tmp_path / "x.npy", X)
    stream = open_stream(tmp_path / "x.npy")
    monkeypatch.setattr(np, "fromfile", fail)
    with pytest.raises(StreamError, match=r"not enough memory to read it \(Unable .*batch_size"):
        rows(stream)
    monkeypatch.setattr("maxnorm.streams.numpy_files._read_npy_header", fail)
    with pytest.raises(StreamError, match="not enough memory"):
        open_stream(tmp_path / "x.npy")


def test_columns_of_dates_are_named_with_a_remedy(tmp_path):
    import pandas

    frame = pandas.DataFrame({"a": X[:, 0], "when": pandas.date_range("2020", periods=37, freq="D")})
    frame.to_parquet(tmp_path / "x.parquet")
    for source in (frame, tmp_path / "x.parquet"):
        with pytest.raises(StreamError, match=r"column 'when' holds dates or durations \(.*drop it"):
            open_stream(source)
        np.testing.assert_array_equal(rows(open_stream(source, columns="a")), X[:, :1])
    with pytest.raises(StreamError, match=r"array holds dates or durations \(datetime64"):
        open_stream(frame[["when"]].to_numpy())


def test_a_path_that_does_not_exist_is_reported_without_heavy_imports():
    import subprocess
    import sys

    code = (
        "import sys; from maxnorm.streams import open_stream\n"
        "try: open_stream('nothing.npy')\n"
        "except FileNotFoundError as error: print(error)\n"
        "print([name for name in ('numpy', 'scipy', 'h5py', 'pyarrow') if name in sys.modules])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "nothing.npy: there is no such file\n[]\n"
