"""Model files: damaged files are refused, and a loaded model continues like the one that was saved."""

import hashlib
import io
import json
import pickle
import subprocess
import sys
import threading
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import maxnorm
from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.core import defaults
from maxnorm.core.batch import Batch
from maxnorm.core.noise import L1, CappedL1
from maxnorm.core.norms import NuclearNorm
from maxnorm.datasets import make_corrupted_low_rank
from maxnorm.persistence import FORMAT, HEADER, ModelFileError, read, save

X = make_corrupted_low_rank(600, 20, 3, corruption=0.1, missing=0.1, random_state=0).X
MODELS = [
    MaxNormDecomposition(3, random_state=0),
    MaxNormDecomposition(3, noise=L1(0.3), half_life=100.0, random_state=0),
    MaxNormDecomposition(3, norm=NuclearNorm(0.2), random_state=0),
    MaxNormDecomposition(3, noise=CappedL1(0.3, 0.6), init=np.eye(3, 20)),
    OnlineRobustPCA(np.int64(3), noise="l21", random_state=np.random.RandomState(0)),
    MaxNormCompletion(3, lambda1=np.float64(0.1), random_state=0),
]
NAMES = ["capped", "l1", "nuclear-norm", "capped-l1-with-init", "robust-pca", "completion"]


def state_arrays(model):
    """Return everything that a model has learnt, waiting rows included."""
    progress = model._progress
    return [
        progress.state.L,
        *(getattr(progress.state.statistics, f.name) for f in fields(progress.state.statistics)),
        *(getattr(progress.state.scales, f.name) for f in fields(progress.state.scales)),
        progress.state.n_samples,
        progress.state.n_steps,
        progress.state.time,
        *(Batch.join(progress.waiting).values if progress.waiting else []),
    ]


def assert_same(a, b):
    for x, y in zip(state_arrays(a), state_arrays(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_a_loaded_model_continues_like_the_saved_one(model, dtype, tmp_path):
    model = clone(model).partial_fit(X[:333].astype(dtype))
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    assert type(again) is type(model)
    assert (again.n_components, again.lambda1) == (model.n_components, model.lambda1)
    assert (str(again.noise), again.half_life) == (str(model.noise), model.half_life)
    assert_same(again, model)
    model.partial_fit(X[333:].astype(dtype))
    again.partial_fit(X[333:].astype(dtype))
    assert_same(again, model)
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.components_.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS, ids=NAMES)
def test_pickling_keeps_the_state(model, dtype):
    model = clone(model).partial_fit(X[:333].astype(dtype))
    assert_same(pickle.loads(pickle.dumps(model)), model)


def test_a_model_continues_bit_for_bit_in_another_process(tmp_path):
    np.save(tmp_path / "x.npy", X)
    whole = MaxNormDecomposition(3, random_state=0).partial_fit(X)
    MaxNormDecomposition(3, random_state=0).partial_fit(X[:217]).save(tmp_path / "m.maxnorm")
    code = (
        "import maxnorm, numpy as np\n"
        "model = maxnorm.load('m.maxnorm').partial_fit(np.load('x.npy')[217:])\n"
        "model.save('n.maxnorm')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert_same(maxnorm.load(tmp_path / "n.maxnorm"), whole)


def test_feature_names_and_pandas_output_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"s{i}" for i in range(20)])
    model = OnlineRobustPCA(3, random_state=0).set_output(transform="pandas").fit(frame)
    model.save(tmp_path / "m.maxnorm")
    again = maxnorm.load(tmp_path / "m.maxnorm")
    pandas.testing.assert_frame_equal(again.transform(frame), model.transform(frame))


def test_principal_component_pursuit_is_saved_and_loaded(tmp_path):
    model = PrincipalComponentPursuit().fit(X[:100])
    model.save(tmp_path / "m.maxnorm")
    np.testing.assert_array_equal(maxnorm.load(tmp_path / "m.maxnorm").low_rank_, model.low_rank_)


