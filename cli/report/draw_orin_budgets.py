#!/usr/bin/env python3
"""Draws orin-budgets.svg, the picture in README.md and docs/edge-device.md: runs the sweep, opens its page in headless Chromium and
writes the page's own first chart, its legend with it, as an SVG that stands alone, in light colours and, where those who look prefer
them, dark ones. By hand, after a change of the simulator's results or the page's charts; needs chromium, chromium-driver, python3-selenium.

usage: cli/report/draw_orin_budgets.py MOELAB [SVG]     MOELAB: the program, of any build; a minute
Example: cli/report/draw_orin_budgets.py build/release/cli/moelab
"""
import os
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "cli"))
from headless_browser import Browser, check, run  # noqa: E402  (it exits with 77 where there is no selenium)

PAGE_WIDTH = 900  # pixels: what pages of text show a picture in, without making it smaller
MARGIN = 12
NAMESPACE = "http://www.w3.org/2000/svg"
KEPT = {"d", "transform", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-miterlimit", "opacity", "font-family",
        "font-size", "font-weight", "text-anchor", "x1", "y1", "x2", "y2"}
TAGS = {"g", "path", "line", "text"}

# The chart and its legend, with their places on the page, in pixels.
PARTS = """(() => {
  const svg = document.querySelector('#chart-compare .drawing svg');
  const place = svg.getBoundingClientRect();
  const at = (element) => { const box = element.getBoundingClientRect(); return [box.x - place.x, box.y - place.y, box.width, box.height]; };
  return { svg: new XMLSerializer().serializeToString(svg), width: place.width, height: place.height,
    sentence: document.querySelector('#chart-compare > .note').textContent,
    legend: [...document.querySelectorAll('#chart-compare .legend li')].map((item) => {
      const sign = item.querySelector('span'), words = document.createRange();
      words.selectNodeContents(item.lastChild);
      return { sign: sign.textContent, colour: getComputedStyle(sign).color, name: item.lastChild.textContent, sign_at: at(sign), name_at: at(words) };
    }) };
})()"""


def colours(browser):
    """The page's colours as the theme that is on has them, each by its name."""
    by_name = browser.js("themeColours()")
    series = by_name.pop("series")
    return by_name | {f"series-{i}": colour for i, colour in enumerate(series)}


def open_chart(page):
    """Opens the page light and dark -> (its parts in light colours, {light colour: the dark one})."""
    browser = Browser()
    try:
        browser.open(page, PAGE_WIDTH, dark=True)
        dark = colours(browser)
        browser.open(page, PAGE_WIDTH)
        light = colours(browser)
        return browser.js(PARTS) | {"ink": light["ink"], "ground": light["ground"]}, {colour: dark[name] for name, colour in light.items()}
    finally:
        browser.driver.quit()


def cleaned(element):
    """A copy with what can be seen of it: without what scripts and listeners need, None where nothing is left."""
    tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
    if tag not in TAGS:
        return None
    copy = xml.Element(tag, {name: text for name, text in element.attrib.items() if name in KEPT})
    copy.text = element.text
    copy.extend(child for child in (cleaned(one) for one in element) if child is not None)
    if tag == "g" and len(copy) == 0:
        return None
    paints = {copy.get("fill"), copy.get("stroke")} - {None, "none", "transparent"}
    is_drawn = tag in ("g", "text") or paints
    return copy if is_drawn and copy.get("opacity") != "0" else None


def legend_of(parts):
    """The page's list of signs and names as text, where the page has it."""
    group = xml.Element("g", {"font-family": "system-ui, sans-serif", "font-size": "13px"})
    for item in parts["legend"]:
        for key, colour in (("sign", item["colour"]), ("name", parts["ink"])):
            x, y, _, height = item[f"{key}_at"]
            text = xml.SubElement(group, "text", {"x": f"{x:.1f}", "y": f"{y + 0.77 * height:.1f}", "fill": colour})  # the letters' foot
            text.text = item[key]
    return group


def style_of(dark_of, text):
    """What makes a light picture dark. Throws where a colour of the picture is none of the page's."""
    used = set(re.findall(r'(?:fill|stroke)="(rgb[^"]*)"', text))
    unknown = used - set(dark_of)
    check(not unknown, f"colours that are none of the page's: {sorted(unknown)}")
    rules = "".join(f'[{paint}="{light}"]{{{paint}:{dark}}}' for light, dark in dark_of.items() if light in used for paint in ("fill", "stroke"))
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def picture(parts, dark_of):
    bottom = max([parts["height"]] + [y + height for item in parts["legend"] for _, y, _, height in (item["sign_at"], item["name_at"])])
    width, height = round(parts["width"]) + 2 * MARGIN, round(bottom) + 2 * MARGIN
    root = xml.Element("svg", {"xmlns": NAMESPACE, "role": "img", "width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"})
    xml.SubElement(root, "title").text = "Time per output token over the budget, by system"
    xml.SubElement(root, "desc").text = parts["sentence"]
    style = xml.SubElement(root, "style")
    xml.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": parts["ground"]})
    moved = xml.SubElement(root, "g", {"transform": f"translate({MARGIN},{MARGIN})"})
    moved.extend(child for child in (cleaned(one) for one in xml.fromstring(parts["svg"])) if child is not None)
    moved.append(legend_of(parts))
    style.text = style_of(dark_of, xml.tostring(root, encoding="unicode"))
    return xml.tostring(root, encoding="unicode") + "\n"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else HERE / "orin-budgets.svg"
    with tempfile.TemporaryDirectory() as name:
        results, page = pathlib.Path(name) / "results.db", pathlib.Path(name) / "budgets.html"
        run(sys.argv[1], "sweep", "orin-budgets", "--db", results)
        run(sys.argv[1], "report", results, "--out", page)
        parts, dark_of = open_chart(page)
    text = picture(parts, dark_of)
    unfinished = target.with_name(target.name + ".new")
    unfinished.write_text(text)
    os.replace(unfinished, target)
    print(f"picture: {target}, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
