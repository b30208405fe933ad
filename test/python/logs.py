"""Synthetic log rows for the demo and the benchmark, made by SQL alone so that every engine gets the same ones."""

SERVICES = ["gateway", "auth-svc", "payments-svc", "checkout", "search", "inventory", "mailer", "billing"]
START = "2026-01-01 00:00:00"


def create(connection, table, rows, rows_per_second=200):
    """Create `table` with `rows` log lines in order of time.

    ts TIMESTAMP_NS, level, service, host VARCHAR (few values), trace_id VARCHAR (unique), status INTEGER, duration_ms DOUBLE,
    message VARCHAR. About one line in 100,000 mentions `OutOfMemoryError`.
    """
    services = ", ".join(f"'{name}'" for name in SERVICES)
    nanos = 10**9 // rows_per_second
    connection.execute(f"""
        CREATE OR REPLACE TABLE {table} AS
        WITH numbered AS (SELECT range AS n, hash(range) AS h, hash(range + 7919) AS g FROM range({rows}))
        SELECT
            make_timestamp_ns(epoch_ns(TIMESTAMP '{START}') + n * {nanos} + (h % {nanos})::BIGINT) AS ts,
            CASE WHEN g % 1000 < 8 THEN 'ERROR' WHEN g % 1000 < 50 THEN 'WARN' WHEN g % 1000 < 200 THEN 'DEBUG' ELSE 'INFO' END AS level,
            ([{services}])[1 + (h % {len(SERVICES)})::INTEGER] AS service,
            'host-' || lpad((h // 8 % 40)::VARCHAR, 2, '0') AS host,
            md5(n::VARCHAR) AS trace_id,
            CASE WHEN g % 1000 < 8 THEN 500 + (h % 4)::INTEGER WHEN g % 97 = 0 THEN NULL ELSE 200 END::INTEGER AS status,
            round(5 + (h % 100000) / 250.0, 3) AS duration_ms,
            CASE
                WHEN g % 100003 = 17 THEN 'java.lang.OutOfMemoryError: heap space in worker ' || (h % 64)::VARCHAR
                WHEN g % 1000 < 8 THEN 'upstream timeout after ' || (h % 30000)::VARCHAR || ' ms calling ' || ([{services}])[1 + (g % {len(SERVICES)})::INTEGER]
                WHEN g % 5 = 0 THEN 'cache miss for key user:' || (h % 100000)::VARCHAR
                ELSE 'GET /api/v1/items/' || (h % 50000)::VARCHAR || ' completed in ' || (h % 400)::VARCHAR || ' ms'
            END AS message
        FROM numbered
        ORDER BY n
    """)
