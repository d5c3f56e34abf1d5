#!/usr/bin/env python3
"""Links of the Markdown pages: every relative link leads to a file or folder of the repository, and what stands behind its
# is a heading of that page.

usage: tests/doc_links.py [SOURCE_DIR]           Exit status 1 where a link leads nowhere; each is printed with its place.
       tests/doc_links.py --files SOURCE_DIR     The pages and the files that they link to, a line each, for docs/build.sh.
Example: tests/doc_links.py .
"""
import pathlib
import re
import subprocess
import sys

# Of inline code and fenced blocks nothing is a link.
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)


def blanked(pattern, text):
    """The text with what matches as blanks, so that lines keep their numbers."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def anchors(text):
    """The names that GitHub gives to a page's headings."""
    names = set()
    for heading in HEADING.findall(blanked(FENCE, text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
        tries = [name] + [f"{name}-{i}" for i in range(1, 100)]
        names.add(next(one for one in tries if one not in names))
    return names


def links(source, page):
    """(place, link as it stands, file or folder that it leads to, anchor) of each relative link of a page."""
    shown = blanked(CODE, blanked(FENCE, page.read_text()))
    for found in LINK.finditer(shown):
        target, _, anchor = found[1].partition("#")
        if not re.match(r"[a-z]+:", target):
            place = f"{page.relative_to(source)}:{shown.count(chr(10), 0, found.start()) + 1}"
            yield place, found[1], (page.parent / target).resolve() if target else page, anchor


def wrong_links(source, page):
    for place, link, path, anchor in links(source, page):
        if not path.is_relative_to(source):
            yield f"{place}: {link} leads out of the repository"
        elif not path.exists():
            yield f"{place}: there is no {path.relative_to(source)}"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
            yield f"{place}: {path.relative_to(source)} has no heading #{anchor}"


def all_pages(source):
    names = subprocess.run(["git", "-C", source, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True,
                           text=True, check=False)
    listed = [source / name for name in names.stdout.splitlines()] if names.returncode == 0 else source.rglob("*.md")
    return sorted(page for page in listed if page.exists() and "build" not in page.relative_to(source).parts)


def main():
    is_list = sys.argv[1:2] == ["--files"]
    source = pathlib.Path(sys.argv[-1] if len(sys.argv) > 1 else ".").resolve()
    pages = all_pages(source)
    if is_list:
        linked = {path for page in pages for _, _, path, _ in links(source, page) if path.is_file()}
        print("\n".join(sorted(str(path.relative_to(source)) for path in linked | set(pages))))
        return
    problems = [problem for page in pages for problem in wrong_links(source, page)]
    print("\n".join(problems) or f"links of {len(pages)} pages lead somewhere")
    sys.exit(1 if problems or not pages else 0)


if __name__ == "__main__":
    main()
