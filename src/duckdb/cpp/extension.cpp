// The entry point: what LOAD pensieve registers.
#include "pensieve_shim.hpp"

extern "C" void pensieve_shim_load(duckdb::ExtensionLoader &loader) {
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
