// read_tlm and its siblings: the multi-file interface, filter pushdown, EXPLAIN, and registration.
#include "arrow_blocks.hpp"
#include "scan.hpp"

#include "duckdb/function/replacement_scan.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/database.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace pensieve {

unique_ptr<FunctionData> ExtentBindData::Copy() const {
	auto result = make_uniq<ExtentBindData>();
	result->options = options;
	result->hints = hints;
	result->explain = explain;
	result->explain_unknown = explain_unknown;
	result->order = order;
	result->files_ordered = files_ordered;
	result->skipped_blocks = skipped_blocks;
	result->initial_rows = initial_rows;
	result->listed_files = listed_files;
	result->store_files = store_files;
	return std::move(result);
}

ExtentInterface::ExtentInterface(string format_p) : format(std::move(format_p)) {
}

unique_ptr<MultiFileReaderInterface> ExtentInterface::CreateInterface(ClientContext &) {
	return make_uniq<ExtentInterface>("");
}

unique_ptr<BaseFileReaderOptions> ExtentInterface::InitializeOptions(ClientContext &context,
                                                                     optional_ptr<TableFunctionInfo>) {
	auto result = make_uniq<ExtentOptions>();
	result->format = format;
	// a setting of DuckDB's Parquet reader
	auto text = GetSetting(context, "binary_as_string");
	result->binary_as_string = !text.IsNull() && BooleanValue::Get(text);
	return std::move(result);
}

bool ExtentInterface::ParseCopyOption(ClientContext &, const Identifier &key, const vector<Value> &,
                                      BaseFileReaderOptions &, vector<Identifier> &, vector<LogicalType> &) {
	// options that COPY TO understands and reading has no use for, so that one option list serves both directions
	return key == "compression" || key == "rows_per_block" || key == "dictionary" || key == "magic";
}

bool ExtentInterface::ParseOption(ClientContext &, const Identifier &key, const Value &value, MultiFileOptions &,
                                  BaseFileReaderOptions &options_p) {
	auto &options = options_p.Cast<ExtentOptions>();
	if (value.IsNull()) {
		throw BinderException("Cannot use NULL as argument to %s", key);
	}
	if (key == "binary_as_string") {
		options.binary_as_string = BooleanValue::Get(value);
		return true;
	}
	if (key == "explicit_cardinality") {
		options.explicit_cardinality = UBigIntValue::Get(value);
		return true;
	}
	if (key == "encryption_config") {
		throw NotImplementedException("encryption_config: encrypted Parquet files are not read as extents; read them "
		                              "with read_parquet, or write them again without encryption");
	}
	// what the file says decides (compression), nothing is assumed about NaN anyway (can_have_nan), there is one way,
	// or it is for DuckDB itself, of which 2.0.0 does not know it yet (maximum_files_for_stats)
	return key == "compression" || key == "maximum_files_for_stats" || key == "can_have_nan" ||
	       key == "prefetch_strategy" || key == "debug_use_openssl";
}

unique_ptr<TableFunctionData> ExtentInterface::InitializeBindData(MultiFileBindData &,
                                                                  unique_ptr<BaseFileReaderOptions> options) {
	auto result = make_uniq<ExtentBindData>();
	result->options = options->Cast<ExtentOptions>();
	return std::move(result);
}

void ExtentInterface::BindReader(ClientContext &context, vector<LogicalType> &return_types, vector<Identifier> &names,
                                 MultiFileBindData &bind_data) {
	auto &options = bind_data.bind_data->Cast<ExtentBindData>().options;
	bind_data.reader_bind = bind_data.multi_file_reader->BindReader(context, return_types, names, *bind_data.file_list,
	                                                                bind_data, options, bind_data.file_options);
}

void ExtentInterface::FinalizeBindData(MultiFileBindData &multi_file_data) {
	if (multi_file_data.initial_reader) {
		auto &data = multi_file_data.bind_data->Cast<ExtentBindData>();
		data.initial_rows = multi_file_data.initial_reader->Cast<ExtentReader>().row_count;
	}
}

