"""Damaged and hostile model files are refused, or are valid models; tools/fuzz_models.py tries many more."""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tools"))

import fuzz_models


def test_damaged_and_hostile_models_are_refused_or_valid():
    table, findings = fuzz_models.fuzz(seed=0, count=600)
    assert not findings
    outcomes = {outcome for _, outcome in table}
    assert outcomes == {"refused", "valid"}
    assert sum(table.values()) == 600


def test_a_crash_is_found(monkeypatch):
    def crash(seed, number, files, path):
        if number == 3:
            os._exit(7)
        return "flip", "refused"

    monkeypatch.setattr(fuzz_models, "run_case", crash)
    table, findings = fuzz_models.fuzz(seed=0, count=6)
    assert findings == {3: "the process ended with exit code 7"}
    assert table == {("flip", "refused"): 5}
