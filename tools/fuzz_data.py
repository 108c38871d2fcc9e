"""Random data and settings for ``fuzz_estimators.py``."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from maxnorm import MaxNormCompletion, MaxNormDecomposition, OnlineRobustPCA, PrincipalComponentPursuit
from maxnorm.core.noise import L1, L21, CappedL1, NoNoise, Squared

DTYPES = [np.float64] * 8 + [np.float32] * 5
DTYPES += [np.int8, np.uint8, np.int64, np.uint64, bool, np.float16, np.longdouble, object, ">f8", ">f4"]
NOISES = ["capped", "l1", "l21", "squared", "none"]
NOISE_OBJECTS = [L1(0.5), L21(0.5, downweight=True), Squared(0.5), NoNoise(), CappedL1(0.3, 0.6)]
NOISE_OBJECTS += [L1(0.0), CappedL1(0.0, 0.0), L21(0.0)]
EXTREME_NUMBERS = [0.0, 1e-300, 1e-12, 1e-3, 0.1, 1.0, 10.0, 1e6, 1e300]


class Draw:
    """Random data and settings, ordinary or extreme ones."""

    def __init__(self, seed: int, case: int) -> None:
        self.rng = np.random.default_rng([seed, case])
        self.is_sane = case % 2 == 0
        self.n_arrays = 0  #: arrays drawn so far

    def chance(self, probability: float) -> bool:
        """Return True with a given probability."""
        return bool(self.rng.random() < probability)

    def one_of(self, sane: list[Any], extreme: list[Any] | None = None) -> Any:
        """Return one of some values; in extreme cases one of some others may be returned too."""
        choices = sane if self.is_sane or extreme is None else sane + extreme
        return choices[self.rng.integers(len(choices))]

    def weight(self) -> float:
        """Return a weight such as lambda1."""
        if self.is_sane:
            return 0.0 if self.chance(0.1) else float(10.0 ** self.rng.uniform(-6, 4))
        return self.one_of(EXTREME_NUMBERS) if self.chance(0.5) else float(10.0 ** self.rng.uniform(-3, 3))

    def array(self, n: int, p: int) -> Any:
        """Return samples of some structure, scale, precision and memory layout, with or without gaps."""
        rng = self.rng
        self.n_arrays += 1
        with np.errstate(all="ignore"):
            X = self._structure(n, p) * 10.0 ** (
                rng.uniform(-9, 9) if self.chance(0.2) else rng.uniform(-3, 3)
            )
        if self.chance(0.3):
            X[:, rng.integers(p)] = self.one_of([0.0, 3.0])
        if self.chance(0.3):
            X[rng.integers(n)] = 0.0
        if self.chance(0.2):
            X[rng.integers(n)] = X[rng.integers(n)]
        if self.chance(0.1):
            X = -np.abs(X)
        dtype = np.dtype(self.one_of(DTYPES))
        if dtype.kind in "fO":
            self._add_gaps(X)
        if self.chance(0.02):
            X[rng.integers(n), rng.integers(p)] = self.one_of([np.inf, -np.inf, 1e308, -1e300])
        with np.errstate(all="ignore"):
            if dtype.kind in "iu":
                limits = np.iinfo(dtype)
                X = np.clip(np.nan_to_num(X, posinf=0, neginf=0), limits.min / 2, limits.max / 2)
            X = X.astype(dtype)
        layout = rng.integers(6)
        if layout == 0:
            return np.asfortranarray(X)
        if layout == 1:
            return np.repeat(X, 2, axis=0)[::2]
        X.flags.writeable = layout != 2 or dtype.kind == "O"
        return X

    def _structure(self, n: int, p: int) -> Any:
        rng = self.rng
        X = rng.standard_normal((n, p))
        sane = {
            "dense": lambda: X,
            "rank one": lambda: np.outer(rng.standard_normal(n), X[0]),
            "constant": lambda: np.full((n, p), self.one_of([0.0, 1.0, -7.5, 1e9])),
            "equal rows": lambda: np.tile(X[0], (n, 1)),
            "mostly zero": lambda: X * (rng.random((n, p)) < 0.2),
            "features of many scales": lambda: X * 10.0 ** rng.uniform(-4, 4, (1, p)),
            "samples of many scales": lambda: X * 10.0 ** rng.uniform(-4, 4, (n, 1)),
            "integers": lambda: np.round(2 * X),
            "large mean": lambda: X + 1e6,
        }
        extreme = {
            "entries of all scales": lambda: X * 10.0 ** rng.uniform(-300, 150, (n, p)),
            "any scale": lambda: X * 10.0 ** rng.uniform(-320, 152),
            "one entry": lambda: np.eye(n, p) * self.one_of([1, 5e-324, 1e150, -1]),
            "tiny": lambda: X * self.one_of([5e-324, 1e-310, 1e-200, 1e-160]),
            "huge errors": lambda: np.where(rng.random((n, p)) < 0.3, 1e100 * X, X),
        }
        return self.one_of(list(sane.values()), list(extreme.values()))()

    def _add_gaps(self, X: Any) -> None:
        n, p = X.shape
        share = self.one_of([0.0, 0.0, 0.0, 0.0, 0.3, 0.9, 1.0])
        X[self.rng.random((n, p)) < share] = np.nan
        if self.chance(0.1):
            X[self.rng.integers(n)] = np.nan
            X[:, self.rng.integers(p)] = np.nan

    def sparse(self, n: int, p: int) -> Any:
        """Return a sparse matrix in one of the formats of SciPy, now and then with an entry stored twice."""
        X = self.array(n, p)
        if X.dtype.kind in "Ob" or X.dtype in (np.float16, np.longdouble) or not X.dtype.isnative:
            X = np.asarray(X, dtype=np.float64)
        rows, columns = np.nonzero(self.rng.random((n, p)) < self.one_of([0.0, 0.1, 0.5, 1.0]))
        if self.chance(0.1):
            rows, columns = np.append(rows, rows[:1]), np.append(columns, columns[:1])
        S = sp.coo_array((X[rows, columns], (rows, columns)), shape=(n, p))
        return self.one_of([S, S.tocsr(), S.tocsc(), sp.csr_matrix(S)])

    def estimator(self, p: int) -> Any:
        """Return an estimator with random settings."""
        kind = self.rng.choice(["max", "nuclear", "completion", "pursuit"], p=[0.51, 0.23, 0.24, 0.02])
        if kind == "pursuit":
            lambda2 = "auto" if self.chance(0.5) else self.weight() or 1e-6
            tol, max_iter = self.one_of([1e-7, 1e-3], [1e300]), self.one_of([1, 20, 60])
            return PrincipalComponentPursuit(lambda2=lambda2, tol=tol, max_iter=max_iter)
        rank = self.one_of([None, None, "auto", 1, 1, 2, 2, 3, p, p + 3, 60])
        settings: dict[str, Any] = {"random_state": int(self.rng.integers(1000))}
        optional = {
            "noise": (0.7, lambda: self.one_of(NOISES)),
            "lambda1": (0.35, self.weight),
            "lambda2": (0.35, self.weight),
            "batch_size": (0.4, lambda: self.one_of([1, 2, 3, 7, 1000])),
            "forgetting": (0.3, lambda: self.one_of([0.0, 0.5, 1.0, 15.0], [1e3, 1e300])),
            "half_life": (0.3, lambda: self.one_of([0.5, 1.0, 20.0, 1e6], [1e-300, 1e-3, 1e300])),
            "max_iter": (0.85, lambda: self.one_of([1, 2, 20, 60])),
            "tol": (0.2, lambda: self.one_of([0.0, 1e-12, 1e-3, 1.0], [1e300])),
            "n_epochs": (0.25, lambda: self.one_of([2, 3, 5])),
            "init": (0.1 if isinstance(rank, int) else 0.0, lambda: self.array(rank, p)),
            "basis_update": (0.08 if kind != "nuclear" else 0.0, lambda: "bcd"),
        }
        settings |= {
            name: draw() for name, (probability, draw) in optional.items() if self.chance(probability)
        }
        if "noise" not in settings and "lambda2" not in settings and self.chance(0.15):
            settings["noise"] = self.one_of(NOISE_OBJECTS)
        if kind != "completion" and self.chance(0.5):
            settings |= {"center": self.chance(0.8), "scale": self.one_of(["auto", "auto", None])}
            if self.chance(0.6):
                settings["n_epochs"] = "auto"
            if self.chance(0.6):  # what the factor model needs
                for name in ("lambda1", "lambda2", "batch_size", "forgetting", "half_life", "init"):
                    settings.pop(name, None)
                settings["noise"] = self.one_of(["capped", "capped", "none"])
        if kind != "completion":
            return (MaxNormDecomposition if kind == "max" else OnlineRobustPCA)(rank, **settings)
        if self.chance(0.6):
            settings.pop("noise", None)
            settings.pop("lambda2", None)
        if settings.get("noise", "none") == "none" and self.chance(0.3):
            c = float(self.one_of([0.1, 1.0, 100.0], [1e-300, 1e300]))
            settings |= {"c": c} if "basis_update" in settings or self.chance(0.3) else {"biases": True}
        settings["value_range"] = (-1.0, 1.0) if self.chance(0.2) else None
        settings["gram"] = self.one_of(["auto", "auto", "shared", "per-feature"])
        return MaxNormCompletion(rank, **settings)