optional_idx ExtentInterface::MaxThreads(const MultiFileBindData &bind_data, const MultiFileGlobalState &global_state,
                                         FileExpandResult expand_result) {
	if (expand_result == FileExpandResult::MULTIPLE_FILES || global_state.readers.empty() ||
	    !global_state.readers[0]->reader) {
		return optional_idx();
	}
	auto &reader = global_state.readers[0]->reader->Cast<ExtentReader>();
	return MaxValue<idx_t>(1, pns_reader_block_count(reader.reader.get()));
}

bool ReadsFileColumn(const MultiFileBindData &bind_data, idx_t column) {
	if (column >= bind_data.names.size() || bind_data.IsGeneratedColumn(column) ||
	    bind_data.reader_bind.mapping != MultiFileColumnMappingMode::BY_NAME) {
		return false;
	}
	auto &schema = bind_data.reader_bind.schema;
	if (column >= schema.size()) {
		return schema.empty();
	}
	return schema[column].name == bind_data.names[column] &&
	       schema[column].GetIdentifierName() == schema[column].name.GetIdentifierName();
}

//! Tells a reader what the plan knows beyond its own filters.
static void Attach(ExtentReader &reader, const MultiFileBindData &bind_data) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	reader.hints.clear();
	for (auto &hint : data.hints) {
		// a hint speaks of the scan's columns by name: it is one about the file's where those are the same and so are
		// they called
		auto usable = true;
		for (auto column : hint.columns) {
			auto own = FileColumn(bind_data, reader, column);
			usable = usable && own.IsValid() &&
			         reader.arrow.names[own.GetIndex()] == bind_data.names[column].GetIdentifierName();
		}
		if (usable) {
			reader.hints.push_back(hint.json);
		}
	}
	reader.order = data.order;
	reader.skipped_blocks = data.skipped_blocks;
	reader.order_column = optional_idx();
	if (data.order) {
		reader.order_column = FileColumn(bind_data, reader, data.order->column_idx.GetPrimaryIndex());
	}
}

string DisabledEvidence(ClientContext &context) {
	auto disabled = GetSetting(context, "pensieve_disable_evidence");
	string result;
	if (!disabled.IsNull()) {
		for (auto &kind : ListValue::GetChildren(disabled)) {
			result += (result.empty() ? "" : ",") + kind.ToString();
		}
	}
	return result;
}

unique_ptr<GlobalTableFunctionState> ExtentInterface::InitializeGlobalState(ClientContext &context,
                                                                            MultiFileBindData &bind_data,
                                                                            MultiFileGlobalState &global_state) {
	auto result = make_uniq<ExtentGlobalState>();
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto disabled_text = DisabledEvidence(context);
	auto files = global_state.file_list.GetDisplayFileList(2);
	auto source = files.empty() ? string() : files[0].path + (files.size() > 1 ? ", …" : "");
	result->scan = ScanPtr(pns_scan_new(InstanceNumber(context), context.GetConnectionId(),
	                                    context.transaction.GetActiveQuery(), source.c_str(), disabled_text.c_str()));
	auto prefetch = GetSetting(context, "pensieve_prefetch_bytes");
	result->prefetch_bytes = prefetch.IsNull() ? 0 : UBigIntValue::Get(prefetch.DefaultCastAs(LogicalType::UBIGINT));
	auto remaining = global_state.file_list.GetTotalFileCount();
	if (data.store_files) {
		CountStoreFiles(result->scan.get(), *data.store_files, remaining);
	}
	if (!data.store_files) {
		auto listed = MaxValue<idx_t>(data.listed_files, remaining);
		pns_scan_files(result->scan.get(), listed, listed - remaining, "partition");
	}
	if (!data.explain_unknown.empty()) {
		pns_scan_note(result->scan.get(), data.explain_unknown.c_str());
	}
	for (auto &entry : global_state.readers) {
		if (entry && entry->reader) {
			Attach(entry->reader->Cast<ExtentReader>(), bind_data);
		}
	}
	return std::move(result);
}

