// Listing functions: the core produces Arrow rows, this file hands them to DuckDB.
#include "arrow_bridge.hpp"

#include "duckdb/common/multi_file/multi_file_reader.hpp"
#include "duckdb/function/table_function.hpp"

namespace pensieve {

namespace {

//! What produces the rows: a list of files to describe, or nothing but the connection.
struct ListingInfo : public TableFunctionInfo {
	ListingInfo(string name_p, string format_p) : name(std::move(name_p)), format(std::move(format_p)) {
	}
	string name;
	string format;
};

struct ListingBindData : public TableFunctionData {
	string name;
	string format;
	vector<OpenFileInfo> files;
	ArrowColumns columns;

	bool SupportStatementCache() const override {
		return false;
	}
};

struct ListingState : public GlobalTableFunctionState {
	idx_t next_file = 0;
	bool done = false;
	unique_ptr<ArrowBatch> batch;
	idx_t offset = 0;
};

} // namespace

static void FinishBind(ListingBindData &bind_data, vector<LogicalType> &types, vector<Identifier> &names) {
	types = bind_data.columns.types;
	for (auto &name : bind_data.columns.names) {
		names.push_back(Identifier(name));
	}
}

static unique_ptr<FunctionData> FileListingBind(ClientContext &context, TableFunctionBindInput &input,
                                                vector<LogicalType> &types, vector<Identifier> &names) {
	auto &info = input.info->Cast<ListingInfo>();
	auto result = make_uniq<ListingBindData>();
	result->name = info.name;
	result->format = info.format;
	auto reader = MultiFileReader::Create(input.table_function);
	auto list = reader->CreateFileList(context, input.inputs[0], FileGlobInput(FileGlobOptions::FALLBACK_GLOB, "tlm"));
	result->files = list->GetAllFiles();
	ArrowSchemaWrapper schema;
	char *error = nullptr;
	Check(pns_describe_schema(info.name.c_str(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error),
	      error);
	result->columns = ReadArrowSchema(context, schema, info.name);
	FinishBind(*result, types, names);
	return std::move(result);
}

static unique_ptr<FunctionData> LastScanBind(ClientContext &context, TableFunctionBindInput &input,
                                             vector<LogicalType> &types, vector<Identifier> &names) {
	auto result = make_uniq<ListingBindData>();
	result->name = "pensieve_last_scan";
	ArrowSchemaWrapper schema;
	char *error = nullptr;
	Check(pns_last_scans_schema(reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error), error);
	result->columns = ReadArrowSchema(context, schema, result->name);
	FinishBind(*result, types, names);
	return std::move(result);
}

static unique_ptr<GlobalTableFunctionState> ListingInit(ClientContext &, TableFunctionInitInput &) {
	return make_uniq<ListingState>();
}

static bool NextBatch(ClientContext &context, const ListingBindData &bind_data, ListingState &state) {
	auto array = make_shared_ptr<ArrowArrayWrapper>();
	auto out = reinterpret_cast<::ArrowArray *>(&array->arrow_array);
	char *error = nullptr;
	if (bind_data.name == "pensieve_last_scan") {
		if (state.done) {
			return false;
		}
		state.done = true;
		Check(pns_last_scans(InstanceNumber(context), context.GetConnectionId(), out, &error), error);
	} else {
		if (state.next_file >= bind_data.files.size()) {
			return false;
		}
		auto reader = OpenExtent(context, bind_data.files[state.next_file++], bind_data.format);
		Check(pns_reader_describe(reader.get(), bind_data.name.c_str(), out, &error), error);
	}
	state.batch = make_uniq<ArrowBatch>(context, std::move(array));
	state.offset = 0;
	return true;
}

static void ListingScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &bind_data = input.bind_data->Cast<ListingBindData>();
	auto &state = input.global_state->Cast<ListingState>();
	while (!state.batch || state.offset >= state.batch->RowCount()) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		if (!NextBatch(context, bind_data, state)) {
			output.SetChildCardinality(0);
			return;
		}
	}
	state.batch->Emit(bind_data.columns, state.offset, output);
}

static void RegisterFileListing(ExtensionLoader &loader, const string &name, const string &format) {
	TableFunction function(Identifier(name), FunctionSignature().AddPositionalOnly("path", LogicalType::VARCHAR),
	                       ListingScan, FileListingBind, ListingInit);
	function.function_info = make_shared_ptr<ListingInfo>(name, format);
	loader.RegisterFunction(MultiFileReader::CreateFunctionSet(std::move(function)));
}

void RegisterTables(ExtensionLoader &loader) {
	RegisterFileListing(loader, "tlm_metadata", "tlm");
	RegisterFileListing(loader, "tlm_blocks", "tlm");
	TableFunction last_scan(Identifier("pensieve_last_scan"), vector<LogicalType>(), ListingScan, LastScanBind,
	                        ListingInit);
	loader.RegisterFunction(std::move(last_scan));
}

} // namespace pensieve
