// dendro archives: the scan of a stream, for read_dendro and for whoever exposes streams as tables.
//
// A catalog with one table per stream does, for a table entry of (path, stream):
//
//     vector<LogicalType> types; vector<string> names;
//     auto data = BindDendroStream(context, DendroRequest(path, stream), types, names);
//     data->table = &entry;                       // so that the plan shows the table
//     bind_data = std::move(data);
//     return GetDendroScanFunction();             // from GetScanFunction
//
// Binding reads the archive's catalog and some segment footers, in one snapshot that ends with the call; the bound data
// keeps no transaction and no file open. Bind per query: the segments are those of the moment of binding, and a segment
// that has gone by the time it is read is an error. Types and names are the same as long as the stream's segments have
// the same columns.
#pragma once

#include "arrow_bridge.hpp"
#include "pensieve_dendro_ffi.h"

#include <memory>

namespace pensieve {

//! What to read, as the arguments of read_dendro have it.
struct DendroRequest {
	DendroRequest() = default;
	DendroRequest(string path_p, const string &stream) : path(std::move(path_p)), options(StreamOptions(stream)) {
	}
	string path;
	//! JSON for pns_dendro_bind.
	string options = "{}";

	static string StreamOptions(const string &stream);
};

struct DendroBindData : public TableFunctionData {
	std::shared_ptr<PnsDendro> dendro;
	string path;
	string stream;
	ArrowColumns columns;
	//! Conditions the optimizer pushed down, as JSON for the core and as text. They only prune.
	vector<string> hints;
	vector<string> texts;
	vector<string> unknown;
	//! The table that the scan belongs to, if any.
	optional_ptr<TableCatalogEntry> table;

	unique_ptr<FunctionData> Copy() const override;
	//! Segments come and go: a prepared statement binds again.
	bool SupportStatementCache() const override {
		return false;
	}
};

//! A text as a JSON string.
string JsonString(const string &text);

//! The local path of an archive, after DuckDB's access settings allowed it.
string DendroPath(ClientContext &context, const string &path);

//! Binds a stream; fills in the columns.
unique_ptr<DendroBindData> BindDendroStream(ClientContext &context, const DendroRequest &request,
                                            vector<LogicalType> &types, vector<string> &names);

//! The scan of bound data of BindDendroStream. As a function it is read_dendro.
TableFunction GetDendroScanFunction();

//! Names of the streams of an archive, each once, in their order. Reads the catalog only.
vector<string> GetDendroStreams(ClientContext &context, const string &path);

} // namespace pensieve