def test_an_estimator_that_is_not_fitted_is_saved_and_loaded(tmp_path):
    OnlineRobustPCA(3).save(tmp_path / "m.maxnorm")
    assert not maxnorm.load(tmp_path / "m.maxnorm").__sklearn_is_fitted__()


def test_the_header_is_readable_json(tmp_path):
    model = MaxNormDecomposition(3, random_state=0).fit(X)
    save(model, tmp_path / "m.maxnorm", about={"data": "x.csv"})
    with zipfile.ZipFile(tmp_path / "m.maxnorm") as archive:
        header = json.loads(archive.read(HEADER))
    assert header["format"] == FORMAT
    assert header["estimator"] == "MaxNormDecomposition"
    assert header["parameters"]["n_components"] == 3
    assert header["versions"]["maxnorm"] == maxnorm.__version__
    assert header["about"] == {"data": "x.csv"}


@pytest.fixture
def saved(tmp_path):
    model = OnlineRobustPCA(2, random_state=0).partial_fit(X[:50])
    model.save(tmp_path / "m.maxnorm")
    return model, tmp_path / "m.maxnorm"


def test_a_flipped_bit_is_detected_or_harmless(saved):
    model, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    detected = 0
    for position in rng.integers(len(content), size=400):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            again = maxnorm.load(path)
        except ModelFileError:
            detected += 1
        else:  # a flipped bit in a date, for example, changes nothing that is loaded
            assert_same(again, model)
            assert repr(again) == repr(model)
    assert detected > 250


def test_a_truncated_file_is_refused(saved):
    _, path = saved
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"m\.maxnorm: not a model file, or damaged"):
            maxnorm.load(path)


