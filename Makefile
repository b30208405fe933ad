# `make demo` on a fresh machine sets up, builds and shows the extension at work; `make test` does the same and tests it.
# The target names are those of DuckDB's extension templates.

NAME := pensieve
# The DuckDB release to build for and to test in: an extension fits exactly one. scripts/duckdb-releases.json lists the supported ones.
DEFAULT_DUCKDB_VERSION := 2.0.1
DUCKDB_VERSION ?= $(DEFAULT_DUCKDB_VERSION)

# What is prepared of DuckDB lives here, outside the checkout: it is shared by every build and checkout.
export PENSIEVE_CACHE ?= $(HOME)/.cache/pensieve
export CARGO_TARGET_DIR ?= $(CURDIR)/build/cargo

# host: linked against the DuckDB of the Python environment, which takes no compiling of DuckDB and fits that environment alone.
# static: self-contained, loads into every DuckDB of the release; what `make dist` builds and what ships.
# Python packages export DuckDB's symbols on Linux only.
ifeq ($(shell uname -s),Linux)
LINK ?= host
else
LINK ?= static
endif

PYTHON ?= python3
CXX ?= c++
# Every release but the default one has directories of its own.
ifeq ($(DUCKDB_VERSION),$(DEFAULT_DUCKDB_VERSION))
VENV := configure/venv
BUILD := build
else
VENV := configure/venv-$(DUCKDB_VERSION)
BUILD := build/duckdb-$(DUCKDB_VERSION)
endif
PY := $(VENV)/bin/python
CONFIGURED := $(VENV)/.configured
PLATFORM := $(VENV)/platform.txt

# Cargo with the environment that makes libduckdb-sys link DuckDB: $(1) is host or static. `scripts/duckdb` says what to link.
with_duckdb = duckdb_env="$$($(PY) scripts/duckdb env --link $(1) --version $(DUCKDB_VERSION) --python $(PY))" && eval "$$duckdb_env" &&
GLUE := --no-default-features --features duckdb,full
CORE := --no-default-features --features full

ifeq ($(shell uname -s),Darwin)
LIBRARY := lib$(NAME).dylib
else
LIBRARY := lib$(NAME).so
endif

EXTENSION = $(BUILD)/$(1)/$(NAME).duckdb_extension
SOURCES := $(shell find src -type f 2>/dev/null) Cargo.toml Cargo.lock build.rs
CPP := $(shell find src/duckdb/cpp cmake test/smoke -name '*.cpp' -o -name '*.hpp' -o -name '*.h' 2>/dev/null)

# Sanitizers and fuzzing (docs/fuzzing.md).
# Permits flags that stable Rust does not have.
UNSTABLE := RUSTC_BOOTSTRAP=1
HOST_TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
FUZZ_SECONDS ?= 3600
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
              -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing
ASAN_DIR := $(CURDIR)/build/asan
ASAN_LIBRARIES = $(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libstdc++.so.6)

# What `make test` runs.
TESTS := test_core test_python test_release test_differential test_round_trip test_nycflights test_robustness test_foreign_types test_remote \
         test_stores test_dendro test_docs test_wheel

.PHONY: all configure debug release dist wheel repository test $(TESTS) test_dist test_debug test_sql test_smoke soak asan miri fuzz_tlm fuzz_parquet \
        fuzz_catalog check check_rust check_cpp check_docs format demo bench bench_catalog clean clean_all

all: release

# Set-up ------------------------------------------------------------------------------------------

configure: $(CONFIGURED) $(PLATFORM)

$(CONFIGURED): scripts/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check duckdb==$(DUCKDB_VERSION) --requirement $<
	touch $@

$(PLATFORM): $(CONFIGURED)
	$(PY) -c "import duckdb; print(duckdb.sql('PRAGMA platform').fetchall()[0][0])" > $@.tmp
	mv $@.tmp $@

# Build -------------------------------------------------------------------------------------------

debug: $(call EXTENSION,debug)
release: $(call EXTENSION,release)
# What ships: self-contained, with link-time optimization. The first one compiles DuckDB, once per machine.
dist: $(call EXTENSION,dist)

