//! Compiles the C++ shim against the headers of the chosen DuckDB. Without the `duckdb` feature there is nothing to do.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Lints and documentation look at the Rust side only, and compiling the shim takes half a minute.
    println!("cargo:rerun-if-env-changed=PENSIEVE_SKIP_SHIM");
    #[cfg(feature = "duckdb")]
    if std::env::var_os("PENSIEVE_SKIP_SHIM").is_none()
        && let Err(reason) = shim::compile()
    {
        println!("cargo::error={reason}");
    }
}

#[cfg(feature = "duckdb")]
mod shim {
    use std::path::{Path, PathBuf};

    /// Every source of the shim includes most of DuckDB's headers, and reading those takes longer than compiling the source. So sources
    /// are compiled as few units: those that read files, and those that stand for databases (their names begin with one of these).
    const DATABASES: &[&str] = &["attach", "dendro", "secrets", "storage_extension", "store"];

    pub fn compile() -> Result<(), String> {
        let manifest = std::env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?;
        let sources = Path::new(&manifest).join("src/duckdb/cpp");
        println!("cargo:rerun-if-changed={}", sources.display());
        let include = std::env::var("DEP_DUCKDB_INCLUDE")
            .map_err(|_| "libduckdb-sys did not publish DuckDB's headers: set DUCKDB_INCLUDE_DIR (see `make`)")?;
        let mut build = cc::Build::new();
        if is_host_linked() {
            build.define("PENSIEVE_HOST_LINKED", None);
            if let Ok(directory) = std::env::var("DUCKDB_LIB_DIR") {
                println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,{directory}");
            }
        }
        build.cpp(true).std("c++17").include(sources.join("include")).warnings(false);
        // DuckDB's own headers are not ours to warn about; the host is a release build, whose class layouts NDEBUG decides.
        build.flag("-isystem").flag(&include).define("NDEBUG", None);
        build.files(units(&sources)?).opt_level(2).debug(false).compile("pensieve_shim");
        Ok(())
    }

    /// Whether the extension is linked against the shared DuckDB of a Python package (found where the build found it) instead of a static one.
    fn is_host_linked() -> bool {
        println!("cargo:rerun-if-env-changed=DUCKDB_STATIC");
        println!("cargo:rerun-if-env-changed=DUCKDB_LIB_DIR");
        std::env::var_os("DUCKDB_STATIC").is_none() && std::env::var_os("CARGO_FEATURE_BUNDLED").is_none()
    }

    /// Writes the units, one `#include` a source, and returns their paths.
    fn units(sources: &Path) -> Result<Vec<PathBuf>, String> {
        let out = PathBuf::from(std::env::var("OUT_DIR").map_err(|e| e.to_string())?);
        let mut files: Vec<PathBuf> = std::fs::read_dir(sources)
            .map_err(|e| format!("{}: {e}", sources.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "cpp"))
            .collect();
        files.sort();
        let is_database = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| DATABASES.iter().any(|d| name.starts_with(d)))
        };
        let (databases, files): (Vec<_>, Vec<_>) = files.into_iter().partition(is_database);
        let mut units = Vec::new();
        for (name, members) in [("unit_databases.cpp", databases), ("unit_files.cpp", files)] {
            let text: String =
                members.iter().map(|path| format!("#include {:?}\n", path.display().to_string())).collect();
            let path = out.join(name);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            units.push(path);
        }
        Ok(units)
    }
}
