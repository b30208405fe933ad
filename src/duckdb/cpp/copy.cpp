// COPY … TO (FORMAT tlm | pensieve_parquet): DuckDB's chunks become Arrow blocks, which the core encodes and appends.
#include "arrow_blocks.hpp"
#include "copy.hpp"
#include "scan.hpp"

#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/common/type_visitor.hpp"
#include "duckdb/common/types/column/column_data_collection.hpp"
#include "duckdb/function/copy_function.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"

namespace pensieve {

namespace {

struct CopyInfoFormat : public CopyFunctionInfo {
	explicit CopyInfoFormat(string format_p) : format(std::move(format_p)) {
	}
	string format;
};

struct ExtentCopyGlobalState : public GlobalFunctionData {
	WriterPtr writer;
	mutex lock;
	//! Rows of threads that ended with less than half a block.
	unique_ptr<ColumnDataCollection> remainder;
	//! Of the rows in `remainder`.
	idx_t remainder_bytes = 0;
	string path;
	idx_t rows = 0;
	idx_t blocks = 0;
	//! Filled when the file is complete.
	optional_ptr<CopyFunctionFileStatistics> statistics;
};

struct ExtentCopyLocalState : public LocalFunctionData {
	ExtentCopyLocalState(ClientContext &context, const vector<LogicalType> &types)
	    : buffer(make_uniq<ColumnDataCollection>(context, types)) {
		buffer->InitializeAppend(append);
	}
	unique_ptr<ColumnDataCollection> buffer;
	ColumnDataAppendState append;
	//! Of the rows in `buffer`.
	idx_t bytes = 0;
	vector<idx_t> row_bytes;
};

struct ExtentCopyBatch : public PreparedBatchData {
	vector<pair<BlockPtr, idx_t>> blocks;
};

//! Encodes the rows as one block, or as several: where blocks are smaller than the vectors DuckDB hands over, and where
//! the rows have more bytes than a block may have.
vector<pair<BlockPtr, idx_t>> EncodeBlocks(ClientContext &context, const ExtentCopyBindData &bind_data,
                                           PnsWriter *writer, ColumnDataCollection &rows) {
	vector<pair<BlockPtr, idx_t>> result;
	idx_t parts = 1;
	auto limit = bind_data.bytes_per_block;
	if (rows.SizeInBytes() > limit) {
		// as few blocks as the limit allows, and none of them a small rest
		idx_t total = 0;
		idx_t largest = 0;
		vector<idx_t> row_bytes;
		for (auto &chunk : rows.Chunks()) {
			RowBytes(chunk, row_bytes);
			for (auto bytes : row_bytes) {
				total += bytes;
				largest = MaxValue(largest, bytes);
			}
		}
		parts = MaxValue<idx_t>(1, (total + limit - 1) / limit);
		limit = MinValue(limit, total / parts + largest);
	}
	auto max_rows = bind_data.rows_per_block < STANDARD_VECTOR_SIZE ? bind_data.rows_per_block : rows.Count();
	ArrowBlocks blocks(
	    context, bind_data.types, max_rows, limit, rows.Count() / parts + 1, [&](ArrowArray &array, idx_t count) {
		    PnsBlock *block = nullptr;
		    char *error = nullptr;
		    Check(pns_writer_encode(writer, reinterpret_cast<::ArrowArray *>(&array), &block, &error), error);
		    result.emplace_back(BlockPtr(block), count);
	    });
	for (auto &chunk : rows.Chunks()) {
		blocks.Append(chunk);
	}
	blocks.Finish();
	return result;
}

void AppendBlock(ExtentCopyGlobalState &state, BlockPtr block, idx_t rows) {
	char *error = nullptr;
	Check(pns_writer_append(state.writer.get(), block.release(), &error), error);
	state.rows += rows;
	state.blocks++;
}

//! A file that DuckDB's file system writes, for targets that are not on the local disk.
struct HostSink {
	FileSystem &fs;
	unique_ptr<FileHandle> handle;
	string path;

