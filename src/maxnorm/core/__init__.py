"""Numerical core: arrays in, arrays out; neither scikit-learn nor files."""
