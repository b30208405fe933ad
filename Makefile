# `make demo` on a fresh machine sets up, builds and shows the extension at work; `make test` does the same and tests it.
# The target names are those of DuckDB's extension templates.

NAME := pensieve
DUCKDB_VERSION := v2.0.0

# The static DuckDB lives here, outside the checkout: it is built once and shared by every build and checkout.
export PENSIEVE_CACHE ?= $(HOME)/.cache/pensieve
export CARGO_TARGET_DIR ?= $(CURDIR)/build/cargo

PYTHON ?= python3
CXX ?= c++
VENV := configure/venv
PY := $(VENV)/bin/python
CONFIGURED := $(VENV)/.configured
PLATFORM := configure/platform.txt

# Cargo with the environment that makes libduckdb-sys link the prebuilt static DuckDB.
WITH_DUCKDB = duckdb_env="$$(scripts/static-duckdb --env)" && eval "$$duckdb_env" &&
GLUE := --no-default-features --features duckdb
CORE := --no-default-features

ifeq ($(shell uname -s),Darwin)
LIBRARY := lib$(NAME).dylib
WHOLE_ARCHIVE = -Wl,-force_load,$(1)
else
LIBRARY := lib$(NAME).so
WHOLE_ARCHIVE = -Wl,--whole-archive $(1) -Wl,--no-whole-archive
endif

EXTENSION = build/$(1)/$(NAME).duckdb_extension
SOURCES := $(shell find src -type f 2>/dev/null) Cargo.toml Cargo.lock build.rs
CPP := $(shell find src/duckdb/cpp cmake test/smoke -name '*.cpp' -o -name '*.hpp' -o -name '*.h' 2>/dev/null)

.PHONY: all configure debug release duckdb test test_debug test_release test_core test_python test_sql \
        test_differential test_nycflights test_robustness test_dendro test_remote test_stores soak test_docs test_smoke check check_rust check_cpp check_docs format demo bench bench_catalog clean clean_all

all: release

# Set-up ------------------------------------------------------------------------------------------

configure: $(CONFIGURED) $(PLATFORM)

$(CONFIGURED): scripts/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

$(PLATFORM): $(CONFIGURED)
	$(PY) -c "import duckdb; print(duckdb.sql('PRAGMA platform').fetchall()[0][0])" > $@.tmp
	mv $@.tmp $@

duckdb:
	scripts/static-duckdb

# Build -------------------------------------------------------------------------------------------

debug: $(call EXTENSION,debug)
release: $(call EXTENSION,release)

# $(1): mode, $(2): cargo flags. The extension is written twice: plain, and where DuckDB's own tools look for it.
define build
$(call EXTENSION,$(1)): $(SOURCES) scripts/package_extension.py $(PLATFORM)
	$$(WITH_DUCKDB) cargo build --lib --locked $(GLUE) $(2)
	$(PY) scripts/package_extension.py $$(CARGO_TARGET_DIR)/$(1)/$(LIBRARY) $$@ build/$(1)/extension/$(NAME)/$(NAME).duckdb_extension \
	    --duckdb-version $(DUCKDB_VERSION) --platform-file $(PLATFORM)
endef
$(eval $(call build,debug,))
$(eval $(call build,release,--release))

# Tests -------------------------------------------------------------------------------------------

test: test_core test_python test_release test_differential test_nycflights test_robustness test_remote test_stores test_dendro test_docs test_smoke

test_core:
	cargo test --locked $(CORE)

test_python: configure
	$(PY) -m unittest discover -s test/python -p 'test_*.py'

test_debug: debug
	$(PY) scripts/sqllogictest.py --extension $(call EXTENSION,debug) test/sql

test_release: release
	$(PY) scripts/sqllogictest.py --extension $(call EXTENSION,release) test/sql

test_sql: test_release

test_differential: release
	$(PY) test/python/differential.py --extension $(call EXTENSION,release)

test_nycflights: release
	$(PY) test/python/nycflights.py --extension $(call EXTENSION,release)

test_robustness: release
	$(PY) test/python/robustness.py --extension $(call EXTENSION,release)
	$(PY) test/python/boundaries.py --extension $(call EXTENSION,release)

test_remote: release
	$(PY) test/python/remote_reads.py --extension $(call EXTENSION,release)

# The writer that DuckDB reads beside is the dendro crate's own, a development dependency.
test_dendro: release
	$(PY) test/python/dendro_fixtures.py --extension $(call EXTENSION,release)
	$(PY) test/python/dendro_edges.py --extension $(call EXTENSION,release)
	cargo build --locked $(CORE) --example dendro_writer
	$(PY) test/python/dendro_live.py --extension $(call EXTENSION,release) \
	    --writer "$$CARGO_TARGET_DIR/debug/examples/dendro_writer"

test_stores: release
	$(PY) test/python/stores.py --extension $(call EXTENSION,release)

# The runs of many processes and of kill -9 at full size.
soak: release
	$(PY) test/python/stores.py --extension $(call EXTENSION,release) --soak

test_docs: release
	$(PY) test/python/docs_examples.py --extension $(call EXTENSION,release)

# A host linked as the DuckDB shell is: static DuckDB, no exported symbol, libstdc++ shared with the extension.
build/smoke/%: test/smoke/%.cpp
	mkdir -p $(@D)
	$(WITH_DUCKDB) $(CXX) -std=c++17 -O1 -DNDEBUG -isystem "$$DUCKDB_INCLUDE_DIR" $< -o $@ \
	    $(call WHOLE_ARCHIVE,"$$DUCKDB_LIB_DIR/libduckdb_static_extension_autoregister.a") \
	    "$$DUCKDB_LIB_DIR/libduckdb_static.a" -lpthread -ldl

test_smoke: build/smoke/smoke build/smoke/secrets release
	build/smoke/smoke $(call EXTENSION,release)
	build/smoke/secrets $(call EXTENSION,release)

# Checks ------------------------------------------------------------------------------------------

check: check_rust check_cpp check_docs

check_rust:
	cargo fmt --check
	cargo clippy --locked $(CORE) --all-targets -- -D warnings
	$(WITH_DUCKDB) PENSIEVE_SKIP_SHIM=1 cargo clippy --locked $(GLUE) --all-targets -- -D warnings
	$(WITH_DUCKDB) PENSIEVE_SKIP_SHIM=1 RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps $(GLUE)

check_cpp: configure
	$(VENV)/bin/clang-format --dry-run -Werror $(CPP)

check_docs: configure
	$(PY) scripts/check_docs.py

format: configure
	cargo fmt
	$(VENV)/bin/clang-format -i $(CPP)

# Showing -----------------------------------------------------------------------------------------

demo: release
	$(PY) scripts/demo.py --extension $(call EXTENSION,release)

bench_catalog:
	cargo run --release --locked $(CORE) --example catalog_scale

bench: release
	$(PY) bench/bench.py --extension $(call EXTENSION,release)
	$(PY) bench/remote.py --extension $(call EXTENSION,release)
	$(PY) bench/dendro.py --extension $(call EXTENSION,release)

# Cleaning: the static DuckDB in $(PENSIEVE_CACHE) stays ------------------------------------------

clean:
	cargo clean --package $(NAME) 2>/dev/null || true
	rm -rf build

clean_all: clean
	rm -rf configure
