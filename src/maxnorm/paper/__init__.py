"""The experiments of the paper: the published algorithms, the harness that measures, and the demonstration.

``methods``, ``problems`` and ``measure`` are the harness. It serves both ``maxnorm reproduce``
(``maxnorm.paper.reproduce``) and the scripts in ``benchmarks/``. ``reference`` holds the algorithms as the
published code runs them, ``exact`` holds Algorithm 1 as printed, and ``batch`` solves the batch problem.
"""
