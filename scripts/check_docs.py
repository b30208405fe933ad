#!/usr/bin/env python3
"""Check what can be checked of the documentation without running it: links, the index, and the pins it repeats."""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.M)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|TBD)\b")


def pages():
    found = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "test").glob("*.md"))
    return [path for path in found if path.is_file()]


def anchor(heading):
    """The name that a heading gets on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def check_links(path, problems):
    for target in LINK.findall(without_code(path.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        linked = (path.parent / name).resolve() if name else path
        if not linked.exists():
            problems.append(f"{path.relative_to(ROOT)}: link to {target}, which does not exist")
        elif fragment and linked.suffix == ".md":
            if fragment not in {anchor(heading) for heading in HEADING.findall(linked.read_text())}:
                problems.append(f"{path.relative_to(ROOT)}: no heading for #{fragment} in {linked.relative_to(ROOT)}")


def check_index(problems):
    index = (ROOT / "docs" / "README.md").read_text()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        relative = path.relative_to(ROOT / "docs").as_posix()
        if relative != "README.md" and f"({relative})" not in index:
            problems.append(f"docs/README.md does not list {relative}")


def one(pattern, path, problems):
    found = re.search(pattern, (ROOT / path).read_text(), re.M)
    if not found:
        problems.append(f"{path}: nothing matches {pattern}")
        return None
    return found.group(1)


def check_pins(problems):
    """Every place that names the DuckDB release or the version of the extension names the same one."""
    pins = json.loads((ROOT / "scripts/duckdb-releases.json").read_text())
    default = pins["default"]
    if default not in pins["releases"]:
        problems.append(f"scripts/duckdb-releases.json: the default {default} is not among the releases")
    for pattern, path in (
        (r"^DEFAULT_DUCKDB_VERSION := ([\d.]+)$", "Makefile"),
        (r"default release, ([\d.]+\d)", "README.md"),
        (r"duckdb: \[([\d.]+\d)", ".github/workflows/CI.yml"),
    ):
        named = one(pattern, path, problems)
        if named and named != default:
            problems.append(f"{path} names DuckDB {named}, the default of scripts/duckdb-releases.json is {default}")
    for path in (".github/workflows/CI.yml", ".github/workflows/MainDistributionPipeline.yml", "CHANGELOG.md", "README.md"):
        text = (ROOT / path).read_text()
        problems += [f"{path} does not name DuckDB {release}" for release in pins["releases"] if release not in text]
    version = one(r'^version\s*=\s*"([^"]+)"', "Cargo.toml", problems)
    described = one(r"^  version: (\S+)$", "docs/description.yml", problems)
    if version and described and version != described:
        problems.append(f"docs/description.yml names version {described}, Cargo.toml {version}")


def main():
    problems = []
    for path in pages():
        check_links(path, problems)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNFINISHED.search(line):
                problems.append(f"{path.relative_to(ROOT)}:{number}: unfinished: {line.strip()}")
    check_index(problems)
    check_pins(problems)
    for problem in problems:
        print(problem)
    print(f"{len(pages())} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
