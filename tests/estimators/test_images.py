"""Images, spectra and other samples of several dimensions."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import maxnorm
from maxnorm import (
    AnomalyDetector,
    MaxNormCompletion,
    MaxNormDecomposition,
    PrincipalComponentPursuit,
    open_stream,
)

RNG = np.random.default_rng(0)
IMAGES = (RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 8 * 10))).reshape(60, 8, 10)
IMAGES = np.where(RNG.random(IMAGES.shape) < 0.05, 30.0, IMAGES)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaxNormDecomposition(2, random_state=0),
        lambda: MaxNormCompletion(2, noise="capped", random_state=0),
        PrincipalComponentPursuit,
    ],
    ids=["decomposition", "completion", "pursuit"],
)
def test_images_are_decomposed_as_their_pixels_and_come_back_in_their_shape(make):
    rows = IMAGES.reshape(60, -1)
    expected = make().fit(rows).decompose(rows)
    for images in (IMAGES, list(IMAGES)):
        model = make().fit(images)
        parts = model.decompose(images)
        assert model.n_features_in_ == 80
        assert parts.low_rank.shape == parts.noise.shape == parts.residual.shape == IMAGES.shape
        assert_array_equal(parts.low_rank.reshape(60, -1), expected.low_rank)
        assert_array_equal(parts.coefficients, expected.coefficients)
        assert model.transform(images).shape[0] == 60


def test_colour_images_and_streams_of_them():
    images = IMAGES.reshape(60, 8, 5, 2)
    model = MaxNormDecomposition(2, random_state=0)
    for batch in np.array_split(images, 4):
        model.partial_fit(batch)
    assert model.decompose(images).noise.shape == images.shape
    assert model.score_samples(images).shape == (60,)


def test_the_detector_takes_images():
    assert AnomalyDetector(random_state=0).fit(IMAGES).predict(IMAGES).shape == (60,)


def test_an_iterator_of_images_is_not_taken_for_batches():
    pictures = np.clip(100.0 + 10.0 * IMAGES, 0, 255).astype(np.uint8)
    with pytest.raises(ValueError, match=r"may be an image or 8 samples.*yield batch.astype\(float\)"):
        MaxNormDecomposition(2).partial_fit(iter(pictures))
    with pytest.raises(ValueError, match="or use VideoBackground for films"):
        MaxNormDecomposition(2).partial_fit(iter(pictures[..., None]))
    MaxNormDecomposition(2).partial_fit(picture.ravel() for picture in pictures)


@pytest.mark.parametrize("make", [lambda: MaxNormDecomposition(2, random_state=0), PrincipalComponentPursuit])
def test_the_shape_of_an_image_is_remembered(make, tmp_path):
    model = make().fit(IMAGES)
    assert model.feature_shape_ == (8, 10)
    model.save(tmp_path / "m.maxnorm")
    assert maxnorm.load(tmp_path / "m.maxnorm").feature_shape_ == (8, 10)
    assert pickle.loads(pickle.dumps(model)).feature_shape_ == (8, 10)
    model.decompose(IMAGES.reshape(60, -1))
    assert model.feature_shape_ == (8, 10)


@pytest.mark.parametrize("as_rows", [lambda rows: rows, open_stream], ids=["array", "stream"])
def test_the_shape_of_an_image_is_forgotten_if_samples_are_rows(as_rows):
    model = MaxNormDecomposition(2, random_state=0).fit(IMAGES)
    model.fit(as_rows(IMAGES.reshape(60, -1)))
    assert not hasattr(model, "feature_shape_")


def test_the_shape_of_the_first_images_of_a_stream_is_remembered():
    model = MaxNormDecomposition(2, random_state=0)
    for batch in np.array_split(IMAGES, 4):
        model.partial_fit(batch)
    assert model.feature_shape_ == (8, 10)


@pytest.mark.parametrize("shape", [(8, 11), [8, 10], (-8, -10), (80.0,), "80"])
def test_a_file_with_a_shape_that_does_not_fit_is_refused(shape, tmp_path):
    model = MaxNormDecomposition(2, random_state=0).fit(IMAGES)
    model.feature_shape_ = shape
    model.save(tmp_path / "m.maxnorm")
    with pytest.raises(maxnorm.persistence.ModelFileError, match="feature_shape_"):
        maxnorm.load(tmp_path / "m.maxnorm")
