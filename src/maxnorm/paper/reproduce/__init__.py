"""The experiments of section 6 of the paper, as ``maxnorm reproduce`` runs them.

A cell is one run with fixed settings. ``cells`` defines the kinds of cells and how each is computed, ``plan``
lists the cells of each figure, ``store`` computes cells in parallel and saves their results, ``figures``
draws,
``claims`` compares the results with what the paper states, and ``page`` writes everything to one HTML page.
"""
