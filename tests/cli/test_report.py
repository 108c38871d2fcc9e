"""``maxnorm report``: a page about a model, and about data."""

import json
import re

import numpy as np
import pytest

from commands import assert_fails, run, run_successfully
from maxnorm import AnomalyDetector, MaxNormDecomposition, Recommender, VideoBackground


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 8)) + 0.05 * rng.standard_normal((300, 8))
    X[7, 4] = 90.0
    return X


@pytest.fixture
def folder(rows, tmp_path):
    names = list("abcdefgh")
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", header=",".join(names), comments="")
    np.savetxt(tmp_path / "reversed.csv", rows[:, ::-1], delimiter=",", header="h,g,f,e,d,c,b,a", comments="")
    np.save(tmp_path / "x.npy", rows)
    np.save(tmp_path / "columns.npy", rows.T)
    MaxNormDecomposition(random_state=0).fit(rows).save(tmp_path / "m.maxnorm")
    return tmp_path


def shown(path):
    """Return the cells of the tables of a page, as pairs of a name and the text beside it."""
    cells = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", path.read_text())
    return dict(reversed(cells))


def test_a_model_is_described_on_a_page(folder):
    result = run_successfully("report", "m.maxnorm", folder=folder)
    assert result.stdout.splitlines()[-1].split() == ["report", "report.html"]
    assert shown(folder / "report.html")["samples learnt from"] == "300"


def test_a_page_shows_what_a_model_finds_in_data(folder):
    result = run_successfully("report", "m.maxnorm", "x.csv", "-o", "x.html", "--json", folder=folder)
    summary = json.loads(result.stdout)
    assert (summary["estimator"], summary["samples"]) == ("MaxNormDecomposition", 300)
    assert summary["report"] == "x.html"
    assert shown(folder / "x.html")["gross errors in the data"].startswith("1 (")


def test_data_are_read_from_standard_input(folder):
    text = (folder / "x.csv").read_text()
    run_successfully("report", "m.maxnorm", "-", folder=folder, input=text)
    assert shown(folder / "report.html")["samples in the data"] == "300"


def test_columns_of_a_file_are_found_by_name(folder):
    run_successfully("fit", "x.csv", "--model", "named.maxnorm", folder=folder)
    run_successfully("report", "named.maxnorm", "reversed.csv", folder=folder)
    page = shown(folder / "report.html")
    assert page["gross errors in the data"].startswith("1 (")
    assert page["7"]


def test_the_options_that_describe_data_are_those_of_other_commands(folder):
    run_successfully("report", "m.maxnorm", "columns.npy", "--transpose", folder=folder)
    assert shown(folder / "report.html")["samples in the data"] == "300"
    run_successfully(
        "report", "m.maxnorm", "x.csv", "--columns", "0:8", "--header", "--overwrite", folder=folder
    )
    assert shown(folder / "report.html")["samples in the data"] == "300"


@pytest.mark.parametrize("option", ["--transpose", "--columns=a", "--key=x", "--no-header", "--external"])
def test_options_that_describe_data_need_data(option, folder):
    result = run("report", "m.maxnorm", option, folder=folder)
    assert_fails(result, option.partition("=")[0].replace("--no-", "--"), "DATA", code=2)


def test_an_existing_page_is_kept(folder):
    (folder / "report.html").write_text("mine")
    assert_fails(run("report", "m.maxnorm", folder=folder), "already exists", "--overwrite")
    assert (folder / "report.html").read_text() == "mine"
    run_successfully("report", "m.maxnorm", "--overwrite", folder=folder)
    assert "mine" not in (folder / "report.html").read_text()


def test_the_model_and_the_data_are_never_replaced(folder):
    for file in ("m.maxnorm", "x.csv"):
        before = (folder / file).read_bytes()
        result = run("report", "m.maxnorm", "x.csv", "-o", file, "--overwrite", folder=folder)
        assert_fails(result, "same file", code=2)
        assert (folder / file).read_bytes() == before


def test_a_failure_leaves_no_page(folder):
    np.save(folder / "wide.npy", np.zeros((5, 9)))
    result = run("report", "m.maxnorm", "wide.npy", folder=folder)
    assert_fails(result, "wide.npy", "9 features", "8 features")
    assert_fails(run("report", "x.csv", folder=folder), "not a model file")
    assert_fails(run("report", "missing.maxnorm", folder=folder), "no such file")
    assert not (folder / "report.html").exists()
    assert list(folder.glob(".*")) == []


def test_a_quiet_report_prints_its_summary_and_nothing_else(folder):
    result = run_successfully("report", "m.maxnorm", "x.csv", "-q", "--json", folder=folder)
    assert result.stderr == ""
    assert json.loads(result.stdout)["samples"] == 300
    result = run_successfully("report", "m.maxnorm", "x.csv", "-v", "--overwrite", folder=folder)
    for word in ("loaded m.maxnorm: MaxNormDecomposition", "opened x.csv", "reading"):
        assert word in result.stderr


def test_every_kind_of_model_has_a_report(rows, folder):
    AnomalyDetector(random_state=0).fit(rows).save(folder / "detector.maxnorm")
    Recommender(random_state=0).fit((["a", "a", "b"], ["x", "y", "x"], [5, 1, 4])).save(folder / "r.maxnorm")
    VideoBackground().fit(np.full((5, 24, 32), 100, dtype=np.uint8)).save(folder / "film.maxnorm")
    run_successfully("report", "detector.maxnorm", "x.npy", "-o", "detector.html", folder=folder)
    assert int(shown(folder / "detector.html")["anomalous rows in the data"]) >= 1
    for name, line in (("r", "users"), ("film", "frames seen")):
        run_successfully("report", f"{name}.maxnorm", "-o", f"{name}.html", folder=folder)
        assert line in shown(folder / f"{name}.html")
        result = run("report", f"{name}.maxnorm", "x.npy", "-o", "no.html", folder=folder)
        assert_fails(result, "leave out the data")


def test_a_quiet_demonstration_prints_its_results_and_nothing_else(tmp_path):
    pytest.importorskip("matplotlib")
    usual = run_successfully("demo", "-o", "shown", folder=tmp_path)
    assert "a table of 569 patients" in usual.stderr
    quiet = run_successfully("demo", "-o", "shown", "--overwrite", "-q", folder=tmp_path)
    assert quiet.stderr == ""
    assert quiet.stdout == usual.stdout
    assert sorted(path.name for path in (tmp_path / "shown").iterdir()) == [
        "picture.png",
        "received.csv",
        "repaired.csv",
        "report.html",
    ]


@pytest.mark.parametrize("name", ["received.csv", "picture.png"])
def test_the_files_of_a_demonstration_are_replaced_as_a_whole(name, tmp_path, monkeypatch):
    from maxnorm import demo

    def fail(*arguments, **options):
        raise OSError("the disk is full")

    (tmp_path / name).write_text("complete")
    monkeypatch.setattr("numpy.savetxt", fail)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    table = demo.damage_table()
    write = {
        "received.csv": lambda path: demo.write_table(table.received, table.names, path),
        "picture.png": lambda path: demo.draw(
            table, demo.Decomposition(*(table.true,) * 5), {"one": 1.0}, path
        ),
    }[name]
    with pytest.raises(OSError, match="the disk is full"):
        write(tmp_path / name)
    assert (tmp_path / name).read_text() == "complete"
    assert [path.name for path in tmp_path.iterdir()] == [name]
