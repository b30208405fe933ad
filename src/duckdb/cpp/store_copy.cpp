// COPY … TO 'store' (FORMAT pensieve, TABLE 'db.t'): extents and one snapshot, without ATTACH.
//
// The address of a store is no file that DuckDB's file system could open, so the statement is planned here rather than
// as DuckDB's own COPY. The session's access settings are checked where the store is opened.
#include "copy.hpp"
#include "store.hpp"

#include "duckdb/common/enums/preserve_order.hpp"
#include "duckdb/execution/operator/persistent/physical_copy_to_file.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/query_result.hpp"
#include "duckdb/parser/parsed_data/copy_info.hpp"
#include "duckdb/parser/statement/copy_statement.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "duckdb/planner/operator/logical_order.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"

namespace pensieve {

namespace {

//! What to write where.
struct StoreCopyData {
	string address;
	string database;
	string table;
	string format;
	vector<pair<string, string>> store_options;
	//! Options of the format itself.
	identifier_map_t<vector<Value>> format_options;
	vector<Identifier> names;
	vector<LogicalType> types;
	//! An extent ends when it is about this large.
	optional_idx extent_bytes;
	PreserveOrderType preserve_order = PreserveOrderType::AUTOMATIC;
	CopyFunctionReturnType return_type = CopyFunctionReturnType::CHANGED_ROWS;

	InsertionOrderPreservingMap<string> Describe() const {
		InsertionOrderPreservingMap<string> result;
		result["Store"] = address;
		result["Table"] = database + "." + table;
		result["Extents"] = format;
		return result;
	}
};

//===--------------------------------------------------------------------===//
// Options
//===--------------------------------------------------------------------===//

string One(const Identifier &name, const vector<Value> &values) {
	return SingleValue(name, values, false).ToString();
}

bool Flag(const Identifier &name, const vector<Value> &values) {
	return values.empty() || BooleanValue::Get(Value(One(name, values)).DefaultCastAs(LogicalType::BOOLEAN));
}

//! A boolean option that a store has only one answer to.
void Require(const Identifier &name, const vector<Value> &values, bool answer, const char *why) {
	if (Flag(name, values) != answer) {
		throw BinderException("COPY … (FORMAT pensieve): %s %s is not available: %s",
		                      StringUtil::Upper(name.GetIdentifierName()), answer ? "false" : "true", why);
	}
}

//! Takes an option that every COPY has; false when it is not one of them.
bool TakeGeneralOption(StoreCopyData &data, const Identifier &name, const vector<Value> &values) {
	if (name == "use_tmp_file") {
		// rows are not visible before the commit, whatever the extents are called until then
		Flag(name, values);
	} else if (name == "append") {
		Require(name, values, true, "a COPY appends to the table; DROP TABLE removes it first");
	} else if (name == "overwrite" || name == "overwrite_or_ignore") {
		Require(name, values, false, "a COPY appends to the table; DROP TABLE removes it first");
	} else if (name == "per_thread_output") {
		Require(name, values, false, "threads write one extent together; FILE_SIZE_BYTES makes several");
	} else if (name == "write_empty_file") {
		Require(name, values, false, "a store has no empty extents");
	} else if (name == "preserve_order") {
		data.preserve_order =
		    Flag(name, values) ? PreserveOrderType::PRESERVE_ORDER : PreserveOrderType::DONT_PRESERVE_ORDER;
	} else if (name == "return_files" || name == "return_stats") {
		if (Flag(name, values)) {
			if (data.return_type != CopyFunctionReturnType::CHANGED_ROWS) {
				throw BinderException("Can only set one of RETURN_FILES or RETURN_STATS for COPY");
			}
			data.return_type = name == "return_files" ? CopyFunctionReturnType::CHANGED_ROWS_AND_FILE_LIST
			                                          : CopyFunctionReturnType::WRITTEN_FILE_STATISTICS;
		}
	} else if (name == "file_size_bytes") {
		data.extent_bytes = ParseBytes(name, One(name, values));
	} else if (name == "row_group_size" || name == "batch_size") {
		data.format_options["rows_per_block"] = values;
	} else if (name == "row_group_size_bytes" || name == "batch_size_bytes") {
		data.format_options["bytes_per_block"] = values;
	} else {
		for (auto other : {"partition_by", "write_partition_columns", "hive_file_pattern", "filename_pattern",
		                   "file_extension", "order_by", "row_groups_per_file", "batches_per_file"}) {
			if (name == other) {
				throw BinderException("COPY … (FORMAT pensieve): %s is not available: the store decides names and "
				                      "places of its extents; ROWS_PER_BLOCK, BYTES_PER_BLOCK, FILE_SIZE_BYTES and "
				                      "SORT_BY shape them",
				                      StringUtil::Upper(name.GetIdentifierName()));
			}
		}
		return false;
	}
	return true;
}

StoreCopyData ReadOptions(ClientContext &context, const CopyInfo &info) {
	StoreCopyData data;
	data.address = info.file_path;
	auto setting = GetSetting(context, "pensieve_write_format");
	data.format = setting.IsNull() ? "tlm" : setting.ToString();
	string table;
	for (auto &[name, values] : info.options) {
		if (name == "table") {
			table = One(name, values);
		} else if (name == "extent_format") {
			data.format = StringUtil::Lower(One(name, values));
			if (data.format != "tlm" && data.format != "parquet") {
				throw BinderException("EXTENT_FORMAT is 'tlm' or 'parquet', not '%s'", data.format);
			}
		} else if (name == "storage" || name == "tenant") {
			data.store_options.emplace_back(StringUtil::Lower(name.GetIdentifierName()), One(name, values));
		} else if (!TakeGeneralOption(data, name, values)) {
			data.format_options[name] = values;
		}
	}
	if (table.empty()) {
		throw BinderException("COPY … (FORMAT pensieve) needs TABLE 'database.table'");
	}
	SplitTableName(table, data.database, data.table);
	return data;
}

//===--------------------------------------------------------------------===//
// Execution
//===--------------------------------------------------------------------===//

//! The extents being written and the transaction that makes them visible.
struct StoreCopyGlobalState : public ExtentSinkState {
	~StoreCopyGlobalState() override {
		// before what it writes for
		sink.reset();
	}

