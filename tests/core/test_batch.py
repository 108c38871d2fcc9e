"""Batches: the dense and the sparse form hold the same samples."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxnorm.core.batch import Batch, check_range, complaint_about_tiny

NAN = np.nan
# Zeros that are observed, missing entries, and a sample without observed entries.
VALUES = np.array([[1.0, 0.0, NAN, 4.0], [NAN, NAN, NAN, NAN], [0.0, 0.0, 0.0, 0.0], [5.0, NAN, 7.0, NAN]])
OBSERVED = ~np.isnan(VALUES)


def make(kind, values=VALUES):
    """Return a batch that stores values densely or sparsely."""
    dense = Batch(np.array(values))
    return dense if kind == "dense" else Batch(dense.entries())


kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


@kinds
def test_the_dense_form_has_zeros_and_a_mask_for_missing_entries(kind):
    Z, observed = make(kind).dense()
    np.testing.assert_array_equal(Z, np.nan_to_num(VALUES))
    np.testing.assert_array_equal(observed, OBSERVED)


@kinds
def test_the_dense_form_of_fully_observed_samples_has_no_mask(kind):
    Z, observed = make(kind, VALUES[2:3]).dense()
    np.testing.assert_array_equal(Z, VALUES[2:3])
    assert observed is None


@kinds
def test_the_sparse_form_stores_observed_entries_including_zeros(kind):
    entries = make(kind).entries()
    assert isinstance(entries, sp.csr_array)
    assert entries.dtype == np.float64
    assert entries.indices.tolist() == [0, 1, 3, 0, 1, 2, 3, 0, 2]
    assert entries.data.tolist() == [1.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 5.0, 7.0]
    assert entries.indptr.tolist() == [0, 3, 3, 7, 9]


def test_converting_to_sparse_and_back_keeps_entries_and_mask():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((30, 8)) < 0.5, NAN, rng.integers(-1, 2, (30, 8)))
    Z, observed = Batch(Batch(values).entries()).dense()
    np.testing.assert_array_equal(np.where(observed, Z, NAN), values)


@kinds
def test_shape_length_and_kind_are_reported(kind):
    batch = make(kind)
    assert batch.shape == (4, 4)
    assert len(batch) == 4
    assert batch.dtype == np.float64
    assert batch.is_sparse == (kind == "sparse")


@kinds
def test_observed_entries_are_counted_per_sample(kind):
    assert make(kind).n_observed.tolist() == [3, 0, 4, 2]


@kinds
@pytest.mark.parametrize("rows", [slice(1, 3), slice(3, None), slice(0, 0), np.array([3, 0, 3])], ids=str)
def test_rows_are_selected_by_slices_and_by_numbers(kind, rows):
    part = make(kind)[rows]
    assert part.is_sparse == (kind == "sparse")
    assert part.n_observed.tolist() == OBSERVED[rows].sum(axis=1).tolist()
    np.testing.assert_array_equal(part.dense()[0], np.nan_to_num(VALUES[rows]))


@pytest.mark.parametrize("first", ["dense", "sparse"])
@pytest.mark.parametrize("second", ["dense", "sparse"])
def test_a_join_has_all_samples_in_order_and_is_sparse_if_any_batch_is(first, second):
    joined = Batch.join([make(first), make(second, VALUES[:2]), make(first, VALUES[3:])])
    expected = np.concatenate([VALUES, VALUES[:2], VALUES[3:]])
    assert joined.is_sparse == ("sparse" in (first, second))
    Z, observed = joined.dense()
    np.testing.assert_array_equal(np.where(observed, Z, NAN), expected)


@kinds
def test_the_join_of_one_batch_is_that_batch(kind):
    batch = make(kind)
    assert Batch.join([batch]) is batch


def test_a_join_with_sparse_samples_is_in_double_precision():
    joined = Batch.join([Batch(VALUES.astype(np.float32)), make("sparse")])
    assert joined.dtype == np.float64


@kinds
def test_a_copy_shares_no_memory(kind):
    batch = make(kind)
    copy = batch.copy()
    if kind == "dense":
        assert not np.shares_memory(copy.values, batch.values)
        batch.values[:] = -1.0
    else:
        for name in ("data", "indices", "indptr"):
            assert not np.shares_memory(getattr(copy.values, name), getattr(batch.values, name))
        batch.values.data[:] = -1.0
    np.testing.assert_array_equal(copy.dense()[0], np.nan_to_num(VALUES))


def test_a_dense_batch_is_converted_to_another_precision_with_its_missing_entries():
    single = make("dense").astype(np.dtype(np.float32))
    assert single.dtype == np.float32
    assert single.dense()[0].dtype == np.float32
    np.testing.assert_array_equal(single.values, VALUES.astype(np.float32))


def test_a_dense_batch_of_the_precision_asked_for_is_not_copied():
    batch = make("dense")
    assert batch.astype(np.dtype(np.float64)) is batch


def test_a_sparse_batch_stays_in_double_precision():
    batch = make("sparse")
    assert batch.astype(np.dtype(np.float32)) is batch


@kinds
def test_samples_without_observed_entries_are_kept(kind):
    batch = make(kind, np.full((3, 2), NAN))
    Z, observed = batch.dense()
    assert batch.shape == (3, 2)
    assert batch.n_observed.tolist() == [0, 0, 0]
    assert batch.entries().shape == (3, 2)
    assert batch.entries().nnz == 0
    assert not Z.any()
    assert not observed.any()


@pytest.mark.parametrize(("dtype", "smallest", "largest"), [("f4", 1e-12, 1e18), ("f8", 1e-120, 1e120)])
def test_data_outside_of_the_range_of_their_precision_are_reported(dtype, smallest, largest):
    X = np.array([[0.0, np.nan], [-1.0, 0.5]])
    for scale in (10.0 * smallest, 1.0, 0.1 * largest):
        batch = Batch((scale * X).astype(dtype))
        assert check_range(batch) is batch
        assert complaint_about_tiny(batch) is None
    tiny = Batch((0.1 * smallest * X).astype(dtype))
    assert check_range(tiny) is tiny
    assert "too small for float" in complaint_about_tiny(tiny)
    with pytest.raises(ValueError, match=r"too large for float.*, first in row 1, column 0"):
        check_range(Batch((10.0 * largest * X).astype(dtype)))


def test_zeros_and_missing_entries_are_not_too_small():
    for values in (np.zeros((2, 3)), np.full((2, 3), NAN), np.zeros((0, 3))):
        assert complaint_about_tiny(Batch(values)) is None
        assert complaint_about_tiny(Batch(Batch(values).entries())) is None


def test_entries_whose_squares_underflow_are_zero_in_the_sparse_form():
    entries = Batch(np.array([[1e-200, 1.0, NAN, 1e-100]])).entries()
    assert entries.data.tolist() == [0.0, 1.0, 1e-100]
