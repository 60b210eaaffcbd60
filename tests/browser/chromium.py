"""Headless Chromium for the tests of the pages: what it complained of, what it asked for, and pictures."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selenium import webdriver

PROGRAMS = ("chromium", "chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
ENTER, TAB, SPACE = "\ue007", "\ue004", "\ue00d"  # keys, as WebDriver names them
LOADED_TYPES = ("Network.requestWillBeSent", "Network.webSocketCreated")


def missing() -> str:
    """Why there is no browser; empty where there is one."""
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    return f"not installed: {', '.join(absent)} (Debian: apt install chromium chromium-driver)" if absent else ""


class Browser:
    """A browser with one page at a time."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, page: Path, anchor: str = "") -> None:
        """Opens a file; what was logged before is forgotten."""
        self._logged("browser")
        self._logged("performance")
        self.driver.get(page.resolve().as_uri() + anchor)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a function's body in the page."""
        return self.driver.execute_script(script, *arguments)

    def wait_until(self, holds: Callable[[], Any], limit_s: float) -> None:
        """Waits for something on the page."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, limit_s).until(lambda _: holds())

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, those of the content security policy among them."""
        return [entry["message"] for entry in self._logged("browser")]

    def _logged(self, kind: str) -> list[dict[str, str]]:
        """What was logged since the last call."""
        found: list[dict[str, str]] = self.driver.get_log(kind)  # type: ignore[no-untyped-call]
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        messages = [json.loads(entry["message"])["message"] for entry in self._logged("performance")]
        found = [each["params"] for each in messages if each["method"] in LOADED_TYPES]
        return [each.get("request", each)["url"] for each in found]

    def size(self, width: int, height: int = 900) -> None:
        """The window as a screen of so many CSS pixels."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def theme(self, name: str) -> None:
        """What the system prefers: `light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def command(self, method: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(method, parameters)

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.command("Page.printToPDF", printBackground=True)["data"])

    def picture(self, path: Path) -> None:
        """The whole page as a PNG file."""
        shown = self.command("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shown["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Starts one whose user data is in a new folder."""
    from selenium import webdriver  # half a second, which only those who start one spend
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(PROGRAMS[0]) or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which(PROGRAMS[1])))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
