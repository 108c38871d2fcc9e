"""A short run of the fuzzer; ``tools/fuzz_estimators.py`` is made for long ones."""

import sys
from pathlib import Path

import pytest

from maxnorm.core import noise

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def fuzzer(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    import fuzz_estimators

    yield fuzz_estimators
    for name in ("fuzz_estimators", "fuzz_data"):
        sys.modules.pop(name, None)


def test_random_data_and_settings_give_right_answers_or_clear_refusals(fuzzer):
    assert fuzzer.fuzz(1, 60)["findings"] == {}


def test_random_data_and_settings_give_right_answers_without_numba(fuzzer, monkeypatch):
    monkeypatch.setattr(noise, "compiled", lambda: None)
    assert fuzzer.fuzz(3, 60)["findings"] == {}


def test_the_fuzzer_finds_answers_that_are_not_finite(fuzzer, monkeypatch):
    from maxnorm import MaxNormDecomposition

    transform = MaxNormDecomposition.transform
    monkeypatch.setattr(MaxNormDecomposition, "transform", lambda self, X: transform(self, X) / 0.0)
    findings = fuzzer.fuzz(1, 20)["findings"]
    assert any("RuntimeWarning" in found or "not finite: transform" in found for found in findings)


@pytest.mark.parametrize("error", [ValueError("math domain error"), ZeroDivisionError("division by zero")])
def test_errors_in_the_words_of_python_are_findings(fuzzer, error):
    assert fuzzer.classify(error, is_sane=True) is not None
    assert fuzzer.classify(ValueError("X contains infinity; clip it"), is_sane=True) is None
