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
        self.sums = self.counts = None

    def partial_fit(self, X):
        """Add the products of the entries of more samples."""
        if self.sums is None:
            start = X[: self.first]
            self.median = np.nanmedian(start, axis=0)
            # The lower quartile of the deviations is sound even if half of the entries are wrong.
            self.scale = np.nanquantile(np.abs(start - self.median), 0.25, axis=0) / 0.3186
            self.sums = self.counts = 0.0
        deviation = (X - self.median) / self.scale
        kept = np.abs(deviation) <= self.limit
        deviation = np.where(kept, deviation, 0.0)
        self.sums = self.sums + deviation.T @ deviation
        self.counts = self.counts + kept.T.astype(float) @ kept
        return self

    @property
    def components_(self):
        """The leading eigenvectors of the covariance, in rows."""
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
    """Robust subspace tracking by stochastic gradients on the Grassmannian.

    J. He, L. Balzano, A. Szlam: Incremental gradient on the Grassmannian for online foreground and background
    separation in subsampled video (2012). The l1 regression of each sample is solved by ADMM; the step size
    follows the multi-level rule of the paper.
    """

    def __init__(self, n_features, rank, seed=0, rho=1.8, iterations=60):
        self.U = np.linalg.qr(np.random.default_rng(seed).standard_normal((n_features, rank)))[0]
        self.rho, self.iterations = rho, iterations
        self.mu, self.level, self.last = 1.0, 0, None

    def partial_fit(self, X):
        """Learn from one sample after the other."""
        for sample in X:
            self.step(sample)
        return self

    def step(self, sample, mu_min=1.0, mu_max=15.0):
        """Move along the geodesic of the gradient of the augmented Lagrangian."""
        there = ~np.isnan(sample)
        U, z = self.U[there], sample[there]
        scale = np.linalg.norm(z)
        if not scale:
            return
        z = z / scale
        w, s, y = self.regress(U, z)
        dual = y + self.rho * (U @ w + s - z)
        gradient = np.zeros(len(self.U))
        gradient[there] = dual
        gradient -= self.U @ (U.T @ dual)
        norm_g, norm_w = np.linalg.norm(gradient), np.linalg.norm(w)
        if not norm_g or not norm_w:
            return
        direction = (gradient / norm_g, w / norm_w)
        if self.last is not None:  # the level rises when directions agree and falls when they do not
            cosine = (direction[0] @ self.last[0]) * (direction[1] @ self.last[1])
            self.mu = max(self.mu + 2.0 / (1.0 + np.exp(10.0 * cosine)) * 2.0 - 1.0, mu_min)
        self.last = direction
        if self.mu >= mu_max:
            self.level, self.mu = self.level + 1, 3.0
        elif self.mu <= mu_min:
            self.level, self.mu = max(self.level - 1, 0), 3.0
        angle = min(2.0**-self.level / (1.0 + self.mu) * norm_g * norm_w, np.pi / 3)
        turned = (np.cos(angle) - 1.0) * (self.U @ direction[1]) - np.sin(angle) * direction[0]
        self.U += np.outer(turned, direction[1])

    def regress(self, U, z):
        """Return w, s and the multipliers of min |s|_1 with U w + s = z."""
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
        return w, s, y

    @property
    def components_(self):
        """The basis, in rows."""
        return np.linalg.qr(self.U)[0].T
