// INSERT INTO and CREATE TABLE AS: rows become extents in the store, which COMMIT makes visible.
#include "copy.hpp"
#include "store.hpp"

#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/execution/operator/projection/physical_projection.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/function/copy_function.hpp"
#include "duckdb/parser/parsed_data/copy_info.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/operator/logical_create_table.hpp"
#include "duckdb/planner/operator/logical_insert.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"

namespace pensieve {

ExtentSink::ExtentSink(ClientContext &context, const Store &store, PnsTx *transaction_p, string database_p,
                       string table_p, string format_p, const identifier_map_t<vector<Value>> &options,
                       const vector<Identifier> &names, const vector<LogicalType> &types)
    : function(GetExtentCopyFunction(format_p)), transaction(transaction_p), database(std::move(database_p)),
      table(std::move(table_p)), format(std::move(format_p)) {
	// the session may have been allowed to open the catalog's file but not the place that it names for extents
	static_cast<OpenerFileSystem &>(FileSystem::GetFileSystem(context)).VerifyCanAccessDirectory(store.storage);
	extension = format == "parquet" ? "parquet" : store.magic.empty() ? "tlm" : "pnsv";
	CopyInfo info;
	info.is_from = false;
	info.options = options;
	if (!store.magic.empty()) {
		info.options["magic"] = {Value(store.magic)};
		info.options["json_as_binary"] = {Value::BOOLEAN(true)};
	}
	CopyFunctionBindInput input(info, function.function_info);
	bind_data = function.copy_to_bind(context, input, names, types);
}

GlobalFunctionData &ExtentSink::Writer(ClientContext &context) {
	lock_guard<mutex> guard(lock);
	if (!writer) {
		PnsNewExtent extent {};
		char *error = nullptr;
		Check(pns_tx_new_extent(transaction, database.c_str(), table.c_str(), extension.c_str(), &extent, &error),
		      error);
		id = TakeString(extent.id);
		object_path = TakeString(extent.object_path);
		location = TakeString(extent.location);
		statistics = make_uniq<CopyFunctionFileStatistics>();
		writer = function.copy_to_initialize_global(context, *bind_data, location);
		function.copy_to_get_written_statistics(context, *bind_data, *writer, *statistics);
	}
	return *writer;
}

void ExtentSink::Append(ExecutionContext &context, ExtentSinkThread &thread, DataChunk &chunk) {
	if (chunk.size() == 0) {
		return;
	}
	auto &extent_writer = Writer(context.client);
	if (!thread.writer) {
		thread.writer = function.copy_to_initialize_local(context, *bind_data);
	}
	thread.rows += chunk.size();
	function.copy_to_sink(context, *bind_data, extent_writer, *thread.writer, chunk);
}

void ExtentSink::Combine(ExecutionContext &context, ExtentSinkThread &thread) {
	if (thread.writer) {
		function.copy_to_combine(context, *bind_data, Writer(context.client), *thread.writer);
		thread.writer.reset();
	}
	rows += thread.rows;
	thread.rows = 0;
}

void ExtentSink::Finish(ClientContext &context) {
	if (!writer) {
		return;
	}
	function.copy_to_finalize(context, *bind_data, *writer);
	auto result = statistics->extra_info["extent"].ToString();
	char *error = nullptr;
	Check(pns_tx_append(transaction, database.c_str(), table.c_str(), id.c_str(), object_path.c_str(), format.c_str(),
	                    result.c_str(), &error),
	      error);
	written.push_back(Written {location, std::move(statistics)});
	writer.reset();
}

idx_t ExtentSink::Bytes() {
	lock_guard<mutex> guard(lock);
	return writer ? function.file_size_bytes(*writer) : 0;
}

ExtentSinkOperator::ExtentSinkOperator(PhysicalPlan &plan, vector<LogicalType> types, idx_t cardinality,
                                       bool parallel_p)
    : PhysicalOperator(plan, PhysicalOperatorType::EXTENSION, std::move(types), cardinality), parallel(parallel_p) {
}

unique_ptr<LocalSinkState> ExtentSinkOperator::GetLocalSinkState(ExecutionContext &) const {
	return make_uniq<ExtentSinkThread>();
}

SinkResultType ExtentSinkOperator::Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const {
	auto &sink = *input.global_state.Cast<ExtentSinkState>().sink;
	sink.Append(context, input.local_state.Cast<ExtentSinkThread>(), chunk);
	return SinkResultType::NEED_MORE_INPUT;
}

SinkCombineResultType ExtentSinkOperator::Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const {
	auto &sink = *input.global_state.Cast<ExtentSinkState>().sink;
	sink.Combine(context, input.local_state.Cast<ExtentSinkThread>());
	return SinkCombineResultType::FINISHED;
}

namespace {

//! Readers of a store with a magic of its own know one format.
string FormatFor(ClientContext &context, const Store &store) {
	auto setting = GetSetting(context, "pensieve_write_format");
	return setting.IsNull() || !store.magic.empty() ? "tlm" : setting.ToString();
}

struct StoreInsertGlobalState : public ExtentSinkState {
	StoreInsertGlobalState(ClientContext &context, StoreTransaction &transaction_p, const StoreTable &table)
	    : transaction(transaction_p) {
		sink = make_uniq<ExtentSink>(context, *table.store, transaction_p.handle.get(), table.database, table.name,
		                             FormatFor(context, *table.store), identifier_map_t<vector<Value>>(), table.names,
		                             table.types);
	}

