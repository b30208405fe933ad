#!/usr/bin/env python3
"""Run DuckDB `.test` files against the packaged extension and close with `N passed, N failed`.

    scripts/sqllogictest.py --extension build/release/pensieve.duckdb_extension test/sql
    scripts/sqllogictest.py --extension ... test/sql/read_tlm.test

Each file runs in a process of its own, so a crash fails one file and names the line it happened at. A count is a
statement or query that ran (once per loop iteration); `skipped` counts those left out by `skipif`, `onlyif` or
`mode skip`, and one for a file whose `require` is not met. The exit status is 1 when anything failed or nothing ran.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

TIMEOUT_SECONDS = 600


def worker(path, extension, name, report):
    """Run one file and write its outcome to `report`: lines `@line`, then one JSON object."""
    from sqllogic.parse import ParseError
    from sqllogic.run import Runner

    with open(report, "w", encoding="utf-8") as stream:

        def progress(line):
            stream.write(f"@{line}\n")
            stream.flush()

        try:
            outcome = Runner(path, extension, name, progress).run()
            result = {"passed": outcome.passed, "skipped": outcome.skipped, "failures": outcome.failures}
        except ParseError as error:
            result = {"passed": 0, "skipped": 0, "failures": [{"line": 0, "title": "parse", "text": str(error)}]}
        stream.write(json.dumps(result) + "\n")


def run_file(path, arguments):
    """The outcome of one file as a dict, whatever happened to the process that ran it."""
    with tempfile.TemporaryDirectory(prefix="sqllogic-report-") as directory:
        report = Path(directory) / "report"
        command = [sys.executable, __file__, "--worker", str(report), "--name", arguments.name, str(path)]
        if arguments.extension:
            command += ["--extension", str(Path(arguments.extension).resolve())]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=dict(os.environ, TZ="UTC")
            )
            problem = f"exit status {done.returncode}" if done.returncode >= 0 else f"signal {-done.returncode}"
            detail = done.stderr.strip()[-4000:]
        except subprocess.TimeoutExpired:
            done, problem, detail = None, f"no end after {TIMEOUT_SECONDS} seconds", ""
        lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
    if done is not None and done.returncode == 0 and lines and lines[-1].startswith("{"):
        return json.loads(lines[-1])
    at = [int(line[1:]) for line in lines if line.startswith("@")]
    failure = {"line": at[-1] if at else 0, "title": "the process running this file died", "text": f"{problem}\n{detail}"}
    return {"passed": 0, "skipped": 0, "failures": [failure]}


def find_files(paths):
    found = []
    for path in map(Path, paths):
        if path.is_dir():
            found += sorted(path.rglob("*.test"))
        elif path.is_file():
            found.append(path)
        else:
            raise SystemExit(f"sqllogictest: {path} does not exist")
    return found


def indent(text):
    return "\n".join("    " + line for line in text.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", help=".test files, or directories searched for them")
    parser.add_argument("--extension", help="packaged extension that `require NAME` loads")
    parser.add_argument("--name", default="pensieve", help="the NAME")
    parser.add_argument("-j", "--jobs", type=int, default=min(4, os.cpu_count() or 1), help="files run at a time")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line per file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.paths[0], arguments.extension, arguments.name, arguments.worker)
        return 0
    if arguments.extension and not Path(arguments.extension).is_file():
        raise SystemExit(f"sqllogictest: {arguments.extension} does not exist; build it with `make release`")
    files = find_files(arguments.paths)
    passed = failed = skipped = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for path, outcome in zip(files, pool.map(lambda path: run_file(path, arguments), files)):
            passed += outcome["passed"]
            skipped += outcome["skipped"]
            failed += len(outcome["failures"])
            if arguments.verbose:
                print(f"{path}: {outcome['passed']} passed, {len(outcome['failures'])} failed, {outcome['skipped']} skipped")
            for failure in outcome["failures"]:
                print(f"FAIL {path}:{failure['line']}: {failure['title']}")
                print(indent(failure["text"]), end="\n\n", flush=True)
    tail = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{tail}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
