// Shared declarations of the shim: errors, strings that cross the boundary, and what each translation unit registers.
#pragma once

#include "duckdb.hpp"
#include "duckdb/common/arrow/arrow.hpp"
#include "duckdb/common/multi_file/multi_file_function.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "pensieve_ffi.h"

namespace pensieve {

using namespace duckdb; // NOLINT: the shim is a translation layer over DuckDB's names

//! Turns a failed call into the DuckDB exception that fits its kind. Takes ownership of the message.
[[noreturn]] void ThrowError(int kind, char *message);

//! By reference: the call that sets the message is the other argument, and arguments are evaluated in any order.
inline void Check(int kind, char *const &message) {
	if (kind != PNS_OK) {
		ThrowError(kind, message);
	}
}

//! For scans of attached tables, which know what they read by their bind data and not by the arguments of a call:
//! DuckDB must not copy such a plan by calling the function again. It then keeps a common table expression that is used
//! twice as it is.
void KeepInPlan(TableFunction &function);

//! Takes ownership of text returned by the core.
string TakeString(char *text);

//! Takes ownership of texts returned by the core.
vector<string> TakeTexts(PnsTexts *texts);

//! Texts as the core takes them; they point into `texts`.
vector<const char *> TextPointers(const vector<string> &texts);

//! The number of the database instance that the connection belongs to: no two instances of a process have the same.
uint64_t InstanceNumber(ClientContext &context);

//! A message for the core, allocated the way the core frees it.
char *MallocMessage(const string &message);

struct ReaderDeleter {
	void operator()(PnsReader *reader) const {
		pns_reader_free(reader);
	}
};
struct ScanDeleter {
	void operator()(PnsScan *scan) const {
		pns_scan_free(scan);
	}
};
struct RowsDeleter {
	void operator()(PnsRows *rows) const {
		pns_rows_free(rows);
	}
};
struct PredicateDeleter {
	void operator()(PnsPredicate *predicate) const {
		pns_predicate_free(predicate);
	}
};
struct WriterDeleter {
	void operator()(PnsWriter *writer) const {
		pns_writer_free(writer);
	}
};
struct BlockDeleter {
	void operator()(PnsBlock *block) const {
		pns_block_free(block);
	}
};
struct StoreDeleter {
	void operator()(PnsStore *store) const {
		pns_store_free(store);
	}
};
struct TxDeleter {
	void operator()(PnsTx *transaction) const {
		pns_tx_free(transaction);
	}
};
struct TableDeleter {
	void operator()(PnsTable *table) const {
		pns_table_free(table);
	}
};
using StorePtr = std::unique_ptr<PnsStore, StoreDeleter>;
using TxPtr = std::unique_ptr<PnsTx, TxDeleter>;
using TablePtr = std::unique_ptr<PnsTable, TableDeleter>;
using ReaderPtr = std::unique_ptr<PnsReader, ReaderDeleter>;
using ScanPtr = std::unique_ptr<PnsScan, ScanDeleter>;
using RowsPtr = std::unique_ptr<PnsRows, RowsDeleter>;
using PredicatePtr = std::unique_ptr<PnsPredicate, PredicateDeleter>;
using WriterPtr = std::unique_ptr<PnsWriter, WriterDeleter>;
using BlockPtr = std::unique_ptr<PnsBlock, BlockDeleter>;

//! Whether a failure means that DuckDB has no file system for the path's scheme, so that the core's object store client
//! serves it.
bool NeedsObjectStore(ClientContext &context, const string &path, const ErrorData &error);

//! What a scan counted, for EXPLAIN ANALYZE.
void AddScanMetrics(PnsScan *scan, TableFunctionGetMetricsInput &input);

//! Whether a path is a URL other than that of a local file.
bool IsRemote(const string &path);

//! Opens an extent through DuckDB's file system (access settings, secrets and registered file systems apply); a file on
//! the local disk is then read by the core directly. An empty format is decided by the file's leading bytes.
ReaderPtr OpenExtent(ClientContext &context, const OpenFileInfo &file, const string &format);

//! Names a column of the expression being lowered: empty when the reference is not a plain column.
using ColumnNamer = std::function<string(const Expression &reference)>;

//! The expression as the JSON tree that the core lowers to a predicate.
string ExpressionToJson(const Expression &expression, const ColumnNamer &namer);

//! Whether some part of the filter changes while the scan runs (join and top-N bounds).
bool HasDynamicPart(const Expression &expression);

void RegisterArrowTypes(ExtensionLoader &loader);
void RegisterScan(ExtensionLoader &loader);
void RegisterCopy(ExtensionLoader &loader);
void RegisterTables(ExtensionLoader &loader);
void RegisterDendro(ExtensionLoader &loader);
void RegisterDendroCopy(ExtensionLoader &loader);
void RegisterSettings(ExtensionLoader &loader);
void RegisterStores(ExtensionLoader &loader);
void RegisterAttach(ExtensionLoader &loader);
void RegisterSecrets(ExtensionLoader &loader);

//! Text as a JSON string.
string QuoteJson(const string &text);

//! Configuration of the object store that `path` is in, as JSON for the core, from DuckDB's secrets; empty when the
//! path is local or no secret fits.
string RemoteConfiguration(ClientContext &context, const string &path);

//! The functions that read TLM extents, any extent, and Parquet extents.
TableFunctionSet GetReadFunction(const string &name, const string &format);

//! Kinds of evidence the session does not want used, separated by commas.
string DisabledEvidence(ClientContext &context);

//! Value of a setting of ours, or NULL.
Value GetSetting(ClientContext &context, const char *name);

} // namespace pensieve
