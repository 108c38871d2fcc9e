"""Streams: readers of files and of objects in memory, errors that locate the problem, and prefetching.

Every reader is tested with a small real file: read as a whole, from a row in the middle, by columns and
transposed.
"""

import gzip
import io
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, Stream, open_stream
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.streams import StreamError
from maxnorm.streams.prefetch import prefetch

RNG = np.random.default_rng(0)
X = RNG.standard_normal((37, 5))
NAMES = ("a", "b", "c", "d", "e")


def rows(stream):
    return np.concatenate(list(stream))


def write_csv(path, array, header=NAMES, delimiter=",", opener=open):
    with opener(path, "wt") as file:
        if header:
            names = [*header, *(f"x{i}" for i in range(array.shape[1]))]
            file.write(delimiter.join(names[: array.shape[1]]) + "\n")
        for row in array:
            file.write(delimiter.join("" if np.isnan(v) else repr(float(v)) for v in row) + "\n")


def npy(path, array):
    np.save(path, array)


def npy_fortran(path, array):
    np.save(path, np.asfortranarray(array))


def npz(path, array):
    np.savez_compressed(path, data=array, scale=np.array(3.0))


def npz_fortran(path, array):
    np.savez(path, data=np.asfortranarray(array))


def csv_with_header(path, array):
    write_csv(path, array)


def csv_without_header(path, array):
    write_csv(path, array, header=None)


def tsv(path, array):
    write_csv(path, array, delimiter="\t")


def csv_gz(path, array):
    write_csv(path, array, opener=gzip.open)


def csv_with_semicolons(path, array):
    write_csv(path, array, delimiter=";")


def text_with_blanks(path, array):
    np.savetxt(path, array, fmt="%.17g")


def pandas_csv(path, array):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(array, columns=NAMES[: array.shape[1]]).to_csv(path)


def frame(array):
    import pandas

    return pandas.DataFrame(array, columns=[*NAMES, *map(str, range(array.shape[1]))][: array.shape[1]])


def parquet(path, array):
    frame(array).to_parquet(path, row_group_size=10)


def parquet_folder(path, array):
    path.mkdir()
    for i in range(0, len(array), 15):
        frame(array[i : i + 15]).to_parquet(path / f"part-{i:03}.parquet")


def feather(path, array):
    frame(array).to_feather(path, chunksize=10)


def hdf5(path, array):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("group/data", data=array, chunks=(4, 2))
        file["scalar"] = 1.0


def zarr_array(path, array):
    import zarr

    zarr.open(path, mode="w", shape=array.shape, chunks=(6, 3), dtype=array.dtype)[:] = array


def zarr_group(path, array):
    import zarr

    group = zarr.open_group(path, mode="w")
    group.create_array("inner", shape=array.shape, chunks=(6, 3), dtype=array.dtype)[:] = array


def mat_before_v73(path, array):
    scipy.io.savemat(path, {"data": array, "title": "x"})


def mat_v73(path, array):
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        file["data"] = array.T  # MATLAB stores arrays transposed
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


FILES = {
    npy: "x.npy",
    npy_fortran: "x.npy",
    npz: "x.npz",
    npz_fortran: "x.npz",
    csv_with_header: "x.csv",
    csv_without_header: "x.csv",
    tsv: "x.tsv",
    csv_gz: "x.csv.gz",
    csv_with_semicolons: "x.csv",
    text_with_blanks: "x.txt",
    parquet: "x.parquet",
    parquet_folder: "folder",
    feather: "x.feather",
    hdf5: "x.h5",
    zarr_array: "x.zarr",
    zarr_group: "x.zarr",
    mat_before_v73: "x.mat",
    mat_v73: "x.mat",
}
WITH_NAMES = {csv_with_header, tsv, csv_gz, csv_with_semicolons, parquet, parquet_folder, feather}
files = pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)


@files
def test_a_file_is_read_as_it_was_written(write, tmp_path):
    path = tmp_path / FILES[write]
    write(path, X)
    stream = open_stream(path, batch_size=8)
    np.testing.assert_array_equal(rows(stream), X)
    np.testing.assert_array_equal(rows(stream), X)  # a second pass starts again at the first row
    assert stream.n_samples in (37, None)
    assert stream.n_features == 5
    assert stream.names == (NAMES if write in WITH_NAMES else None)
    assert {len(batch) for batch in stream} <= {8, 5}
    np.testing.assert_array_equal(rows(stream.from_row(19)), X[19:])
    np.testing.assert_array_equal(rows(open_stream(path)), X)


