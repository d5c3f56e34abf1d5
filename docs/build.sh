#!/usr/bin/env bash
# The site: all pages of the repository and the reference that the program prints, as HTML that needs no network. It is in
# build/site/html, and opens from disk.
# usage: docs/build.sh [MOELAB [PYTHON]]     MOELAB: the program (default: build/release/cli/moelab)
#                                            PYTHON: one that has docs/requirements.txt; default: an environment of its own,
#                                            build/site/venv, made from the Python registry
# Example: docs/build.sh build/quick/cli/moelab && xdg-open build/site/html/index.html
set -euo pipefail
cd "$(dirname "$0")/.."
moelab=${1:-build/release/cli/moelab}
python=${2:-build/site/venv/bin/python}
[ -x "$moelab" ] || { sed -n '/^# usage/,/^[^#]/s/^# //p' docs/build.sh >&2; echo "there is no program $moelab: build it, or name another one" >&2; exit 2; }
if [ $# -lt 2 ] && ! cmp -s docs/requirements.txt build/site/venv/made-from; then
  rm -rf build/site/venv
  python3 -m venv build/site/venv
  "$python" -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt
  cp docs/requirements.txt build/site/venv/made-from
fi

pages=build/site/pages
rm -rf "$pages" build/site/html
mkdir -p "$pages/docs/reference"
# The pages, and of what they link to the files that a browser shows.
mapfile -t files < <(python3 tests/doc_links.py --files .)
cp --parents -- "${files[@]}" "$pages"
for subject in keys policies metrics commands; do
  "$moelab" reference "$subject" >"$pages/docs/reference/$subject.md"
done
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs --quiet build --strict --config-file docs/mkdocs.yml
echo "build/site/html/index.html"
