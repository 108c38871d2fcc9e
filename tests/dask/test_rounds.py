"""Fitting on Dask: the same model wherever blocks live and whatever happens to workers."""

import os
import signal
import time
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dask
import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.batch import Batch
from maxnorm.core.state import accumulate
from maxnorm.dask.blocks import BlockError, Blocks
from maxnorm.dask.rounds import RoundSettings, learn_blocks
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.estimators.validation import BatchReader
from maxnorm.learner import Progress, step
from maxnorm.metrics import expressed_variance, relative_error
from maxnorm.streams import Stream, StreamError

N, P, D, ROWS = 2400, 40, 3, 100
DATA = make_corrupted_low_rank(N, P, D, corruption=0.15, random_state=0)
X = DATA.X
ESTIMATORS = [MaxNormDecomposition(D, random_state=0), OnlineRobustPCA(D, random_state=0)]


@pytest.fixture(autouse=True)
def one_thread():
    """Without a cluster, in this thread: what is being tested does not depend on it, and errors are plain."""
    with dask.config.set(scheduler="synchronous"):
        yield


def lazy(array=X, rows=ROWS):
    return da.from_array(array, chunks=(rows, -1))


def holes(share=0.7):
    clean = make_corrupted_low_rank(N, P, D, corruption=0.0, random_state=0).X
    hidden = np.random.default_rng(1).random(clean.shape) < share
    return clean, np.where(hidden, np.nan, clean)


def same(a, b, tolerance=1e-10):
    np.testing.assert_allclose(
        a.components_, b.components_, rtol=0, atol=tolerance * np.abs(b.components_).max()
    )
    assert a.n_samples_seen_ == b.n_samples_seen_


# -- rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS)
def test_a_fit_in_rounds_is_as_good_as_a_serial_one(model):
    seen = []
    model = clone(model)
    model.fit(lazy(), callback=lambda result: seen.append(model.n_samples_seen_))
    rounds = np.diff([0, *seen]) // ROWS
    assert rounds[0] == 1
    assert rounds.max() >= 4
    assert all(k == 1 or k * ROWS <= before / 2 for k, before in zip(rounds, [0, *seen], strict=False))
    assert model.n_samples_seen_ == N
    serial = clone(model).fit(X)
    loss = expressed_variance(DATA.basis, serial.components_.T) - expressed_variance(
        DATA.basis, model.components_.T
    )
    assert loss < 0.001


@pytest.mark.parametrize("model", ESTIMATORS)
@pytest.mark.parametrize("settings", [{}, {"forgetting": 2.0, "half_life": 500.0}])
def test_blocks_as_large_as_batches_are_the_serial_learner(model, settings):
    model = clone(model).set_params(batch_size=ROWS, n_epochs=2, **settings)
    same(clone(model).fit(lazy()), clone(model).fit(X))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_round_is_one_large_batch(missing):
    """The sums of a round agree with those of one step on all of its rows."""
    Z = np.where(np.random.default_rng(0).random((600, P)) < missing, np.nan, X[:600])
    model = MaxNormDecomposition(D, forgetting=3.0, half_life=400.0, random_state=0).fit(X[:500])
    learner, state = model.make_learner(), model.state_
    settings = RoundSettings(BatchReader(False), seed=0, batch_size=600, half_life=400.0)
    ((progress, result),) = learn_blocks(learner, Progress(state), Blocks.of(lazy(Z, 70)), settings)
    whole, expected = step(learner, state, Batch(Z))[::-1]
    found, expected = accumulate(state, result.added), accumulate(state, whole)
    for name in ("A", "B", "r", "loss", "weight", "entries"):
        np.testing.assert_allclose(
            getattr(found.statistics, name), getattr(expected.statistics, name), rtol=1e-9, atol=1e-9
        )
    assert (found.time, found.n_samples) == (expected.time, expected.n_samples) == (1100, 1100)
    assert progress.state.n_samples == 1100


@pytest.mark.parametrize("kind", ["rows", "entries"])
def test_contributions_can_be_grouped_in_any_way(kind):
    parameters = {"forgetting": 3.0, "half_life": 400.0, "random_state": 0}
    if kind == "rows":
        model, Z = MaxNormDecomposition(D, **parameters).fit(X[:500]), X.copy()
    else:
        Z = holes()[1]
        model = MaxNormCompletion(D, biases=True, lambda1=0.1, **parameters).fit(Z[:500])
    Z[600:650] = np.nan  # empty samples
    learner = model.make_learner()
    state, settings = learner.begin(model.state_, None)
    a, b, c, d = (learner.measure(Batch(Z[i : i + 50]), state.L, settings, i) for i in (500, 550, 600, 650))
    left, right = ((a + b) + c) + d, a + (b + (c + d))
    assert (left.n_samples, left.n_full) == (right.n_samples, right.n_full) == (200, 150)
    assert (left.biases is not None) == (kind == "entries")
    for name in ("statistics", "scales", "decay", *(["biases"] if left.biases is not None else [])):
        for field, x in vars(getattr(left, name)).items():
            if x is not None:
                np.testing.assert_allclose(x, getattr(getattr(right, name), field), rtol=1e-11, atol=1e-14)
    assert left.demand == pytest.approx(right.demand)
    np.testing.assert_allclose(left.pressure, right.pressure)