	shared_ptr<Store> store;
	TxPtr transaction;
};

struct StoreCopySourceState : public GlobalSourceState {
	idx_t offset = 0;
};

//! The table to append to; created when there is none.
shared_ptr<StoreTable> TargetTable(ClientContext &context, const StoreCopyData &data, StoreCopyGlobalState &state) {
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
		vector<string> type_names;
		ExportColumns(context, data.types, IdentifiersToStrings(data.names), name, schema, type_names);
		auto type_pointers = TextPointers(type_names);
		auto status = pns_tx_create_table(state.transaction.get(), data.database.c_str(), data.table.c_str(),
		                                  reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), type_pointers.data(),
		                                  type_pointers.size(), 1, &created, &error);
		schema.arrow_schema.release = nullptr;
		Check(status, error);
		table = find();
		if (!table) {
			throw CatalogException("Table %s disappeared while it was created", name);
		}
	}
	return table;
}

//! The columns by the table's own spelling; a column left out reads as NULL.
vector<Identifier> MatchColumns(const StoreCopyData &data, const StoreTable &table) {
	auto names = data.names;
	for (idx_t i = 0; i < names.size(); i++) {
		auto found = std::find(table.names.begin(), table.names.end(), names[i]);
		if (found == table.names.end()) {
			throw BinderException("%s has no column \"%s\": add it with ALTER TABLE … ADD COLUMN",
			                      table.QualifiedName(), names[i].GetIdentifierName());
		}
		auto &type = table.types[NumericCast<idx_t>(found - table.names.begin())];
		if (type != data.types[i]) {
			throw BinderException("Column \"%s\" of %s has type %s, the query gives %s: cast it",
			                      found->GetIdentifierName(), table.QualifiedName(), type.ToString(),
			                      data.types[i].ToString());
		}
		names[i] = *found;
	}
	return names;
}

class PhysicalStoreCopy : public ExtentSinkOperator {
  public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalStoreCopy(PhysicalPlan &plan, vector<LogicalType> types, idx_t cardinality, StoreCopyData data_p,
	                  bool parallel_p)
	    : ExtentSinkOperator(plan, std::move(types), cardinality, parallel_p), data(std::move(data_p)) {
	}

