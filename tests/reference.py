"""Reference implementations for the tests: the paper's algorithms, one sample at a time, and CVXPY.

Equations, sections and algorithms are those of J. Shen, H. Xu, P. Li, "Online optimization for large-scale
max-norm regularization", Machine Learning 106, 2017.
"""

import cvxpy as cp
import numpy as np


def paper_data(p, d, n, rho, seed, magnitude=1000.0):
    """Return a basis U, clean samples X and gross errors E as in section 6, with samples in rows.

    p is the number of features, d the rank, n the number of samples and rho the share of corrupted entries.
    """
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((p, d)))[0]
    X = rng.standard_normal((n, d)) @ U.T
    corrupted = rng.random((n, p)) < rho
    E = np.where(corrupted, rng.uniform(-magnitude, magnitude, (n, p)), 0.0)
    return U, X, E


def initial_basis(p, d, seed):
    """Return an initial p x d basis as in the published experiments, with entries uniform in [0, 1]."""
    return np.random.default_rng(seed + 10**6).random((p, d))


def bisection(w, b, radius=1.0):
    """Return the smallest ``eta >= 0`` with ``norm(b / (w + eta)) <= radius`` (Algorithm 2)."""
    if np.linalg.norm(b / w) <= radius:
        return 0.0
    low, high = 0.0, 1.0
    while np.linalg.norm(b / (w + high)) > radius:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if np.linalg.norm(b / (w + middle)) < radius else (middle, high)
    return 0.5 * (low + high)


def shrink(name, v, lambda2):
    """Return the proximal operator of the noise at v (section 3.1.2).

    The formula for l21 is printed with an inverted fraction, Eq. (3.7), and is corrected here.
    """
    if name == "l1":
        return np.sign(v) * np.maximum(np.abs(v) - lambda2, 0.0)
    if name == "l21":
        return max(0.0, 1.0 - lambda2 / np.linalg.norm(v)) * v
    if name == "squared":
        return v / (1.0 + 2.0 * lambda2)
    return np.zeros_like(v)


def encode_sample(z, L, norm, lambda1, noise, lambda2, observed, sweeps=20_000):
    """Return the coefficients r and the noise e of a sample z in the basis L (Algorithm 3).

    The noise starts from zero. That of entries that are not observed costs nothing, and is returned as zero.
    """
    w, Q = np.linalg.eigh(L.T @ L)
    e = np.zeros_like(z)
    r = np.zeros(L.shape[1])
    for _ in range(sweeps):
        b = Q.T @ (L.T @ (z - e))
        eta = lambda1 if norm == "nuclear" else bisection(w, b)
        r_old, r = r, Q @ (b / (w + eta))
        v = z - L @ r
        e = v.copy()
        e[observed] = shrink(noise, v[observed], lambda2)
        if np.linalg.norm(r - r_old) <= 1e-14 * np.linalg.norm(r):
            break
    return r, np.where(observed, e, 0.0)


def complete_sample(z, L, c, observed, sweeps=20_000):
    """Return the coefficients of a sample with missing entries (inner problem of Algorithm 5).

    Missing entries are replaced by zeros with the threshold 1 / c; observed entries have the threshold c.
    """
    w, Q = np.linalg.eigh(L.T @ L)
    z = np.where(observed, z, 0.0)
    threshold = np.where(observed, c, 1.0 / c)
    e = np.zeros_like(z)
    for _ in range(sweeps):
        b = Q.T @ (L.T @ (z - e))
        r = Q @ (b / (w + bisection(w, b)))
        v = z - L @ r
        e = np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)
    return r


def cvxpy_loss(z, L, norm, lambda1, noise, lambda2, observed):
    """Return the optimal value of Eq. (3.2), the loss of a sample z, by CVXPY."""
    r, e = cp.Variable(L.shape[1]), cp.Variable(int(observed.sum()))
    cost = 0.5 * cp.sum_squares(z[observed] - L[observed] @ r - e)
    constraints = []
    if noise == "l1":
        cost += lambda2 * cp.norm1(e)
    elif noise == "l21":
        cost += lambda2 * cp.norm2(e)
    elif noise == "squared":
        cost += lambda2 * cp.sum_squares(e)
    else:
        constraints.append(e == 0)
    if norm == "nuclear":
        cost += 0.5 * lambda1 * cp.sum_squares(r)
    else:
        constraints.append(cp.norm2(r) <= 1)
    return cp.Problem(cp.Minimize(cost), constraints).solve(solver=cp.CLARABEL)


def cvxpy_basis(A, B, lambda1):
    """Return the optimal value of Eq. (3.10), the update of the basis, by CVXPY."""
    L, tau = cp.Variable(B.shape), cp.Variable(nonneg=True)
    root = np.linalg.cholesky(A)
    cost = 0.5 * cp.sum_squares(L @ root) - cp.sum(cp.multiply(L, B)) + 0.5 * lambda1 * cp.square(tau)
    return cp.Problem(cp.Minimize(cost), [cp.norm2(L, axis=1) <= tau]).solve(solver=cp.CLARABEL)