unique_ptr<LocalTableFunctionState> ExtentInterface::InitializeLocalState(ClientContext &, GlobalTableFunctionState &) {
	return make_uniq<ExtentLocalState>();
}

shared_ptr<BaseFileReader> ExtentInterface::CreateReader(ClientContext &context, GlobalTableFunctionState &,
                                                         BaseUnionData &union_data,
                                                         const MultiFileBindData &bind_data) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto result = make_shared_ptr<ExtentReader>(context, union_data.file, data.options);
	Attach(*result, bind_data);
	return std::move(result);
}

shared_ptr<BaseFileReader> ExtentInterface::CreateReader(ClientContext &context, GlobalTableFunctionState &,
                                                         const OpenFileInfo &file, idx_t,
                                                         const MultiFileBindData &bind_data) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto result = make_shared_ptr<ExtentReader>(context, file, data.options,
	                                            data.store_files ? JsonColumns(*data.store_files) : vector<string>());
	Attach(*result, bind_data);
	return std::move(result);
}

shared_ptr<BaseFileReader> ExtentInterface::CreateReader(ClientContext &context, const OpenFileInfo &file,
                                                         BaseFileReaderOptions &options, const MultiFileOptions &) {
	return make_shared_ptr<ExtentReader>(context, file, options.Cast<ExtentOptions>());
}

unique_ptr<NodeStatistics> ExtentInterface::GetCardinality(const MultiFileBindData &bind_data, idx_t file_count) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto rows = data.initial_rows;
	if (data.options.explicit_cardinality > 0) {
		return make_uniq<NodeStatistics>(data.options.explicit_cardinality);
	}
	// a LIMIT above the largest number of rows there can be is left out: that number is known of the file that was
	// opened, which need not be the one that is left of several
	auto opened = bind_data.initial_reader && file_count == 1 &&
	              bind_data.initial_reader->GetFileName() == bind_data.file_list->GetFirstFile().path;
	if (opened) {
		return make_uniq<NodeStatistics>(rows, rows);
	}
	return make_uniq<NodeStatistics>(MaxValue<idx_t>(rows, 1) * file_count);
}

void ExtentInterface::GetVirtualColumns(ClientContext &, MultiFileBindData &, virtual_column_map_t &result) {
	result.insert(make_pair(MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER,
	                        TableColumn("file_row_number", LogicalType::BIGINT)));
}

unique_ptr<MultiFileReaderInterface> ExtentInterface::Copy() {
	return make_uniq<ExtentInterface>(format);
}

FileGlobInput ExtentInterface::GetGlobInput() {
	return FileGlobInput(FileGlobOptions::FALLBACK_GLOB, format == "parquet" ? "parquet" : "tlm");
}

bool ExtentInterface::SupportsReadAhead(const MultiFileBindData &bind_data) const {
	if (bind_data.bind_data->Cast<ExtentBindData>().order) {
		return false;
	}
	return IsRemote(bind_data.file_list->GetFirstFile().path);
}

//===--------------------------------------------------------------------===//
// Pushdown and EXPLAIN
//===--------------------------------------------------------------------===//