	StoreCopyData data;

	string GetName() const override {
		return "PENSIEVE_COPY";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		return data.Describe();
	}

	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		auto result = make_uniq<StoreCopyGlobalState>();
		result->store = OpenStore(context, data.address, data.store_options);
		if (!result->store->magic.empty() && data.format != "tlm") {
			throw InvalidInputException("The extents of a %s catalog are TLM: its other readers know nothing else",
			                            result->store->kind);
		}
		result->transaction = TxPtr(pns_tx_new(result->store->handle.get()));
		auto names = MatchColumns(data, *TargetTable(context, data, *result));
		result->sink = make_uniq<ExtentSink>(context, *result->store, result->transaction.get(), data.database,
		                                     data.table, data.format, data.format_options, names, data.types);
		// the sort is in the plan
		result->sink->bind_data->Cast<ExtentCopyBindData>().sorts = true;
		return std::move(result);
	}
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override {
		auto result = ExtentSinkOperator::Sink(context, chunk, input);
		auto &sink = *input.global_state.Cast<StoreCopyGlobalState>().sink;
		if (data.extent_bytes.IsValid() && sink.Bytes() >= data.extent_bytes.GetIndex()) {
			// one thread writes, so nothing of the extent is elsewhere
			sink.Combine(context, input.local_state.Cast<ExtentSinkThread>());
			sink.Finish(context.client);
		}
		return result;
	}
	SinkFinalizeType Finalize(Pipeline &, Event &, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override {
		auto &global = input.global_state.Cast<StoreCopyGlobalState>();
		global.sink->Finish(context);
		char *error = nullptr;
		Check(pns_tx_commit(global.transaction.get(), &error), error);
		return SinkFinalizeType::READY;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &) const override {
		return make_uniq<StoreCopySourceState>();
	}
	SourceResultType GetDataInternal(ExecutionContext &, DataChunk &chunk, OperatorSourceInput &input) const override {
		auto &state = input.global_state.Cast<StoreCopySourceState>();
		auto &global = sink_state->Cast<StoreCopyGlobalState>();
		auto &written = global.sink->written;
		if (data.return_type == CopyFunctionReturnType::WRITTEN_FILE_STATISTICS) {
			auto end = MinValue<idx_t>(written.size(), state.offset + STANDARD_VECTOR_SIZE);
			for (; state.offset < end; state.offset++) {
				CopyToFileInfo info(written[state.offset].location);
				info.file_stats = make_uniq<CopyFunctionFileStatistics>(*written[state.offset].statistics);
				PhysicalCopyToFile::ReturnStatistics(chunk, info);
			}
			return state.offset < written.size() ? SourceResultType::HAVE_MORE_OUTPUT : SourceResultType::FINISHED;
		}
		chunk.data[0].Append(Value::BIGINT(NumericCast<int64_t>(global.sink->rows.load())));
		if (data.return_type == CopyFunctionReturnType::CHANGED_ROWS_AND_FILE_LIST) {
			vector<Value> files;
			for (auto &extent : written) {
				files.emplace_back(extent.location);
			}
			chunk.data[1].Append(Value::LIST(LogicalType::VARCHAR, std::move(files)));
		}
		return SourceResultType::FINISHED;
	}
};

//===--------------------------------------------------------------------===//
// Planning
//===--------------------------------------------------------------------===//

class LogicalStoreCopy : public LogicalExtensionOperator {
  public:
	LogicalStoreCopy(TableIndex table_index_p, StoreCopyData data_p)
	    : table_index(table_index_p), data(std::move(data_p)) {
	}

