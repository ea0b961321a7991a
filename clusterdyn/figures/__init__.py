"""The figures of the notebooks: each takes results and returns a ``Picture``."""
