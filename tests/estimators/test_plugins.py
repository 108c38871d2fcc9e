"""Noise models and norms as objects: equal to those with a name, and refused if they lack a method."""

import numpy as np
import pytest

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA
from maxnorm.core.noise import L1, NOISES
from maxnorm.core.norms import NORMS, FactorNorm, MaxNorm, NuclearNorm
from maxnorm.datasets import make_corrupted_low_rank

X = make_corrupted_low_rank(300, 20, 3, corruption=0.1, random_state=0).X


def test_the_two_decompositions_are_one_implementation_with_two_norms():
    for parameters in ({}, {"lambda1": 0.1}, {"noise": "l21"}):
        a = MaxNormDecomposition(3, norm="nuclear", random_state=0, **parameters).fit(X)
        b = OnlineRobustPCA(3, random_state=0, **parameters).fit(X)
        np.testing.assert_array_equal(a.components_, b.components_)
        assert a.lambda1_ == b.lambda1_


@pytest.mark.parametrize(("name", "norm"), [("max", MaxNorm(0.2)), ("nuclear", NuclearNorm(0.2))])
def test_a_norm_object_is_the_named_norm_with_its_weight(name, norm):
    given = MaxNormDecomposition(3, norm=norm, random_state=0).fit(X)
    named = MaxNormDecomposition(3, norm=name, lambda1=0.2, random_state=0).fit(X)
    np.testing.assert_array_equal(given.components_, named.components_)
    assert given.lambda1_ == 0.2


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("noise", NOISES)
def test_every_name_in_the_tables_is_accepted(name, noise):
    model = MaxNormDecomposition(3, norm=name, noise=noise, random_state=0).fit(X)
    assert np.isfinite(model.components_).all()


class OnlyProx:
    def prox(self, V):
        return V


class Incomplete:
    lambda1 = 1.0

    def multipliers(self, G, sigma, weight, start):
        return np.zeros(len(G))

    def coefficient_value(self, R):
        return np.zeros(len(R))


@pytest.mark.parametrize("estimator", [MaxNormDecomposition, OnlineRobustPCA, MaxNormCompletion])
def test_a_noise_without_a_method_is_refused_with_its_name(estimator):
    with pytest.raises(TypeError, match=r"noise of .*Noise: OnlyProx must also implement value"):
        estimator(noise=OnlyProx()).fit(X)


def test_a_norm_without_methods_is_refused_with_their_names():
    message = r"norm of .*FactorNorm: Incomplete must also implement basis_value, update_basis, first_scale"
    with pytest.raises(TypeError, match=message):
        MaxNormDecomposition(norm=Incomplete()).fit(X)

    class Unfinished(FactorNorm):
        def basis_value(self, L):
            return 0.0

    with pytest.raises(TypeError, match="coefficient_value"):
        Unfinished()


@pytest.mark.parametrize("norm", ["schatten", 3, None])
def test_what_is_not_a_norm_is_refused(norm):
    with pytest.raises(ValueError, match="norm of MaxNormDecomposition must be one of 'max', 'nuclear'"):
        MaxNormDecomposition(norm=norm).fit(X)


def test_a_class_in_place_of_an_instance_is_refused():
    for parameters in ({"norm": MaxNorm}, {"noise": L1}):
        with pytest.raises(TypeError, match=r"is the class .*; pass an instance of it"):
            MaxNormDecomposition(**parameters).fit(X)


def test_a_weight_beside_an_object_that_has_its_own_is_refused():
    with pytest.raises(ValueError, match=r"lambda2=0\.1 .* set it on the noise"):
        MaxNormDecomposition(noise=L1(0.2), lambda2=0.1).fit(X)
    with pytest.raises(ValueError, match=r"lambda1=0\.1 .* set it on the norm"):
        MaxNormDecomposition(norm=MaxNorm(0.2), lambda1=0.1).fit(X)
