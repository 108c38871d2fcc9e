"""The command line, run as a user would."""

import subprocess
import sys

import pytest


def maxnorm(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "maxnorm", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_demo_prints_a_table_and_writes_a_picture(tmp_path):
    result = maxnorm("demo", "--side", "24", "-o", "picture.png", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for word in ("OMRMD", "OR-PCA", "online PCA", "512", "576", "picture: picture.png"):
        assert word in result.stdout
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_demo_without_a_place_for_its_picture(tmp_path):
    result = maxnorm("demo", "-o", "nowhere/picture.png", cwd=tmp_path)
    assert result.returncode == 1
    assert "nowhere is not a folder" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("argument", ["--help", "--version", "-h"])
def test_help_and_version(argument, tmp_path):
    result = maxnorm(argument, cwd=tmp_path)
    assert result.returncode == 0
    assert "maxnorm" in result.stdout
