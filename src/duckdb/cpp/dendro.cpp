// read_dendro and the dendro_* listings: streams of dendro archives as tables.
#include "dendro.hpp"

#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/function/replacement_scan.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace pensieve {

namespace {

struct DendroScanDeleter {
	void operator()(PnsDendroScan *scan) const {
		pns_dendro_scan_free(scan);
	}
};
struct DendroListingDeleter {
	void operator()(PnsDendroListing *listing) const {
		pns_dendro_listing_free(listing);
	}
};
using DendroScanPtr = std::unique_ptr<PnsDendroScan, DendroScanDeleter>;
using DendroListingPtr = std::unique_ptr<PnsDendroListing, DendroListingDeleter>;

struct DendroGlobalState : public GlobalTableFunctionState {
	ScanPtr scan;
	DendroScanPtr segments;
	PredicatePtr fixed;
	//! Columns of the table that are read, and for each output column its place among them.
	vector<ColumnIndex> columns;
	vector<optional_idx> slots;
	vector<idx_t> table_columns;
	idx_t count = 0;
	atomic<idx_t> next {0};
	atomic<idx_t> done {0};

	idx_t MaxThreads() const override {
		return MaxValue<idx_t>(count, 1);
	}
};

//! One segment at a time, one of its blocks at a time.
struct DendroLocalState : public LocalTableFunctionState {
	ReaderPtr reader;
	//! Place of the segment in the scan.
	idx_t segment = 0;
	uint32_t next_block = 0;
	uint32_t blocks = 0;
	//! Rows of the block that are left, its stream, and the next row of its current batch; none if no column is read.
	idx_t rows = 0;
	unique_ptr<BatchStream> stream;
	shared_ptr<ArrowBatch> batch;
	idx_t offset = 0;
};

} // namespace

string DendroLocalName(const string &address) {
	for (auto prefix : {"file://localhost/", "file:///", "file:/"}) {
		if (StringUtil::StartsWith(address, prefix)) {
			return "/" + address.substr(strlen(prefix));
		}
	}
	return address;
}

string DendroPath(ClientContext &context, const string &address) {
	auto path = DendroLocalName(address);
	if (IsRemote(path)) {
		throw NotImplementedException(
		    "\"%s\": a dendro archive is a SQLite database, which is read from the local file "
		    "system; copy it here first",
		    path);
	}
	auto &fs = FileSystem::GetFileSystem(context);
	static_cast<OpenerFileSystem &>(fs).VerifyCanAccessFile(path);
	if (FileSystem::HasGlob(path) && !fs.FileExists(path)) {
		throw InvalidInputException("\"%s\": name one dendro archive; a pattern of several is not read", path);
	}
	return fs.ExpandPath(path);
}

unique_ptr<FunctionData> DendroBindData::Copy() const {
	auto result = make_uniq<DendroBindData>();
	result->dendro = dendro;
	result->path = path;
	result->stream = stream;
	result->columns = columns;
	result->hints = hints;
	result->texts = texts;
	result->unknown = unknown;
	result->index_test = index_test ? index_test->Copy() : nullptr;
	result->table = table;
	result->column_ids = column_ids;
	return std::move(result);
}

//===--------------------------------------------------------------------===//
// Binding
//===--------------------------------------------------------------------===//

