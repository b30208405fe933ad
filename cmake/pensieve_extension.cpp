#include "pensieve_extension.hpp"

#include "pensieve_ffi.h"

extern "C" void pensieve_shim_load(duckdb::ExtensionLoader &loader);

namespace duckdb {

void PensieveExtension::Load(ExtensionLoader &loader) {
	pensieve_shim_load(loader);
}

std::string PensieveExtension::Name() {
	return "pensieve";
}

std::string PensieveExtension::Version() const {
	return pns_version();
}

} // namespace duckdb
