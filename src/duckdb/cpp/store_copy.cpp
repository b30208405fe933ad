// COPY … TO 'store' (FORMAT pensieve, TABLE 'db.t'): one extent and one snapshot, without ATTACH.
#include "store.hpp"

#include "duckdb/parser/parsed_data/copy_info.hpp"

namespace pensieve {

void ExportColumns(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
                   const string &table, ArrowSchemaWrapper &schema, string &type_names);

namespace {

struct StoreCopyBindData : public TableFunctionData {
	string address;
	string database;
	string table;
	string format;
	vector<pair<string, string>> store_options;
	vector<Identifier> names;
	vector<LogicalType> types;
	//! Options of the format itself.
	shared_ptr<CopyInfo> info;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<StoreCopyBindData>();
		result->address = address;
		result->database = database;
		result->table = table;
		result->format = format;
		result->store_options = store_options;
		result->names = names;
		result->types = types;
		result->info = info;
		return std::move(result);
	}
};

//! The extent's own writer and the transaction that makes it visible.
struct StoreCopyGlobalState : public GlobalFunctionData {
	shared_ptr<Store> store;
	TxPtr transaction;
	string extent;
	unique_ptr<CopyFunction> function;
	unique_ptr<FunctionData> bind_data;
	unique_ptr<GlobalFunctionData> writer;
	CopyFunctionFileStatistics own_statistics;
	optional_ptr<CopyFunctionFileStatistics> statistics;
};

string One(const Identifier &name, const vector<Value> &values) {
	if (values.size() != 1 || values[0].IsNull()) {
		throw BinderException("%s requires exactly one argument", StringUtil::Upper(name.GetIdentifierName()));
	}
	return values[0].ToString();
}

unique_ptr<FunctionData> BindInner(ClientContext &context, const CopyFunction &function, const CopyInfo &info,
                                   const vector<Identifier> &names, const vector<LogicalType> &types) {
	CopyFunctionBindInput input(info, function.function_info);
	return function.copy_to_bind(context, input, names, types);
}

unique_ptr<FunctionData> Bind(ClientContext &context, CopyFunctionBindInput &input, const vector<Identifier> &names,
                              const vector<LogicalType> &types) {
	auto result = make_uniq<StoreCopyBindData>();
	result->address = input.info.file_path;
	result->names = names;
	result->types = types;
	auto setting = GetSetting(context, "pensieve_write_format");
	result->format = setting.IsNull() ? "tlm" : setting.ToString();
	result->info = make_shared_ptr<CopyInfo>();
	result->info->is_from = false;
	string table;
	for (auto &[name, values] : input.info.options) {
		if (name == "table") {
			table = One(name, values);
		} else if (name == "extent_format") {
			result->format = StringUtil::Lower(One(name, values));
			if (result->format != "tlm" && result->format != "parquet") {
				throw BinderException("EXTENT_FORMAT is 'tlm' or 'parquet', not '%s'", result->format);
			}
		} else if (name == "storage" || name == "tenant") {
			result->store_options.emplace_back(StringUtil::Lower(name.GetIdentifierName()), One(name, values));
		} else {
			result->info->options[name] = values;
		}
	}
	auto dot = table.find('.');
	if (dot == string::npos || dot == 0 || dot + 1 == table.size()) {
		throw BinderException("COPY … (FORMAT pensieve) needs TABLE 'database.table'%s",
		                      table.empty() ? "" : ", not '" + table + "'");
	}
	result->database = table.substr(0, dot);
	result->table = table.substr(dot + 1);
	// wrong options and types fail before anything is written
	BindInner(context, GetExtentCopyFunction(result->format), *result->info, names, types);
	return std::move(result);
}

//! The table to append to; created when there is none.
shared_ptr<StoreTable> TargetTable(ClientContext &context, const StoreCopyBindData &data, StoreCopyGlobalState &state) {
	auto find = [&]() {
		return LookupStoreTable(context, state.store, state.transaction.get(), data.database, data.table, string());
	};
	auto table = find();
	if (!table) {
		auto name = data.database + "." + data.table;
		char *error = nullptr;
		int created = 0;
		Check(pns_tx_create_database(state.transaction.get(), data.database.c_str(), &created, &error), error);
		ArrowSchemaWrapper schema;
		string type_names;
		ExportColumns(context, data.types, IdentifiersToStrings(data.names), name, schema, type_names);
		auto status = pns_tx_create_table(state.transaction.get(), data.database.c_str(), data.table.c_str(),
		                                  reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), type_names.c_str(),
		                                  &created, &error);
		schema.arrow_schema.release = nullptr;
		Check(status, error);
		table = find();
		if (!table) {
			throw CatalogException("Table %s disappeared while it was created", name);
		}
	}
	return table;
}

