"""What a decomposition shows of its factor model, where users of PCA and FactorAnalysis look for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxnorm.core.factor_model import FactorModel
from maxnorm.core.state import State
from maxnorm.core.types import Array
from maxnorm.estimators.answers import DistanceAnswer


class FactorModelMixin:
    """Estimators that may explain samples by a factor model."""

    state_: State
    center: bool
    whiten: bool
    _snapshot: Callable[[], tuple[Any, State]]
    _learner: Callable[[], Any]
    _apply: Callable[..., Any]

    def _model(self) -> FactorModel:
        """Return the factor model; raise an error if samples are not explained by one."""
        learner, state = self._snapshot()
        model: FactorModel | None = learner.model_at(state)
        if model is None:
            raise AttributeError(
                f"this {type(self).__name__} has no statistical model, which needs scale='auto' or "
                "center=True, lambda1='auto', lambda2='auto', and noise='capped' or 'none'"
            )
        return model

    @property
    def components_(self) -> Array:
        """Basis vectors in rows, an array of shape (n_components, n_features).

        They are the principal axes of the low-rank part if samples are explained by the factor model.
        Otherwise they are the basis of the paper's problem, read-only.
        """
        learner, state = self._snapshot()
        model = learner.model_at(state)
        if model is not None:
            return model.principal.vectors.T.astype(state.L.dtype)
        if state.gauge is None:
            return state.L.T
        return (state.L * state.gauge.scale[:, None]).T.astype(state.L.dtype)

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self.components_)

    @property
    def mean_(self) -> Array:
        """Mean of the samples without gross errors, which is added to what ``components_`` describe.

        It exists with ``center`` only, as for ``TruncatedSVD`` of scikit-learn.
        """
        learner, state = self._snapshot()
        if not self.center:
            raise AttributeError(f"this {type(self).__name__} has no mean_, which needs center=True")
        model = learner.model_at(state)
        if model is not None:
            return model.mean.astype(state.L.dtype)
        location, gauge = learner.location_at(state), state.gauge
        if gauge is None:  # all samples so far were empty
            return np.zeros(len(state.L), state.L.dtype)
        return (gauge.centre + location * gauge.scale).astype(state.L.dtype)

    @property
    def explained_variance_(self) -> Array:
        """Variance of the low-rank part along each component."""
        return self._model().principal.deviations ** 2

    @property
    def explained_variance_ratio_(self) -> Array:
        """Share of each component in the variance of samples without gross errors."""
        model = self._model()
        explained = model.principal.deviations**2
        total = explained.sum() + model.noise_variance.sum()
        return explained / (total if total > 0.0 else 1.0)

    @property
    def _whitening(self) -> Array | None:
        """Standard deviations by which coefficients are divided; None if they are not whitened.

        Along a component without variance all coefficients are zero, and remain so.
        """
        if not self.whiten:
            return None
        deviations = self._model().principal.deviations
        return np.where(deviations > 0.0, deviations, 1.0)

    @property
    def singular_values_(self) -> Array:
        """Singular values of the low-rank part of the samples learnt from, about their mean."""
        n_samples = max(self.state_.n_samples - 1, 0)
        return np.sqrt(n_samples) * self._model().principal.deviations

    @property
    def noise_variance_(self) -> Array:
        """Variance of the dense noise of each feature."""
        return self._model().noise_variance

    def get_covariance(self) -> Array:
        """Return the covariance matrix of samples without gross errors.

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
            The covariance of the low-rank part, and the noise variances on the diagonal.
        """
        model = self._model()
        axes = model.principal
        covariance: Array = (axes.vectors * axes.deviations**2) @ axes.vectors.T
        covariance[np.diag_indices_from(covariance)] += model.noise_variance
        return covariance

    def get_precision(self) -> Array:
        """Return the inverse of the covariance matrix.

        Returns
        -------
        precision : ndarray of shape (n_features, n_features)
            The precision matrix.
        """
        model = self._model()
        axes, noise = model.principal, model.noise_variance
        used = axes.deviations > 0.0
        V = axes.vectors[:, used]
        whitened = V / noise[:, None]
        inner = V.T @ whitened + np.diag(axes.deviations[used] ** -2.0)
        precision: Array = np.diag(1.0 / noise) - whitened @ np.linalg.solve(inner, whitened.T)
        return precision

    def mahalanobis(self, X: Any) -> Array:
        """Return the squared Mahalanobis distance of the observed entries of each sample from the mean.

        For samples without gross errors it has about a chi-squared distribution, with as many degrees of
        freedom as there are observed entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples in rows. NaN marks missing entries.

        Returns
        -------
        distances : ndarray of shape (n_samples,), or Dask array for a Dask collection
            The squared distances.
        """
        self._model()
        distances: Array = self._apply(X, DistanceAnswer(self._learner()))[0]
        return distances
