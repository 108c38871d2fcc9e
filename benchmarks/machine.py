"""Describe the machine and the package versions of a benchmark."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("maxnorm", "numpy", "scipy", "scikit-learn", "numba", "hyperspy", "tensorly", "rpca")


def describe():
    """Return date, machine and package versions as a dictionary; a package that is not installed has None."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": versions,
    }


def processor_name():
    """Return the name of the processor, or that of the architecture if the system does not tell."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()
