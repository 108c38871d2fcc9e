"""Set before SciPy is imported, so that scikit-learn's array API check runs instead of being skipped."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"
