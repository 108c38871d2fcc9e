"""Files of sensor logs: what the columns are, and what is written again."""

import gzip

import numpy as np
import pandas as pd
import pytest

from maxnorm.sensors.tables import ColumnChoice, open_table
from maxnorm.streams import StreamError


def make_frame(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "time": pd.date_range("2024-01-01", periods=n, freq="min").astype(str),
            "number": np.arange(n),
            "flow": rng.standard_normal(n).round(3),
            "valve": np.arange(n) % 2,
            "state": ["on, line"] * n,
            "level": (1e5 * rng.standard_normal(n)).round(1),
        }
    )


def changed_entries(table, entries):
    changed = np.zeros(table.values.shape, dtype=bool)
    for i, k in entries:
        changed[i, k] = True
    return changed


@pytest.mark.parametrize(
    "name", ["log.csv", "log.tsv", "log.csv.gz", "log.parquet", "log.feather", "log.xlsx"]
)
def test_columns_are_told_apart_and_written_again(tmp_path, name):
    frame, path, target = make_frame(), tmp_path / name, tmp_path / "out" / name
    target.parent.mkdir()
    read, write = {
        ".csv": (pd.read_csv, lambda: frame.to_csv(path, index=False)),
        ".gz": (pd.read_csv, lambda: frame.to_csv(path, index=False)),
        ".tsv": (lambda p: pd.read_csv(p, sep="\t"), lambda: frame.to_csv(path, index=False, sep="\t")),
        ".parquet": (pd.read_parquet, lambda: frame.to_parquet(path)),
        ".feather": (pd.read_feather, lambda: frame.to_feather(path)),
        ".xlsx": (pd.read_excel, lambda: frame.to_excel(path, index=False)),
    }[path.suffix]
    write()
    table = open_table(path, ColumnChoice())
    assert table.sensor_names == ["flow", "level"]
    assert table.labels[1] == frame["time"][1]
    assert any("number counts the rows" in remark for remark in table.roles.remarks)
    assert any("valve has at most two values" in remark for remark in table.roles.remarks)
    np.testing.assert_array_equal(table.values, frame[["flow", "level"]].to_numpy())
    cleaned = table.values.copy()
    cleaned[3, 1] = 12.3456
    table.write(target, cleaned, changed_entries(table, [(3, 1)]))
    again, expected = read(target), frame.copy()
    assert again.loc[3, "level"] == pytest.approx(12.3, abs=0.06)
    expected.loc[3, "level"] = again.loc[3, "level"]
    pd.testing.assert_frame_equal(again, expected, check_dtype=False)


def test_text_keeps_every_character_that_is_not_replaced(tmp_path):
    path, target = tmp_path / "log.csv", tmp_path / "clean.csv"
    rows = [f'2024-01-{i:02d};"a;b";{i},50;{i * i % 7},25' for i in range(1, 29)]
    rows[4] = rows[4].replace("5,50", "", 1)
    text = "sep=;\r\nDatum;Ort;Druck;Temp\r\n;;bar;°C\r\n" + "\r\n".join(rows) + "\r\n"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    table = open_table(path, ColumnChoice())
    assert table.sensor_names == ["Druck", "Temp"]
    assert np.isnan(table.values[4, 0])
    cleaned = table.values.copy()
    cleaned[4, 0] = 5.5
    table.write(target, cleaned, changed_entries(table, [(4, 0)]))
    expected = text.replace('2024-01-05;"a;b";;', '2024-01-05;"a;b";5,50;')
    assert target.read_bytes() == b"\xef\xbb\xbf" + expected.encode()


def test_the_user_can_say_what_the_columns_are(tmp_path):
    path = tmp_path / "log.csv"
    make_frame().to_csv(path, index=False)
    assert open_table(path, ColumnChoice(columns="flow,valve")).sensor_names == ["flow", "valve"]
    assert open_table(path, ColumnChoice(exclude="flow")).sensor_names == ["level"]
    assert open_table(path, ColumnChoice(time="number")).labels[7] == "7"
    with pytest.raises(StreamError, match="--columns: there is no column 'pressure'; the columns are 'time'"):
        open_table(path, ColumnChoice(columns="pressure"))
    with pytest.raises(StreamError, match="'state' does not hold numbers"):
        open_table(path, ColumnChoice(columns="flow,state"))


def test_words_among_numbers_are_gaps(tmp_path):
    path = tmp_path / "log.csv"
    lines = [f"{i * 0.37:.2f},{i * i % 11}.5" for i in range(40)]
    lines[5] = "error,3.5"
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    table = open_table(path, ColumnChoice(columns="a,b"))
    assert np.isnan(table.values[5, 0])
    assert np.isfinite(table.values).sum() == 79


def test_arrays_are_logs_as_well(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 3))
    np.save(tmp_path / "log.npy", X)
    table = open_table(tmp_path / "log.npy", ColumnChoice())
    table.write(tmp_path / "clean.npy", X + 1.0, changed_entries(table, [(0, 0)]))
    again = np.load(tmp_path / "clean.npy")
    assert again[0, 0] == X[0, 0] + 1.0
    np.testing.assert_array_equal(again.ravel()[1:], X.ravel()[1:])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.csv", b"time,state\n1,on\n2,off\n3,on\n", "has no column that looks like a sensor"),
        ("log.csv", b"a,b\n1.5,2\n1.7\n", "line 3: has 1 cells"),
        ("log.xls", b"\xd0\xcf", "Excel file of the old format"),
    ],
)
def test_files_that_are_no_logs_are_refused_with_a_reason(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(StreamError, match=message):
        open_table(path, ColumnChoice())


def test_a_compressed_log_stays_compressed(tmp_path):
    path = tmp_path / "log.csv.gz"
    make_frame().to_csv(path, index=False)
    table = open_table(path, ColumnChoice())
    table.write(tmp_path / "out.csv.gz", table.values, changed_entries(table, []))
    written, original = (gzip.decompress(file.read_bytes()) for file in (tmp_path / "out.csv.gz", path))
    assert written == original