def test_forgetting_follows_a_drift():
    rng = np.random.default_rng(0)
    first, second = (np.linalg.qr(rng.standard_normal((P, D)))[0] for _ in range(2))
    R = rng.standard_normal((4000, D))
    Z = np.concatenate([R[:2000] @ first.T, R[2000:] @ second.T])
    seen = []
    model = MaxNormDecomposition(D, half_life=200.0, random_state=0)
    model.fit(lazy(Z, 5), callback=lambda result: seen.append(model.n_samples_seen_))
    assert np.diff(seen).max() == 20  # a tenth of the half-life
    serial = MaxNormDecomposition(D, half_life=200.0, random_state=0).fit(Z)
    ev = [expressed_variance(second, m.components_.T) for m in (model, serial)]
    assert ev[0] > max(0.99, ev[1] - 0.002)


def test_several_passes_and_more_later():
    twice = MaxNormDecomposition(D, n_epochs=2, random_state=0).fit(lazy())
    assert twice.n_samples_seen_ == 2 * N
    parts = MaxNormDecomposition(D, random_state=0).partial_fit(lazy(X[:1200])).partial_fit(X[1200:1300])
    parts.partial_fit(lazy(X[1300:]))
    assert parts.n_samples_seen_ == N
    assert expressed_variance(DATA.basis, parts.components_.T) > 0.999


def test_missing_values():
    Z = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
    model = MaxNormDecomposition(D, random_state=0).fit(lazy(Z))
    assert expressed_variance(DATA.basis, model.components_.T) > 0.998


@pytest.mark.parametrize("columns", [13, -1])
def test_columns_in_several_chunks(columns):
    same(
        MaxNormDecomposition(D, random_state=0).fit(da.from_array(X, chunks=(ROWS, columns))),
        MaxNormDecomposition(D, random_state=0).fit(lazy()),
    )


def test_single_precision_stays():
    model = MaxNormDecomposition(D, random_state=0).fit(lazy(X.astype(np.float32)))
    assert model.components_.dtype == np.float32
    assert model.transform(lazy(X.astype(np.float32))).compute().dtype == np.float32
    assert model.partial_fit(lazy()).components_.dtype == np.float32  # mixed input keeps the model's


def test_lengths_that_nobody_knows_and_empty_blocks():
    chosen = lazy()[lazy()[:, 0] > 0.0]
    assert np.isnan(chosen.shape[0])
    model = MaxNormDecomposition(D, random_state=0).fit(chosen)
    assert model.n_samples_seen_ == (X[:, 0] > 0).sum()
    again = []
    model.set_params(half_life=400.0)
    model.partial_fit(chosen, callback=lambda result: again.append(model.n_samples_seen_))
    assert np.diff([model.n_samples_seen_ // 2, *again]).max() < 1.5 * ROWS
    hollow = da.from_array(X, chunks=((0, 1200, 0, 1200), P))
    said = []
    late = MaxNormDecomposition(D, random_state=0).fit(hollow, callback=lambda r: said.append(r.step))
    assert len(said) == 3  # nothing can be said of no samples
    for answer in (*late.decompose(hollow), late.transform(hollow), late.score_samples(hollow)):
        assert answer.compute().shape[0] == N
    assert late.transform(hollow[:0]).compute().shape == (0, D)
    gap = da.concatenate([lazy(X[:300]), lazy(X[:0]), lazy(X[300:])])
    same(
        MaxNormDecomposition(D, random_state=0).fit(gap), MaxNormDecomposition(D, random_state=0).fit(lazy())
    )
    assert model.transform(gap).compute().shape == (N, D)


def test_zeros_change_nothing():
    Z = np.concatenate([np.zeros((200, P)), X[:600], np.zeros((400, P)), X[600:]])
    model = MaxNormDecomposition(D, random_state=0).fit(lazy(Z))
    assert model.n_samples_seen_ == N + 600
    assert model.state_.time == N
    assert expressed_variance(DATA.basis, model.components_.T) > 0.999


def test_a_new_fit_forgets_the_names_of_the_last():
    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"sensor {i}" for i in range(P)]), npartitions=4)
    model = MaxNormDecomposition(D, random_state=0).fit(frame).fit(lazy())
    assert not hasattr(model, "feature_names_in_")


