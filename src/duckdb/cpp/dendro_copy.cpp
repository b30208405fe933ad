// COPY … TO 'x.dendro' (FORMAT dendro, …): rows become a sealed, complete archive of one stream.
#include "copy.hpp"
#include "dendro.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/function/copy_function.hpp"

namespace pensieve {

namespace {

//! Rows handed over at once.
constexpr idx_t ROWS_PER_BATCH = 8 * STANDARD_VECTOR_SIZE;

struct DendroWriterDeleter {
	void operator()(PnsDendroWriter *writer) const {
		pns_dendro_writer_free(writer);
	}
};

struct DendroCopyBindData : public TableFunctionData {
	vector<LogicalType> types;
	vector<string> names;
	string target;
	//! JSON for pns_dendro_writer_new.
	string options;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<DendroCopyBindData>();
		result->types = types;
		result->names = names;
		result->target = target;
		result->options = options;
		return std::move(result);
	}
};

struct DendroCopyState : public GlobalFunctionData {
	std::unique_ptr<PnsDendroWriter, DendroWriterDeleter> writer;
	mutex lock;
	unique_ptr<ArrowBlocks> rows;
	idx_t written = 0;
	//! Filled in when the archive is complete; DuckDB asks before.
	optional_ptr<CopyFunctionFileStatistics> statistics;
};

const char *const OPTIONS =
    "STREAM '…' and TS_COLUMN '…' (required), LABELS {'key': 'value'}, METADATA {'key': 'value'}, "
    "SEGMENT_ROWS n, SEGMENT_BYTES n";

} // namespace

static unique_ptr<FunctionData> DendroCopyBind(ClientContext &context, CopyFunctionBindInput &input,
                                               const vector<Identifier> &names, const vector<LogicalType> &types) {
	auto result = make_uniq<DendroCopyBindData>();
	result->types = types;
	result->names = IdentifiersToStrings(names);
	result->target = input.info.file_path;
	vector<string> parts;
	auto has_stream = false;
	auto has_time = false;
	for (auto &[name, values] : input.info.options) {
		auto text = StringUtil::Lower(name.GetIdentifierName());
		if (text == "labels" || text == "metadata") {
			parts.push_back(QuoteJson(text) + ":" +
			                DendroLabelsJson(SingleValue(name, values), StringUtil::Upper(text)));
			continue;
		}
		auto number = text == "segment_rows" || text == "segment_bytes";
		if (text != "stream" && text != "ts_column" && !number) {
			throw BinderException("Unrecognized option \"%s\" for dendro archives; the options are %s",
			                      name.GetIdentifierName(), OPTIONS);
		}
		auto given = SingleValue(name, values, false);
		if (number) {
			auto value = given.DefaultCastAs(LogicalType::BIGINT);
			if (BigIntValue::Get(value) <= 0) {
				throw BinderException("%s must be at least 1", StringUtil::Upper(text));
			}
			parts.push_back(QuoteJson(text) + ":" + value.ToString());
			continue;
		}
		has_stream = has_stream || text == "stream";
		has_time = has_time || text == "ts_column";
		parts.push_back(QuoteJson(text) + ":" + QuoteJson(given.ToString()));
	}
	if (!has_stream || !has_time) {
		throw BinderException("A dendro archive needs %s; the options are %s",
		                      has_time     ? "the stream's name, STREAM '…'"
		                      : has_stream ? "the column with the row timestamps, TS_COLUMN '…'"
		                                   : "STREAM '…' and TS_COLUMN '…'",
		                      OPTIONS);
	}
	result->options = "{" + StringUtil::Join(parts, ",") + "}";
	ArrowSchemaWrapper schema;
	WriteArrowSchema(context, result->types, result->names, "a dendro archive", schema);
	char *error = nullptr;
	auto status = pns_dendro_writer_check(result->options.c_str(),
	                                      reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error);
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	return std::move(result);
}

static unique_ptr<GlobalFunctionData> DendroCopyInit(ClientContext &context, FunctionData &bind_data_p,
                                                     const string &path) {
	auto &bind_data = bind_data_p.Cast<DendroCopyBindData>();
	ArrowSchemaWrapper schema;
	WriteArrowSchema(context, bind_data.types, bind_data.names, "a dendro archive", schema);
	auto result = make_uniq<DendroCopyState>();
	auto local = DendroPath(context, path);
	auto target = DendroPath(context, bind_data.target);
	PnsDendroWriter *writer = nullptr;
	char *error = nullptr;
	auto status = pns_dendro_writer_new(local.c_str(), target.c_str(), bind_data.options.c_str(),
	                                    reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &writer, &error);
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	result->writer.reset(writer);
	return std::move(result);
}