unique_ptr<DendroBindData> DescribeDendro(ClientContext &context, std::shared_ptr<PnsDendro> dendro, const string &path,
                                          vector<LogicalType> &types, vector<string> &names) {
	auto result = make_uniq<DendroBindData>();
	result->path = path;
	result->dendro = std::move(dendro);
	result->stream = TakeString(pns_dendro_stream(result->dendro.get()));
	ArrowSchemaWrapper schema;
	char *error = nullptr;
	Check(pns_dendro_schema(result->dendro.get(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error),
	      error);
	result->columns = ReadArrowSchema(context, schema, path);
	types = result->columns.types;
	// names that differ only in case are one name to DuckDB
	identifier_set_t taken;
	for (auto &name : result->columns.names) {
		auto unique = name;
		for (idx_t suffix = 1; !taken.insert(Identifier(unique)).second; suffix++) {
			unique = name + "_" + std::to_string(suffix);
		}
		names.push_back(unique);
	}
	return result;
}

unique_ptr<DendroBindData> BindDendroStream(ClientContext &context, const DendroRequest &request,
                                            vector<LogicalType> &types, vector<string> &names) {
	auto local = DendroPath(context, request.path);
	PnsDendro *dendro = nullptr;
	char *error = nullptr;
	Check(pns_dendro_bind(local.c_str(), request.options.c_str(), &dendro, &error), error);
	return DescribeDendro(context, std::shared_ptr<PnsDendro>(dendro, pns_dendro_free), request.path, types, names);
}

//! Labels given as a MAP or a STRUCT, as a JSON object of strings.
string DendroLabelsJson(const Value &value, const string &argument) {
	vector<string> parts;
	auto add = [&](const string &key, const Value &child) {
		if (child.IsNull()) {
			throw BinderException("%s: the value of \"%s\" is NULL", argument, key);
		}
		parts.push_back(QuoteJson(key) + ":" + QuoteJson(child.ToString()));
	};
	if (value.IsNull()) {
		throw BinderException("%s is NULL", argument);
	}
	switch (value.type().id()) {
	case LogicalTypeId::STRUCT: {
		auto &children = StructValue::GetChildren(value);
		for (idx_t i = 0; i < children.size(); i++) {
			add(StructType::GetChildName(value.type(), i).GetIdentifierName(), children[i]);
		}
		break;
	}
	case LogicalTypeId::MAP:
		for (auto &entry : MapValue::GetChildren(value)) {
			auto &pair = StructValue::GetChildren(entry);
			add(pair[0].ToString(), pair[1]);
		}
		break;
	default:
		throw BinderException("%s is a MAP or a STRUCT of texts, for example {'host': 'web-01'}, not %s", argument,
		                      value.type().ToString());
	}
	return "{" + StringUtil::Join(parts, ",") + "}";
}

static unique_ptr<FunctionData> DendroBind(ClientContext &context, TableFunctionBindInput &input,
                                           vector<LogicalType> &types, vector<Identifier> &names) {
	if (input.inputs[0].IsNull()) {
		throw BinderException("read_dendro: the path is NULL");
	}
	DendroRequest request;
	request.path = StringValue::Get(input.inputs[0]);
	vector<string> parts;
	string index_function;
	optional_ptr<const Value> index_argument;
	for (auto &entry : input.named_parameters) {
		auto &name = entry.first;
		auto &value = entry.second;
		if (name == "index_argument") {
			// NULL is an argument like any other
			index_argument = value;
			continue;
		}
		if (value.IsNull()) {
			continue;
		}
		if (name == "index_function") {
			index_function = StringValue::Get(value);
		} else if (name == "label" || name == "labels") {
			parts.push_back("\"labels\":" + DendroLabelsJson(value, "label"));
		} else if (name == "union_by_name") {
			parts.push_back(BooleanValue::Get(value.DefaultCastAs(LogicalType::BOOLEAN)) ? "\"union_by_name\":true"
			                                                                             : "\"union_by_name\":false");
		} else {
			parts.push_back(QuoteJson(StringUtil::Lower(name.GetIdentifierName())) + ":" + QuoteJson(value.ToString()));
		}
	}
	request.options = "{" + StringUtil::Join(parts, ",") + "}";
	vector<string> bound_names;
	auto result = BindDendroStream(context, request, types, bound_names);
	for (auto &name : bound_names) {
		names.push_back(Identifier(name));
	}
	if (!index_function.empty()) {
		result->index_test = DendroIndexTest::Bind(context, request.path, index_function, index_argument);
	} else if (index_argument) {
		throw BinderException("read_dendro: index_argument is what index_function is called with; name the function");
	}
	return std::move(result);
}

virtual_column_map_t DendroVirtualColumns() {
	virtual_column_map_t result;
	result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
	return result;
}

static virtual_column_map_t GetDendroVirtualColumns(ClientContext &, optional_ptr<FunctionData>) {
	return DendroVirtualColumns();
}

static optional_ptr<TableCatalogEntry> AttachedTable(optional_ptr<const FunctionData> bind_data) {
	return bind_data ? bind_data->Cast<DendroBindData>().table : nullptr;
}

static unique_ptr<NodeStatistics> DendroCardinality(ClientContext &, const FunctionData *bind_data) {
	return make_uniq<NodeStatistics>(pns_dendro_row_estimate(bind_data->Cast<DendroBindData>().dendro.get()));
}

//===--------------------------------------------------------------------===//
// Pruning
//===--------------------------------------------------------------------===//

//! Lowers every condition for pruning, and leaves them all to DuckDB's own filter.
static void DendroPushdown(ClientContext &, LogicalGet &get, FunctionData *bind_data_p,
                           vector<unique_ptr<Expression>> &filters) {
	auto &data = bind_data_p->Cast<DendroBindData>();
	auto &ids = get.GetColumnIds();
	auto name_of = [&](const Expression &reference) -> string {
		if (reference.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
			return string();
		}
		auto binding = reference.Cast<BoundColumnRefExpression>().Binding();
		if (binding.table_index != get.table_index || binding.column_index >= ids.size() ||
		    ids[binding.column_index].IsVirtualColumn() || ids[binding.column_index].HasChildren()) {
			return string();
		}
		// the core knows the columns by the segments' names, whatever the query calls them
		return data.columns.names[ids[binding.column_index].GetPrimaryIndex()];
	};
	for (auto &filter : filters) {
		if (filter->IsVolatile()) {
			continue;
		}
		auto json = ExpressionToJson(*filter, name_of);
		if (std::find(data.hints.begin(), data.hints.end(), json) != data.hints.end()) {
			continue;
		}
		PredicatePtr predicate(pns_predicate_lower(json.c_str(), json.size()));
		auto text = TakeString(pns_predicate_text(predicate.get()));
		auto reason = TakeString(pns_predicate_unknown(predicate.get()));
		if (!reason.empty()) {
			data.unknown.push_back(reason);
		}
		// scans that prune differently must not look equal to the common-subplan optimizer
		get.extra_info.file_filters += (get.extra_info.file_filters.empty() ? "" : " AND ") + text;
		data.texts.push_back(std::move(text));
		data.hints.push_back(std::move(json));
	}
}

//===--------------------------------------------------------------------===//
// Scanning
//===--------------------------------------------------------------------===//

static unique_ptr<GlobalTableFunctionState> DendroInitGlobal(ClientContext &context, TableFunctionInitInput &input) {
	auto &data = input.bind_data->Cast<DendroBindData>();
	auto result = make_uniq<DendroGlobalState>();
	unordered_map<idx_t, idx_t> slot_of;
	for (auto column : input.column_ids) {
		if (IsVirtualColumn(column)) {
			result->slots.emplace_back();
			result->table_columns.push_back(0);
			continue;
		}
		auto slot = slot_of.emplace(column, result->columns.size());
		if (slot.second) {
			result->columns.emplace_back(column);
		}
		result->slots.emplace_back(slot.first->second);
		result->table_columns.push_back(column);
	}
	string disabled;
	auto setting = GetSetting(context, "pensieve_disable_evidence");
	if (!setting.IsNull()) {
		for (auto &kind : ListValue::GetChildren(setting)) {
			disabled += (disabled.empty() ? "" : ",") + kind.ToString();
		}
	}
	auto source = data.path + " (stream \"" + data.stream + "\")";
	result->scan = ScanPtr(pns_scan_new(InstanceNumber(context), context.GetConnectionId(),
	                                    context.transaction.GetActiveQuery(), source.c_str(), disabled.c_str()));
	if (!data.unknown.empty()) {
		pns_scan_note(result->scan.get(), StringUtil::Join(data.unknown, "; ").c_str());
	}
	if (!data.hints.empty()) {
		auto json = "{\"k\":\"and\",\"args\":[" + StringUtil::Join(data.hints, ",") + "]}";
		result->fixed = PredicatePtr(pns_predicate_lower(json.c_str(), json.size()));
	}
	auto strict = GetSetting(context, "pensieve_strict");
	PnsDendroScan *segments = nullptr;
	char *error = nullptr;
	Check(pns_dendro_start(data.dendro.get(), result->scan.get(), disabled.c_str(), result->fixed.get(),
	                       !strict.IsNull() && BooleanValue::Get(strict), &segments, &error),
	      error);
	result->segments = DendroScanPtr(segments);
	if (data.index_test && pns_scan_uses(result->scan.get(), "caller_index")) {
		data.index_test->Prune(context, data.path, segments, result->scan.get());
	}
	result->count = pns_dendro_scan_count(segments);
	return std::move(result);
}

static unique_ptr<LocalTableFunctionState> DendroInitLocal(ExecutionContext &, TableFunctionInitInput &,
                                                           GlobalTableFunctionState *) {
	return make_uniq<DendroLocalState>();
}

//! Moves to the next block with candidate rows, opening segments as they come; false at the end.
static bool NextBlock(ClientContext &context, DendroGlobalState &state, DendroLocalState &local) {
	char *error = nullptr;
	while (true) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		local.batch.reset();
		local.stream.reset();
		if (!local.reader || local.next_block >= local.blocks) {
			if (local.reader) {
				local.reader.reset();
				state.done++;
			}
			auto segment = state.next++;
			if (segment >= state.count) {
				return false;
			}
			local.segment = segment;
			PnsReader *reader = nullptr;
			Check(pns_dendro_scan_open(state.segments.get(), segment, &reader, &error), error);
			local.reader = ReaderPtr(reader);
			local.blocks = pns_reader_block_count(reader);
			local.next_block = 0;
			continue;
		}
		auto block = local.next_block++;
		auto scan = state.scan.get();
		auto reader = local.reader.get();
		if (pns_scan_claim(scan, reader, block, state.fixed.get(), nullptr) == 0) {
			continue;
		}
		auto ranges = CandidateRanges(scan, reader, block, state.fixed.get());
		local.rows = 0;
		local.offset = 0;
		for (idx_t i = 0; i < ranges.size(); i += 2) {
			local.rows += ranges[i + 1] - ranges[i];
		}
		if (local.rows == 0) {
			continue;
		}
		if (!state.columns.empty()) {
			local.stream = make_uniq<BatchStream>(scan, reader, block, state.columns, ranges);
		}
		return true;
	}
}