static void ComplexFilterPushdown(ClientContext &context, LogicalGet &get, FunctionData *bind_data_p,
                                  vector<unique_ptr<Expression>> &filters) {
	auto &bind_data = bind_data_p->Cast<MultiFileBindData>();
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	if (data.listed_files == 0 && !data.store_files) {
		data.listed_files = bind_data.file_list->GetTotalFileCount();
	}
	ExtentScanFunction::MultiFileComplexFilterPushdown(context, get, bind_data_p, filters);
	vector<string> texts;
	vector<string> unknown;
	vector<string> conjuncts;
	for (auto &filter : filters) {
		Hint hint;
		unordered_set<idx_t> columns;
		auto plain = true;
		ExpressionIterator::VisitExpression<BoundColumnRefExpression>(
		    *filter, [&](const BoundColumnRefExpression &reference) {
			    auto &ids = get.GetColumnIds();
			    auto index = reference.Binding().column_index;
			    auto virtual_column = index >= ids.size() || ids[index].IsVirtualColumn();
			    if (virtual_column) {
				    // DuckDB 2.0.0 copies the filters of such a scan by the type of a real column and stops with an
				    // internal error
				    get.function.late_materialization = false;
			    }
			    if (reference.Binding().table_index != get.table_index || virtual_column || ids[index].HasChildren()) {
				    plain = false;
				    return;
			    }
			    auto column = ids[index].GetPrimaryIndex();
			    if (!ReadsFileColumn(bind_data, column)) {
				    plain = false;
				    return;
			    }
			    if (columns.insert(column).second) {
				    hint.columns.push_back(column);
			    }
		    });
		if (!plain) {
			continue;
		}
		hint.json = ExpressionToJson(*filter, [&](const Expression &reference) -> string {
			if (reference.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
				return string();
			}
			auto index = reference.Cast<BoundColumnRefExpression>().Binding().column_index;
			// not the names of `get`: those may be aliases
			return bind_data.names[get.GetColumnIds()[index].GetPrimaryIndex()].GetIdentifierName();
		});
		conjuncts.push_back(hint.json);
		PredicatePtr predicate(pns_predicate_lower(hint.json.c_str(), hint.json.size()));
		texts.push_back(TakeString(pns_predicate_text(predicate.get())));
		auto reason = TakeString(pns_predicate_unknown(predicate.get()));
		if (!reason.empty()) {
			unknown.push_back(reason);
		}
		if (columns.size() > 1 && pns_predicate_prunes(predicate.get())) {
			// one-column conjuncts come back as table filters; these would not
			data.hints.push_back(std::move(hint));
			// scans that prune differently must not look equal to the common-subplan optimizer
			get.extra_info.file_filters += (get.extra_info.file_filters.empty() ? "" : " AND ") + texts.back();
		}
	}
	if (texts.size() > 1) {
		for (auto &text : texts) {
			text = StringUtil::Contains(text, " OR ") ? "(" + text + ")" : text;
		}
	}
	auto by_index = false;
	for (auto &id : get.GetColumnIds()) {
		by_index = by_index || id.GetPrimaryIndex() == MultiFileReader::COLUMN_IDENTIFIER_FILE_INDEX;
	}
	if (!by_index) {
		// the number of an extent among all is not known of a list that the catalog has shortened
		PruneByCatalog(context, bind_data, conjuncts);
	}
	data.explain = StringUtil::Join(texts, " AND ");
	data.explain_unknown = StringUtil::Join(unknown, "; ");
}

static bool PushdownExpression(ClientContext &, const LogicalGet &, Expression &) {
	// the scan applies every single-column filter exactly, with DuckDB's own executor
	return true;
}

//! Also of the row numbers of one file, which DuckDB does not ask the reader for.
static unique_ptr<BaseStatistics> ScanStatistics(ClientContext &context, TableFunctionGetStatisticsInput &input) {
	auto &bind_data = input.bind_data->Cast<MultiFileBindData>();
	if (input.column_index.GetPrimaryIndex() != MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER) {
		return ExtentScanFunction::MultiFileScanStatsExtended(context, input);
	}
	if (!bind_data.initial_reader || bind_data.file_list->GetExpandResult() == FileExpandResult::MULTIPLE_FILES) {
		return nullptr;
	}
	return bind_data.initial_reader->GetVirtualColumnStatistics(context,
	                                                            MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER);
}

