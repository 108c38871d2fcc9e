"""A short run of the fuzzer of files."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource")  # which limits the memory of the reader; not on Windows
TOOL = Path(__file__).parent.parent / "tools" / "fuzz_files.py"


def test_damaged_and_hostile_files_are_read_or_refused():
    result = subprocess.run([sys.executable, TOOL, "0", "150"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "150 cases" in result.stdout
