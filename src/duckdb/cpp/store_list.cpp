// pensieve_snapshots, pensieve_extents, pensieve_column_stats: what a store's catalog says about an attached table.
#ifdef PENSIEVE_STORES
#include "store.hpp"

#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/qualified_name.hpp"

namespace pensieve {

namespace {

struct StoreListInfo : public TableFunctionInfo {
	explicit StoreListInfo(string name_p) : name(std::move(name_p)) {
	}
	string name;
};

struct StoreListBindData : public TableFunctionData {
	string name;
	shared_ptr<StoreTable> table;
	ArrowColumns columns;

	bool SupportStatementCache() const override {
		return false;
	}
};

struct StoreListState : public GlobalTableFunctionState {
	unique_ptr<ArrowBatch> batch;
	idx_t offset = 0;
};

shared_ptr<StoreTable> AttachedTable(ClientContext &context, const Value &argument) {
	if (argument.IsNull()) {
		throw BinderException("the name of a table is needed, for example 'lake.otel.logs'");
	}
	auto name = QualifiedName::Parse(argument.ToString());
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, name);
	auto &entry = Catalog::GetEntry(context, lookup);
	auto table = dynamic_cast<StoreTableEntry *>(&entry);
	if (!table) {
		throw BinderException("%s is not a table of a pensieve store", argument.ToString());
	}
	return table->table;
}

unique_ptr<FunctionData> ListBind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                  vector<Identifier> &names) {
	auto result = make_uniq<StoreListBindData>();
	result->name = input.info->Cast<StoreListInfo>().name;
	result->table = AttachedTable(context, input.inputs[0]);
	ArrowSchemaWrapper schema;
	char *error = nullptr;
	Check(pns_table_list_schema(result->name.c_str(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error),
	      error);
	result->columns = ReadArrowSchema(context, schema, result->name);
	types = result->columns.types;
	for (auto &name : result->columns.names) {
		names.push_back(Identifier(name));
	}
	return std::move(result);
}

unique_ptr<GlobalTableFunctionState> ListInit(ClientContext &, TableFunctionInitInput &) {
	return make_uniq<StoreListState>();
}

void ListScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &bind_data = input.bind_data->Cast<StoreListBindData>();
	auto &state = input.global_state->Cast<StoreListState>();
	if (!state.batch) {
		auto array = make_shared_ptr<ArrowArrayWrapper>();
		char *error = nullptr;
		Check(pns_table_list(bind_data.table->handle.get(), bind_data.name.c_str(),
		                     reinterpret_cast<::ArrowArray *>(&array->arrow_array), &error),
		      error);
		state.batch = make_uniq<ArrowBatch>(context, std::move(array));
	}
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, state.batch->RowCount() - state.offset);
	if (count == 0) {
		output.SetChildCardinality(0);
		return;
	}
	for (idx_t i = 0; i < output.ColumnCount(); i++) {
		state.batch->Convert(i, *bind_data.columns.arrow_types[i], state.offset, count, output.data[i]);
	}
	state.offset += count;
	output.SetChildCardinality(count);
}

} // namespace

void RegisterStoreLists(ExtensionLoader &loader) {
	for (auto name : {"pensieve_snapshots", "pensieve_extents", "pensieve_column_stats"}) {
		TableFunction function(Identifier(name), FunctionSignature().AddPositionalOnly("table", LogicalType::VARCHAR),
		                       ListScan, ListBind, ListInit);
		function.function_info = make_shared_ptr<StoreListInfo>(name);
		loader.RegisterFunction(std::move(function));
	}
}

} // namespace pensieve
#endif // PENSIEVE_STORES
