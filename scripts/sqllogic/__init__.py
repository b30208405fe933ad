"""A runner for DuckDB's sqllogictest dialect: `parse` reads files, `values` formats and compares, `run` executes."""
