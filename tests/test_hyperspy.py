"""HyperSpy decomposes signals with the estimators, as docs/hyperspy.md says."""

import hyperspy.api as hs
import numpy as np
import pytest

from maxnorm import MaxNormDecomposition, OnlineRobustPCA, open_stream
from maxnorm.streams import StreamError

# HyperSpy 2.5 adds the attribute mean_ of an estimator to the data, so that there must be none.
SETTINGS = {"center": False, "random_state": 0}
CHANNELS = 40

pytestmark = pytest.mark.filterwarnings("ignore")  # of other libraries


def spectrum_image(*, lazy=False):
    """Return a signal with Poisson noise and spikes, its data, and the data without both."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 1.0, CHANNELS)
    peaks = [np.exp(-(((x - centre) / 0.05) ** 2)) for centre in (0.3, 0.7)]
    pure = np.array([40.0 * np.exp(-2.0 * x) + 5.0, 60.0 * peaks[0], 50.0 * peaks[1]])
    amounts = np.dstack([1.0 + 0.3 * rng.random((16, 16)), rng.random((16, 16)), rng.random((16, 16))])
    clean = amounts @ pure
    data = rng.poisson(clean).astype(float)
    spikes = rng.random(data.shape) < 0.01
    data[spikes] += rng.uniform(200, 2000, spikes.sum())
    signal = hs.signals.Signal1D(data.copy())
    if lazy:
        signal = signal.as_lazy()
        signal.data = signal.data.rechunk((8, 8, CHANNELS))
    return signal, data, clean


def error(model, clean):
    """Return the relative error of the model of a signal where it is defined."""
    found = np.asarray(model.data)
    seen = ~np.isnan(found)
    return np.linalg.norm((found - clean)[seen]) / np.linalg.norm(clean[seen])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", [MaxNormDecomposition, OnlineRobustPCA])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_poissonian_noise": True},
        {"output_dimension": 3},
        {"signal_mask": np.arange(CHANNELS) < 4},
    ],
    ids=["plain", "poissonian", "output_dimension", "signal_mask"],
)
def test_a_spectrum_image_is_decomposed_and_reconstructed(lazy, kind, options):
    signal, data, clean = spectrum_image(lazy=lazy)
    fitted = signal.decomposition(
        algorithm=kind(3, **SETTINGS), print_info=False, return_info=True, **options
    )
    assert type(fitted) is kind
    assert error(signal.get_decomposition_model(), clean) < (0.15 if lazy else 0.08)
    np.testing.assert_allclose(signal.data, data)
    assert (np.diff(signal.learning_results.explained_variance_ratio) <= 0.0).all()
    signal.plot_explained_variance_ratio()
    before = signal.learning_results.factors.copy()
    signal.reverse_decomposition_component(0)
    np.testing.assert_allclose(signal.learning_results.factors[:, 0], -before[:, 0])


def test_the_rank_is_found_in_a_masked_image():
    signal, data, clean = spectrum_image()
    mask = np.zeros((16, 16), dtype=bool)
    mask[:3, :7] = True
    signal.decomposition(algorithm=MaxNormDecomposition(**SETTINGS), print_info=False, navigation_mask=mask)
    assert signal.learning_results.factors.shape == (CHANNELS, 3)
    assert error(signal.get_decomposition_model(), clean) < 0.08
    np.testing.assert_allclose(signal.data, data)


def test_a_lazy_signal_continues_the_model_of_some_of_its_pixels():
    signal, data, clean = spectrum_image(lazy=True)
    pixels = np.random.default_rng(0).permutation(256)[:150]
    model = MaxNormDecomposition(**SETTINGS).fit(data.reshape(256, -1)[pixels])
    signal.decomposition(algorithm=model, print_info=False)
    assert model.n_samples_seen_ == 150 + 256
    assert error(signal.get_decomposition_model(), clean) < 0.08


def test_results_are_saved_and_loaded(tmp_path):
    signal, _, clean = spectrum_image()
    signal.decomposition(algorithm=MaxNormDecomposition(3, **SETTINGS), print_info=False)
    signal.learning_results.decomposition_algorithm = "maxnorm"  # HDF5 cannot hold an object
    signal.save(tmp_path / "a.hspy")
    assert error(hs.load(tmp_path / "a.hspy").get_decomposition_model(), clean) < 0.08


@pytest.mark.parametrize(
    ("shape", "n_signal_axes"), [((6, 5, 40), 1), ((7, 40), 1), ((6, 5, 4, 3), 2), ((3, 4, 5, 6), 1)]
)
@pytest.mark.parametrize("chunks", [None, 2])
def test_a_file_is_read_with_one_sample_per_position(tmp_path, shape, n_signal_axes, chunks):
    data = np.random.default_rng(0).random(shape)
    signal = hs.signals.BaseSignal(data).transpose(signal_axes=n_signal_axes)
    signal.save(tmp_path / "a.hspy", **({} if chunks is None else {"chunks": (chunks,) * len(shape)}))
    n_features = int(np.prod(shape[len(shape) - n_signal_axes :]))
    expected = signal.data.reshape(-1, n_features)
    for batch_size in (None, 1, 7):
        stream = open_stream(tmp_path / "a.hspy", batch_size=batch_size)
        assert (stream.n_samples, stream.n_features) == expected.shape
        np.testing.assert_array_equal(np.concatenate(list(stream)), expected)
        np.testing.assert_array_equal(np.concatenate(list(stream.from_row(4))), expected[4:])
    chosen = open_stream(tmp_path / "a.hspy", columns=[2, 0])
    np.testing.assert_array_equal(np.concatenate(list(chosen)), expected[:, [2, 0]])


def test_a_file_of_a_single_spectrum_or_with_a_wrong_key_is_refused(tmp_path):
    hs.signals.Signal1D(np.zeros(10)).save(tmp_path / "single.hspy")
    with pytest.raises(StreamError, match="navigation axes followed by signal axes"):
        open_stream(tmp_path / "single.hspy")
    spectrum_image()[0].save(tmp_path / "image.hspy")
    with pytest.raises(StreamError, match="key='other' names no signal; set key to one of '__unnamed__'"):
        open_stream(tmp_path / "image.hspy", key="other")
    with pytest.raises(StreamError, match="cannot be transposed"):
        open_stream(tmp_path / "image.hspy", transpose=True)
    assert open_stream(tmp_path / "image.hspy", key="__unnamed__").n_samples == 256


def test_a_file_that_refers_to_another_one_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    spectrum_image()[0].save(tmp_path / "image.hspy")
    with h5py.File(tmp_path / "linked.hspy", "w") as file:
        file["Experiments"] = h5py.ExternalLink("image.hspy", "/Experiments")
    with pytest.raises(StreamError, match="refers to other files"):
        open_stream(tmp_path / "linked.hspy")
    assert open_stream(tmp_path / "linked.hspy", external=True).n_samples == 256


def test_a_damaged_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "empty.hspy", "w"):
        pass
    with pytest.raises(StreamError, match="has no group 'Experiments'"):
        open_stream(tmp_path / "empty.hspy")
    spectrum_image()[0].save(tmp_path / "image.hspy")
    with h5py.File(tmp_path / "image.hspy", "a") as file:
        del file["Experiments/__unnamed__/axis-1"]
        file.move("Experiments/__unnamed__/axis-2", "Experiments/__unnamed__/axis-1")
    with pytest.raises(StreamError, match=r"has 2 axes and data of shape \(16, 16, 40\); it is damaged"):
        open_stream(tmp_path / "image.hspy")


def test_a_file_whose_scan_has_enormous_rows_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "large.hspy", "w") as file:
        signal = file.create_group("Experiments/large")
        signal.create_dataset("data", shape=(4, 2**15, 2**10), dtype="uint8", chunks=(1, 16, 2**10))
        for i in range(3):
            signal.create_group(f"axis-{i}").attrs["navigate"] = i < 2
    with pytest.raises(StreamError, match="entries per row of the scan"):
        open_stream(tmp_path / "large.hspy")
