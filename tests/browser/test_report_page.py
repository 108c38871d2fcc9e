"""The report on a model in a real browser, in light and dark."""

import numpy as np
import pytest
from selenium.webdriver.common.by import By

from browsing import SCREENSHOTS, requested_addresses
from maxnorm import AnomalyDetector, MaxNormDecomposition


def make_rows(p):
    """Return low-rank rows with a gap and a gross error."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3)) @ rng.standard_normal((3, p)) + 0.05 * rng.standard_normal((400, p))
    X[7, 4], X[11, 2] = 90.0, np.nan
    return X


MODELS = {
    "decomposition": lambda: (MaxNormDecomposition(random_state=0), make_rows(12)),
    "detector": lambda: (AnomalyDetector(random_state=0), make_rows(12)),
    "images": lambda: (MaxNormDecomposition(random_state=0), make_rows(30).reshape(-1, 5, 6)),
}


def brightness(browser):
    """Return the brightness of the page, from 0 to 765."""
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour.strip("rgba()").split(",")[:3])


@pytest.mark.parametrize("name", MODELS)
def test_a_report_is_light_or_dark_and_loads_nothing(name, browser, tmp_path):
    model, X = MODELS[name]()
    model.fit(X).report(tmp_path / "report.html", X)
    address = (tmp_path / "report.html").as_uri()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    shown = {}
    for theme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        browser.get(address)
        shown[theme] = brightness(browser)
        browser.save_screenshot(str(SCREENSHOTS / f"report-{name}-{theme}.png"))
    assert shown["dark"] < 200 < 600 < shown["light"]

    assert browser.title == f"{type(model).__name__}: report"
    charts = browser.find_elements(By.CSS_SELECTOR, "svg[role=img]")
    assert charts
    assert all(chart.size["height"] > 20 and chart.get_attribute("aria-label") for chart in charts)
    images = browser.find_elements(By.CSS_SELECTOR, "img")
    assert bool(images) == (name == "images")
    assert all(image.get_property("naturalWidth") == 6 for image in images)
    width = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    assert width <= 0  # nothing is wider than the window
    assert {one for one in requested_addresses(browser) if not one.startswith("data:")} == {address}
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