static void DendroScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &data = input.bind_data->Cast<DendroBindData>();
	auto &state = input.global_state->Cast<DendroGlobalState>();
	auto &local = input.local_state->Cast<DendroLocalState>();
	if (local.rows == 0 && !NextBlock(context, state, local)) {
		output.SetChildCardinality(0);
		return;
	}
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, local.rows);
	if (local.stream) {
		if (!local.batch || local.offset >= local.batch->RowCount()) {
			local.batch = local.stream->Next(context);
			local.offset = 0;
			if (!local.batch) {
				throw InternalException("pensieve: \"%s\" has fewer rows than were asked for", data.path);
			}
		}
		count = MinValue<idx_t>(count, local.batch->RowCount() - local.offset);
	}
	for (idx_t i = 0; i < state.slots.size(); i++) {
		if (!state.slots[i].IsValid()) {
			output.data[i].Reference(Value(output.data[i].GetType()), count_t(count));
			continue;
		}
		local.batch->Convert(state.slots[i].GetIndex(), data.columns, state.table_columns[i], local.offset, count,
		                     output.data[i]);
	}
	local.offset += count;
	local.rows -= count;
	output.SetChildCardinality(count);
}

static OperatorPartitionData DendroPartition(ClientContext &, TableFunctionGetPartitionInput &input) {
	if (input.partition_info.RequiresPartitionColumns()) {
		throw InternalException("read_dendro has no partition columns");
	}
	return OperatorPartitionData(input.local_state->Cast<DendroLocalState>().segment);
}

