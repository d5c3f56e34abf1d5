#!/usr/bin/env python3
"""The site that docs/build.sh makes, in headless Chromium, opened from disk: it asks the network for nothing, is no wider than the
window on a phone, a tablet and a desk, light and dark, finds words, and axe-core finds no serious fault of accessibility.

usage: site_browser_test.py MOELAB SCREENSHOT_FOLDER PYTHON     PYTHON: one that has docs/requirements.txt and axe-core-python
Exit status 77: skipped, there is no browser or no such Python.
"""
import pathlib
import shutil
import subprocess
import sys
import time

from headless_browser import AXE, SERIOUS, SKIPPED, Browser, By, axe_script, check
from selenium.webdriver.common.keys import Keys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SITE = SOURCE / "build/site/html"
PAGES = ["index", "docs/edge-device", "docs/python", "docs/reference/metrics"]


def output(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=SOURCE)


def check_page(browser, name, axe, screenshots):
    for width, dark in ((390, True), (768, False), (1440, False)):
        browser.open(SITE / f"{name}.html", width, dark)
        wide = browser.js("document.documentElement.scrollWidth")
        check(wide <= width, f"{name}: {wide} px wide in a window of {width}")
        browser.screenshot(screenshots / f"{name.replace('/', '-')}-{width}.png")
        if width == 768:
            continue  # between the two that differ most
        browser.driver.execute_script(axe)
        faults = browser.js(AXE, SERIOUS)
        check(not faults, f"{name} at {width} px: {faults}")
    asked = browser.js("performance.getEntriesByType('resource').map((entry) => entry.name)")
    check(all(url.startswith(("file:", "data:", "blob:")) for url in asked), f"{name} asks for {asked}")
    browser.check_log(name)


def check_search(browser):
    browser.open(SITE / "index.html", 1440)
    field = browser.one("input.md-search__input")
    field.click()
    field.send_keys("goodput")
    deadline = time.monotonic() + 20
    while not (found := browser.all(".md-search-result__link")) and time.monotonic() < deadline:
        time.sleep(0.1)
    links = [link.get_attribute("href") for link in found]
    check(any("serving-node.html" in link for link in links), f"'goodput' is found in {links}")
    field.send_keys(Keys.ESCAPE)
    browser.check_log("search")


def main():
    moelab, screenshots, python = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    axe = axe_script(python)
    if not axe or not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("skipped: there is no Chromium, or no Python with mkdocs-material and axe-core-python (tests/python/environment.sh packages)")
        return SKIPPED
    built = output("docs/build.sh", moelab, python)
    check(built.returncode == 0, f"docs/build.sh: {built.stdout}{built.stderr}")
    screenshots.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        for name in PAGES:
            check_page(browser, name, axe, screenshots)
        check_search(browser)
    except AssertionError:
        browser.screenshot(screenshots / "failed.png")
        raise
    finally:
        browser.driver.quit()
    print(f"{len(PAGES)} pages; screenshots: {screenshots}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
