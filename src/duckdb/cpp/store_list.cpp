// pensieve_snapshots, pensieve_extents, pensieve_column_stats: what a store's catalog says about an attached table.
#include "store.hpp"

#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/planner.hpp"

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
	//! pensieve_plan: the conjuncts that the core understands, and the evidence it is not to use.
	vector<string> conjuncts;
	bool nothing = false;
	string disabled;

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
	Binder::BindSchemaOrCatalog(context, name);
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, name);
	auto &entry = Catalog::GetEntry(context, lookup);
	auto table = dynamic_cast<StoreTableEntry *>(&entry);
	if (!table) {
		throw BinderException("%s is not a table of a pensieve store", argument.ToString());
	}
	return table->table;
}

//! The scan of the store's table in the plan, if the optimizer left one.
optional_ptr<StoreFileList> FindScan(LogicalOperator &op) {
	if (op.type == LogicalOperatorType::LOGICAL_GET) {
		auto multi_file = dynamic_cast<MultiFileBindData *>(op.Cast<LogicalGet>().bind_data.get());
		auto data = multi_file ? dynamic_cast<ExtentBindData *>(multi_file->bind_data.get()) : nullptr;
		return data ? data->store_files.get() : nullptr;
	}
	for (auto &child : op.children) {
		auto found = FindScan(*child);
		if (found) {
			return found;
		}
	}
	return nullptr;
}

//! Plans the query that the predicate stands for, as DuckDB would, and takes from it what the scan was told.
void PlanPredicate(ClientContext &context, StoreListBindData &data, const string &table, const string &predicate) {
	Parser parser(context);
	parser.ParseQuery("SELECT * FROM " + QualifiedName::Parse(table).ToString() + " WHERE (" + predicate + "\n)");
	if (parser.statements.size() != 1) {
		throw BinderException("pensieve_plan needs one condition, for example 'level = ''ERROR'''");
	}
	Planner planner(context);
	planner.CreatePlan(std::move(parser.statements[0]));
	Optimizer optimizer(*planner.binder, context);
	auto plan = optimizer.Optimize(std::move(planner.plan));
	auto scan = FindScan(*plan);
	if (!scan) {
		// DuckDB found that no row can match
		data.nothing = true;
		return;
	}
	data.table = scan->table;
	data.conjuncts = scan->conjuncts;
}

unique_ptr<FunctionData> ListBind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                  vector<Identifier> &names) {
	auto result = make_uniq<StoreListBindData>();
	result->name = input.info->Cast<StoreListInfo>().name;
	result->table = AttachedTable(context, input.inputs[0]);
	result->disabled = DisabledEvidence(context);
	if (input.inputs.size() > 1 && !input.inputs[1].IsNull()) {
		PlanPredicate(context, *result, input.inputs[0].ToString(), input.inputs[1].ToString());
	}
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

//! Opens extents for the core as a scan does.
struct PlanOpener {
	explicit PlanOpener(ClientContext &context_p) : context(context_p) {
	}

	ClientContext &context;
	std::exception_ptr failure;

	static PnsReader *Open(void *self, const char *location, uint64_t length) {
		auto &opener = *static_cast<PlanOpener *>(self);
		try {
			return OpenExtent(opener.context, OpenFileInfo(string(location, length)), "").release();
		} catch (...) {
			opener.failure = std::current_exception();
			return nullptr;
		}
	}
};

unique_ptr<GlobalTableFunctionState> ListInit(ClientContext &, TableFunctionInitInput &) {
	return make_uniq<StoreListState>();
}

void ListScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &bind_data = input.bind_data->Cast<StoreListBindData>();
	auto &state = input.global_state->Cast<StoreListState>();
	if (!state.batch) {
		auto array = make_shared_ptr<ArrowArrayWrapper>();
		char *error = nullptr;
		auto out = reinterpret_cast<::ArrowArray *>(&array->arrow_array);
		if (bind_data.name == "pensieve_plan") {
			string json = bind_data.nothing
			                  ? "{\"k\":\"const\",\"type\":\"BOOLEAN\",\"value\":\"false\"}"
			                  : "{\"k\":\"and\",\"args\":[" + StringUtil::Join(bind_data.conjuncts, ",") + "]}";
			PredicatePtr predicate;
			if (bind_data.nothing || !bind_data.conjuncts.empty()) {
				predicate = PredicatePtr(pns_predicate_lower(json.c_str(), json.size()));
			}
			PlanOpener opener(context);
			auto kind = pns_table_plan(bind_data.table->handle.get(), predicate.get(), bind_data.disabled.c_str(),
			                           PnsOpener {&opener, PlanOpener::Open}, out, &error);
			if (opener.failure) {
				TakeString(error);
				std::rethrow_exception(opener.failure);
			}
			Check(kind, error);
		} else {
			Check(pns_table_list(bind_data.table->handle.get(), bind_data.name.c_str(), out, &error), error);
		}
		state.batch = make_uniq<ArrowBatch>(context, std::move(array));
	}
	state.batch->Emit(bind_data.columns, state.offset, output);
}

} // namespace

void RegisterStoreLists(ExtensionLoader &loader) {
	for (auto name : {"pensieve_snapshots", "pensieve_extents", "pensieve_column_stats"}) {
		TableFunction function(Identifier(name), FunctionSignature().AddPositionalOnly("table", LogicalType::VARCHAR),
		                       ListScan, ListBind, ListInit);
		function.function_info = make_shared_ptr<StoreListInfo>(name);
		loader.RegisterFunction(std::move(function));
	}
	TableFunction plan(Identifier("pensieve_plan"),
	                   FunctionSignature()
	                       .AddPositionalOnly("table", LogicalType::VARCHAR)
	                       .AddPositionalOnly("predicate", LogicalType::VARCHAR),
	                   ListScan, ListBind, ListInit);
	plan.function_info = make_shared_ptr<StoreListInfo>("pensieve_plan");
	loader.RegisterFunction(std::move(plan));
}

} // namespace pensieve