static unique_ptr<LocalFunctionData> DendroCopyInitLocal(ExecutionContext &, FunctionData &) {
	return make_uniq<LocalFunctionData>();
}

static void DendroCopySink(ExecutionContext &context, FunctionData &bind_data_p, GlobalFunctionData &gstate,
                           LocalFunctionData &, DataChunk &input) {
	auto &bind_data = bind_data_p.Cast<DendroCopyBindData>();
	auto &state = gstate.Cast<DendroCopyState>();
	lock_guard<mutex> guard(state.lock);
	if (!state.rows) {
		auto take = [&state](ArrowArray &array, idx_t) {
			char *error = nullptr;
			Check(pns_dendro_writer_append(state.writer.get(), reinterpret_cast<::ArrowArray *>(&array), &error),
			      error);
		};
		state.rows = make_uniq<ArrowBlocks>(context.client, bind_data.types, ROWS_PER_BATCH, DEFAULT_BYTES_PER_BLOCK,
		                                    ROWS_PER_BATCH, take);
	}
	state.rows->Append(input);
	state.written += input.size();
}

static void DendroCopyCombine(ExecutionContext &, FunctionData &, GlobalFunctionData &, LocalFunctionData &) {
}

static void DendroCopyFinalize(ClientContext &context, FunctionData &, GlobalFunctionData &gstate) {
	auto &state = gstate.Cast<DendroCopyState>();
	if (context.IsInterrupted()) {
		// an interrupted COPY must not leave a shorter archive under the final name
		state.writer.reset();
		throw InterruptException();
	}
	if (state.rows) {
		state.rows->Finish();
	}
	char *result = nullptr;
	char *error = nullptr;
	Check(pns_dendro_writer_finish(state.writer.get(), &result, &error), error);
	auto text = TakeString(result);
	if (!state.statistics) {
		return;
	}
	state.statistics->row_count = state.written;
	const string size = "\"byte_size\":";
	auto at = text.find(size);
	if (at != string::npos) {
		state.statistics->file_size_bytes = std::stoull(text.substr(at + size.size()));
	}
	state.statistics->extra_info["archive"] = Value(text);
}

//! A stream is in time order, so rows are taken in the order they come in.
static CopyFunctionExecutionMode DendroCopyMode(bool, bool) {
	return CopyFunctionExecutionMode::REGULAR_COPY_TO_FILE;
}

static void DendroCopyStatistics(ClientContext &, FunctionData &, GlobalFunctionData &gstate,
                                 CopyFunctionFileStatistics &statistics) {
	gstate.Cast<DendroCopyState>().statistics = &statistics;
}

static void DendroCopyOptions(ClientContext &, CopyOptionsInput &input) {
	auto &options = input.options;
	options["stream"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["ts_column"] = CopyOption(LogicalType::VARCHAR, CopyOptionMode::WRITE_ONLY);
	options["labels"] = CopyOption(LogicalType::ANY, CopyOptionMode::WRITE_ONLY);
	options["metadata"] = CopyOption(LogicalType::ANY, CopyOptionMode::WRITE_ONLY);
	options["segment_rows"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::WRITE_ONLY);
	options["segment_bytes"] = CopyOption(LogicalType::UBIGINT, CopyOptionMode::WRITE_ONLY);
}

void RegisterDendroCopy(ExtensionLoader &loader) {
	CopyFunction function {Identifier("dendro")};
	function.copy_to_select = CastEnums;
	function.copy_to_bind = DendroCopyBind;
	function.copy_options = DendroCopyOptions;
	function.copy_to_initialize_global = DendroCopyInit;
	function.copy_to_initialize_local = DendroCopyInitLocal;
	function.copy_to_sink = DendroCopySink;
	function.copy_to_combine = DendroCopyCombine;
	function.copy_to_finalize = DendroCopyFinalize;
	function.copy_to_get_written_statistics = DendroCopyStatistics;
	function.execution_mode = DendroCopyMode;
	function.extension = "dendro";
	loader.RegisterFunction(function);
}

} // namespace pensieve