# $(1): mode, $(2): cargo flags, $(3): host or static. The extension is written twice: plain, and where DuckDB's own tools look for it.
define build
$(call EXTENSION,$(1)): $(SOURCES) scripts/package_extension.py scripts/duckdb $(PLATFORM)
	$$(call with_duckdb,$(3)) cargo build --lib --locked $(GLUE) $(2)
	$(PY) scripts/package_extension.py $$(CARGO_TARGET_DIR)/$(1)/$(LIBRARY) $$@ $(BUILD)/$(1)/extension/$(NAME)/$(NAME).duckdb_extension \
	    --duckdb-version v$(DUCKDB_VERSION) --platform-file $(PLATFORM)
endef
$(eval $(call build,debug,,$(LINK)))
$(eval $(call build,release,--release,$(LINK)))
$(eval $(call build,dist,--profile dist,static))

# Tests -------------------------------------------------------------------------------------------

test: $(TESTS)

# The profile `bench` is the release profile's, but for assertions in this crate: both share every dependency.
test_core:
	cargo test --profile bench --locked $(CORE) --lib

test_python: configure
	$(PY) -m unittest discover -s test/python -p 'test_*.py'

test_debug: debug
	$(PY) scripts/sqllogictest.py --extension $(call EXTENSION,debug) test/sql

test_release: release
	$(PY) scripts/sqllogictest.py --extension $(call EXTENSION,release) test/sql

test_sql: test_release

test_differential: release
	$(PY) test/python/differential.py --extension $(call EXTENSION,release)

test_round_trip: release
	$(PY) test/python/round_trip.py --extension $(call EXTENSION,release)

test_nycflights: release
	$(PY) test/python/nycflights.py --extension $(call EXTENSION,release)

test_robustness: release
	$(PY) test/python/robustness.py --extension $(call EXTENSION,release)
	$(PY) test/python/boundaries.py --extension $(call EXTENSION,release)

test_foreign_types: release
	$(PY) test/python/foreign_types.py --extension $(call EXTENSION,release)

test_remote: release
	$(PY) test/python/remote_reads.py --extension $(call EXTENSION,release)

# The writer that DuckDB reads beside is the dendro crate's own, a development dependency.
test_dendro: release
	$(PY) test/python/dendro_fixtures.py --extension $(call EXTENSION,release)
	$(PY) test/python/dendro_edges.py --extension $(call EXTENSION,release)
	cargo build --release --locked $(CORE) --example dendro_writer
	$(PY) test/python/dendro_live.py --extension $(call EXTENSION,release) \
	    --writer "$$CARGO_TARGET_DIR/release/examples/dendro_writer"

test_stores: release
	$(PY) test/python/stores.py --extension $(call EXTENSION,release)

# The runs of many processes and of kill -9 at full size.
soak: release
	$(PY) test/python/stores.py --extension $(call EXTENSION,release) --soak

test_docs: release
	$(PY) test/python/docs_examples.py --extension $(call EXTENSION,release)

# What ships, in the hosts it ships to: run once by whoever changes the shim or the linking.
test_dist: dist test_smoke
	$(PY) scripts/sqllogictest.py --extension $(call EXTENSION,dist) test/sql
	$(PY) test/python/wheel.py --extension $(call EXTENSION,dist)
	$(PY) test/python/repository.py --extension $(call EXTENSION,dist)

# A host linked as the DuckDB shell is: static DuckDB, no exported symbol, libstdc++ shared with the extension.
$(BUILD)/smoke/%: test/smoke/%.cpp $(CONFIGURED)
	mkdir -p $(@D)
	$(call with_duckdb,static) $(CXX) -std=c++17 -O1 -DNDEBUG -isystem "$$DUCKDB_INCLUDE_DIR" $< -o $@ \
	    "$$DUCKDB_LIB_DIR/libduckdb_static.a" -lpthread -ldl

test_smoke: $(BUILD)/smoke/smoke $(BUILD)/smoke/secrets dist
	$(BUILD)/smoke/smoke $(call EXTENSION,dist)
	$(BUILD)/smoke/secrets $(call EXTENSION,dist)

# The wheel and the repository around the extension that the tests run.
test_wheel: release
	$(PY) test/python/wheel.py --extension $(call EXTENSION,release)
	$(PY) test/python/repository.py --extension $(call EXTENSION,release)

