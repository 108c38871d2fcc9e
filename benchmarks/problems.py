"""The streams on which methods are compared."""

from dataclasses import dataclass

import numpy as np

from maxnorm.datasets import make_corrupted_low_rank


@dataclass(frozen=True)
class Problem:
    """A stream in the manner of the paper's section 6."""

    name: str
    rank: int
    corruption: float
    magnitude: float = 1000.0  # of the errors; clean entries are below one
    dense_noise: float = 0.0
    n_samples: int = 5000
    n_features: int = 400

    def make(self, seed=1):
        """Return samples and the true basis."""
        data = make_corrupted_low_rank(
            self.n_samples,
            self.n_features,
            self.rank,
            corruption=self.corruption,
            magnitude=self.magnitude,
            dense_noise=self.dense_noise,
            random_state=seed,
        )
        return data.X, data.basis


PROBLEMS = [
    Problem("rank 8, 26 % corrupted", 8, 0.26),
    Problem("rank 40, 30 % corrupted", 40, 0.3),
    Problem("rank 80, 30 % corrupted", 80, 0.3),
    Problem("rank 80, 50 % corrupted", 80, 0.5),
    Problem("rank 40, 30 % corrupted, errors the size of the signal", 40, 0.3, magnitude=1.0),
    Problem("rank 8, dense noise only", 8, 0.0, dense_noise=0.3),
    Problem("rank 8, dense noise, 30 % corrupted", 8, 0.3, dense_noise=0.3),
]
QUICK = [
    Problem("rank 40, 30 % corrupted", 40, 0.3, n_samples=1000),
    Problem("rank 8, dense noise only", 8, 0.0, dense_noise=0.3, n_samples=1000),
]


def film(n_frames, n_pixels=76_800, seed=0):
    """Return single-precision frames: three backgrounds in changing light, and something that moves."""
    rng = np.random.default_rng(seed)
    background = rng.uniform(0, 255, (3, n_pixels)).astype(np.float32)
    X = rng.uniform(0.3, 0.4, (n_frames, 3)).astype(np.float32) @ background
    X += 2 * rng.standard_normal(X.shape, dtype=np.float32)
    X[:, : n_pixels // 10] += np.float32(100) * (rng.random((n_frames, 1)) < 0.3).astype(np.float32)
    return X
