# Read by DuckDB's build: make EXTENSION_CONFIGS=/path/to/pensieve/extension_config.cmake
duckdb_extension_load(pensieve
    SOURCE_DIR ${CMAKE_CURRENT_LIST_DIR}
    INCLUDE_DIR ${CMAKE_CURRENT_LIST_DIR}/cmake
    LOAD_TESTS
    TEST_DIR ${CMAKE_CURRENT_LIST_DIR}/test/sql
)