def rewrite(path, change):
    """Change the header and the arrays of a model file."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(contents[HEADER])
    change(header, contents)
    contents[HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def test_a_newer_format_is_refused_with_the_version_that_wrote_it(saved):
    _, path = saved
    rewrite(path, lambda header, _: header.update(format=FORMAT + 1, versions={"maxnorm": "9.0"}))
    with pytest.raises(ModelFileError, match=r"format 3, written by maxnorm 9\.0.*upgrade maxnorm"):
        maxnorm.load(path)


def test_an_array_with_a_wrong_checksum_is_refused(saved):
    _, path = saved

    def swap(header, contents):
        buffer = io.BytesIO()
        np.save(buffer, np.zeros((20, 2)))
        contents["_progress.state.L.npy"] = buffer.getvalue()

    rewrite(path, swap)
    with pytest.raises(ModelFileError, match=r"the checksum of .* is wrong"):
        maxnorm.load(path)


class Trap:
    """An object that ends the process when it is unpickled."""

    def __reduce__(self):
        return (sys.exit, ("executed",))


def test_a_pickled_object_in_a_model_file_is_not_executed(saved):
    _, path = saved

    def plant(header, contents):
        buffer = io.BytesIO()
        np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
        contents["_progress.state.L.npy"] = buffer.getvalue()
        header["sha256"]["_progress.state.L.npy"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    rewrite(path, plant)
    with pytest.raises(ModelFileError, match="an array holds object, not numbers"):
        maxnorm.load(path)


def test_a_pickle_file_is_not_executed(tmp_path):
    (tmp_path / "p.maxnorm").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ModelFileError, match="not a model file"):
        maxnorm.load(tmp_path / "p.maxnorm")


@pytest.mark.parametrize("name", ["os.system", "open_stream"])
def test_only_estimators_of_the_library_are_created(name, tmp_path):
    path = tmp_path / "m.maxnorm"
    OnlineRobustPCA(2).save(path)
    rewrite(path, lambda header, _: header.update(estimator=name))
    with pytest.raises(ModelFileError, match="unknown estimator"):
        maxnorm.load(path)


def test_files_of_other_formats_are_refused(tmp_path):
    (tmp_path / "x.maxnorm").write_text("hello")
    np.savez(tmp_path / "x.npz", X)
    for name in ("x.maxnorm", "x.npz"):
        with pytest.raises(ModelFileError, match="not a model file"):
            maxnorm.load(tmp_path / name)


def test_paths_that_do_not_exist_or_are_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        maxnorm.load(tmp_path / "none.maxnorm")
    with pytest.raises(ModelFileError, match="is a folder"):
        maxnorm.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        OnlineRobustPCA(2).save(tmp_path / "nowhere" / "m.maxnorm")


class CustomNoise:
    def prox(self, V):
        return 0.0 * V

    def value(self, E):
        return E.sum(axis=1)


def test_a_model_with_a_custom_noise_cannot_be_saved(tmp_path):
    with pytest.raises(
        TypeError, match="noise is a CustomNoise, which cannot be saved in a model file; pickle"
    ):
        OnlineRobustPCA(2, noise=CustomNoise()).save(tmp_path / "m.maxnorm")
    assert not list(tmp_path.iterdir())


def test_a_subclass_of_an_estimator_cannot_be_saved(tmp_path):
    class Subclass(OnlineRobustPCA):
        pass

    with pytest.raises(TypeError, match="Subclass is not an estimator of maxnorm"):
        Subclass(2).save(tmp_path / "m.maxnorm")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_previous_file_unchanged(saved):
    model, path = saved
    code = (
        "import resource, maxnorm\n"
        "model = maxnorm.load('m.maxnorm')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: model.save('m.maxnorm')\n"
        "except OSError as error: print('refused')\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=path.parent)
    assert result.stdout.strip() == "refused", result.stderr
    assert_same(maxnorm.load(path), model)
    assert [file.name for file in path.parent.iterdir()] == ["m.maxnorm"]


def test_the_same_model_gives_the_same_bytes(saved):
    model, path = saved
    before = path.read_bytes()
    model.save(path)
    assert path.read_bytes() == before
    assert read(path)[1]["about"] == {}


# -- files of earlier versions ----------------------------------------------------------------------


def test_models_saved_by_version_0_1_are_loaded_and_continue(monkeypatch):
    """The files hold models with waiting rows; the expected values are those of version 0.1.

    The tolerance of the sweeps is that of version 0.1, because it has since become looser.
    """
    monkeypatch.setattr(defaults, "SWEEPS", replace(defaults.SWEEPS, learning_tol=0.01))
    data = Path(__file__).parent / "data"
    samples = make_corrupted_low_rank(60, 8, 2, corruption=0.1, random_state=0).X
    model = maxnorm.load(data / "v01-decomposition.maxnorm")
    assert (model.basis_update, model.n_samples_seen_) == ("exact", 45)
    model.partial_fit(samples[45:]).flush()
    np.testing.assert_allclose(model.components_[0, :3], [-0.545524761, -1.671349634, 0.829221526])
    values = np.loadtxt(data / "v01-ratings.csv", delimiter=",")
    there = ~np.isnan(values)
    ratings = sp.csr_array((values[there], np.nonzero(there)), shape=values.shape)
    model = maxnorm.load(data / "v01-completion.maxnorm")
    assert (model.gram, model.biases, model.n_samples_seen_) == ("per-feature", True, 123)
    model.partial_fit(ratings).flush()
    np.testing.assert_allclose(model.components_[0, :3], [0.209834499, 0.575028644, -0.421381070])


def change_header(*keys, value):
    """Return a function for ``rewrite`` that changes one value of the header."""

    def change(header, contents):
        node = header
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return change


def change_array(name, array):
    """Return a function for ``rewrite`` that replaces an array and its checksum."""

    def change(header, contents):
        buffer = io.BytesIO()
        np.save(buffer, array)
        contents[f"{name}.npy"] = buffer.getvalue()
        header["sha256"][f"{name}.npy"] = hashlib.sha256(buffer.getvalue()).hexdigest()

    return change


@pytest.mark.parametrize("position", [-1, 625, 2**40, 1.5])
def test_a_random_generator_out_of_range_is_refused(position, tmp_path):
    model = OnlineRobustPCA(2, random_state=np.random.RandomState(0))
    model.save(tmp_path / "m.maxnorm")
    rewrite(
        tmp_path / "m.maxnorm",
        change_header("parameters", "random_state", "random_state", 2, value=position),
    )
    with pytest.raises(ModelFileError, match="the position of the random generator is"):
        maxnorm.load(tmp_path / "m.maxnorm")


@pytest.mark.parametrize(
    ("part", "entry", "value"), [("indptr", 1, 10**9), ("indices", 0, 10**9), ("indices", 0, -5)]
)
def test_broken_indices_of_waiting_rows_are_refused(part, entry, value, tmp_path):
    rows = sp.csr_array(np.where(np.isnan(X[:30]), 0.0, X[:30]))
    model = MaxNormCompletion(2, random_state=0, batch_size=100).partial_fit(rows)
    model.save(tmp_path / "m.maxnorm")
    broken = getattr(model._progress.waiting[0].values, part).copy()
    broken[entry] = value
    rewrite(tmp_path / "m.maxnorm", change_array(f"_progress.waiting.0.values.{part}", broken))
    with pytest.raises(ModelFileError, match="damaged"):
        maxnorm.load(tmp_path / "m.maxnorm")


@pytest.mark.parametrize("name", ["fit", "__class__", "_cache", "other_"])
def test_unknown_attributes_are_refused(name, saved):
    _, path = saved
    rewrite(path, change_header("learnt", name, value="something"))
    with pytest.raises(ModelFileError, match=f"the attribute '{name}' is not known"):
        maxnorm.load(path)


def test_numbers_that_are_not_finite_are_refused(saved):
    model, path = saved
    rewrite(path, change_array("_progress.state.L", np.full_like(model.state_.L, np.nan)))
    with pytest.raises(ModelFileError, match="the basis is not finite"):
        maxnorm.load(path)


def test_fewer_entries_than_samples_are_refused(tmp_path):
    path = tmp_path / "m.maxnorm"
    OnlineRobustPCA(2, random_state=0).fit(X[:50]).save(path)
    place = ("learnt", "_progress", "fields", "state", "fields", "statistics", "fields")
    rewrite(path, change_header(*place, "entries", value=0.0))
    with pytest.raises(ModelFileError, match="entries is smaller than weight"):
        maxnorm.load(path)


def test_a_file_that_expands_is_refused_before_it_is_read(saved):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
        archive.writestr("large.npy", b"\0" * 2**24)
    with pytest.raises(ModelFileError, match="is compressed"):
        maxnorm.load(path)


def test_an_array_that_declares_more_than_it_holds_is_refused(saved):
    _, path = saved

    def declare(header, contents):
        name = "_progress.state.L.npy"
        contents[name] = contents[name].replace(
            b"'shape': (20, 2), }          ", b"'shape': (9999999999, 2), }  "
        )
        header["sha256"][name] = hashlib.sha256(contents[name]).hexdigest()

    rewrite(path, declare)
    with pytest.raises(ModelFileError, match="an array has not the size that its shape"):
        maxnorm.load(path)


def test_threads_that_save_to_one_file_leave_one_whole_model(tmp_path):
    models = [OnlineRobustPCA(d, random_state=0).fit(X) for d in (2, 3)]
    errors = []

    def save_often(model):
        try:
            for _ in range(20):
                model.save(tmp_path / "m.maxnorm")
                maxnorm.load(tmp_path / "m.maxnorm")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=save_often, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [path.name for path in tmp_path.iterdir()] == ["m.maxnorm"]
