"""The factor model of everyday data: location, loadings, noise variances and gross errors.

A sample is modelled, in the units of a :class:`~maxnorm.core.gauge.Gauge`, as

    z = mu + L r + noise,        r ~ N(0, I),

where the noise of an entry of feature j is N(0, psi_j), or N(0, psi_j + kappa^2) if the entry is a gross
error, which it is with probability pi. The loadings of component k have the prior N(0, 1 / a_k). Missing
entries are left out. The posterior of the coefficients r and that of the loadings are found in turn
(variational Bayes). The *uncertainty* of both is what makes spare components and few samples harmless: a
component that the data do not support is drawn towards zero by its own uncertainty.

Everything that an update needs is a sum over samples (:class:`FactorSums`), so that sums of parts of the data
can be added. The location is treated as the loading of a coefficient that is always one. ``docs/model.md``
derives the updates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, ndtr

from maxnorm.core.batch import Batch
from maxnorm.core.gauge import Gauge
from maxnorm.core.linalg import products, symmetric, upper_triangle
from maxnorm.core.types import Array, Mask

LARGEST_LEVERAGE = 0.98  # of an entry on its own prediction; with more, nothing else tells what it should be
BLOCK_ENTRIES = 2**21  # entries of the covariances of samples that are in memory at a time
SMALLEST_NOISE = 1e-8  # noise variance, in units of the variance of a feature
LEAST_SHARE, MOST_SHARE = 1e-4, 0.5  # of entries that are gross errors
LEAST_ODDS = 2.0  # log odds of dense noise at no deviation, so that no limit is below two deviations
GROSS_ERROR = 3.0  # a gross error has at least this many standard deviations of the noise
# Precisions of the prior of the location, in units of the gauge: if it is learnt, and if it stays zero.
LOCATION_PRECISION, FIXED_PRECISION = 1e-3, 1e12
LEAST_VARIATION = 0.001  # variance of the logarithms of the noise variances that is always allowed for
ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # errors of an eigenvalue, in units of the sum of all
NEGLIGIBLE_WEIGHT = 1e-3  # of an entry, which is taken as zero
ANNEALING = (0.1, 0.01)  # the first noise, in units of the signal, and the factor by which it falls
UNDAMPED = 10  # iterations after which the changes of weights are damped more and more
SETTLED = 1e-3  # change of a weight that is small enough


class Posterior(NamedTuple):
    """What is believed of the coefficients of samples, and of their entries."""

    R: Array  #: b x d, means of the coefficients
    S: Array  #: b x d x d, covariances of the coefficients
    fitted: Array  #: b x p, predicted entries
    spread: Array  #: b x p, variances of the predictions that are due to the coefficients


class Axes(NamedTuple):
    """Principal axes, in decreasing order of the variance along them."""

    vectors: Array  #: p x k, orthonormal columns; the largest entry of each is positive
    deviations: Array  #: k, standard deviations along them
    turn: Array  #: d x k, by which coefficients are multiplied to obtain those along the axes


class Judgement(NamedTuple):
    """How each entry compares with what the other entries of its sample predict for it."""

    weights: Array  #: b x p, probability that the entry is not a gross error; zero if it is missing
    deviation: Array  #: b x p, what the entry is off


@dataclass(frozen=True, eq=False)
class FactorSums:
    """Sums over samples from which the model is updated; they can be added."""

    n: float  #: sum of the weights of the samples
    counts: Array  #: p, sum of the weights of the entries that are believed
    grams: Array  #: p x k, per feature the sum of the second moments of (r, 1), packed
    targets: Array  #: p x (d + 1), per feature the sum of its entries times (r, 1)
    squares: Array  #: p, per feature the sum of the squares of its entries
    moments: Array  #: k, sum of the second moments of (r, 1) over samples, packed
    observed: float  #: number of observed entries
    gross: float  #: sum of the probabilities that they are gross errors
    gross_squares: float  #: sum of the squares of the gross errors
    evidence: float  #: the part of the evidence that is a sum over samples

    def __add__(self, other: FactorSums) -> FactorSums:
        return FactorSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class FactorModel:
    """Location, loadings with their uncertainty, noise variances and gross errors, in units of the gauge."""

    gauge: Gauge
    basis: Array  #: p x (d + 1), the loadings of each feature and, last, its location
    noise: Array  #: p, noise variances psi
    covariances: Array | None = None  #: p x (d + 1) x (d + 1), of the rows of the basis; None if negligible
    precisions: Array | None = None  #: d, precisions a of the loadings of each component
    gross_share: float = 0.05  #: pi
    gross_variance: float = 25.0  #: kappa^2
    center: bool = True  #: whether the location is learnt; otherwise it is zero

    @property
    def n_components(self) -> int:
        """Number of components d."""
        return self.basis.shape[1] - 1

    @property
    def loadings(self) -> Array:
        """The matrix L, p x d."""
        return self.basis[:, :-1]

    @property
    def location(self) -> Array:
        """The vector mu."""
        return self.basis[:, -1]

    @property
    def information(self) -> Array:
        """What a sample tells of each of its coefficients, in units of what is known before."""
        return np.einsum("ij,ij->j", self.loadings, self.loadings / self.noise[:, None])

    @cached_property
    def second_moments(self) -> Array:
        """Packed second moments of the rows of the basis, E[(l, mu) (l, mu)^T]."""
        moments: Array = products(self.basis)
        if self.covariances is None:
            return moments
        left, right = upper_triangle(self.basis.shape[1])
        return moments + self.covariances[:, left, right]

    @cached_property
    def spreading(self) -> Array:
        """The matrix by which packed covariances of coefficients become variances of the predictions."""
        left, right = upper_triangle(self.n_components)
        return (products(self.loadings) * np.where(left == right, 1.0, 2.0)).T

    @cached_property
    def doubting(self) -> Array:
        """The matrix by which packed moments of (r, 1) become variances due to the uncertain basis."""
        left, right = upper_triangle(self.n_components + 1)
        if self.covariances is None:
            return np.zeros((len(left), len(self.basis)))
        return (self.covariances[:, left, right] * np.where(left == right, 1.0, 2.0)).T

    @property
    def prior_precisions(self) -> Array:
        """The precisions of the loadings, one if they were not learnt."""
        return np.ones(self.n_components) if self.precisions is None else self.precisions

    @property
    def noise_variance(self) -> Array:
        """Noise variances, in the units of the data."""
        with np.errstate(over="ignore"):  # the squares of extreme units are infinite
            return self.noise * self.gauge.scale**2

    @property
    def mean(self) -> Array:
        """Mean of the samples, in the units of the data."""
        return self.gauge.centre + self.location * self.gauge.scale

    @cached_property
    def principal(self) -> Axes:
        """The principal axes of the low-rank part, in the units of the data."""
        d, p = self.n_components, len(self.basis)
        vectors, deviations, W = np.linalg.svd(self.loadings * self.gauge.scale[:, None], full_matrices=False)
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])])
        signs[signs == 0.0] = 1.0
        spare = max(d - p, 0)  # more components than features: the rest are zero
        return Axes(
            np.pad(vectors * signs, ((0, 0), (0, spare))),
            np.pad(deviations, (0, spare)),
            np.pad(W.T * (signs * deviations), ((0, 0), (0, spare))),
        )

    @cached_property
    def annealed(self) -> list[FactorModel]:
        """Models with more noise, which falls to that of the model.

        With little noise, a gross error that is not recognised at first outweighs everything else.
        """
        signal = np.einsum("ij,ij->i", self.loadings, self.loadings)
        stages, share = [], ANNEALING[0]
        while np.any(share * signal > self.noise):
            stages.append(replace(self, noise=np.maximum(self.noise, share * signal)))
            share *= ANNEALING[1]
        return stages

    def standardised(self, batch: Batch) -> tuple[Array, Mask]:
        """Return samples in units of the gauge, and the mask of the observed entries."""
        Z, mask = batch.dense()
        observed = np.ones(Z.shape, dtype=np.bool_) if mask is None else mask
        return self.gauge.standardise(Z, mask), observed

    # -- samples --------------------------------------------------------------------------------------

    def expect(self, T: Array, weights: Array) -> Posterior:
        """Return the posterior of the coefficients of standardised samples, given the weights of entries."""
        d, L = self.n_components, self.loadings
        precise = weights / self.noise
        G = symmetric(precise @ self.second_moments, d + 1)
        S = np.linalg.inv(G[:, :d, :d] + np.eye(d))
        linear = (precise * T) @ L - G[:, :d, d]
        R = np.matmul(S, linear[:, :, None])[:, :, 0]
        left, right = upper_triangle(d)
        spread = S[:, left, right] @ self.spreading
        return Posterior(R, S, R @ L.T + self.location, spread)

    def judge(
        self, T: Array, observed: Mask, weights: Array, known: Posterior, doubt: Array | float = 0.0
    ) -> Judgement:
        """Compare each entry with what the other entries of its sample predict for it.

        The prediction without the entry follows from that with it by the leverage of the entry. If ``doubt``
        is given, the variances of the predictions that are due to the basis, the prediction is that of a
        basis which was found without the entry, too.
        """
        unsure = np.maximum(known.spread, 0.0) + doubt  # rounding errors may be negative
        leverage = np.minimum(weights * unsure / self.noise, LARGEST_LEVERAGE)
        deviation = np.where(observed, (T - known.fitted) / (1.0 - leverage), 0.0)
        variance = self.noise + unsure / (1.0 - leverage)
        # The logarithm of the ratio of the two densities, times that of the two shares.
        ratio = self.gross_variance / variance
        odds = math.log(1.0 / self.gross_share - 1.0) + 0.5 * np.log1p(ratio)
        odds -= 0.5 * deviation**2 / variance * (ratio / (1.0 + ratio))
        found = expit(odds) * observed
        found[found < NEGLIGIBLE_WEIGHT] = 0.0
        return Judgement(found, deviation)

    @cached_property
    def clean_limits(self) -> tuple[Array, Array]:
        """The limits of :func:`clean_limits`."""
        return clean_limits(self.noise, self.gross_share, self.gross_variance)

    def start_weights(self, T: Array, observed: Mask) -> Array:
        """Return the weights of entries before anything is known of the coefficients of their sample."""
        unknown = np.einsum("ij,ij->i", self.loadings, self.loadings)
        known = Posterior(np.empty(0), np.empty(0), self.location, np.broadcast_to(unknown, T.shape))
        return self.judge(T, observed, np.zeros(T.shape), known).weights

    def encode(
        self, T: Array, observed: Mask, max_iter: int, *, is_robust: bool = True
    ) -> tuple[Posterior, Array, NDArray[np.int_], Mask]:
        """Return what is believed of standardised samples, and of each whether its weights have settled.

        The weights of the entries and the coefficients are found in turn, from the weights that the entries
        have before anything is known of the coefficients. Without ``is_robust``, no entry is a gross error.

        Returns
        -------
        known : Posterior
            The coefficients and predictions.
        weights : array of shape (b, p)
            Probabilities that the entries are not gross errors; zero for missing ones.
        n_iter : array of shape (b,)
            Number of iterations for each sample.
        converged : array of shape (b,)
            Whether the weights of a sample have settled.
        """
        if not is_robust:
            believed, ones = observed.astype(np.float64), np.ones(len(T), dtype=np.int_)
            return self.expect(T, believed), believed, ones, ones.astype(np.bool_)
        first = self.start_weights(T, observed)
        known = self.expect(T, first)
        weights = self.judge(T, observed, first, known).weights
        converged = np.max(np.abs(weights - first), axis=1, initial=0.0) <= SETTLED
        doubtful = np.flatnonzero(np.any(observed & (np.minimum(first, weights) < 0.5), axis=1))
        if len(doubtful) and self.annealed:
            weights[doubtful] = self.anneal(T[doubtful], observed[doubtful], first[doubtful])
            converged[doubtful] = False
        n_iter, active = np.ones(len(T), dtype=np.int_), np.flatnonzero(~converged)
        for iteration in range(1, max_iter):
            if not len(active):
                break
            part = self.expect(T[active], weights[active])
            found = self.judge(T[active], observed[active], weights[active], part).weights
            if iteration > UNDAMPED:  # weights that alternate settle in between
                found = weights[active] + (found - weights[active]) / (1.0 + iteration / UNDAMPED)
            for field, new in zip(known, part, strict=True):
                field[active] = new
            converged[active] = np.max(np.abs(found - weights[active]), axis=1) <= SETTLED
            weights[active] = found
            n_iter[active] += 1
            active = active[~converged[active]]
        return known, weights, n_iter, converged

    def log_likelihood(self, T: Array, observed: Mask) -> Array:
        """Return the log-likelihood of the observed entries of samples, as if there were no gross errors."""
        distance, log_determinant, counts = self.distances(T, observed)
        constant = counts * math.log(2.0 * math.pi) + 2.0 * (observed @ np.log(self.gauge.scale))
        return -0.5 * (distance + log_determinant + constant)

    def distances(self, T: Array, observed: Mask) -> tuple[Array, Array, Array]:
        """Return squared Mahalanobis distances, log determinants, and the numbers of observed entries.

        The covariance of the observed entries is that of the low-rank part plus that of the noise.
        """
        deviations = np.where(observed, T - self.location, 0.0)
        L, d = self.loadings, self.n_components
        whitened = L / self.noise[:, None]
        linear = deviations @ whitened
        if observed.all():
            information = (L.T @ whitened + np.eye(d))[None]
        else:
            information = symmetric((observed / self.noise) @ products(L), d) + np.eye(d)
        try:
            root = np.linalg.cholesky(information)
        except np.linalg.LinAlgError:  # without noise, the rounding errors exceed the identity matrix
            slack = ROUNDING * np.trace(information, axis1=1, axis2=2)
            root = np.linalg.cholesky(information + slack[:, None, None] * np.eye(d))
        solved = np.linalg.solve(root, linear[:, :, None])[:, :, 0]
        squares = np.einsum("ij,ij->i", deviations, deviations / self.noise)
        distance = np.maximum(squares - np.einsum("ij,ij->i", solved, solved), 0.0)
        log_determinant = 2.0 * np.log(np.einsum("ijj->ij", root)).sum(axis=1)
        return distance, log_determinant + observed @ np.log(self.noise), observed.sum(axis=1)

    def anneal(self, T: Array, observed: Mask, weights: Array) -> Array:
        """Return the weights of entries after they were judged by models with less and less noise."""
        for stage in self.annealed:
            weights = stage.judge(T, observed, weights, stage.expect(T, weights)).weights
        return weights

    # -- sums and updates -----------------------------------------------------------------------------

    def measure(
        self,
        T: Array,
        observed: Mask,
        weights: Array,
        sample_weight: Array,
        *,
        judging: bool,
        doubting: bool = False,
    ) -> tuple[FactorSums, Array]:
        """Return the sums of standardised samples, and the weights of their entries.

        If ``judging`` is false, the weights stay as they are. If ``doubting``, entries are compared with the
        predictions of a basis that was found without them.
        """
        d, p = self.n_components, len(self.basis)
        total: FactorSums | None = None
        new = np.empty_like(weights)
        size = max(1, BLOCK_ENTRIES // max((d + 1) ** 2, p))
        for start in range(0, len(T), size):
            part = slice(start, start + size)
            known = self.expect(T[part], weights[part])
            moments = self._moments(known)
            doubt = moments @ self.doubting
            judgement = self.judge(T[part], observed[part], weights[part], known, doubt if doubting else 0.0)
            new[part] = judgement.weights if judging else weights[part]
            sums = self._sums(
                T[part], observed[part], new[part], known, moments, judgement, sample_weight[part]
            )
            evidence = self.sample_evidence(T[part], observed[part], new[part], known, doubt)
            sums = replace(sums, evidence=float(sample_weight[part] @ evidence))
            total = sums if total is None else total + sums
        assert total is not None
        return total, new

    def _moments(self, known: Posterior) -> Array:
        """Return the packed second moments of (r, 1) of samples."""
        d = self.n_components
        left, right = upper_triangle(d + 1)
        moments: Array = products(np.column_stack([known.R, np.ones(len(known.R))]))
        moments[:, right < d] += known.S[:, left[right < d], right[right < d]]
        return moments

    def _sums(
        self,
        T: Array,
        observed: Mask,
        W: Array,
        known: Posterior,
        moments: Array,
        judgement: Judgement,
        sample_weight: Array,
    ) -> FactorSums:
        R1 = np.column_stack([known.R, np.ones(len(T))])
        weighted = sample_weight[:, None] * W
        gross = sample_weight[:, None] * np.where(observed, 1.0 - W, 0.0)
        return FactorSums(
            n=float(sample_weight.sum()),
            counts=weighted.sum(axis=0),
            grams=weighted.T @ moments,
            targets=(weighted * T).T @ R1,
            squares=np.einsum("ij,ij,ij->j", weighted, T, T),
            moments=sample_weight @ moments,
            observed=float(sample_weight @ observed.sum(axis=1)),
            gross=float(gross.sum()),
            gross_squares=float(np.vdot(gross, judgement.deviation**2)),
            evidence=0.0,
        )

    def sample_evidence(
        self, T: Array, observed: Mask, W: Array, known: Posterior, doubt: Array | float = 0.0
    ) -> Array:
        """Return the evidence (its variational lower bound) of each sample.

        It is the log-likelihood if no entry is doubtful. ``doubt`` has the variances of the predictions that
        are due to the basis.
        """
        entries = self.entry_evidence(T - known.fitted, known.spread + doubt, observed, W)
        trace = np.einsum("ijj->i", known.S) + np.einsum("ij,ij->i", known.R, known.R)
        roots = np.linalg.cholesky(known.S)
        divergence = 0.5 * (trace - self.n_components) - np.log(np.einsum("ijj->ij", roots)).sum(axis=1)
        evidence: Array = entries - divergence
        return evidence

    def entry_evidence(self, deviation: Array, unsure: Array, observed: Mask, W: Array) -> Array:
        """Return the part of the evidence of each sample that is a sum over its entries.

        Parameters
        ----------
        deviation : array of shape (b, p)
            What the entries are off their predictions.
        unsure : array of shape (b, p)
            Variances of the predictions.
        observed : boolean array of shape (b, p)
            Which entries are observed.
        W : array of shape (b, p)
            Probabilities that the entries are not gross errors.
        """
        clean = math.log1p(-self.gross_share) - 0.5 * (
            np.log(2.0 * np.pi * self.noise) + (deviation**2 + unsure) / self.noise
        )
        gross = math.log(self.gross_share) + log_density(deviation, self.noise + self.gross_variance)
        entries = np.where(observed, W * clean + (1.0 - W) * gross + entr(W) + entr(1.0 - W), 0.0)
        sums: Array = entries.sum(axis=1)
        return sums

    def evidence(self, sums: FactorSums) -> float:
        """Return the evidence of the model for the samples of the sums, per observed entry."""
        d, precisions = self.n_components, self.prior_precisions
        if self.covariances is None:
            return sums.evidence / max(sums.observed, 1.0)
        covariances = self.covariances[:, :d, :d]
        trace = (np.einsum("ijj->ij", covariances) + self.loadings**2) @ precisions
        determinants = np.linalg.slogdet(covariances)[1]
        divergence = 0.5 * (trace - np.log(precisions).sum() - d - determinants)
        return (sums.evidence - float(divergence.sum())) / max(sums.observed, 1.0)

    def updated(
        self, sums: FactorSums, *, most_variation: float = math.inf, judging: bool = True
    ) -> FactorModel:
        """Return the model that follows from the sums.

        Noise variances vary between features by at most ``most_variation``, a variance of their logarithms.
        """
        d = self.n_components
        grams = symmetric(sums.grams, d + 1)
        prior = np.diag(
            np.append(self.prior_precisions, LOCATION_PRECISION if self.center else FIXED_PRECISION)
        )
        covariances = np.linalg.inv(grams / self.noise[:, None, None] + prior)
        basis = np.einsum("ijk,ik->ij", covariances, sums.targets / self.noise[:, None])
        outer = basis[:, :, None] * basis[:, None, :] + covariances
        squares = sums.squares - 2.0 * np.einsum("ij,ij->i", basis, sums.targets)
        squares = np.maximum(squares + np.einsum("ijk,ijk->i", grams, outer), 0.0)
        noise = shrink_variances(squares, sums.counts, most_variation)
        gross_share, gross_variance = self.gross_share, self.gross_variance
        if judging:
            gross_share = (sums.gross + 1.0) / (sums.observed + 20.0)
            gross_share = min(max(gross_share, LEAST_SHARE), MOST_SHARE)
            least = GROSS_ERROR**2 * float(np.median(noise))
            gross_variance = (
                max(sums.gross_squares / max(sums.gross, 1e-9), least) if sums.gross > 1.0 else 25.0
            )
        found = replace(
            self,
            basis=basis,
            covariances=covariances,
            noise=noise,
            gross_share=gross_share,
            gross_variance=gross_variance,
        )
        return found.rotated(sums)

    def rotated(self, sums: FactorSums) -> FactorModel:
        """Return the same model with coefficients of mean zero and second moment one, in principal order.

        The model is invariant to such a change of coordinates but its prior is not: this one is the best.
        """
        d, n = self.n_components, sums.n
        second = symmetric(sums.moments[None, :], d + 1)[0] / n
        mean = second[:d, d] if self.center else np.zeros(d)
        eigenvalues, V = np.linalg.eigh(second[:d, :d] - np.outer(mean, mean))
        root = V * np.sqrt(np.maximum(eigenvalues, 1e-12))
        scaled = self.loadings @ root
        turn = np.linalg.eigh(scaled.T @ (scaled / self.noise[:, None]))[1][:, ::-1]
        T = np.eye(d + 1)
        T[:d, :d] = root @ turn
        T[:d, d] = mean
        assert self.covariances is not None
        basis = self.basis @ T
        covariances = T.T @ self.covariances @ T
        spread = np.einsum("ij,ij->j", basis[:, :d], basis[:, :d]) + np.einsum(
            "ijj->j", covariances[:, :d, :d]
        )
        return replace(
            self, basis=basis, covariances=covariances, precisions=len(basis) / np.maximum(spread, 1e-12)
        )

    def padded(self, n_components: int) -> FactorModel:
        """Return the same model with further components, which have no loadings."""
        assert self.covariances is not None
        p, d = self.loadings.shape
        own = np.append(np.arange(d), n_components)
        basis = np.zeros((p, n_components + 1))
        basis[:, own] = self.basis
        covariances = np.tile(SMALLEST_NOISE * np.eye(n_components + 1), (p, 1, 1))
        covariances[:, own[:, None], own] = self.covariances
        precisions = np.append(self.prior_precisions, np.full(n_components - d, 1.0 / SMALLEST_NOISE))
        return replace(self, basis=basis, covariances=covariances, precisions=precisions)

    def recentred(self) -> FactorModel:
        """Return the same model in units in which its location is zero."""
        return self.in_units(replace(self.gauge, centre=self.mean))

    def in_units(self, gauge: Gauge) -> FactorModel:
        """Return the same model in the units of another gauge.

        The variance of gross errors, which is the same for all features, changes with the mean unit.
        """
        factor = self.gauge.scale / gauge.scale
        basis = self.basis * factor[:, None]
        basis[:, -1] += (self.gauge.centre - gauge.centre) / gauge.scale
        covariances = None if self.covariances is None else self.covariances * factor[:, None, None] ** 2
        return replace(
            self,
            gauge=gauge,
            basis=basis,
            noise=np.maximum(self.noise * factor**2, SMALLEST_NOISE),
            covariances=covariances,
            gross_variance=self.gross_variance * math.exp(2.0 * float(np.mean(np.log(factor)))),
        )

    def keep(self, components: Mask) -> FactorModel:
        """Return the model with some of its components."""
        assert self.covariances is not None
        both = np.append(components, True)
        return replace(
            self,
            basis=self.basis[:, both],
            covariances=self.covariances[:, both][:, :, both],
            precisions=self.prior_precisions[components],
        )


def clean_limits(noise: Array, gross_share: float, gross_variance: float) -> tuple[Array, Array]:
    """Return the squared deviation of each feature at which a gross error is as likely as dense noise.

    The second array has the share of the variance of the noise that remains if larger deviations are left
    out, which is that of a truncated normal variable.
    """
    ratio = gross_variance / noise
    odds = np.maximum(math.log(1.0 / gross_share - 1.0) + 0.5 * np.log1p(ratio), LEAST_ODDS)
    squares = 2.0 * odds * (1.0 + ratio) / ratio
    limit = np.sqrt(squares)
    density = np.exp(-0.5 * squares) / math.sqrt(2.0 * math.pi)
    return squares * noise, 1.0 - 2.0 * limit * density / (2.0 * ndtr(limit) - 1.0)


def log_density(deviation: Array, variance: Array) -> Array:
    """Return the logarithm of the normal density."""
    density: Array = -0.5 * (np.log(2.0 * np.pi * variance) + deviation**2 / variance)
    return density


def shrink_variances(squares: Array, counts: Array, most_variation: float = math.inf) -> Array:
    """Return variances from sums of squares, drawn towards their common value as far as they are uncertain.

    The variances are given an inverse-gamma prior. The logarithm of a variance estimated from n squares has
    itself a variance of about 2 / n, and what exceeds it is the true variation between features, from which
    the strength of the prior follows (empirical Bayes, as Smyth (2004) proposes for genes).
    """
    common = float(squares.sum() / max(counts.sum(), 1e-300))
    used = (counts > 1.5) & (squares > 0.0)
    if not used.any():
        return np.full(len(squares), max(common, SMALLEST_NOISE))
    logs = np.log(squares[used] / counts[used])
    variation = max(float(np.var(logs)) - float(np.mean(2.0 / counts[used])), LEAST_VARIATION)
    strength = 2.0 / min(variation, most_variation) + 1.0
    shrunk: Array = np.maximum((squares + strength * common) / (counts + strength), SMALLEST_NOISE)
    return shrunk