@files
def test_columns_are_selected_by_position(write, tmp_path):
    path = tmp_path / FILES[write]
    write(path, X)
    np.testing.assert_array_equal(rows(open_stream(path, columns=[3, -5])), X[:, [3, 0]])
    np.testing.assert_array_equal(rows(open_stream(path, columns=slice(1, None), batch_size=7)), X[:, 1:])
    with pytest.raises(StreamError, match="no column 5"):
        open_stream(path, columns=5)


@files
def test_transpose_reads_samples_from_columns(write, tmp_path):
    path = tmp_path / FILES[write]
    write(path, X.T)
    stream = open_stream(path, batch_size=8, transpose=True)
    np.testing.assert_array_equal(rows(stream), X)
    np.testing.assert_array_equal(rows(stream.from_row(9)), X[9:])
    np.testing.assert_array_equal(rows(open_stream(path, transpose=True, columns=[1, 2])), X[:, 1:3])


@files
def test_missing_entries_are_read_as_nan(write, tmp_path):
    path, incomplete = tmp_path / FILES[write], X.copy()
    incomplete[[0, 5, 36, 36], [0, 4, 0, 4]] = np.nan
    write(path, incomplete)
    np.testing.assert_array_equal(rows(open_stream(path)), incomplete)


@pytest.mark.parametrize(
    "write",
    [npy, npz, csv_gz, parquet, feather, hdf5, mat_before_v73, mat_v73],
    ids=lambda write: write.__name__,
)
def test_a_truncated_file_raises_an_error_that_names_it(write, tmp_path):
    path = tmp_path / FILES[write]
    write(path, X)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(StreamError, match=re.escape(str(path))):
        rows(open_stream(path))


def test_row_labels_of_pandas_in_csv_are_left_out(tmp_path):
    pandas_csv(tmp_path / "x.csv", X)
    stream = open_stream(tmp_path / "x.csv")
    np.testing.assert_array_equal(rows(stream), X)
    assert stream.names == NAMES
    assert "row labels" in stream.remarks[0]


def test_columns_are_selected_by_name(tmp_path):
    write_csv(tmp_path / "x.csv", X)
    stream = open_stream(tmp_path / "x.csv", columns=["d", "a"])
    assert stream.names == ("d", "a")
    np.testing.assert_array_equal(rows(stream), X[:, [3, 0]])
    with pytest.raises(StreamError, match="no column 'z'; the columns are 'a', 'b'"):
        open_stream(tmp_path / "x.csv", columns="z")


def test_text_may_have_quotes_and_words_for_missing_entries(tmp_path):
    (tmp_path / "x.csv").write_text('"a","b,c"\n1,NA\n\n?,"2.5"\n,null\n')
    stream = open_stream(tmp_path / "x.csv")
    assert stream.names == ("a", "b,c")
    np.testing.assert_array_equal(rows(stream), [[1, np.nan], [np.nan, 2.5], [np.nan, np.nan]])


def test_a_header_may_mix_words_and_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("station,2001,2002\n7,1.5,2.5\n8,3,4\n")
    stream = open_stream(tmp_path / "x.csv")
    assert stream.names == ("station", "2001", "2002")
    assert len(rows(stream)) == 2


def test_text_may_have_a_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbf1,2\r\n3,\r\n")
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.csv")), [[1, 2], [3, np.nan]])


@pytest.mark.parametrize("line", [12, 3000])
def test_an_error_names_the_line_with_the_wrong_number_of_columns(line, tmp_path):
    lines = ["a,b"] + ["1,2"] * 5000
    lines[line - 1] = "1,2,3"
    (tmp_path / "x.csv").write_text("\n".join(lines))
    with pytest.raises(StreamError, match=f"line {line}: 3 columns where 2 are expected"):
        rows(open_stream(tmp_path / "x.csv", batch_size=100))


def test_an_error_names_the_cell_that_is_not_a_number(tmp_path):
    (tmp_path / "x.csv").write_text("day,b\n2020-01-01,2\n2020-01-02,3\n")
    with pytest.raises(StreamError, match=r"line 2, column 0: '2020-01-01' is not a number"):
        rows(open_stream(tmp_path / "x.csv"))
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.csv", columns="b")), [[2], [3]])


