"""A headless Chromium and what tests in it share. Where there is no selenium, importing this ends the program with 77: skipped."""
import base64
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    print("skipped: Python has no selenium (package python3-selenium)")
    sys.exit(SKIPPED)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{words}: {done.stderr}")


SERIOUS = ("serious", "critical")
AXE = """(async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .filter((fault) => arguments[0].includes(fault.impact))
  .map((fault) => fault.id + ': ' + fault.nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(' ... ')))()"""


def axe_script(python):
    """The text of axe-core, or "" where the Python is not there or has it not."""
    if not pathlib.Path(python).exists():
        return ""
    code = "import axe_core_python, pathlib; print(pathlib.Path(axe_core_python.__file__).parent / 'axe.min.js')"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return pathlib.Path(found.stdout.strip()).read_text() if found.returncode == 0 else ""


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(word)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_script_timeout(180)  # seconds: axe takes a long page some tens where other tests run beside it

    def js(self, script, *arguments):
        return self.driver.execute_script("return " + script, *arguments)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def open(self, page, width=1280, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                         {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.driver.get("about:blank")  # else the same page keeps where the last click was
        self.driver.get(page.as_uri())

    def screenshot(self, path):
        size = self.js("[innerWidth, document.documentElement.scrollHeight]")
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}})
        path.write_bytes(base64.b64decode(picture["data"]))

    def check_log(self, where):
        log = [entry for entry in self.driver.get_log("browser") if entry["level"] != "DEBUG"]
        check(not log, f"{where}: the console says {log}")