static double DendroProgress(ClientContext &, const FunctionData *, const GlobalTableFunctionState *state_p) {
	auto &state = state_p->Cast<DendroGlobalState>();
	return state.count == 0 ? 100.0 : 100.0 * static_cast<double>(state.done.load()) / static_cast<double>(state.count);
}

static InsertionOrderPreservingMap<string> DendroToString(TableFunctionToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	result["Function"] = "READ_DENDRO";
	if (!input.bind_data) {
		return result;
	}
	auto &data = input.bind_data->Cast<DendroBindData>();
	result["Archive"] = data.path;
	result["Stream"] = data.stream;
	result["Segments"] = std::to_string(pns_dendro_segment_count(data.dendro.get()));
	if (data.index_test) {
		result["Tests indexes by"] = data.index_test->ToString();
	}
	if (!data.texts.empty()) {
		result["Prunes by"] = StringUtil::Join(data.texts, " AND ");
	}
	if (!data.unknown.empty()) {
		result["Cannot prune by"] = StringUtil::Join(data.unknown, "; ");
	}
	return result;
}

static void DendroMetrics(TableFunctionGetMetricsInput &input) {
	if (!input.global_state) {
		return;
	}
	AddScanMetrics(input.global_state->Cast<DendroGlobalState>().scan.get(), input);
}

