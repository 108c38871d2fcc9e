"""Learning from Dask collections, and applying models to them.

:mod:`maxnorm.dask.blocks` computes functions of the blocks of a collection on the workers that hold them.
:mod:`maxnorm.dask.rounds` uses it to learn in rounds and to apply models block by block.
:mod:`maxnorm.dask.sealing` lets workers with another version of the library refuse the work.
"""