@pytest.mark.parametrize("name", ["x.csv", "x.npy", "x.npz", "x.parquet", "x.h5", "x.mat", "x.arrow"])
def test_an_empty_file_raises_an_error_that_names_it(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(StreamError, match=name):
        rows(open_stream(tmp_path / name))


def test_key_selects_one_of_several_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", one=X, two=2 * X, flat=X[0])
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.npz", key="two")), 2 * X)
    with pytest.raises(StreamError, match="set key to one of 'one' 37x5, 'two' 37x5"):
        open_stream(tmp_path / "x.npz")
    with pytest.raises(StreamError, match="key='three' names no array; the file holds 'one' 37x5"):
        open_stream(tmp_path / "x.npz", key="three")
    with pytest.raises(StreamError, match="reshape"):
        open_stream(tmp_path / "x.npz", key="flat")


def test_sources_that_cannot_be_opened_raise_errors_with_a_remedy(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        open_stream(tmp_path / "nothing.csv")
    (tmp_path / "x.jpeg").touch()
    with pytest.raises(StreamError, match=r"supported are \.npy"):
        open_stream(tmp_path / "x.jpeg")
    with pytest.raises(ValueError, match="batch_size"):
        open_stream(X, batch_size=0)
    with pytest.raises(TypeError, match="cannot read samples from x of type int"):
        open_stream(3)
    with pytest.raises(StreamError, match="must be numeric"):
        open_stream(np.array([["a", "b"]]))
    with pytest.raises(StreamError, match="reshape"):
        open_stream(np.ones((2, 3, 4)))


def write_images(path, images, key="images"):
    """Write images to a file of the format that the extension names, in chunks that do not divide them."""
    if path.suffix == ".npy":
        np.save(path, images)
    elif path.suffix == ".npz":
        np.savez(path, **{key: images})
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        array = zarr.open_group(path, mode="w").create_array(
            key, shape=images.shape, chunks=(5, 2, 3, 4)[: images.ndim], dtype=images.dtype
        )
        array[:] = images
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            chunks = (5, 2, 3, 4)[: images.ndim]
            file.create_dataset(key, data=images, chunks=chunks, compression="gzip")
            file["labels"] = np.zeros(len(images))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.zarr"])
@pytest.mark.parametrize("shape", [(17, 7, 5), (17, 3, 4, 6)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_images_of_a_file_are_folded_into_rows(tmp_path, name, shape, order):
    images = np.asarray(RNG.standard_normal(shape), order=order)
    expected = images.reshape(17, -1)
    write_images(tmp_path / name, images)
    keys = [None] if name == "x.npy" else [None, "images"]
    for key in keys:
        for batch_size in (None, 3):
            stream = open_stream(tmp_path / name, key=key, batch_size=batch_size)
            assert (stream.n_samples, stream.n_features) == expected.shape
            np.testing.assert_array_equal(rows(stream), expected)
    np.testing.assert_array_equal(rows(stream.from_row(10)), expected[10:])
    np.testing.assert_array_equal(rows(open_stream(tmp_path / name, columns=[4, 1])), expected[:, [4, 1]])
    with pytest.raises(StreamError, match=r"two.dimension"):
        open_stream(tmp_path / name, transpose=True)
    model = MaxNormDecomposition(2, random_state=0)
    np.testing.assert_allclose(model.fit(stream).components_, model.fit(images).components_, atol=1e-8)


def test_a_table_is_preferred_to_images_and_several_arrays_of_images_need_a_key(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["left"], file["right"] = np.zeros((4, 3, 2)), np.ones((4, 3, 2))
    with pytest.raises(StreamError, match=r"set key to one of 'left' 4x3x2, 'right' 4x3x2"):
        open_stream(tmp_path / "x.h5")
    np.testing.assert_array_equal(rows(open_stream(tmp_path / "x.h5", key="right")), np.ones((4, 6)))
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["table"] = np.zeros((4, 5))
    assert open_stream(tmp_path / "x.h5").n_features == 5


def test_an_error_names_the_missing_package_and_its_extra(tmp_path):
    write_csv(tmp_path / "x.csv", X)
    code = (
        "import sys; sys.modules['h5py'] = None\n"
        "from maxnorm import open_stream\n"
        "try: open_stream('x.h5')\n"
        "except ImportError as error: print(error)\n"
    )
    (tmp_path / "x.h5").touch()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.strip() == "reading HDF5 needs h5py: pip install 'maxnorm[io]'", result.stderr


def test_objects_in_memory_are_read_like_files():
    import dask.array
    import dask.dataframe

    sparse = sp.random(37, 5, 0.4, random_state=0, format="coo")
    for source, expected, names in (
        (X, X, None),
        (X.astype(np.float32), X.astype(np.float32), None),
        (np.ma.masked_greater(X, 1.0), np.where(X > 1.0, np.nan, X), None),
        (frame(X), X, NAMES),
        (dask.array.from_array(X, chunks=(10, 2)), X, None),
        (dask.dataframe.from_pandas(frame(X), npartitions=3), X, NAMES),
        (list(X), X, None),
        ([X[:20], X[20], X[21:]], X, None),
        (lambda: iter(X), X, None),
    ):
        for size in (None, 8):
            stream = open_stream(source, batch_size=size)
            np.testing.assert_array_equal(rows(stream), expected)
            np.testing.assert_array_equal(rows(stream.from_row(11)), expected[11:])
            assert stream.names == names
        np.testing.assert_array_equal(rows(open_stream(source, columns=[1])), expected[:, 1:2])
    for array in (X.T, frame(X.T), dask.array.from_array(X.T, chunks=(3, 10))):
        np.testing.assert_array_equal(rows(open_stream(array, batch_size=8, transpose=True)), X)
    batches = list(open_stream(sparse, batch_size=8))
    np.testing.assert_array_equal(sp.vstack(batches).toarray(), sparse.toarray())


def test_an_iterator_can_be_read_only_once():
    stream = open_stream(iter(X))
    np.testing.assert_array_equal(rows(stream), X)
    with pytest.raises(StreamError, match="once only"):
        rows(stream)
    with pytest.raises(StreamError, match="once only, but n_epochs=2"):
        OnlineRobustPCA(2, n_epochs=2).fit(open_stream(iter(X)))
    with pytest.raises(StreamError, match="row 2 has 4 entries where 5 are expected"):
        rows(open_stream([X[0], X[1], X[2, :4]]))


def test_standard_input_is_read_as_text():
    text = io.StringIO()
    np.savetxt(text, X, delimiter=",", fmt="%.17g")
    code = (
        "import numpy as np; from maxnorm import open_stream\n"
        "print(np.concatenate(list(open_stream('-', batch_size=10))).tolist())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=text.getvalue(), capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(X.tolist())


def test_column_numbers_of_pandas_are_a_header_but_other_numbers_are_not(tmp_path):
    import pandas

    pandas.DataFrame(X).to_csv(tmp_path / "x.csv")
    pandas.DataFrame(X).to_csv(tmp_path / "y.csv", index=False)
    for name in ("x.csv", "y.csv"):
        stream = open_stream(tmp_path / name)
        np.testing.assert_array_equal(rows(stream), X)
        assert stream.names == ("0", "1", "2", "3", "4")
    (tmp_path / "z.csv").write_text("2019,2020\n1,2\n3,4\n")
    assert len(rows(open_stream(tmp_path / "z.csv"))) == 3
    assert rows(open_stream(tmp_path / "z.csv", header=True)).tolist() == [[1, 2], [3, 4]]
    (tmp_path / "w.csv").write_text("1.0,err\n1,2\n")
    assert "read as column names" in open_stream(tmp_path / "w.csv").remarks[0]
    with pytest.raises(StreamError, match="'err' is not a number"):
        rows(open_stream(tmp_path / "w.csv", header=False))


def test_parquet_leaves_row_labels_out_and_has_one_type_for_all_batches(tmp_path):
    import pandas

    pandas.DataFrame({"a": [1, 2], "b": [0.5, 1]}, index=[5, 6]).to_parquet(tmp_path / "x.parquet")
    stream = open_stream(tmp_path / "x.parquet")
    assert stream.names == ("a", "b")
    assert "row labels" in stream.remarks[0]
    (tmp_path / "parts").mkdir()
    pandas.DataFrame({"a": [1.0], "k": [1]}).to_parquet(tmp_path / "parts" / "0.parquet")
    pandas.DataFrame({"a": [1.0], "k": [None]}, dtype="float64").to_parquet(tmp_path / "parts" / "1.parquet")
    assert {batch.dtype for batch in open_stream(tmp_path / "parts", batch_size=1)} == {np.dtype(np.float64)}


def test_columns_are_selected_by_mask_integer_or_digits():
    np.testing.assert_array_equal(rows(open_stream(X, columns=np.array([0, 1, 0, 0, 1], bool))), X[:, [1, 4]])
    np.testing.assert_array_equal(rows(open_stream(X, columns=np.int64(2))), X[:, 2:3])
    np.testing.assert_array_equal(rows(open_stream(X, columns=["0", "-1"])), X[:, [0, 4]])
    for wrong in ([1.7], [True, False]):
        with pytest.raises(StreamError, match="columns"):
            open_stream(X, columns=wrong)


def test_masked_entries_of_an_iterable_are_read_as_nan():
    masked = np.ma.masked_greater(X, 1.0)
    np.testing.assert_array_equal(rows(open_stream(iter([masked]))), np.where(X > 1.0, np.nan, X))


def test_a_sparse_matrix_in_a_file_is_read_in_sparse_batches(tmp_path):
    sparse = sp.random(30, 6, 0.3, random_state=0, format="csr")
    sp.save_npz(tmp_path / "x.npz", sparse)
    batches = list(open_stream(tmp_path / "x.npz", batch_size=7))
    np.testing.assert_array_equal(sp.vstack(batches).toarray(), sparse.toarray())


def test_rows_before_an_error_are_yielded_first(tmp_path):
    (tmp_path / "x.csv").write_text("\n\n1,2\n3,4\n5,six\n")
    stream = iter(open_stream(tmp_path / "x.csv"))
    assert next(stream).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(StreamError, match="line 5, column 1: 'six'"):
        next(stream)

    def broken():
        yield from X[:7]
        raise OSError("unplugged")

    stream = iter(open_stream(broken))
    assert len(next(stream)) == 7
    with pytest.raises(StreamError, match="beyond row 7: unplugged"):
        next(stream)


@pytest.mark.parametrize("cell", ["1_000", "٣", "0x10", "1.234,5"])
def test_digit_groups_other_scripts_and_hexadecimals_are_not_numbers(cell, tmp_path):
    (tmp_path / "x.csv").write_text(f'1;2\n"{cell}";3\n', encoding="utf-8")
    with pytest.raises(StreamError, match="is not a number"):
        rows(open_stream(tmp_path / "x.csv"))


def test_a_file_with_column_chunks_is_not_read_as_a_whole(tmp_path):
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (100_000, 100), "f4", chunks=(100_000, 1))
    assert len(next(iter(open_stream(tmp_path / "x.h5")))) < 20_000


def test_a_transposed_dask_data_frame_has_no_feature_names():
    import dask.dataframe

    frames = dask.dataframe.from_pandas(frame(X), npartitions=2)
    stream = open_stream(frames, transpose=True)
    assert stream.names is None
    assert stream.n_features == 37


def test_principal_component_pursuit_accepts_a_stream():
    from maxnorm import PrincipalComponentPursuit

    data = make_corrupted_low_rank(100, 20, 2, corruption=0.05, random_state=0).X
    streamed = PrincipalComponentPursuit().fit(open_stream(data, batch_size=30))
    np.testing.assert_array_equal(streamed.low_rank_, PrincipalComponentPursuit().fit(data).low_rank_)


# -- estimators that read streams --------------------------------------------------------------------


DATA = make_corrupted_low_rank(900, 30, 3, corruption=0.1, missing=0.1, random_state=0).X


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion])
def test_a_stream_gives_the_same_model_as_the_array(estimator, epochs, tmp_path):
    np.save(tmp_path / "x.npy", DATA)
    whole = estimator(3, n_epochs=epochs, random_state=0).fit(DATA)
    stream = open_stream(tmp_path / "x.npy", batch_size=77)
    streamed = estimator(3, n_epochs=epochs, random_state=0).fit(stream)
    np.testing.assert_array_equal(streamed.components_, whole.components_)
    assert streamed.n_samples_seen_ == whole.n_samples_seen_
    np.testing.assert_allclose(streamed.transform(stream), whole.transform(DATA), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(streamed.score(stream), whole.score(DATA), rtol=1e-9)


def test_an_estimator_checks_the_feature_names_of_a_file(tmp_path):
    write_csv(tmp_path / "x.csv", X)
    write_csv(tmp_path / "y.csv", X, header=("a", "b", "c", "x", "e"))
    np.save(tmp_path / "z.npy", X)
    model = OnlineRobustPCA(2, random_state=0).fit(open_stream(tmp_path / "x.csv"))
    assert model.feature_names_in_.tolist() == list(NAMES)
    assert model.decompose(open_stream(tmp_path / "z.npy")).low_rank.shape == X.shape
    with pytest.raises(ValueError, match="the first difference is 'x' in place of 'd'"):
        model.partial_fit(open_stream(tmp_path / "y.csv"))
    with pytest.raises(ValueError, match="has 4 features, but OnlineRobustPCA is expecting 5"):
        model.transform(open_stream(X[:, :4]))


def test_entries_not_stored_are_zero_for_decomposition_and_missing_for_completion():
    sparse = sp.random(300, 20, 0.3, random_state=0, format="csr")
    dense = sparse.toarray()
    direct = MaxNormDecomposition(3, noise="none", random_state=0).fit(dense)
    np.testing.assert_array_equal(
        MaxNormDecomposition(3, noise="none", random_state=0).fit(sparse).components_, direct.components_
    )
    ratings = np.where(dense == 0.0, np.nan, dense)
    direct = MaxNormCompletion(3, random_state=0).fit(ratings)
    np.testing.assert_array_equal(
        MaxNormCompletion(3, random_state=0).fit(sparse).components_, direct.components_
    )


def test_a_model_keeps_the_samples_before_an_invalid_row(tmp_path):
    lines = [",".join(map(repr, row)) for row in X.tolist() * 20]
    lines[500] = "1,2"
    (tmp_path / "x.csv").write_text("\n".join(lines))
    model = OnlineRobustPCA(2, n_epochs=1, random_state=0)
    with pytest.raises(StreamError, match="line 501"):
        model.fit(open_stream(tmp_path / "x.csv", batch_size=100))
    assert model.n_samples_seen_ == 500
    again = OnlineRobustPCA(2, random_state=0).partial_fit(np.array(X.tolist() * 20)[:500])
    np.testing.assert_array_equal(model.components_, again.components_)
    with pytest.raises(ValueError, match="infinity, first in row 250, column 1"):
        model.partial_fit(open_stream([X[0]] * 250 + [[1, np.inf, 1, 1, 1]], batch_size=100))
    assert model.n_samples_seen_ == 700


def test_an_empty_stream_leaves_the_model_unchanged(tmp_path):
    model = OnlineRobustPCA(2, random_state=0).fit(X)
    before = model.components_
    with pytest.raises(StreamError, match="has no samples"):
        model.fit(open_stream(iter([])))
    np.testing.assert_array_equal(model.components_, before)


def test_a_file_deleted_during_reading_raises_an_error_with_the_row(tmp_path):
    np.save(tmp_path / "x.npy", DATA)
    stream = open_stream(tmp_path / "x.npy", batch_size=100)
    batches = iter(stream)
    next(batches)
    (tmp_path / "x.npy").unlink()
    with pytest.raises(StreamError, match="cannot be read beyond row 100: No such file"):
        list(batches)


def test_a_callback_runs_after_every_batch_and_may_stop_the_fit():
    steps = []
    model = MaxNormDecomposition(3, batch_size=300, random_state=0)
    model.fit(open_stream(DATA), callback=lambda result: steps.append((result.step, result.n_samples)))
    assert steps == [(1, 300), (2, 600), (3, 900)]
    model.fit(open_stream(DATA, batch_size=120), callback=lambda result: result.step == 2)
    assert (model.n_iter_, model.n_samples_seen_) == (2, 600)


def test_an_error_in_a_callback_keeps_the_batches_learnt_from_a_stream():
    class StopFitting(Exception):
        pass

    def fail(result):
        raise StopFitting

    model = MaxNormDecomposition(3, batch_size=300, random_state=0)
    with pytest.raises(StopFitting):
        model.partial_fit(open_stream(DATA), callback=fail)
    assert model.n_samples_seen_ == 300


# -- prefetching --------------------------------------------------------------------------------------


def test_prefetch_reads_a_bounded_number_of_batches_ahead():
    read = []

    def source():
        for i in range(10):
            read.append(i)
            yield np.full((1, 1), i)

    batches = prefetch(source(), depth=2)
    next(batches)
    end = time.monotonic() + 300
    while len(read) < 4 and time.monotonic() < end:  # one in use, two in the queue, one held by the thread
        time.sleep(0.001)
    time.sleep(0.05)
    assert len(read) == 4
    assert [int(batch[0, 0]) for batch in batches] == list(range(1, 10))


def test_prefetch_passes_errors_on_and_ends_its_thread():
    def broken():
        yield np.ones((1, 1))
        raise StreamError("bad row")

    with pytest.raises(StreamError, match="bad row"):
        list(prefetch(broken()))
    endless = prefetch(iter(lambda: np.ones((1, 1)), None))
    next(endless)
    endless.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "maxnorm-reader"]


def test_open_stream_returns_a_stream_unchanged():
    stream = open_stream(X)
    assert open_stream(stream) is stream
    assert isinstance(stream, Stream)