unique_ptr<GlobalFunctionData> InitGlobal(ClientContext &context, FunctionData &bind_data_p, const string &path) {
	auto &data = bind_data_p.Cast<StoreCopyBindData>();
	if (path != data.address) {
		throw InvalidInputException("A store is written as a whole: leave out PARTITION_BY, FILE_SIZE_BYTES and "
		                            "PER_THREAD_OUTPUT, and add USE_TMP_FILE false for a SQLite catalog");
	}
	auto result = make_uniq<StoreCopyGlobalState>();
	result->store = OpenStore(context, data.address, data.store_options);
	result->transaction = TxPtr(pns_tx_new(result->store->handle.get()));
	auto table = TargetTable(context, data, *result);
	// by the table's own spelling; a column left out reads as NULL
	auto names = data.names;
	for (idx_t i = 0; i < names.size(); i++) {
		auto found = false;
		for (idx_t j = 0; j < table->names.size() && !found; j++) {
			if (table->names[j] != names[i]) {
				continue;
			}
			found = true;
			names[i] = table->names[j];
			if (table->types[j] != data.types[i]) {
				throw BinderException("Column \"%s\" of %s has type %s, the query gives %s: cast it",
				                      names[i].GetIdentifierName(), table->QualifiedName(), table->types[j].ToString(),
				                      data.types[i].ToString());
			}
		}
		if (!found) {
			throw BinderException("%s has no column \"%s\": add it with ALTER TABLE … ADD COLUMN",
			                      table->QualifiedName(), names[i].GetIdentifierName());
		}
	}
	auto format = data.format;
	CopyInfo info;
	info.is_from = false;
	info.options = data.info->options;
	if (!result->store->magic.empty()) {
		if (format != "tlm") {
			throw InvalidInputException("The extents of a %s catalog are TLM: its other readers know nothing else",
			                            result->store->kind);
		}
		info.options["magic"] = {Value(result->store->magic)};
		info.options["json_as_binary"] = {Value::BOOLEAN(true)};
	}
	result->function = make_uniq<CopyFunction>(GetExtentCopyFunction(format));
	result->bind_data = BindInner(context, *result->function, info, names, data.types);
	auto extension = format == "parquet" ? "parquet" : result->store->magic.empty() ? "tlm" : "pnsv";
	char *text = nullptr;
	char *error = nullptr;
	Check(pns_tx_new_extent(result->transaction.get(), data.database.c_str(), data.table.c_str(), extension, &text,
	                        &error),
	      error);
	result->extent = TakeString(text);
	auto location = SplitRecords(result->extent)[0][2];
	result->writer = result->function->copy_to_initialize_global(context, *result->bind_data, location);
	result->function->copy_to_get_written_statistics(context, *result->bind_data, *result->writer,
	                                                 result->own_statistics);
	return std::move(result);
}

unique_ptr<LocalFunctionData> InitLocal(ExecutionContext &context, FunctionData &bind_data_p) {
	auto &data = bind_data_p.Cast<StoreCopyBindData>();
	auto function = GetExtentCopyFunction(data.format);
	auto inner = BindInner(context.client, function, *data.info, data.names, data.types);
	return function.copy_to_initialize_local(context, *inner);
}

void Sink(ExecutionContext &context, FunctionData &, GlobalFunctionData &gstate, LocalFunctionData &lstate,
          DataChunk &input) {
	auto &state = gstate.Cast<StoreCopyGlobalState>();
	state.function->copy_to_sink(context, *state.bind_data, *state.writer, lstate, input);
}

void Combine(ExecutionContext &context, FunctionData &, GlobalFunctionData &gstate, LocalFunctionData &lstate) {
	auto &state = gstate.Cast<StoreCopyGlobalState>();
	state.function->copy_to_combine(context, *state.bind_data, *state.writer, lstate);
}

void Finalize(ClientContext &context, FunctionData &bind_data_p, GlobalFunctionData &gstate) {
	auto &data = bind_data_p.Cast<StoreCopyBindData>();
	auto &state = gstate.Cast<StoreCopyGlobalState>();
	state.function->copy_to_finalize(context, *state.bind_data, *state.writer);
	auto result = state.own_statistics.extra_info["extent"].ToString();
	char *error = nullptr;
	if (state.own_statistics.row_count > 0) {
		Check(pns_tx_append(state.transaction.get(), data.database.c_str(), data.table.c_str(), state.extent.c_str(),
		                    data.format.c_str(), result.c_str(), &error),
		      error);
	}
	Check(pns_tx_commit(state.transaction.get(), &error), error);
	if (state.statistics) {
		*state.statistics = state.own_statistics;
	}
}

CopyFunctionExecutionMode Mode(bool preserve_insertion_order, bool) {
	return preserve_insertion_order ? CopyFunctionExecutionMode::REGULAR_COPY_TO_FILE
	                                : CopyFunctionExecutionMode::PARALLEL_COPY_TO_FILE;
}

void Statistics(ClientContext &, FunctionData &, GlobalFunctionData &gstate, CopyFunctionFileStatistics &statistics) {
	gstate.Cast<StoreCopyGlobalState>().statistics = statistics;
}

void Options(ClientContext &context, CopyOptionsInput &input) {
	GetExtentCopyFunction("tlm").copy_options(context, input);
	for (auto name : {"table", "extent_format", "storage", "tenant"}) {
		input.options[name] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	}
}

} // namespace

void RegisterStoreCopy(ExtensionLoader &loader) {
	CopyFunction function {Identifier("pensieve")};
	function.copy_to_select = GetExtentCopyFunction("tlm").copy_to_select;
	function.copy_to_bind = Bind;
	function.copy_options = Options;
	function.copy_to_initialize_global = InitGlobal;
	function.copy_to_initialize_local = InitLocal;
	function.copy_to_sink = Sink;
	function.copy_to_combine = Combine;
	function.copy_to_finalize = Finalize;
	function.copy_to_get_written_statistics = Statistics;
	function.execution_mode = Mode;
	function.extension = "";
	loader.RegisterFunction(std::move(function));
}

} // namespace pensieve
