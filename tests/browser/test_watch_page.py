"""The page of ``maxnorm watch`` in a real browser: Debian's Chromium, without a window.

These tests are run by ``make test-browser``, which installs the browser and its driver.
"""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from browsing import PATIENCE, SCREENSHOTS, requested_addresses


def make_log(n_rows, n_sensors=30, seed=0):
    """Return lines of CSV: sensors with a rhythm, spikes, and a change of the process in the middle."""
    rng = np.random.default_rng(seed)
    t = np.arange(n_rows)
    factors = np.column_stack([np.sin(t / 40.0), np.cos(t / 40.0), np.sin(t / 17.0)])
    first, second = rng.standard_normal((2, 3, n_sensors))
    X = np.where((t < n_rows // 2)[:, None], factors @ first, factors @ second)
    X += 0.05 * rng.standard_normal(X.shape)
    X[rng.random(X.shape) < 0.002] += 8.0
    X = X * 10.0 ** rng.uniform(-2, 4, n_sensors) + 3.0
    names = ",".join(["time", *(f"sensor{j}" for j in range(n_sensors))])
    lines = [f"{i}," + ",".join(f"{value:.6g}" for value in row) for i, row in enumerate(X)]
    return [names, *lines]


def read_address(process):
    """Wait until a command has printed the address of its page, and return it."""
    for line in process.stderr:
        if found := re.search(r"open (http://127\.0\.0\.1:\d+/)", line):
            return found[1]
    raise AssertionError("the command has ended")


@pytest.fixture
def watch(tmp_path):
    command = [sys.executable, "-m", "maxnorm", "watch", "-", "--port", "0"]
    command += ["--model", str(tmp_path / "watch.maxnorm")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process, read_address(process), tmp_path / "watch.maxnorm"
        process.kill()


def shown_text(driver):
    """Return the text of a page, also within the shadow roots of its widgets."""
    return driver.execute_script(
        """
        const texts = [];
        const collect = node => {
          if (node.shadowRoot) collect(node.shadowRoot);
          for (const child of node.childNodes) {
            if (child.nodeType === 3) texts.push(child.textContent);
            else if (!["STYLE", "SCRIPT"].includes(child.nodeName)) collect(child);
          }
        };
        collect(document.body);
        return texts.join(" ");
        """
    )


def wait_for(driver, pattern):
    """Wait until the text of the page matches a pattern, and return the match."""
    return WebDriverWait(driver, PATIENCE, 0.2).until(lambda page: re.search(pattern, shown_text(page)))


def test_the_page_shows_rows_alarms_and_changes_and_the_model_is_saved(watch, browser):
    process, address, model = watch
    lines = make_log(6000)
    browser.get(address)
    wait_for(browser, "waiting for rows")
    start = time.monotonic()
    for first in range(0, len(lines), 100):  # a thousand rows per second
        process.stdin.write("\n".join(lines[first : first + 100]) + "\n")
        process.stdin.flush()
        time.sleep(max(0.0, start + first / 1000 - time.monotonic()))
    wait_for(browser, r"6,000\s+rows")
    wait_for(browser, r"the process has changed at row [\d, ]*\b(2,9[5-9]\d|3,0[0-4]\d)\b")
    wait_for(browser, r"5,9\d\d\s+\d+\s+sensor\d+: \S+ instead of about")  # a late alarm
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SCREENSHOTS / "watch.png"))

    ours = (address, "data:", "blob:", "chrome:")
    assert [one for one in requested_addresses(browser) if not one.startswith(ours)] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []

    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    assert model.exists()


def test_the_sensor_can_be_chosen(watch, browser):
    process, address, _ = watch
    process.stdin.write("\n".join(make_log(300)) + "\n")
    process.stdin.flush()
    browser.get(address)
    wait_for(browser, r"300\s+rows")  # although no further row arrives
    chosen = browser.execute_script(
        """
        const document_ = Bokeh.documents[0];
        const select = document_.all_models ? [...document_.all_models].find(m => m.type === "Select") : null;
        select.value = "sensor7";
        return select.options.length;
        """
    )
    assert chosen == 30

    def is_shown(page):
        return page.execute_script(
            """
            const lines = [...Bokeh.documents[0].all_models].filter(m => m.type === "ColumnDataSource"
              && m.data.expected);
            return lines.length > 0 && Math.abs(lines[0].data.value[0] - arguments[0]) < 1e-6;
            """,
            float(make_log(300)[1].split(",")[8]),
        )

    WebDriverWait(browser, PATIENCE, 0.2).until(is_shown)


def test_the_report_opens_offline(tmp_path, browser):
    data = tmp_path / "log.csv"
    data.write_text("\n".join(make_log(2000)) + "\n")
    subprocess.run([sys.executable, "-m", "maxnorm", "clean", str(data), "-q"], check=True)
    browser.get((tmp_path / "log-cleaned" / "report.html").as_uri())
    text = shown_text(browser)
    assert "Where the anomalies are" in text
    assert "changes of the process" in text
    assert len(browser.find_elements(By.TAG_NAME, "svg")) >= 3
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(SCREENSHOTS / "report.png"))
    assert all(one.startswith(("file:", "data:")) for one in requested_addresses(browser))


def test_a_film_is_shown_with_its_background_and_foreground(browser, tmp_path):
    rng = np.random.default_rng(0)
    film = rng.integers(90, 110, (400, 120, 160, 3), dtype=np.uint8)
    for t in range(40, 400):
        film[t, 40:80, t % 120 : t % 120 + 30] = 220
    np.save(tmp_path / "film.npy", film)
    command = [sys.executable, "-m", "maxnorm", "watch", "film.npy", "--port", "0", "--model", "film.maxnorm"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            browser.get(read_address(process))
            pattern = re.compile(r"([\d,]+) frames, [\d,]+ per second, ([\d.]+)% foreground")

            def is_late(driver):
                found = pattern.search(shown_text(driver))
                return found and int(found[1].replace(",", "")) > 80 and 5.0 < float(found[2]) < 7.5

            WebDriverWait(browser, PATIENCE).until(is_late)
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            browser.save_screenshot(str(SCREENSHOTS / "film.png"))
            text = shown_text(browser)
            assert "film.npy" in text
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 130
        finally:
            process.kill()
    assert (tmp_path / "film.maxnorm").exists()