static InsertionOrderPreservingMap<string> ScanToString(TableFunctionToStringInput &input) {
	InsertionOrderPreservingMap<string> result;
	result["Function"] = StringUtil::Upper(input.table_function.GetName().GetIdentifierName());
	if (!input.bind_data) {
		return result;
	}
	auto &bind_data = input.bind_data->Cast<MultiFileBindData>();
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	result["Files"] = std::to_string(bind_data.file_list->GetTotalFileCount());
	if (data.store_files) {
		result["Table"] = DescribeStoreFiles(*data.store_files);
	}
	if (!data.options.format.empty()) {
		result["Format"] = data.options.format;
	}
	if (!data.explain.empty()) {
		result["Prunes by"] = data.explain;
	}
	if (!data.explain_unknown.empty()) {
		result["Cannot prune by"] = data.explain_unknown;
	}
	return result;
}

static void ScanMetrics(TableFunctionGetMetricsInput &input) {
	ExtentScanFunction::MultiFileGetMetrics(input);
	if (!input.global_state) {
		return;
	}
	auto &state = input.global_state->Cast<MultiFileGlobalState>();
	if (!state.global_state) {
		return;
	}
	AddScanMetrics(state.global_state->Cast<ExtentGlobalState>().scan.get(), input);
}

//===--------------------------------------------------------------------===//
// Registration
//===--------------------------------------------------------------------===//

struct ReadFunctionInfo : public TableFunctionInfo {
	explicit ReadFunctionInfo(string format_p) : format(std::move(format_p)) {
	}
	string format;
};

static unique_ptr<FunctionData> ReadBind(ClientContext &context, TableFunctionBindInput &input,
                                         vector<LogicalType> &return_types, vector<Identifier> &names) {
	auto &info = input.info->Cast<ReadFunctionInfo>();
	return ExtentScanFunction::MultiFileBindInterface(context, input, return_types, names,
	                                                  make_uniq<ExtentInterface>(info.format));
}

static unique_ptr<GlobalTableFunctionState> ScanInitGlobal(ClientContext &context, TableFunctionInitInput &input) {
	if (!input.filters || !FiltersByFileIndex(input.column_indexes, *input.filters)) {
		OrderFiles(context, input.bind_data->CastNoConst<MultiFileBindData>());
	}
	auto result = ExtentScanFunction::MultiFileInitGlobal(context, input);
	auto &state = result->Cast<MultiFileGlobalState>();
	if (input.sample_options && state.global_state) {
		SetSample(context, *input.sample_options, state.global_state->Cast<ExtentGlobalState>().sample);
	}
	return result;
}

//! The files and rows of one scan do not move while a query runs: their places are row ids.
static vector<column_t> RowIdColumns(ClientContext &, optional_ptr<FunctionData>) {
	return {MultiFileReader::COLUMN_IDENTIFIER_FILE_INDEX, MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER};
}

TableFunctionSet GetReadFunction(const string &name, const string &format) {
	ExtentScanFunction function {Identifier(name)};
	function.bind = ReadBind;
	function.function_info = make_shared_ptr<ReadFunctionInfo>(format);
	function.init_global = ScanInitGlobal;
	function.get_multi_file_reader = ExtentFileReader::Create;
	function.get_partition_stats = ScanPartitionStats;
	function.set_scan_order = ScanSetOrder;
	function.filter_pushdown = true;
	function.filter_prune = true;
	function.pushdown_complex_filter = ComplexFilterPushdown;
	function.pushdown_expression = PushdownExpression;
	function.statistics_extended = ScanStatistics;
	function.to_string = ScanToString;
	function.get_metrics = ScanMetrics;
	function.late_materialization = true;
	function.get_row_id_columns = RowIdColumns;
	function.GetSignature().ExtendTypedKwargs([](TypedKwargs &options) {
		// the options of read_parquet, so that one can be exchanged for the other
		options.Add("binary_as_string", LogicalType::BOOLEAN)
		    .Add("can_have_nan", LogicalType::BOOLEAN)
		    .Add("compression", LogicalType::VARCHAR)
		    .Add("debug_use_openssl", LogicalType::BOOLEAN)
		    .Add("encryption_config", LogicalTypeId::ANY)
		    .Add("explicit_cardinality", LogicalType::UBIGINT)
		    .Add("maximum_files_for_stats", LogicalType::UBIGINT)
		    .Add("prefetch_strategy", LogicalType::VARCHAR)
		    .Add("bound_schema", LogicalType::ANY);
	});
	return MultiFileReader::CreateFunctionSet(std::move(function));
}

