//! The only room that knows DuckDB: the extension's entry point and the functions the C++ shim calls.
//!
//! Nothing here panics across the boundary: every entry point runs under `ffi::guard`.

mod dendro;
mod dendro_index;
mod dendro_listing;
mod dendro_view;
mod dendro_writer;
mod describe;
mod ffi;
mod reader;
mod scan;
mod store;
mod store_list;
mod store_plan;
mod writer;

// the static DuckDB that the shim links against
extern crate libduckdb_sys as _;

unsafe extern "C-unwind" {
    /// Registers everything (`src/duckdb/cpp/extension.cpp`). Throws C++ exceptions.
    fn pensieve_shim_load(loader: *mut std::ffi::c_void);
}

/// DuckDB's entry point for an extension of the C++ ABI, named after the extension.
///
/// # Safety
/// Called by DuckDB's loader with a valid `duckdb::ExtensionLoader`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pensieve_duckdb_cpp_init(loader: *mut std::ffi::c_void) {
    // SAFETY: the loader is DuckDB's and outlives the call; exceptions pass through to DuckDB, which catches them.
    unsafe { pensieve_shim_load(loader) }
}