def test_a_seed_is_a_seed():
    same(
        MaxNormDecomposition(D, random_state=np.int64(0)).fit(lazy()),
        MaxNormDecomposition(D, random_state=0).fit(lazy()),
    )
    here, there = np.random.RandomState(3), np.random.RandomState(3)
    for _ in range(2):  # the second draw differs from the first, here as there
        same(
            MaxNormDecomposition(D, random_state=here).fit(lazy(rows=N)),
            MaxNormDecomposition(D, random_state=there).fit(X),
        )
    first, second = (MaxNormDecomposition(D).fit(lazy()).components_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_columns_that_are_numbers_are_no_names():
    frame = pd.DataFrame(X)
    model = MaxNormDecomposition(D, random_state=0).fit(dd.from_pandas(frame, npartitions=4))
    assert not hasattr(model, "feature_names_in_")
    assert model.transform(frame).shape == (N, D)


def test_many_rounds_of_one_block():
    """Looking for a block among many takes no time worth mentioning: 600 rounds of a few milliseconds."""
    model = MaxNormDecomposition(2, batch_size=10, random_state=0)
    seen = []
    model.fit(lazy(X[:, :5], 4)[: 4 * 600], callback=lambda result: seen.append(model.n_samples_seen_))
    assert len(seen) >= 300


def test_a_noise_that_only_cloudpickle_can_send():
    class Mine:
        def prox(self, V):
            return V - np.clip(V, -0.1, 0.1)

        def value(self, E):
            return 0.1 * np.abs(E).sum(axis=1)

    model = MaxNormDecomposition(D, noise=Mine(), random_state=0).fit(lazy())
    assert expressed_variance(DATA.basis, model.components_.T) > 0.99


def test_a_pandas_column_called_dask_is_just_that():
    frame = pd.DataFrame(X[:, :3], columns=["dask", "npartitions", "chunks"])
    assert MaxNormDecomposition(1).fit(frame).n_samples_seen_ == N


def test_the_rank_can_be_found():
    model = MaxNormDecomposition("auto", random_state=0).fit(lazy())
    assert model.n_components_ == D


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_completion(sparse, biases):
    clean, Z = holes()
    blocks = lazy(Z)
    if sparse:
        blocks = blocks.map_blocks(entries, dtype=float, meta=sp.csr_array((0, 0)))
    seen = []
    model = MaxNormCompletion(D + 2 * biases, biases=biases, n_epochs=3, random_state=0)
    model.fit(blocks, callback=lambda result: seen.append(model.n_samples_seen_))
    assert np.diff(seen).max() >= 4 * ROWS
    assert relative_error(clean, model.transform(blocks).compute()) < 0.01
    np.testing.assert_allclose(
        model.transform(blocks).compute(), model.transform(entries(Z) if sparse else Z), atol=1e-8
    )
    assert model.predict(blocks).shape == Z.shape
    single = blocks.astype(np.float32)
    assert model.transform(single).dtype == model.transform(single).compute().dtype


def entries(Z):
    rows, columns = np.nonzero(~np.isnan(Z))
    return sp.csr_array((Z[rows, columns], (rows, columns)), shape=Z.shape)


def test_completion_that_is_robust():
    clean, Z = holes(0.4)
    Z = Z + np.where(np.random.default_rng(0).random(Z.shape) < 0.1, 100.0, 0.0)
    model = MaxNormCompletion(D, noise="capped", random_state=0).fit(lazy(Z))
    assert relative_error(clean, model.decompose(lazy(Z)).low_rank.compute()) < 0.05


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's own, with the newest pandas
@pytest.mark.parametrize("stored", [False, True])
def test_data_frames(stored, tmp_path):
    frame = pd.DataFrame(X, columns=[f"sensor {i}" for i in range(P)])
    frames = dd.from_pandas(frame, npartitions=24)
    if stored:
        for i in range(24):
            frame[ROWS * i : ROWS * (i + 1)].to_parquet(tmp_path / f"{i:02}.parquet", index=False)
        frames = dd.read_parquet(tmp_path)
    model = MaxNormDecomposition(D, random_state=0).fit(frames)
    assert list(model.feature_names_in_) == list(frame.columns)
    same(model, MaxNormDecomposition(D, random_state=0).fit(lazy()))
    np.testing.assert_allclose(model.transform(frames).compute(), model.transform(frame))
    with pytest.raises(ValueError, match="the first difference is 'sensor 39' in place of 'sensor 0'"):
        model.transform(frames[frame.columns[::-1]])
    with pytest.raises(ValueError, match="numeric"):
        MaxNormDecomposition(1).fit(dd.from_pandas(pd.DataFrame({"a": ["x"], "b": ["y"]}), npartitions=1))


# -- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ESTIMATORS)
def test_answers_are_lazy_and_those_of_the_array(model):
    model = clone(model).fit(X)
    blocks = lazy()
    coefficients, scores, parts = (
        model.transform(blocks),
        model.score_samples(blocks),
        model.decompose(blocks),
    )
    expected = model.decompose(X)
    components = model.components_.copy()
    model.partial_fit(X[:500] + 5.0)  # what was asked of the model before is not about this one
    assert not np.array_equal(components, model.components_)
    assert (coefficients.shape, scores.shape) == ((N, D), (N,))
    np.testing.assert_allclose(coefficients.compute(), expected.coefficients, atol=1e-12)
    for found, part in zip(dask.compute(*parts), expected, strict=True):
        assert found.dtype == part.dtype
        np.testing.assert_allclose(found, part, atol=1e-12)
    model = clone(model).fit(X)
    np.testing.assert_allclose(scores.compute(), model.score_samples(X))
    assert model.score(blocks) == pytest.approx(model.score(X))


def test_answers_of_a_model_with_rows_that_wait():
    model = MaxNormDecomposition(D, random_state=0).fit(X).partial_fit(X[:1])
    np.testing.assert_allclose(model.transform(lazy()).compute(), model.transform(X), atol=1e-12)


def test_pandas_out_is_computed_because_it_was_asked_for():
    model = MaxNormDecomposition(D, random_state=0).fit(X).set_output(transform="pandas")
    found = model.transform(lazy())
    assert list(found.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(found, model.transform(X), atol=1e-12)


def test_what_cannot_be_answered():
    blocks = lazy()
    for method in ("transform", "decompose", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(MaxNormDecomposition(), method)(blocks)
    model = MaxNormDecomposition(D, random_state=0).fit(X)
    with pytest.raises(ValueError, match="has 39 features"):
        model.transform(blocks[:, 1:])
    for flat in (da.from_array(X[0]), dd.from_pandas(pd.Series(X[0]), npartitions=2)):
        with pytest.raises(
            StreamError,
            match="has shape .* but samples x features are expected; reshape it to two dimensions",
        ):
            model.fit(flat)
    with pytest.raises(StreamError, match="no samples"):
        MaxNormDecomposition().fit(lazy()[:0])
    with pytest.raises(ValueError, match="the Dask collection: has 39 features"):
        model.partial_fit(blocks[:, 1:])
    with pytest.raises(ValueError, match="batch_size"):
        MaxNormDecomposition(batch_size=0).fit(blocks)


# -- what goes wrong --------------------------------------------------------------------------------


def poisoned(kind, at=17):
    def spoil(block, block_id=None):
        if block_id[0] != at:
            return block
        if kind == "width":
            return block[:, 1:]
        if kind == "text":
            return block.astype(str) + " mm"
        if kind == "flat":
            return block[0]
        return np.where(np.arange(P) == 4, np.inf, block)

    return lazy().map_blocks(spoil, dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("width", "has 39 features"),
        ("inf", "infinity, first in row 1700"),
        ("text", "must be numeric"),
        ("flat", r"has shape \(40,\), but samples x features are expected"),
    ],
)
def test_a_poisoned_block_is_named_and_the_last_good_model_kept(kind, says):
    kept = []
    model = MaxNormDecomposition(D, random_state=0)
    with pytest.raises(BlockError, match=rf"block 17 \(rows 1700 to 1799\): .*{says}"):
        model.fit(poisoned(kind), callback=lambda result: kept.append(model.components_.copy()))
    np.testing.assert_array_equal(model.components_, kept[-1])
    assert 1000 <= model.n_samples_seen_ < 1800
    assert model.transform(X).shape == (N, D)
    with pytest.raises(BlockError, match="block 17"):
        model.transform(poisoned(kind)).compute()
    first = MaxNormDecomposition(D)
    with pytest.raises(BlockError, match="block 0"):
        first.fit(poisoned(kind, at=0))
    assert not hasattr(first, "n_features_in_")


def test_a_block_that_cannot_be_read():
    def fail(block, block_id=None):
        if block_id[0] == 9:
            raise OSError("the disk is on fire")
        return block

    with pytest.raises(BlockError, match=r"block \d.*the disk is on fire"):
        MaxNormDecomposition(D).fit(lazy().map_blocks(fail, dtype=float, meta=np.empty((0, 0))))


def test_a_fit_goes_on_from_a_checkpoint(tmp_path):
    path = tmp_path / "model.maxnorm"

    model = MaxNormDecomposition(D, random_state=0)

    def keep(result):
        model.save(path)
        if model.n_samples_seen_ >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(lazy(), callback=keep)
    model = maxnorm.load(path)
    whole = MaxNormDecomposition(D, random_state=0).fit(lazy())
    same(model.partial_fit(lazy()[model.n_samples_seen_ :]).flush(), whole)


# -- a cluster --------------------------------------------------------------------------------------


def in_trouble(folder, kills=(), hungry=()):
    """Return the blocks, some of which kill their worker or eat all its memory when they are first read."""

    def first_time(name):
        try:
            (Path(folder) / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def read(block, block_id=None):
        i = int(block_id[0])
        if i in kills and first_time(f"kill {i}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if i in hungry and first_time(f"hunger {i}"):
            greed = [np.ones(2**24) for _ in range(8)]  # a gigabyte, until the nanny intervenes
            time.sleep(60)
            del greed
        return block

    return lazy().map_blocks(read, dtype=float, meta=np.empty((0, 0)))


@pytest.fixture
def bounded():
    """A cluster that hangs fails the test, after two minutes."""

    def stop(*_):
        raise TimeoutError("two minutes are over")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def reference():
    with dask.config.set(scheduler="synchronous"):
        return {kind: kind(D, random_state=0).fit(lazy()) for kind in (MaxNormDecomposition, OnlineRobustPCA)}


def test_the_same_model_with_one_worker_or_eight(bounded, reference):
    for workers in (1, 8):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
            ) as cluster,
            Client(cluster),
            dask.config.set(scheduler="distributed"),
        ):
            for kind, expected in reference.items():
                same(kind(D, random_state=0).fit(lazy()), expected)


def test_workers_that_die_join_late_or_run_out_of_memory(bounded, reference, tmp_path):
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit="600MB"
        ) as cluster,
        Client(cluster) as client,
        dask.config.set(scheduler="distributed"),
    ):
        before = set(client.scheduler_info()["workers"])

        def join(result):
            if model.n_samples_seen_ == 600:
                cluster.scale(4)

        model = MaxNormDecomposition(D, random_state=0)
        model.fit(in_trouble(tmp_path, kills=(5, 8, 16), hungry=(12,)), callback=join)
        same(model, reference[MaxNormDecomposition])
        assert len(list(tmp_path.iterdir())) == 4  # everything that was to happen has happened
        deadline = time.monotonic() + 60
        while len(client.scheduler_info()["workers"]) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert len(before - set(client.scheduler_info()["workers"])) >= 1

        with pytest.raises(BlockError, match="block 17"):
            model.fit(poisoned("inf"))
        assert model.transform(lazy()).compute().shape == (N, D)