static unique_ptr<TableRef> ReplaceExtentPath(ClientContext &context, ReplacementScanInput &input,
                                              optional_ptr<ReplacementScanData>) {
	auto path = ReplacementScan::GetFullPath(input);
	if (!ReplacementScan::CanReplace(path, {"tlm", "pensieve", "pnsv", "kyma"})) {
		return nullptr;
	}
	auto result = make_uniq<TableFunctionRef>();
	vector<unique_ptr<ParsedExpression>> arguments;
	arguments.push_back(ConstantExpression::String(path));
	result->function = make_uniq<FunctionExpression>("read_tlm", std::move(arguments));
	if (!FileSystem::HasGlob(path)) {
		result->alias = Identifier(FileSystem::GetFileSystem(context).ExtractBaseName(path));
	}
	return std::move(result);
}

void RegisterScan(ExtensionLoader &loader) {
	loader.RegisterFunction(GetReadFunction("read_tlm", "tlm"));
	loader.RegisterFunction(GetReadFunction("read_extent", ""));
	RegisterSample(loader);
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	config.replacement_scans.emplace_back(ReplaceExtentPath);
}

static void SetMetadataCache(ClientContext &, SetScope, Value &value) {
	pns_set_metadata_cache_bytes(UBigIntValue::Get(value.DefaultCastAs(LogicalType::UBIGINT)));
}

static void CheckWriteFormat(ClientContext &, SetScope, Value &value) {
	auto text = StringUtil::Lower(value.ToString());
	if (text != "tlm" && text != "parquet") {
		throw InvalidInputException("pensieve_write_format is 'tlm' or 'parquet', not '%s'", value.ToString());
	}
	value = Value(text);
}

static void CheckBlockBytes(ClientContext &, SetScope, Value &value) {
	auto bytes = UBigIntValue::Get(value.DefaultCastAs(LogicalType::UBIGINT));
	if (bytes == 0 || bytes > MAX_BYTES_PER_BLOCK) {
		throw InvalidInputException("pensieve_block_bytes is between 1 and %llu (1 GiB), not %llu", MAX_BYTES_PER_BLOCK,
		                            bytes);
	}
}

void RegisterSettings(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	auto environment = getenv("PENSIEVE_WRITE_FORMAT");
	config.AddExtensionOption("pensieve_write_format", "Format of new extents: 'tlm' or 'parquet'",
	                          LogicalType::VARCHAR, Value(environment ? environment : "tlm"), CheckWriteFormat);
	config.AddExtensionOption("pensieve_block_rows", "Rows of a block written by COPY and INSERT", LogicalType::UBIGINT,
	                          Value::UBIGINT(122880));
	config.AddExtensionOption("pensieve_block_bytes",
	                          "Bytes of decoded values of a block written by COPY and INSERT, at most",
	                          LogicalType::UBIGINT, Value::UBIGINT(DEFAULT_BYTES_PER_BLOCK), CheckBlockBytes);
	config.AddExtensionOption("pensieve_prefetch_bytes",
	                          "Bytes of blocks that a scan of an object store reads ahead of decoding",
	                          LogicalType::UBIGINT, Value::UBIGINT(256ULL << 20));
	config.AddExtensionOption("pensieve_metadata_cache_bytes", "Memory for cached footers and statistics of extents",
	                          LogicalType::UBIGINT, Value::UBIGINT(256ULL << 20), SetMetadataCache);
	config.AddExtensionOption(
	    "pensieve_disable_evidence",
	    "Kinds of evidence the scan ignores, for debugging and for measuring: time, minmax, bloom, "
	    "page_index, dynamic_filter, caller_index",
	    LogicalType::LIST(LogicalType::VARCHAR), Value(LogicalType::LIST(LogicalType::VARCHAR)));
}

} // namespace pensieve