	template <class F>
	static char *Guard(F &&call) {
		try {
			call();
			return nullptr;
		} catch (std::exception &error) {
			return MallocMessage(ErrorData(error).RawMessage());
		} catch (...) {
			return MallocMessage("unknown error");
		}
	}
	static char *Write(void *context, const uint8_t *data, uint64_t length) {
		auto &sink = *static_cast<HostSink *>(context);
		return Guard([&]() { sink.handle->Write(const_cast<uint8_t *>(data), length); });
	}
	static char *Finish(void *context) {
		auto &sink = *static_cast<HostSink *>(context);
		return Guard([&]() {
			sink.handle->Close();
			sink.handle.reset();
		});
	}
	static void Abort(void *context) {
		auto &sink = *static_cast<HostSink *>(context);
		sink.handle.reset();
		pensieve_host_string_free(Guard([&]() { sink.fs.TryRemoveFile(sink.path); }));
	}
	static void Release(void *context) {
		delete static_cast<HostSink *>(context);
	}
};

} // namespace

Value SingleValue(const Identifier &name, const vector<Value> &values, bool null_allowed) {
	if (values.size() != 1 || (values[0].IsNull() && !null_allowed)) {
		throw BinderException("%s requires exactly one argument", StringUtil::Upper(name.GetIdentifierName()));
	}
	return values[0];
}

idx_t ParseBytes(const Identifier &name, const string &text) {
	optional_idx bytes;
	try {
		bytes = DBConfig::ParseMemoryLimit(StringUtil::CharacterIsDigit(text.empty() ? 'x' : text.back()) ? text + "B"
		                                                                                                  : text);
	} catch (std::exception &) {
		// said below, with the name of the option
	}
	if (!bytes.IsValid() || bytes.GetIndex() == 0) {
		throw BinderException("%s must be a size such as '64MB', not '%s'", StringUtil::Upper(name.GetIdentifierName()),
		                      text);
	}
	return bytes.GetIndex();
}

static string ListJson(const vector<Value> &values) {
	vector<string> parts;
	for (auto &value : values) {
		if (value.type().id() == LogicalTypeId::LIST) {
			for (auto &child : ListValue::GetChildren(value)) {
				parts.push_back(QuoteJson(child.ToString()));
			}
		} else {
			parts.push_back(QuoteJson(value.ToString()));
		}
	}
	return "[" + StringUtil::Join(parts, ",") + "]";
}

//! Columns named without a wildcard must exist.
static void CheckColumns(const vector<Value> &values, const vector<string> &names) {
	for (auto &value : values) {
		if (value.type().id() == LogicalTypeId::LIST) {
			CheckColumns(ListValue::GetChildren(value), names);
			continue;
		}
		auto name = value.ToString();
		auto is_named = [&](const string &column) { return StringUtil::CIEquals(column, name); };
		if (!StringUtil::Contains(name, "*") && std::none_of(names.begin(), names.end(), is_named)) {
			throw BinderException("BLOOM_COLUMNS names \"%s\", which is not a column; the columns are %s", name,
			                      StringUtil::Join(names, ", "));
		}
	}
}

static unique_ptr<FunctionData> CopyBind(ClientContext &context, CopyFunctionBindInput &input,
                                         const vector<Identifier> &names, const vector<LogicalType> &types) {
	auto result = make_uniq<ExtentCopyBindData>();
	auto &format = input.function_info->Cast<CopyInfoFormat>().format;
	result->types = types;
	result->names = IdentifiersToStrings(names);
	auto rows = GetSetting(context, "pensieve_block_rows");
	if (!rows.IsNull()) {
		result->rows_per_block = UBigIntValue::Get(rows.DefaultCastAs(LogicalType::UBIGINT));
	}
	auto bytes = GetSetting(context, "pensieve_block_bytes");
	if (!bytes.IsNull()) {
		result->bytes_per_block = UBigIntValue::Get(bytes.DefaultCastAs(LogicalType::UBIGINT));
	}
	auto options = "{\"format\":" + QuoteJson(format);
	for (auto &[name, values] : input.info.options) {
		if (name == "rows_per_block" || (format == "parquet" && name == "row_group_size")) {
			auto value = SingleValue(name, values).DefaultCastAs(LogicalType::BIGINT);
			if (value.IsNull() || BigIntValue::Get(value) <= 0) {
				throw BinderException("ROWS_PER_BLOCK must be at least 1");
			}
			result->rows_per_block = NumericCast<idx_t>(BigIntValue::Get(value));
		} else if (name == "bytes_per_block") {
			result->bytes_per_block = ParseBytes(name, SingleValue(name, values, false).ToString());
			if (result->bytes_per_block > MAX_BYTES_PER_BLOCK) {
				throw BinderException("BYTES_PER_BLOCK must be at most 1 GiB");
			}
		} else if (name == "compression" || name == "codec") {
			options += ",\"compression\":" + QuoteJson(StringUtil::Lower(SingleValue(name, values).ToString()));
		} else if (format == "tlm" && name == "dictionary") {
			auto flag =
			    values.empty() ? Value::BOOLEAN(true) : SingleValue(name, values).DefaultCastAs(LogicalType::BOOLEAN);
			options += BooleanValue::Get(flag) ? ",\"dictionary\":true" : ",\"dictionary\":false";
		} else if (format == "tlm" && name == "magic") {
			options += ",\"magic\":" + QuoteJson(StringUtil::Lower(SingleValue(name, values).ToString()));
		} else if (name == "json_as_binary") {
			// set for stores whose other readers expect it
			options += ",\"json_as_binary\":true";
		} else if (format == "parquet" && name == "bloom_columns") {
			CheckColumns(values, result->names);
			options += ",\"bloom_columns\":" + ListJson(values);
		} else if (name == "sort_by") {
			result->sort_by = ParseSortBy(context, values, result->names);
			options += ",\"sorted_by\":" + SortByJson(result->sort_by);
		} else {
			throw BinderException(
			    "Unrecognized option \"%s\" for %s extents; the options are ROWS_PER_BLOCK, BYTES_PER_BLOCK, "
			    "COMPRESSION, "
			    "SORT_BY%s, "
			    "and "
			    "those of every COPY (PARTITION_BY, FILE_SIZE_BYTES, PER_THREAD_OUTPUT, RETURN_STATS, …)",
			    name.GetIdentifierName(), format == "tlm" ? "TLM" : "Parquet",
			    format == "tlm" ? ", DICTIONARY, MAGIC" : ", BLOOM_COLUMNS");
		}
	}
	result->options = options + "}";
	ArrowSchemaWrapper schema;
	WriteArrowSchema(context, result->types, result->names, "an extent", schema);
	char *error = nullptr;
	auto status =
	    pns_writer_check(result->options.c_str(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error);
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	return std::move(result);
}

static unique_ptr<GlobalFunctionData> CopyInitGlobal(ClientContext &context, FunctionData &bind_data_p,
                                                     const string &path) {
	auto &bind_data = bind_data_p.Cast<ExtentCopyBindData>();
	if (!bind_data.sort_by.empty() && !bind_data.sorts) {
		throw InvalidInputException(
		    "COPY to \"%s\": SORT_BY needs DuckDB's optimizer, which is disabled; sort in the query "
		    "with ORDER BY, or PRAGMA enable_optimizer",
		    path);
	}
	auto &fs = FileSystem::GetFileSystem(context);
	auto result = make_uniq<ExtentCopyGlobalState>();
	ArrowSchemaWrapper schema;
	WriteArrowSchema(context, bind_data.types, bind_data.names, "an extent", schema);
	PnsWriter *writer = nullptr;
	char *error = nullptr;
	int status;
	if (IsRemote(path)) {
		auto flags = FileFlags::FILE_FLAGS_WRITE | FileFlags::FILE_FLAGS_FILE_CREATE_NEW;
		auto sink = new HostSink {fs, nullptr, path};
		PnsHostSink host {sink, HostSink::Write, HostSink::Finish, HostSink::Abort, HostSink::Release};
		auto own_client = false;
		try {
			sink->handle = fs.OpenFile(path, flags);
		} catch (std::exception &failure) {
			delete sink;
			if (!NeedsObjectStore(context, path, ErrorData(failure))) {
				throw;
			}
			own_client = true;
		}
		status = pns_writer_new(path.c_str(), bind_data.options.c_str(), own_client ? nullptr : &host,
		                        RemoteConfiguration(context, path).c_str(),
		                        reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &writer, &error);
	} else {
		// the core writes under a temporary name and renames; DuckDB's access settings hold for the final name
		static_cast<OpenerFileSystem &>(fs).VerifyCanAccessFile(path);
		auto local = fs.ExpandPath(path);
		status = pns_writer_new(local.c_str(), bind_data.options.c_str(), nullptr, "",
		                        reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &writer, &error);
	}
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	result->writer = WriterPtr(writer);
	result->path = path;
	return std::move(result);
}

static unique_ptr<LocalFunctionData> CopyInitLocal(ExecutionContext &context, FunctionData &bind_data) {
	return make_uniq<ExtentCopyLocalState>(context.client, bind_data.Cast<ExtentCopyBindData>().types);
}

static void Flush(ClientContext &context, const ExtentCopyBindData &bind_data, ExtentCopyGlobalState &state,
                  ColumnDataCollection &rows) {
	if (rows.Count() == 0) {
		return;
	}
	auto blocks = EncodeBlocks(context, bind_data, state.writer.get(), rows);
	lock_guard<mutex> guard(state.lock);
	for (auto &block : blocks) {
		AppendBlock(state, std::move(block.first), block.second);
	}
}

static void CopySink(ExecutionContext &context, FunctionData &bind_data_p, GlobalFunctionData &gstate,
                     LocalFunctionData &lstate, DataChunk &input) {
	auto &bind_data = bind_data_p.Cast<ExtentCopyBindData>();
	auto &state = gstate.Cast<ExtentCopyGlobalState>();
	auto &local = lstate.Cast<ExtentCopyLocalState>();
	RowBytes(input, local.row_bytes);
	idx_t done = 0;
	while (done < input.size()) {
		auto room = MinValue<idx_t>(bind_data.rows_per_block - local.buffer->Count(), input.size() - done);
		idx_t take = 0;
		while (take < room) {
			auto bytes = local.row_bytes[done + take];
			if (local.buffer->Count() + take > 0 && local.bytes + bytes > bind_data.bytes_per_block) {
				break;
			}
			local.bytes += bytes;
			take++;
		}
		if (take == input.size()) {
			local.buffer->Append(local.append, input);
		} else if (take > 0) {
			DataChunk part;
			part.InitializeEmpty(bind_data.types);
			part.Reference(input);
			part.Slice(done, take);
			local.buffer->Append(local.append, part);
		}
		done += take;
		if (done < input.size() || local.buffer->Count() >= bind_data.rows_per_block) {
			local.append.current_chunk_state.handles.clear();
			Flush(context.client, bind_data, state, *local.buffer);
			local.buffer = make_uniq<ColumnDataCollection>(context.client, bind_data.types);
			local.buffer->InitializeAppend(local.append);
			local.bytes = 0;
		}
	}
}

static void CopyCombine(ExecutionContext &context, FunctionData &bind_data_p, GlobalFunctionData &gstate,
                        LocalFunctionData &lstate) {
	auto &bind_data = bind_data_p.Cast<ExtentCopyBindData>();
	auto &state = gstate.Cast<ExtentCopyGlobalState>();
	auto &local = lstate.Cast<ExtentCopyLocalState>();
	local.append.current_chunk_state.handles.clear();
	auto enough = [&](const ColumnDataCollection &rows, idx_t bytes) {
		return rows.Count() >= bind_data.rows_per_block / 2 || bytes >= bind_data.bytes_per_block / 2;
	};
	if (enough(*local.buffer, local.bytes)) {
		Flush(context.client, bind_data, state, *local.buffer);
		return;
	}
	unique_ptr<ColumnDataCollection> full;
	{
		lock_guard<mutex> guard(state.lock);
		state.remainder_bytes += local.bytes;
		if (!state.remainder) {
			state.remainder = std::move(local.buffer);
			return;
		}
		state.remainder->Combine(*local.buffer);
		if (enough(*state.remainder, state.remainder_bytes)) {
			state.remainder_bytes = 0;
			full = std::move(state.remainder);
		}
	}
	if (full) {
		Flush(context.client, bind_data, state, *full);
	}
}

//! What RETURN_STATS shows: the counts of the file, and of each column what its footer knows.
static void FillStatistics(ClientContext &context, const ExtentCopyBindData &bind_data, ExtentCopyGlobalState &state,
                           const string &extent) {
	auto &statistics = *state.statistics;
	statistics.row_count = state.rows;
	statistics.file_size_bytes = pns_writer_bytes(state.writer.get());
	statistics.extra_info["block_count"] = Value::UBIGINT(state.blocks);
	statistics.extra_info["extent"] = Value(extent);
	auto reader = OpenExtent(context, OpenFileInfo(state.path), "");
	for (auto &name : bind_data.names) {
		PnsColumnStats stats {};
		if (!pns_reader_column_stats(reader.get(), name.c_str(), -1, &stats)) {
			continue;
		}
		auto &column = statistics.column_statistics[name];
		auto min = TakeString(stats.min);
		auto max = TakeString(stats.max);
		if (!min.empty()) {
			column["min"] = Value(min);
		}
		if (!max.empty()) {
			column["max"] = Value(max);
		}
		if (stats.nulls >= 0) {
			column["null_count"] = Value(std::to_string(stats.nulls));
		}
	}
}

static void CopyFinalize(ClientContext &context, FunctionData &bind_data_p, GlobalFunctionData &gstate) {
	auto &bind_data = bind_data_p.Cast<ExtentCopyBindData>();
	auto &state = gstate.Cast<ExtentCopyGlobalState>();
	if (context.IsInterrupted()) {
		// an interrupted COPY must not leave a shorter file under the final name
		state.writer.reset();
		throw InterruptException();
	}
	if (state.remainder) {
		Flush(context, bind_data, state, *state.remainder);
		state.remainder.reset();
	}
	char *result = nullptr;
	char *error = nullptr;
	Check(pns_writer_finish(state.writer.get(), &result, &error), error);
	auto extent = TakeString(result);
	if (state.statistics) {
		FillStatistics(context, bind_data, state, extent);
	}
}

static CopyFunctionExecutionMode CopyMode(bool preserve_insertion_order, bool supports_batch_index) {
	if (!preserve_insertion_order) {
		return CopyFunctionExecutionMode::PARALLEL_COPY_TO_FILE;
	}
	return supports_batch_index ? CopyFunctionExecutionMode::BATCH_COPY_TO_FILE
	                            : CopyFunctionExecutionMode::REGULAR_COPY_TO_FILE;
}

static unique_ptr<PreparedBatchData> CopyPrepareBatch(ClientContext &context, FunctionData &bind_data,
                                                      GlobalFunctionData &gstate,
                                                      unique_ptr<ColumnDataCollection> collection) {
	auto &state = gstate.Cast<ExtentCopyGlobalState>();
	auto result = make_uniq<ExtentCopyBatch>();
	result->blocks = EncodeBlocks(context, bind_data.Cast<ExtentCopyBindData>(), state.writer.get(), *collection);
	return std::move(result);
}

static void CopyFlushBatch(ClientContext &, FunctionData &, GlobalFunctionData &gstate, PreparedBatchData &batch_p) {
	auto &state = gstate.Cast<ExtentCopyGlobalState>();
	auto &batch = batch_p.Cast<ExtentCopyBatch>();
	lock_guard<mutex> guard(state.lock);
	for (auto &block : batch.blocks) {
		AppendBlock(state, std::move(block.first), block.second);
	}
}

static optional_idx CopyDesiredBatchSize(ClientContext &, FunctionData &bind_data) {
	return bind_data.Cast<ExtentCopyBindData>().rows_per_block;
}

static idx_t CopyFileSize(GlobalFunctionData &gstate) {
	return pns_writer_bytes(gstate.Cast<ExtentCopyGlobalState>().writer.get());
}

static void CopyStatistics(ClientContext &, FunctionData &, GlobalFunctionData &gstate,
                           CopyFunctionFileStatistics &statistics) {
	gstate.Cast<ExtentCopyGlobalState>().statistics = statistics;
}

static bool IsEnum(const LogicalType &type) {
	return type.id() == LogicalTypeId::ENUM;
}

LogicalType StoredType(const LogicalType &type) {
	if (!TypeVisitor::Contains(type, IsEnum)) {
		return type;
	}
	return TypeVisitor::VisitReplace(
	    type, [](const LogicalType &part) { return IsEnum(part) ? LogicalType(LogicalType::VARCHAR) : part; });
}

vector<unique_ptr<Expression>> CastEnums(CopyToSelectInput &input) {
	vector<unique_ptr<Expression>> result;
	auto changed = false;
	for (auto &expression : input.select_list) {
		auto type = expression->GetReturnType();
		if (!TypeVisitor::Contains(type, IsEnum)) {
			result.push_back(std::move(expression));
			continue;
		}
		auto alias = expression->GetAlias();
		auto cast = BoundCastExpression::AddCastToType(input.context, std::move(expression), StoredType(type), false);
		cast->SetAlias(alias);
		result.push_back(std::move(cast));
		changed = true;
	}
	if (!changed) {
		// nothing to project: give the list back untouched
		input.select_list = std::move(result);
		return {};
	}
	return result;
}

static void CopyOptions(ClientContext &, CopyOptionsInput &input) {
	auto &options = input.options;
	options["rows_per_block"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::READ_WRITE);
	options["bytes_per_block"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["compression"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::READ_WRITE);
	options["codec"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["dictionary"] = CopyOption(LogicalType::BOOLEAN, CopyOptionMode::READ_WRITE);
	options["magic"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::READ_WRITE);
	options["bloom_columns"] = CopyOption(LogicalType::ANY, CopyOptionMode::WRITE_ONLY);
	options["sort_by"] = CopyOption(LogicalType::ANY, CopyOptionMode::WRITE_ONLY);
	options["row_group_size"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::WRITE_ONLY);
}

static unique_ptr<FunctionData> CopyFromBind(ClientContext &context, CopyFromFunctionBindInput &input,
                                             vector<Identifier> &names, vector<LogicalType> &types) {
	return ExtentScanFunction::MultiFileBindCopyInterface(
	    context, input, names, types, make_uniq<ExtentInterface>(input.info.format == "tlm" ? "tlm" : ""));
}

static CopyFunction MakeCopyFunction(const string &name, const string &format, const string &extension) {
	CopyFunction function {Identifier(name)};
	function.function_info = make_shared_ptr<CopyInfoFormat>(format);
	function.copy_to_select = CastEnums;
	function.copy_to_bind = CopyBind;
	function.copy_options = CopyOptions;
	function.copy_to_initialize_global = CopyInitGlobal;
	function.copy_to_initialize_local = CopyInitLocal;
	function.copy_to_sink = CopySink;
	function.copy_to_combine = CopyCombine;
	function.copy_to_finalize = CopyFinalize;
	function.copy_to_get_written_statistics = CopyStatistics;
	function.execution_mode = CopyMode;
	function.prepare_batch = CopyPrepareBatch;
	function.flush_batch = CopyFlushBatch;
	function.desired_batch_size = CopyDesiredBatchSize;
	function.file_size_bytes = CopyFileSize;
	function.copy_from_bind = CopyFromBind;
	function.copy_from_function = *GetReadFunction("read_extent", format).functions[0];
	function.extension = extension;
	return function;
}

CopyFunction GetExtentCopyFunction(const string &format) {
	return format == "parquet" ? MakeCopyFunction("pensieve_parquet", "parquet", "parquet")
	                           : MakeCopyFunction("tlm", "tlm", "tlm");
}

void RegisterCopy(ExtensionLoader &loader) {
	loader.RegisterFunction(MakeCopyFunction("tlm", "tlm", "tlm"));
	loader.RegisterFunction(MakeCopyFunction("pensieve_parquet", "parquet", "parquet"));
	RegisterCopySort(loader);
}

} // namespace pensieve
