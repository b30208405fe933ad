// dendro archives: the scan of a stream, which read_dendro and the tables of an attached archive share.
//
// Binding reads the archive's catalog and some segment footers in one snapshot. The bound data keeps no transaction and
// no file open: the segments are those of the moment of binding, and a segment that has gone by the time it is read is
// an error.
#pragma once

#include "arrow_bridge.hpp"
#include "pensieve_dendro_ffi.h"

#include "duckdb/transaction/transaction_manager.hpp"

#include <memory>

namespace pensieve {

//! What to read, as the arguments of read_dendro have it.
struct DendroRequest {
	string path;
	//! JSON for pns_dendro_bind.
	string options = "{}";
};

//! A function of the user that says of a caller's index whether rows of the segment can be wanted: false rules the
//! segment out, true and NULL keep it.
struct DendroIndexTest {
	//! As given, for messages.
	string function;
	Value argument;
	//! The call, with the index as column 0 of a chunk.
	unique_ptr<Expression> call;

	//! Binds the call in the session's catalog.
	static unique_ptr<DendroIndexTest> Bind(ClientContext &context, const string &path, const string &function,
	                                        optional_ptr<const Value> argument);
	unique_ptr<DendroIndexTest> Copy() const;
	string ToString() const;
	//! Drops the segments that the function rules out.
	void Prune(ClientContext &context, const string &path, PnsDendroScan *segments, PnsScan *scan) const;
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
	//! Tests the callers' indexes, if asked to.
	unique_ptr<DendroIndexTest> index_test;
	//! The table that the scan belongs to, if any.
	optional_ptr<TableCatalogEntry> table;

	unique_ptr<FunctionData> Copy() const override;
	//! Segments come and go: a prepared statement binds again.
	bool SupportStatementCache() const override {
		return false;
	}
};

//! Labels given as a MAP or a STRUCT, as a JSON object of strings.
string DendroLabelsJson(const Value &value, const string &argument);

//! The name of a local file, which may be given as a file: URI.
string DendroLocalName(const string &address);

//! The local path of an archive, after DuckDB's access settings allowed it.
string DendroPath(ClientContext &context, const string &address);

//! Binds a stream; fills in the columns.
unique_ptr<DendroBindData> BindDendroStream(ClientContext &context, const DendroRequest &request,
                                            vector<LogicalType> &types, vector<string> &names);

//! The bind data of a stream that is bound already; fills in the columns.
unique_ptr<DendroBindData> DescribeDendro(ClientContext &context, std::shared_ptr<PnsDendro> dendro, const string &path,
                                          vector<LogicalType> &types, vector<string> &names);

//! The scan of bound data. As a function it is read_dendro.
TableFunction GetDendroScanFunction();

//! Columns that a scan has beside those of the table.
virtual_column_map_t DendroVirtualColumns();

//! Whether there is a dendro archive at the address of an ATTACH: a local file that is one by its content.
bool IsDendroArchive(ClientContext &context, const string &address);

//! An archive as a read-only catalog with a table for each stream.
unique_ptr<Catalog> AttachDendro(ClientContext &context, AttachedDatabase &db, const AttachInfo &info,
                                 const AttachOptions &options);

//! The transactions of an attached archive; null when the catalog is another one.
unique_ptr<TransactionManager> CreateDendroTransactions(AttachedDatabase &db, Catalog &catalog);

} // namespace pensieve