	StoreTransaction &transaction;
};

struct StoreInsertSourceState : public GlobalSourceState {
	bool done = false;
};

//! INSERT into a table, or creation of one with rows.
class StoreInsert : public ExtentSinkOperator {
  public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	StoreInsert(PhysicalPlan &plan, vector<LogicalType> types, idx_t cardinality, Catalog &catalog_p,
	            optional_ptr<StoreTableEntry> table_p, SchemaCatalogEntry *schema_p,
	            unique_ptr<BoundCreateTableInfo> info_p, bool parallel_p)
	    : ExtentSinkOperator(plan, std::move(types), cardinality, parallel_p), catalog(catalog_p), table(table_p),
	      schema(schema_p), info(std::move(info_p)) {
	}

	Catalog &catalog;
	optional_ptr<StoreTableEntry> table;
	SchemaCatalogEntry *schema;
	unique_ptr<BoundCreateTableInfo> info;

	string GetName() const override {
		return info ? "PENSIEVE_CREATE_TABLE_AS" : "PENSIEVE_INSERT";
	}

	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		auto &transaction = StoreTransaction::Get(context, catalog);
		auto target = table;
		if (info) {
			auto created = schema->CreateTable(schema->GetCatalogTransaction(context), *info);
			if (!created) {
				throw CatalogException("the table was created by somebody else meanwhile");
			}
			target = &created->Cast<StoreTableEntry>();
		}
		return make_uniq<StoreInsertGlobalState>(context, transaction, *target->table);
	}
	SinkFinalizeType Finalize(Pipeline &, Event &, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override {
		auto &global = input.global_state.Cast<StoreInsertGlobalState>();
		global.sink->Finish(context);
		auto &transaction = global.transaction;
		// later reads of this transaction see the rows
		lock_guard<mutex> guard(transaction.lock);
		transaction.tables.clear();
		return SinkFinalizeType::READY;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &) const override {
		return make_uniq<StoreInsertSourceState>();
	}
	SourceResultType GetDataInternal(ExecutionContext &, DataChunk &chunk, OperatorSourceInput &input) const override {
		auto &state = input.global_state.Cast<StoreInsertSourceState>();
		if (state.done) {
			return SourceResultType::FINISHED;
		}
		state.done = true;
		auto &global = sink_state->Cast<StoreInsertGlobalState>();
		chunk.SetValue(0, 0, Value::BIGINT(NumericCast<int64_t>(global.sink->rows.load())));
		chunk.SetChildCardinality(1);
		return SourceResultType::FINISHED;
	}
};

} // namespace

PhysicalOperator &StoreCatalog::PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                           optional_ptr<PhysicalOperator> plan) {
	if (store->read_only) {
		throw InvalidInputException("%s is attached read-only", store->address);
	}
	if (op.return_chunk) {
		throw NotImplementedException("INSERT … RETURNING is not available for stores");
	}
	if (op.on_conflict_info.action_type != OnConflictAction::THROW) {
		throw NotImplementedException("INSERT … ON CONFLICT is not available for stores: they keep no keys");
	}
	if (!op.column_index_map.empty()) {
		plan = planner.ResolveDefaultsProjection(op, *plan);
	}
	auto parallel = !PhysicalPlanGenerator::PreserveInsertionOrder(context, *plan);
	auto &insert = planner.Make<StoreInsert>(op.types, op.estimated_cardinality, *this,
	                                         &op.table.Cast<StoreTableEntry>(), nullptr, nullptr, parallel);
	insert.children.push_back(*plan);
	return insert;
}

//! The rows in the types that the table will have.
static PhysicalOperator &ProjectStored(ClientContext &context, PhysicalPlanGenerator &planner, PhysicalOperator &plan) {
	vector<LogicalType> types;
	vector<unique_ptr<Expression>> columns;
	for (idx_t i = 0; i < plan.types.size(); i++) {
		types.push_back(StoredType(plan.types[i]));
		auto column = make_uniq_base<Expression, BoundReferenceExpression>(plan.types[i], i);
		columns.push_back(BoundCastExpression::AddCastToType(context, std::move(column), types[i]));
	}
	if (types == plan.types) {
		return plan;
	}
	auto cardinality = plan.estimated_cardinality;
	auto &projection = planner.Make<PhysicalProjection>(std::move(types), std::move(columns), cardinality);
	projection.children.push_back(plan);
	return projection;
}

PhysicalOperator &StoreCatalog::PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner,
                                                  LogicalCreateTable &op, PhysicalOperator &plan) {
	auto parallel = !PhysicalPlanGenerator::PreserveInsertionOrder(context, plan);
	auto &insert = planner.Make<StoreInsert>(op.types, op.estimated_cardinality, *this, nullptr, &op.schema,
	                                         std::move(op.info), parallel);
	insert.children.push_back(ProjectStored(context, planner, plan));
	return insert;
}

} // namespace pensieve
