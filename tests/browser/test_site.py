"""The documentation site in a real browser. ``make test-browser`` builds it first."""

import functools
import http.server
import threading
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from browsing import PATIENCE, SCREENSHOTS, requested_addresses

SITE = Path(__file__).parents[2] / "build" / "site"
OURS = ("http://127.0.0.1:", "data:", "blob:", "chrome:", "about:")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, *arguments):
        pass


@pytest.fixture
def address():
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def wait_for_results(browser):
    """Wait until a search has found something, and return the links."""
    return WebDriverWait(browser, PATIENCE, 0.2).until(
        lambda page: page.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )


def test_search_finds_a_page(address, browser):
    browser.get(f"{address}/search.html?q=max-norm")
    targets = [link.get_attribute("href") for link in wait_for_results(browser)]
    assert any("MaxNormDecomposition" in target or "theory" in target for target in targets)
    assert [one for one in requested_addresses(browser) if not one.startswith(OURS)] == []


def test_the_search_field_leads_to_results(address, browser):
    browser.get(f"{address}/index.html")
    browser.execute_script("document.querySelector('.search-button__button').click()")
    field = WebDriverWait(browser, PATIENCE, 0.2).until(
        lambda page: next((f for f in page.find_elements(By.NAME, "q") if f.is_displayed()), None)
    )
    field.send_keys("gross errors", Keys.ENTER)
    assert wait_for_results(browser)


def test_pages_are_light_or_dark_and_nothing_leaves_the_machine(address, browser):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for page in ("index", "guide/index", "gallery/index", "api/index", "theory"):
        brightness = {}
        for theme in ("light", "dark"):
            browser.get(f"{address}/{page}.html")
            browser.execute_script("localStorage.setItem('mode', arguments[0])", theme)
            browser.refresh()
            assert browser.execute_script("return document.documentElement.dataset.theme") == theme
            colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            brightness[theme] = sum(int(part) for part in colour.strip("rgba()").split(",")[:3])
            browser.save_screenshot(str(SCREENSHOTS / f"site-{page.replace('/', '-')}-{theme}.png"))
        assert brightness["dark"] < 200 < 600 < brightness["light"]
        broken = browser.execute_script(
            "return [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        )
        assert broken == []
    assert [one for one in requested_addresses(browser) if not one.startswith(OURS)] == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_an_example_can_be_downloaded_as_a_notebook(address, browser):
    browser.get(f"{address}/gallery/index.html")
    examples = browser.find_elements(By.CSS_SELECTOR, ".sphx-glr-thumbcontainer a")
    assert len({example.get_attribute("href") for example in examples}) >= 12
    browser.get(examples[0].get_attribute("href"))
    notebooks = browser.find_elements(By.CSS_SELECTOR, "a[href$='.ipynb']")
    assert notebooks
    assert browser.find_elements(By.CSS_SELECTOR, "img.sphx-glr-single-img, img.sphx-glr-multi-img")
