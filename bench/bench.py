#!/usr/bin/env python3
"""Extents beside DuckDB's own Parquet reader, on the same rows, in one run.

Every query runs on every engine in turn, that many times over, so that a slow moment of the machine hits all of them; what is
shown is the median, and its ratio to `read_parquet` over the same rows as Parquet with zstd. Prints a Markdown table.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "python"))

import logs  # noqa: E402
from support import add_extension_argument, connect, quoted  # noqa: E402

BASELINE = "parquet zstd"
# name -> (COPY options, function that reads it back)
ENGINES = {
    BASELINE: ("FORMAT parquet, COMPRESSION zstd", "read_parquet"),
    "tlm none": ("FORMAT tlm, COMPRESSION none", "read_tlm"),
    "tlm lz4": ("FORMAT tlm, COMPRESSION lz4", "read_tlm"),
    "tlm zstd": ("FORMAT tlm, COMPRESSION zstd", "read_tlm"),
    "tlm lz4 dict": ("FORMAT tlm, COMPRESSION lz4, DICTIONARY true", "read_tlm"),
    "tlm zstd dict": ("FORMAT tlm, COMPRESSION zstd, DICTIONARY true", "read_tlm"),
    "pensieve_parquet": ("FORMAT pensieve_parquet", "read_extent"),
}
OURS = "pensieve_parquet"
# The ratio to the baseline that we aim for: (query, engine) -> at most.
TARGETS = {
    ("full-scan aggregate", "tlm lz4"): 1.0,
    ("group-by string", "tlm lz4"): 2.0,
    ("group-by string", "tlm lz4 dict"): 1.0,
    ("one minute of time", "tlm lz4"): 0.6,
    ("write", "tlm lz4"): 0.8,
    ("full-scan aggregate", OURS): 1.0,
    ("group-by string", OURS): 1.0,
    ("one minute of time", OURS): 0.6,
    ("needle on a unique id", OURS): 0.15,
    ("newest 100", OURS): 0.1,
    ("newest 100 errors", OURS): 0.1,
    ("semi-join on four ids", OURS): 0.3,
    ("rare substring", OURS): 0.8,
    ("write", OURS): 1.0,
    ("bytes per row", OURS): 1.0,
}
# Answers from metadata: at most this many seconds more than the baseline takes.
METADATA_SLACK = 0.002


def queries(connection, rows):
    """(name, SQL with @T@ for the table)."""
    middle = connection.execute(f"SELECT ts, trace_id FROM logs LIMIT 1 OFFSET {rows // 2}").fetchall()[0]
    start = middle[0].strftime("%Y-%m-%d %H:%M:00")
    connection.execute(
        f"CREATE OR REPLACE TABLE wanted AS SELECT trace_id AS id FROM logs WHERE rowid % {rows // 4} = {rows // 9}"
    )
    return [
        (
            "full-scan aggregate",
            "SELECT count(*), sum(status), avg(duration_ms), min(ts), max(ts), max(length(message)) FROM @T@",
        ),
        ("group-by string", "SELECT service, level, count(*), avg(duration_ms) FROM @T@ GROUP BY ALL ORDER BY ALL"),
        (
            "one minute of time",
            f"SELECT count(*), max(duration_ms), max(message) FROM @T@ "
            f"WHERE ts >= '{start}' AND ts < TIMESTAMP '{start}' + INTERVAL 1 MINUTE",
        ),
        ("needle on a unique id", f"SELECT * FROM @T@ WHERE trace_id = '{middle[1]}'"),
        ("rare substring", "SELECT count(*), min(ts) FROM @T@ WHERE contains(message, 'OutOfMemoryError')"),
        (
            "two-column filter",
            "SELECT count(*), max(duration_ms) FROM @T@ WHERE service = 'auth-svc' AND status >= 500",
        ),
        ("newest 100 errors", "SELECT * FROM @T@ WHERE level = 'ERROR' ORDER BY ts DESC LIMIT 100"),
        ("newest 100", "SELECT * FROM @T@ ORDER BY ts DESC LIMIT 100"),
        ("slowest 10", "SELECT * FROM @T@ ORDER BY duration_ms DESC, trace_id, ts LIMIT 10"),
        ("10 rows at an offset", f"SELECT * FROM @T@ LIMIT 10 OFFSET {rows // 2}"),
        ("20 rows at random", "SELECT count(message) FROM (FROM @T@ USING SAMPLE 20 ROWS)"),
        ("a sample of 1 percent", "SELECT avg(duration_ms) > 0 FROM @T@ TABLESAMPLE 1%"),
        ("count, min and max", "SELECT count(*), min(ts), max(ts) FROM @T@"),
        ("semi-join on four ids", "SELECT * FROM @T@ WHERE trace_id IN (SELECT id FROM wanted) ORDER BY ts"),
        ("SELECT * LIMIT 100", "SELECT * FROM @T@ LIMIT 100"),
    ]


def timed(connection, sql):
    started = time.perf_counter()
    answer = connection.execute(sql).fetchall()
    return time.perf_counter() - started, answer


def show(value):
    return f"{value * 1000:,.1f} ms" if value < 10 else f"{value:,.2f} s"


def measure(connection, arguments, directory):
    """Seconds per (measure, engine), and bytes per engine."""
    files = {name: directory / f"{number}.extent" for number, name in enumerate(ENGINES)}
    times = {}
    for _ in range(arguments.writes):
        for name, (options, _) in ENGINES.items():
            files[name].unlink(missing_ok=True)
            seconds, _ = timed(connection, f"COPY logs TO {quoted(files[name])} ({options})")
            times.setdefault(("write", name), []).append(seconds)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    todo = queries(connection, arguments.rows)
    connection.execute("DROP TABLE logs")
    for query, sql in todo:
        answers = {}
        for repetition in range(arguments.repetitions + 1):
            for name, (_, function) in ENGINES.items():
                seconds, answers[name] = timed(connection, sql.replace("@T@", f"{function}({quoted(files[name])})"))
                # The first round warms file caches for all and is not counted.
                if repetition:
                    times.setdefault((query, name), []).append(seconds)
        for name, answer in answers.items():
            if not same(answer, answers[BASELINE]):
                raise SystemExit(f"{query}: {name} answers {answer[:3]}, {BASELINE} answers {answers[BASELINE][:3]}")
    return {key: statistics.median(values) for key, values in times.items()}, sizes, ["write"] + [name for name, _ in todo]


def same(left, right):
    """Equal up to the order in which floating-point numbers were summed."""
    if len(left) != len(right):
        return False
    return all(
        a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-9 * max(abs(a), abs(b)))
        for one, other in zip(left, right)
        for a, b in zip(one, other)
    )


def print_tables(times, sizes, rows, measures):
    others = [name for name in ENGINES if name != BASELINE]
    print(f"| {rows:,} log rows | " + " | ".join(ENGINES) + " |")
    print("|---" * (len(ENGINES) + 1) + "|")
    for name in measures:
        cells = [show(times[name, BASELINE])]
        for engine in others:
            cells.append(f"{show(times[name, engine])} ({times[name, engine] / times[name, BASELINE]:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")
    ratio = {engine: sizes[engine] / sizes[BASELINE] for engine in ENGINES}
    print("| bytes per row | " + " | ".join(f"{sizes[engine] / rows:.1f} ({ratio[engine]:.2f})" for engine in ENGINES) + " |")
    print(f"\nMedians; in parentheses the ratio to {BASELINE}.\n")
    print("| target | engine | at most | measured | |")
    print("|---|---|---|---|---|")
    for (name, engine), limit in TARGETS.items():
        measured = ratio[engine] if name == "bytes per row" else times[name, engine] / times[name, BASELINE]
        print(f"| {name} | {engine} | {limit:.2f} | {measured:.2f} | {'met' if measured <= limit else 'missed'} |")
    name = "count, min and max"
    more = times[name, OURS] - times[name, BASELINE]
    verdict = "met" if more <= METADATA_SLACK else "missed"
    print(f"| {name} | {OURS} | {METADATA_SLACK * 1000:+.1f} ms | {more * 1000:+.1f} ms | {verdict} |")


def many_files(connection, directory, files, rows, repetitions):
    """Seconds per (query, engine) over many small files."""
    logs.create(connection, "logs", files * rows)
    engines = {BASELINE: ENGINES[BASELINE], "tlm lz4": ENGINES["tlm lz4"], OURS: ENGINES[OURS]}
    for number, (options, _) in enumerate(engines.values()):
        (directory / f"many{number}").mkdir()
        for file in range(files):
            target = directory / f"many{number}" / f"{file:05}.extent"
            rest = f"WHERE rowid >= {file * rows} AND rowid < {(file + 1) * rows}"
            connection.execute(f"COPY (SELECT * FROM logs {rest}) TO {quoted(target)} ({options})")
    todo = {"count of all": "SELECT count(*) FROM @T@"}
    todo.update((name, sql) for name, sql in queries(connection, files * rows) if name != "SELECT * LIMIT 100")
    times = {}
    for query, sql in todo.items():
        for repetition in range(repetitions + 1):
            for number, (name, (_, function)) in enumerate(engines.items()):
                source = f"{function}({quoted(directory / f'many{number}' / '*.extent')})"
                seconds, _ = timed(connection, sql.replace("@T@", source))
                if repetition:
                    times.setdefault((query, name), []).append(seconds)
    print(f"\n| {files:,} files of {rows:,} rows | " + " | ".join(engines) + " |")
    print("|---" * (len(engines) + 1) + "|")
    for query in todo:
        median = {name: statistics.median(times[query, name]) for name in engines}
        cells = [show(median[BASELINE])]
        cells += [f"{show(median[name])} ({median[name] / median[BASELINE]:.2f})" for name in engines if name != BASELINE]
        print(f"| {query} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_extension_argument(parser)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repetitions", type=int, default=5, help="runs of each query per engine")
    parser.add_argument("--writes", type=int, default=3, help="runs of each COPY")
    parser.add_argument("--files", type=int, default=1000, help="files of the run over many small files; 0 for none")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    connection = connect(arguments.extension)
    connection.execute(f"SET threads = {arguments.threads}")
    logs.create(connection, "logs", arguments.rows)
    with tempfile.TemporaryDirectory(prefix="pensieve-bench-") as directory:
        times, sizes, measures = measure(connection, arguments, Path(directory))
    version = connection.execute("SELECT library_version FROM pragma_version()").fetchall()[0][0]
    print(f"DuckDB {version}, {arguments.threads} threads, {arguments.repetitions} runs per query.\n")
    print_tables(times, sizes, arguments.rows, measures)
    if arguments.files:
        with tempfile.TemporaryDirectory(prefix="pensieve-bench-") as directory:
            many_files(connection, Path(directory), arguments.files, 1000, arguments.repetitions)


if __name__ == "__main__":
    main()