def test_a_round_is_tried_again_if_dask_gives_up(bounded, reference, tmp_path):
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        same(
            MaxNormDecomposition(D, random_state=0).fit(in_trouble(tmp_path, kills=(12,))),
            reference[MaxNormDecomposition],
        )
        assert len(list(tmp_path.iterdir())) == 1


def test_a_large_basis_is_no_reason_to_warn():
    """Dask warns of graphs beyond a size; what a round has to send does not count."""
    limits = []

    def look(block: Stream, big):
        limits.append(
            dask.utils.parse_bytes(dask.config.get("distributed.admin.large-graph-warning-threshold"))
        )

    Blocks.of(lazy()).apply(look, 0, np.zeros(10**6))
    assert limits[0] > 8e6 + 1e7


def test_workers_need_the_library(bounded, monkeypatch):
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
        dask.config.set(scheduler="distributed"),
    ):
        for answer, has in (("'0.0.1'", r"maxnorm 0\.0\.1"), ("__import__('no_such_library')", "no maxnorm")):
            monkeypatch.setattr(maxnorm.dask.blocks, "VERSION_EXPRESSION", answer)
            with pytest.raises(RuntimeError, match=f"has {has}; install maxnorm .* on all workers"):
                MaxNormDecomposition(D).fit(lazy())


def test_blocks_are_streams_of_their_rows():
    def look(block: Stream, factor):
        (rows,) = list(block)
        return factor * len(rows), block.first, block.title

    assert Blocks.of(lazy()).apply(look, 3, 2) == (2 * ROWS, 300, "block 3 (rows 300 to 399)")
