"""Other methods of robust subspace learning, written small and plain from their papers.

They have the interface of a learner: ``partial_fit`` and ``components_``.
"""

import numpy as np


class TrimmedPCA:
    """Principal components of the covariance of entries within a few robust deviations of their median.

    Every covariance of two features is that of the samples in which both entries are within the limit, so
    that the matrix needs memory in proportion to the square of the number of features. The medians and
    deviations are those of the first samples. With ``known``, the entries that are gross errors, it becomes
    a bound that cannot be reached without knowing them.
    """

    def __init__(self, rank, limit=4.0, first=300):
        self.rank, self.limit, self.first = rank, limit, first
        self.waiting, self.sums, self.counts = [], None, None

    def partial_fit(self, X):
        """Add the products of the entries of more samples, once the first ones are enough."""
        if self.sums is None:
            self.waiting.append(X)
            X = np.concatenate(self.waiting)
            if len(X) >= self.first:
                self.waiting = []
                self.begin(X[: self.first])
        if self.sums is not None:
            self.add(X)
        return self

    def begin(self, start):
        """Take the medians and deviations of the first samples."""
        self.median = np.nanmedian(start, axis=0)
        # The lower quartile of the deviations is sound even if half of the entries are wrong.
        self.scale = np.nanquantile(np.abs(start - self.median), 0.25, axis=0) / 0.3186
        self.sums = self.counts = 0.0

    def add(self, X):
        """Add the products of the entries of samples."""
        deviation = (X - self.median) / self.scale
        kept = np.abs(deviation) <= self.limit
        deviation = np.where(kept, deviation, 0.0)
        self.sums = self.sums + deviation.T @ deviation
        self.counts = self.counts + kept.T.astype(float) @ kept

    @property
    def components_(self):
        """The leading eigenvectors of the covariance, in rows."""
        if self.sums is None:
            X = np.concatenate(self.waiting)
            return TrimmedPCA(self.rank, self.limit, first=len(X)).partial_fit(X).components_
        covariance = self.sums / np.maximum(self.counts, 1.0) * np.outer(self.scale, self.scale)
        return np.linalg.eigh(covariance)[1][:, : -self.rank - 1 : -1].T


class OnlinePCA:
    """Principal components of all samples about zero, with missing entries as zeros."""

    def __init__(self, rank):
        self.rank, self.sums = rank, 0.0

    def partial_fit(self, X):
        """Add the products of the entries of more samples."""
        Z = np.nan_to_num(X)
        self.sums = self.sums + Z.T @ Z
        return self

    @property
    def components_(self):
        """The leading eigenvectors of the second moments, in rows."""
        return np.linalg.eigh(self.sums)[1][:, : -self.rank - 1 : -1].T


class Grasta:
    """Robust subspace tracking on the Grassmannian: an l1 regression for each sample, then one step.

    The regression is that of GRASTA, solved by ADMM (J. He, L. Balzano, A. Szlam: Incremental gradient on the
    Grassmannian for online foreground and background separation in subsampled video, 2012). The step is the
    greedy one of GROUSE (L. Balzano, S. Wright: Local convergence of an algorithm for subspace identification
    from partial data, 2015), along the residual without entries beyond four robust deviations. It needs no
    step sizes, unlike the multi-level rule of GRASTA.
    """

    def __init__(self, n_features, rank, seed=0, rho=1.8, iterations=60, limit=4.0):
        self.U = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_features, rank)))[0]
        self.rho, self.iterations, self.limit = rho, iterations, limit

    def partial_fit(self, X):
        """Learn from one sample after the other."""
        for sample in X:
            self.step(sample)
        return self

    def step(self, sample):
        """Turn the subspace such that it contains what the sample has outside of it, gross errors apart."""
        there = ~np.isnan(sample)
        U, z = self.U[there], sample[there]
        unit = np.median(np.abs(z)) or 1.0
        w = self.regress(U, z / unit) * unit
        residual = np.zeros(len(self.U))
        rest = z - U @ w
        near = np.abs(rest) <= self.limit * np.median(np.abs(rest)) / 0.6745
        residual[there] = rest * near
        fit = self.U @ w
        norm_w, norm_fit, norm_rest = (np.linalg.norm(v) for v in (w, fit, residual))
        if not norm_w or not norm_rest:
            return
        angle = np.arctan(norm_rest / norm_fit)
        turned = (np.cos(angle) - 1.0) * fit / norm_fit + np.sin(angle) * residual / norm_rest
        self.U += np.outer(turned, w / norm_w)

    def regress(self, U, z):
        """Return the w that minimises |z - U w|_1."""
        inverse = np.linalg.pinv(U)
        s, y = np.zeros(len(z)), np.zeros(len(z))
        for _ in range(self.iterations):
            w = inverse @ (z - s - y / self.rho)
            v = z - U @ w - y / self.rho
            s = np.sign(v) * np.maximum(np.abs(v) - 1.0 / self.rho, 0.0)
            rest = U @ w + s - z
            y = y + self.rho * rest
            if np.linalg.norm(rest) < 1e-7:
                break
        return w

    @property
    def components_(self):
        """The basis, in rows."""
        return np.linalg.qr(self.U)[0].T