TableFunction GetDendroScanFunction() {
	TableFunction function(Identifier("read_dendro"),
	                       FunctionSignature().AddPositionalOnly("path", LogicalType::VARCHAR), DendroScan, DendroBind,
	                       DendroInitGlobal, DendroInitLocal);
	function.GetSignature().WithTypedKwargs("options", [](TypedKwargs &options) {
		options.Add("source", LogicalType::ANY)
		    .Add("stream", LogicalType::VARCHAR)
		    .Add("label", LogicalType::ANY)
		    .Add("labels", LogicalType::ANY)
		    .Add("union_by_name", LogicalType::BOOLEAN)
		    .Add("ts_column", LogicalType::VARCHAR)
		    .Add("index_function", LogicalType::VARCHAR)
		    .Add("index_argument", LogicalType::ANY);
	});
	function.projection_pushdown = true;
	function.pushdown_complex_filter = DendroPushdown;
	function.cardinality = DendroCardinality;
	function.get_partition_data = DendroPartition;
	function.get_virtual_columns = GetDendroVirtualColumns;
	function.get_table_entry = AttachedTable;
	function.table_scan_progress = DendroProgress;
	function.to_string = DendroToString;
	function.get_metrics = DendroMetrics;
	return function;
}

//===--------------------------------------------------------------------===//
// Listings
//===--------------------------------------------------------------------===//

namespace {

struct DendroListingInfo : public TableFunctionInfo {
	explicit DendroListingInfo(string name_p) : name(std::move(name_p)) {
	}
	string name;
};

struct DendroListingData : public TableFunctionData {
	string name;
	string path;
	ArrowColumns columns;

	bool SupportStatementCache() const override {
		return false;
	}
};

struct DendroListingState : public GlobalTableFunctionState {
	DendroListingPtr listing;
	vector<column_t> columns;
	unique_ptr<ArrowBatch> batch;
	idx_t offset = 0;
};

} // namespace

static unique_ptr<FunctionData> DendroListingBind(ClientContext &context, TableFunctionBindInput &input,
                                                  vector<LogicalType> &types, vector<Identifier> &names) {
	auto result = make_uniq<DendroListingData>();
	result->name = input.info->Cast<DendroListingInfo>().name;
	if (input.inputs[0].IsNull()) {
		throw BinderException("%s: the path is NULL", result->name);
	}
	result->path = DendroPath(context, StringValue::Get(input.inputs[0]));
	ArrowSchemaWrapper schema;
	char *error = nullptr;
	Check(pns_dendro_listing_schema(result->name.c_str(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema),
	                                &error),
	      error);
	result->columns = ReadArrowSchema(context, schema, result->name);
	types = result->columns.types;
	for (auto &name : result->columns.names) {
		names.push_back(Identifier(name));
	}
	return std::move(result);
}

