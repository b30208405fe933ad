// The extension as DuckDB's own build knows it: linked into the library and loaded at start-up.
#pragma once

#include "duckdb.hpp"
#include "duckdb/main/extension.hpp"

namespace duckdb {

class PensieveExtension : public Extension {
  public:
	void Load(ExtensionLoader &loader) override;
	std::string Name() override;
	std::string Version() const override;
};

} // namespace duckdb
