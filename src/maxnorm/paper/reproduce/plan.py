"""The cells of each figure, in three sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from maxnorm.paper.reproduce.cells import Cell

FIGURES = {
    "grid": "Figure 1: expressed variance over rank and corruption",
    "rank-low": "Figure 2: expressed variance against corruption, low ranks",
    "rank-mid": "Figure 3: expressed variance against corruption, middle ranks",
    "samples": "Figure 4: expressed variance against samples",
    "large": "Figures 5 and 6: expressed variance against samples and time, growing dimension",
    "norms": "Influence of the norm and of the algorithm: five ways of learning, each with both norms",
    "theory": "Section 4: surrogate, loss and their gap; changes of the basis; memory",
    "noise": "Stated in the paper without an experiment: outlying samples, dense noise, completion",
}
# The methods of the figures, in the order of legends; keys of maxnorm.paper.methods.METHODS.
OURS = ("default-max", "default-nuclear")
PUBLISHED = ("omrmd", "orpca", "pcp")
COMPARED = (*PUBLISHED, *OURS, "pca")
# Five ways of learning; each pair differs only in the norm, the max-norm first.
PAIRS = {
    "as published": ("omrmd", "orpca"),
    "Algorithm 1, solved exactly": ("exact-max", "exact-nuclear"),
    "the same from an orthonormal start": ("orthonormal-max", "orthonormal-nuclear"),
    "our estimators, l1 and the paper's weights": ("l1-max", "l1-nuclear"),
    "our estimators, default settings": OURS,
}
OURS_ON_GRID, PUBLISHED_ON_GRID = 10, 3  # repetitions at the size "full", unless the user asks for others
PUBLISHED_STEP = 6  # the published methods are slow, and repeated for every sixth rank and corruption only
SHARES = tuple(round(0.02 + 0.04 * i, 2) for i in range(13))  # rank / p and corruption on the grid
LOW_RANKS, MID_RANKS = (8, 24, 40, 56, 72, 88), (104, 120, 136, 168, 184, 200)  # at p = 400


@dataclass(frozen=True)
class Size:
    """Sizes of the experiments.

    Parameters
    ----------
    p, n : int
        Number of features and of samples, except in "large" and for memory.
    shares : tuple of float
        Ranks, as shares of p, and shares of corrupted entries on the grid.
    large : tuple of int
        Numbers of features of "large".
    large_n : int
        Number of samples of "large".
    patience : float
        Time limit of a learning curve of "large", in seconds.
    """

    p: int
    n: int
    shares: tuple[float, ...]
    large: tuple[int, ...]
    large_n: int
    patience: float


SIZES = {
    "quick": Size(100, 1000, SHARES[::4], (50, 100), 2000, 20.0),
    "standard": Size(400, 5000, SHARES, (400, 1000), 20_000, 600.0),
    "full": Size(400, 5000, SHARES, (400, 1000, 3000), 100_000, 3600.0),
}


def cells(figure: str, size: Size, repetitions: int | None = None) -> list[Cell]:
    """Return the cells of a figure.

    Parameters
    ----------
    figure : str
        A key of ``FIGURES``.
    size : Size
        Sizes of the experiments.
    repetitions : int, optional
        Number of repetitions of each cell, with different seeds. By default, a cell is computed once. On the
        grid at the size "full", our estimators have ten repetitions, and the published methods three in a
        part of the cells.

    Returns
    -------
    list of Cell
        The cells. A cell that several figures need is equal in all of them, so that it is computed once.
    """
    seeds = range(repetitions or 1)
    if figure in ("grid", "rank-low", "rank-mid"):
        ranks = {"rank-low": LOW_RANKS, "rank-mid": MID_RANKS}.get(figure)
        shares = tuple(share for share in size.shares if ranks is None or round(400 * share) in ranks)
        if repetitions or size is not SIZES["full"]:
            return [
                *_grid("curve", size, shares, size.shares, seeds, PUBLISHED),
                *_grid("final", size, shares, size.shares, seeds, OURS),
            ]
        some = size.shares[::PUBLISHED_STEP]
        repeated = tuple(share for share in some if share in shares)
        return [
            *_grid("curve", size, shares, size.shares, range(1), PUBLISHED),
            *_grid("curve", size, repeated, some, range(1, PUBLISHED_ON_GRID), ("omrmd", "orpca")),
            *_grid("final", size, shares, size.shares, range(OURS_ON_GRID), OURS),
        ]
    if figure == "norms":
        methods = tuple(method for pair in PAIRS.values() for method in pair)
        return _grid("curve", size, size.shares[:7:2], (0.1, 0.3, 0.5), seeds, methods)
    if figure == "samples":
        return _grid("curve", size, (0.2,), (0.01, 0.1, 0.3, 0.5), seeds, COMPARED)
    if figure == "large":
        curve = partial(
            Cell.of, "curve", n=size.large_n, rho=0.3, start="orthonormal", patience=size.patience
        )
        return [
            curve(method=method, p=p, d=p // 10, seed=seed)
            for seed in seeds
            for p in size.large
            for method in ("omrmd", "orpca", *OURS)
        ]
    if figure == "theory":
        return [Cell.of("theory", p=50, d=5, n=size.n // 2, rho=0.1, seed=0)] + [
            Cell.of("memory", method=method, p=100, d=10, n=n, seed=0)
            for n in (5000, 20_000, 80_000, 320_000)
            for method in OURS
        ]
    return _noise(size, seeds)


def _grid(
    kind: str,
    size: Size,
    shares: tuple[float, ...],
    rhos: tuple[float, ...],
    seeds: range,
    methods: tuple[str, ...],
) -> list[Cell]:
    return [
        Cell.of(
            kind,
            method=method,
            p=size.p,
            d=max(1, round(share * size.p)),
            n=size.n,
            rho=rho,
            seed=seed,
            start="uniform",
        )
        for seed in seeds
        for share in shares
        for rho in rhos
        for method in methods
    ]


def _noise(size: Size, seeds: range) -> list[Cell]:
    shape = {"p": size.p // 4, "d": size.p // 40 + 2, "n": size.n // 2}
    return [
        *(
            Cell.of("outliers", noise=noise, share=share, seed=seed, **shape)
            for seed in seeds
            for noise in ("l21", "l1", "none")
            for share in (0.0, 0.1, 0.2, 0.3, 0.4)
        ),
        *(
            Cell.of("dense", noise=noise, sigma=sigma, seed=seed, **shape)
            for seed in seeds
            for noise in ("squared", "none", "capped")
            for sigma in (0.05, 0.1, 0.2, 0.4)
        ),
        *(
            Cell.of("completion", observed=observed, seed=seed, **shape)
            for seed in seeds
            for observed in (0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
        ),
    ]