static unique_ptr<GlobalTableFunctionState> DendroListingInit(ClientContext &, TableFunctionInitInput &input) {
	auto &data = input.bind_data->Cast<DendroListingData>();
	auto result = make_uniq<DendroListingState>();
	result->columns = input.column_ids;
	auto with_index = false;
	for (auto column : input.column_ids) {
		with_index = with_index || (!IsVirtualColumn(column) && data.columns.names[column] == "caller_index");
	}
	PnsDendroListing *listing = nullptr;
	char *error = nullptr;
	Check(pns_dendro_listing(data.name.c_str(), data.path.c_str(), with_index, &listing, &error), error);
	result->listing = DendroListingPtr(listing);
	return std::move(result);
}

static bool NextRows(ClientContext &context, DendroListingState &state) {
	if (context.IsInterrupted()) {
		throw InterruptException();
	}
	auto array = make_shared_ptr<ArrowArrayWrapper>();
	int more = 0;
	char *error = nullptr;
	Check(pns_dendro_listing_next(state.listing.get(), reinterpret_cast<::ArrowArray *>(&array->arrow_array), &more,
	                              &error),
	      error);
	if (more == 0) {
		return false;
	}
	state.batch = make_uniq<ArrowBatch>(context, std::move(array));
	state.offset = 0;
	return true;
}

static void DendroListingScan(ClientContext &context, TableFunctionInput &input, DataChunk &output) {
	auto &data = input.bind_data->Cast<DendroListingData>();
	auto &state = input.global_state->Cast<DendroListingState>();
	while (!state.batch || state.offset >= state.batch->RowCount()) {
		if (!NextRows(context, state)) {
			output.SetChildCardinality(0);
			return;
		}
	}
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, state.batch->RowCount() - state.offset);
	for (idx_t i = 0; i < output.ColumnCount(); i++) {
		auto column = state.columns[i];
		if (IsVirtualColumn(column)) {
			output.data[i].Reference(Value(output.data[i].GetType()), count_t(count));
			continue;
		}
		state.batch->Convert(column, data.columns, column, state.offset, count, output.data[i]);
	}
	state.offset += count;
	output.SetChildCardinality(count);
}

//===--------------------------------------------------------------------===//
// Registration
//===--------------------------------------------------------------------===//

static unique_ptr<TableRef> ReplaceDendroPath(ClientContext &context, ReplacementScanInput &input,
                                              optional_ptr<ReplacementScanData>) {
	auto path = ReplacementScan::GetFullPath(input);
	if (!ReplacementScan::CanReplace(path, {"dendro"})) {
		return nullptr;
	}
	auto result = make_uniq<TableFunctionRef>();
	vector<unique_ptr<ParsedExpression>> arguments;
	arguments.push_back(ConstantExpression::String(path));
	result->function = make_uniq<FunctionExpression>("read_dendro", std::move(arguments));
	if (!FileSystem::HasGlob(path)) {
		result->alias = Identifier(FileSystem::GetFileSystem(context).ExtractBaseName(path));
	}
	return std::move(result);
}

void RegisterDendro(ExtensionLoader &loader) {
	loader.RegisterFunction(GetDendroScanFunction());
	for (auto name : {"dendro_sources", "dendro_streams", "dendro_segments", "dendro_events", "dendro_clock_offsets",
	                  "dendro_caller_rows", "dendro_documents"}) {
		TableFunction function(Identifier(name), FunctionSignature().AddPositionalOnly("path", LogicalType::VARCHAR),
		                       DendroListingScan, DendroListingBind, DendroListingInit);
		function.function_info = make_shared_ptr<DendroListingInfo>(name);
		function.projection_pushdown = true;
		function.get_virtual_columns = GetDendroVirtualColumns;
		loader.RegisterFunction(std::move(function));
	}
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	config.replacement_scans.emplace_back(ReplaceDendroPath);
	config.AddExtensionOption(
	    "pensieve_strict",
	    "Whether data that cannot be read (rows of a dendro archive that are not sealed) is an error "
	    "instead of a note in pensieve_last_scan()",
	    LogicalType::BOOLEAN, Value::BOOLEAN(false));
	RegisterDendroCopy(loader);
}

} // namespace pensieve
