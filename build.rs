//! Compiles the C++ shim against the headers of the pinned DuckDB. Without the `duckdb` feature there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Lints and documentation look at the Rust side only, and compiling the shim takes minutes.
    println!("cargo:rerun-if-env-changed=PENSIEVE_SKIP_SHIM");
    #[cfg(feature = "duckdb")]
    if std::env::var_os("PENSIEVE_SKIP_SHIM").is_none() {
        shim();
    }
}

#[cfg(feature = "duckdb")]
fn shim() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let sources = std::path::Path::new(&manifest).join("src/duckdb/cpp");
    println!("cargo:rerun-if-changed={}", sources.display());
    let Ok(include) = std::env::var("DEP_DUCKDB_INCLUDE") else {
        println!("cargo::error=libduckdb-sys did not publish DuckDB's headers: set DUCKDB_INCLUDE_DIR (see `make`)");
        return;
    };
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").include(sources.join("include")).warnings(false);
    // DuckDB's own headers are not ours to warn about; the host is a release build, whose class layouts NDEBUG decides.
    build.flag("-isystem").flag(&include).define("NDEBUG", None);
    let mut files: Vec<_> = std::fs::read_dir(&sources)
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|e| e == "cpp"))
                .collect()
        })
        .unwrap_or_default();
    files.sort();
    build.files(files).opt_level(2).debug(false).compile("pensieve_shim");
}
