"""Looking at a page as everybody would: by axe-core, in light and dark, wide, zoomed, on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axe_playwright_python.base import AXE_SCRIPT, AxeResults

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
WIDE = {"width": 1280, "height": 3000}
"""So tall that nothing is scrolled under the bar on top."""
WIDTHS = (360, 640, 1000)
"""A phone, 200 % of 1280 px, a tablet."""


def heard(page: Page) -> list[str]:
    """Return where all is noted that a page complains of, or asks for."""
    said: list[str] = []

    def answered(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", answered)
    return said


def shut_out(page: Page) -> str:
    """Return what axe-core finds by WCAG 2.2 AA: all of it in light, colours in dark, too."""
    for one in page.locator("details.data").all():
        one.evaluate("one => { one.open = true; }")
    found = ""
    page.evaluate(AXE_SCRIPT)
    # What is dark differs in its colours alone.
    for scheme, rules in (("light", WCAG), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
        # What is well is not described: that takes long, and nobody reads it.
        options = {"runOnly": rules, "resultTypes": ["violations"]}
        results = AxeResults(page.evaluate("options => axe.run(options)", options))
        if results.violations_count:
            found += f"{scheme}: {results.generate_report()}"
    page.emulate_media(color_scheme="light")
    return found


def too_wide(page: Page) -> list[int]:
    """Return the widths of windows in which a page scrolls in two directions."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 740})
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(width)
    page.set_viewport_size(WIDE)  # type: ignore[arg-type]  # two whole numbers
    return found