	TableIndex table_index;
	StoreCopyData data;

	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		auto &child = planner.CreatePlan(*children[0]);
		auto ordered = data.preserve_order == PreserveOrderType::AUTOMATIC
		                   ? PhysicalPlanGenerator::PreserveInsertionOrder(context, child)
		                   : data.preserve_order == PreserveOrderType::PRESERVE_ORDER;
		auto parallel = !ordered && !data.extent_bytes.IsValid();
		auto &copy = planner.Make<PhysicalStoreCopy>(types, estimated_cardinality, data, parallel);
		copy.children.push_back(child);
		return copy;
	}
	vector<ColumnBinding> GetColumnBindings() override {
		return GenerateColumnBindings(table_index, GetCopyFunctionReturnLogicalTypes(data.return_type).size());
	}
	vector<TableIndex> GetTableIndex() const override {
		return {table_index};
	}
	string GetName() const override {
		return "PENSIEVE_COPY";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		return data.Describe();
	}
	string GetExtensionName() const override {
		return "pensieve";
	}

  protected:
	void ResolveTypes() override {
		types = GetCopyFunctionReturnLogicalTypes(data.return_type);
	}
};

//! Puts a projection that writes enumerations as text over the query.
void ProjectEnums(Binder &binder, CopyInfo &info, BoundStatement &query) {
	CopyToSelectInput input = {binder.context, info.options, {}, CopyToType::COPY_TO_FILE};
	auto bindings = query.plan->GetColumnBindings();
	for (idx_t i = 0; i < bindings.size(); i++) {
		input.select_list.push_back(make_uniq<BoundColumnRefExpression>(query.names[i], query.types[i], bindings[i]));
	}
	auto list = CastEnums(input);
	if (list.empty()) {
		return;
	}
	auto projection = make_uniq<LogicalProjection>(binder.GenerateTableIndex(), std::move(list));
	projection->children.push_back(std::move(query.plan));
	projection->ResolveOperatorTypes();
	query.types = projection->types;
	query.plan = std::move(projection);
}

//! Sorts the query's rows by SORT_BY.
void Sort(const StoreCopyData &data, const ExtentCopyBindData &bind_data, BoundStatement &query) {
	if (bind_data.sort_by.empty()) {
		return;
	}
	auto bindings = query.plan->GetColumnBindings();
	vector<BoundOrderByNode> orders;
	for (auto &key : bind_data.sort_by) {
		auto found = std::find(data.names.begin(), data.names.end(), Identifier(key.column));
		auto column = NumericCast<idx_t>(found - data.names.begin());
		orders.emplace_back(
		    key.type, key.nulls,
		    make_uniq<BoundColumnRefExpression>(Identifier(key.column), data.types[column], bindings[column]));
	}
	auto sort = make_uniq<LogicalOrder>(std::move(orders));
	sort->children.push_back(std::move(query.plan));
	sort->ResolveOperatorTypes();
	query.plan = std::move(sort);
}

BoundStatement Plan(Binder &binder, CopyStatement &statement) {
	auto &context = binder.context;
	auto &info = *statement.info;
	auto data = ReadOptions(context, info);
	auto query_node = info.select_statement->Copy();
	auto query = binder.Bind(*query_node);
	ProjectEnums(binder, info, query);
	data.names = query.names;
	QueryResult::DeduplicateColumns(data.names);
	data.types = query.types;
	// wrong options and types fail before anything is written
	auto function = GetExtentCopyFunction(data.format);
	CopyInfo inner;
	inner.is_from = false;
	inner.options = data.format_options;
	CopyFunctionBindInput input(inner, function.function_info);
	auto bind_data = function.copy_to_bind(context, input, data.names, data.types);
	Sort(data, bind_data->Cast<ExtentCopyBindData>(), query);

	BoundStatement result;
	auto return_type = data.return_type;
	result.names = GetCopyFunctionReturnNames(return_type);
	result.types = GetCopyFunctionReturnLogicalTypes(return_type);
	auto copy = make_uniq<LogicalStoreCopy>(binder.GenerateTableIndex(), std::move(data));
	copy->children.push_back(std::move(query.plan));
	result.plan = std::move(copy);
	binder.GetStatementProperties().return_type = return_type == CopyFunctionReturnType::CHANGED_ROWS
	                                                  ? StatementReturnType::CHANGED_ROWS
	                                                  : StatementReturnType::QUERY_RESULT;
	return result;
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
	function.plan = Plan;
	function.copy_options = Options;
	function.extension = "";
	loader.RegisterFunction(std::move(function));
}

} // namespace pensieve