# Shipping ----------------------------------------------------------------------------------------

wheel: dist
	$(PY) scripts/make_wheel.py $(call EXTENSION,dist) --output $(BUILD)/wheel

# `make repository SIGN_WITH=key.pem` signs it. One folder holds all releases.
repository: dist
	$(PY) scripts/make_repository.py $(call EXTENSION,dist) --output build/repository $(if $(SIGN_WITH),--private-key $(SIGN_WITH))

# Sanitizers and fuzzing ---------------------------------------------------------------------------

# The shim, the FFI and our own Rust are instrumented; DuckDB and other crates are as they are. The SQL tests run in a Python that has
# the runtime of the C++ compiler loaded first.
$(ASAN_DIR)/$(NAME).duckdb_extension: $(SOURCES) scripts/package_extension.py $(PLATFORM)
	$(call with_duckdb,$(LINK)) $(UNSTABLE) CXXFLAGS="-fsanitize=address -fno-omit-frame-pointer" \
	    cargo rustc --release --lib --locked $(GLUE) --crate-type cdylib -- -Zsanitizer=address \
	    -Cunsafe-allow-abi-mismatch=sanitizer -Cforce-frame-pointers=yes -Cdebuginfo=line-tables-only -Cstrip=none
	$(PY) scripts/package_extension.py $$CARGO_TARGET_DIR/release/$(LIBRARY) $@ \
	    --duckdb-version v$(DUCKDB_VERSION) --platform-file $(PLATFORM)

asan: $(ASAN_DIR)/$(NAME).duckdb_extension
	LD_PRELOAD="$(ASAN_LIBRARIES)" ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:abort_on_error=1 \
	    $(PY) scripts/sqllogictest.py --extension $< $(or $(ASAN_TESTS),test/sql)

# The parsers that need neither files nor other libraries, under the interpreter that knows the rules of unsafe code.
miri:
	@cargo +nightly miri --version >/dev/null 2>&1 || \
	    { echo "Miri is not installed; with a network: rustup toolchain install nightly --component miri rust-src"; exit 1; }
	CARGO_TARGET_DIR=$(CURDIR)/build/miri MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" PROPTEST_CASES=2 \
	    cargo +nightly miri test --locked $(CORE) --lib -- $(MIRI_TESTS)

MIRI_TESTS ?= format::parquet::page_header format::tlm::frame stats::json stats::token_set catalog::log::doc catalog::log::companion \
              predicate::text predicate::outcomes scan::windows

fuzz_tlm fuzz_parquet fuzz_catalog: fuzz_%:
	cd fuzz && CARGO_TARGET_DIR=$(CURDIR)/build/fuzz RUSTFLAGS="$(FUZZ_FLAGS)" \
	    cargo build --release --locked --target $(HOST_TARGET) --bin $@
	mkdir -p build/fuzz/corpus/$* build/fuzz/crashes
	PENSIEVE_FUZZ_SEEDS=build/fuzz/seeds/$* build/fuzz/$(HOST_TARGET)/release/$@ -runs=0 2>/dev/null
	build/fuzz/$(HOST_TARGET)/release/$@ build/fuzz/corpus/$* build/fuzz/seeds/$* -artifact_prefix=build/fuzz/crashes/$*- \
	    -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -max_len=65536 -print_final_stats=1

# Checks ------------------------------------------------------------------------------------------

# Nothing is linked and the shim is left out, so no DuckDB is needed. The profile is that of the core's tests: C libraries are compiled once.
LINT := env DUCKDB_LIB_DIR=/nonexistent DUCKDB_INCLUDE_DIR=/nonexistent PENSIEVE_SKIP_SHIM=1

check: check_rust check_cpp check_docs

check_rust:
	cargo fmt --check
	$(LINT) cargo clippy --profile bench --locked $(GLUE) --all-targets -- -D warnings
	$(LINT) RUSTDOCFLAGS="-D warnings" cargo doc --profile bench --locked --no-deps $(GLUE)

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

# Cleaning: what $(PENSIEVE_CACHE) holds stays ----------------------------------------------------

clean:
	cargo clean --package $(NAME) 2>/dev/null || true
	rm -rf build

clean_all: clean
	rm -rf configure
