"""Settings that must be made before the libraries under test are imported."""

import os

# Without this setting, which SciPy reads on import, scikit-learn skips its check of the array API.
os.environ["SCIPY_ARRAY_API"] = "1"
