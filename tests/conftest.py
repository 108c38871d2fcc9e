"""Settings that must be made before the libraries under test are imported."""

import os
import signal

# Without this setting, which SciPy reads on import, scikit-learn skips its check of the array API.
os.environ["SCIPY_ARRAY_API"] = "1"

# A shell lets processes in the background ignore Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
