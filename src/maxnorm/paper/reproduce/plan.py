"""Which cells make which figure, in three sizes."""

from __future__ import annotations

from dataclasses import dataclass

from maxnorm.paper.reproduce.cells import Cell

METHODS = {
    "omrmd": "OMRMD as published",
    "orpca": "OR-PCA as published",
    "pcp": "PCP (batch)",
    "ours": "MaxNormDecomposition",
    "nuclear": "OnlineRobustPCA",
    "pca": "online PCA",
}
# Each way of learning with the max-norm, and the same with the nuclear norm.
PAIRS = {
    "as published": ("omrmd", "orpca"),
    "Algorithm 1, solved exactly": ("exact-max", "exact-nuclear"),
    "the same from an orthonormal start": ("orthonormal-max", "orthonormal-nuclear"),
    "our estimators, l1 and the paper's weights": ("l1-max", "l1-nuclear"),
    "our estimators, untouched": ("ours", "nuclear"),
}
SHARES = tuple(round(0.02 + 0.04 * i, 2) for i in range(13))


@dataclass(frozen=True)
class Size:
    """How large the experiments are."""

    p: int
    n: int
    shares: tuple[float, ...]
    large: tuple[int, ...]
    large_n: int
    patience: float  # seconds that a method gets for a curve of "large"
    repetitions: int


SIZES = {
    "quick": Size(100, 1000, SHARES[::4], (50, 100), 2000, 20.0, 1),
    "standard": Size(400, 5000, SHARES, (400, 1000), 20_000, 600.0, 1),
    "full": Size(400, 5000, SHARES, (400, 1000, 3000), 100_000, 3600.0, 10),
}
LOW_RANKS, MID_RANKS = (8, 24, 40, 56, 72, 88), (104, 120, 136, 168, 184, 200)


def _grid(
    size: Size,
    shares: tuple[float, ...],
    rhos: tuple[float, ...],
    seeds: range,
    methods: tuple[str, ...] = ("omrmd", "orpca", "pcp", "ours", "nuclear"),
) -> list[Cell]:
    return [
        Cell.of(
            "curve",
            method=method,
            p=size.p,
            d=max(1, round(rank * size.p)),
            n=size.n,
            rho=rho,
            seed=seed,
            start="uniform",
        )
        for seed in seeds
        for rank in shares
        for rho in rhos
        for method in methods
    ]


def cells(figure: str, size: Size, repetitions: int) -> list[Cell]:
    """Return the cells of a figure; cells that figures share are the same cells."""
    seeds = range(repetitions)
    if figure == "grid":
        return _grid(size, size.shares, size.shares, seeds)
    if figure in ("rank-low", "rank-mid"):
        ranks = LOW_RANKS if figure == "rank-low" else MID_RANKS
        shares = tuple(share for share in size.shares if round(400 * share) in ranks)
        return _grid(size, shares, size.shares, seeds)
    if figure == "norms":
        both = tuple(method for pair in PAIRS.values() for method in pair)
        return _grid(size, size.shares[:7:2], (0.1, 0.3, 0.5), seeds, both)
    if figure == "samples":
        return [
            Cell.of(
                "curve", method=method, p=size.p, d=size.p // 5, n=size.n, rho=rho, seed=seed, start="uniform"
            )
            for seed in seeds
            for rho in (0.01, 0.1, 0.3, 0.5)
            for method in METHODS
        ]
    if figure == "large":
        return [
            Cell.of(
                "curve",
                method=method,
                p=p,
                d=p // 10,
                n=size.large_n,
                rho=0.3,
                seed=seed,
                start="orthonormal",
                patience=size.patience,
            )
            for seed in seeds
            for p in size.large
            for method in ("omrmd", "orpca", "ours", "nuclear")
        ]
    if figure == "theory":
        return [Cell.of("theory", p=50, d=5, n=size.n // 2, rho=0.1, seed=0)] + [
            Cell.of("memory", method=method, p=100, d=10, n=n, seed=0)
            for n in (5000, 20_000, 80_000)
            for method in ("ours", "nuclear")
        ]
    p, d, n = size.p // 4, size.p // 40 + 2, size.n // 2
    return [
        *(
            Cell.of("outliers", noise=noise, share=share, p=p, d=d, n=n, seed=seed)
            for seed in seeds
            for noise in ("l21", "l1", "none")
            for share in (0.0, 0.1, 0.2, 0.3, 0.4)
        ),
        *(
            Cell.of("dense", noise=noise, sigma=sigma, p=p, d=d, n=n, seed=seed)
            for seed in seeds
            for noise in ("squared", "none", "capped")
            for sigma in (0.05, 0.1, 0.2, 0.4)
        ),
        *(
            Cell.of("completion", observed=observed, p=p, d=d, n=n, seed=seed)
            for seed in seeds
            for observed in (0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
        ),
    ]


FIGURES = {
    "grid": "Figure 1: expressed variance over rank and corruption",
    "rank-low": "Figure 2: expressed variance against corruption, low ranks",
    "rank-mid": "Figure 3: expressed variance against corruption, middle ranks",
    "samples": "Figure 4: expressed variance against samples",
    "large": "Figures 5 and 6: expressed variance against samples and time, growing dimension",
    "norms": "What is the norm's doing and what the algorithm's: five ways to learn, with either norm",
    "theory": "Section 4: surrogate, loss and their gap; moves of the basis; memory",
    "noise": "What is stated but not shown: outlying samples, dense noise, completion",
}
