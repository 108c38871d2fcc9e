"""The experiments of the paper's section 6, as ``maxnorm reproduce`` runs them.

``plan`` says which cells make a figure, ``cells`` computes one, ``store`` runs and keeps them, ``figures``
draws, ``claims`` judges what the paper states, and ``page`` puts it all on one page.
"""
