// The entry point: what LOAD pensieve registers.
#include "pensieve_shim.hpp"

#ifdef PENSIEVE_HOST_LINKED
#include <dlfcn.h>

// A build that is linked against the DuckDB of one Python environment works in that one. In another process the dynamic
// linker would load that DuckDB beside the one that is running, and the two would not know of each other's objects.
static void RequireLinkedHost(duckdb::ExtensionLoader &loader) {
	Dl_info linked, running;
	auto &file_system = duckdb::FileSystem::GetFileSystem(loader.GetDatabaseInstance());
	// where the code is that this library calls, and where the code is that made the database's objects
	auto code = reinterpret_cast<const void *>(&duckdb::DuckDB::LibraryVersion);
	auto vtable = *reinterpret_cast<void *const *>(&file_system);
	if (dladdr(code, &linked) == 0 || dladdr(vtable, &running) == 0 || linked.dli_fbase == running.dli_fbase) {
		return;
	}
	throw duckdb::InvalidInputException(
	    "this build of pensieve is linked to the DuckDB in %s and works there only, but the DuckDB that loads it is "
	    "%s. "
	    "Load it in the Python environment it was built for, or build one that loads everywhere with `make dist`",
	    linked.dli_fname, running.dli_fname);
}
#endif

extern "C" void pensieve_shim_load(duckdb::ExtensionLoader &loader) {
#ifdef PENSIEVE_HOST_LINKED
	RequireLinkedHost(loader);
#endif
	loader.SetDescription(
	    "Logs, traces and metrics as immutable columnar extents, queried by reading almost none of them");
	pensieve::RegisterSettings(loader);
	pensieve::RegisterArrowTypes(loader);
	pensieve::RegisterScan(loader);
	pensieve::RegisterTables(loader);
	pensieve::RegisterCopy(loader);
	pensieve::RegisterDendro(loader);
	pensieve::RegisterAttach(loader);
	pensieve::RegisterStores(loader);
}
