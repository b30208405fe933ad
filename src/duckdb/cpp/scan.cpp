// The reader of one extent: filters the rows of claimed blocks and decodes what survives.
#include "scan.hpp"

#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/table_filter_set.hpp"
#include "duckdb/storage/table/column_segment.hpp"

namespace pensieve {

namespace {

//! What an opened file of a UNION BY NAME keeps until it is scanned.
struct ExtentUnionData : public BaseUnionData {
	explicit ExtentUnionData(OpenFileInfo file) : BaseUnionData(std::move(file)) {
	}
	idx_t row_count = 0;
	shared_ptr<BaseFileReader> statistics;

	optional_idx TryGetCardinalityEstimate() const override {
		return row_count;
	}
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &context, const Identifier &name) override {
		return statistics ? statistics->GetStatistics(context, name) : nullptr;
	}
};

idx_t NextNumber() {
	static atomic<idx_t> last {0};
	return ++last;
}

} // namespace

ExtentReader::ExtentReader(ClientContext &context, OpenFileInfo file_p, const ExtentOptions &options,
                           const vector<string> &json_columns)
    : BaseFileReader(std::move(file_p)), reader(OpenExtent(context, file, options.format)), number(NextNumber()) {
	char *error = nullptr;
	if (options.binary_as_string) {
		Check(pns_reader_show_text(reader.get(), &error), error);
	}
	if (!json_columns.empty()) {
		auto names = TextPointers(json_columns);
		pns_reader_show_json(reader.get(), names.data(), names.size());
	}
	ArrowSchemaWrapper schema;
	Check(pns_reader_schema(reader.get(), reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error), error);
	arrow = ReadArrowSchema(context, schema, file.path);
	columns = arrow.definitions;
	if (columns.empty()) {
		throw InvalidInputException("\"%s\" has no columns", file.path);
	}
	row_count = pns_reader_row_count(reader.get());
	auto blocks = pns_reader_block_count(reader.get());
	idx_t start = 0;
	for (uint32_t i = 0; i < blocks; i++) {
		block_start.push_back(start);
		start += pns_reader_block_rows(reader.get(), i);
	}
}

shared_ptr<BaseUnionData> ExtentReader::GetUnionData(idx_t file_idx) {
	auto result = make_shared_ptr<ExtentUnionData>(file);
	for (auto &column : columns) {
		result->names.push_back(column.name.GetIdentifierName());
		result->types.push_back(column.type);
	}
	result->row_count = row_count;
	if (file_idx == 0) {
		// DuckDB starts at the first file, and takes a skipped reader among the later ones for it
		result->reader = shared_from_this();
	}
	result->statistics = shared_from_this();
	return std::move(result);
}

void ExtentReader::AddVirtualColumn(column_t virtual_column_id) {
	if (virtual_column_id != MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER) {
		throw NotImplementedException("pensieve extents have no virtual column %llu", virtual_column_id);
	}
}

void ExtentReader::FillColumn(ClientContext &context, ExtentLocalState &state, const Window &window, idx_t position,
                              DataChunk &chunk, bool for_filter) {
	auto &target = chunk.data[position];
	auto &batch = for_filter && !state.one_step ? window.batch : state.rest_batch;
	auto offset = for_filter && !state.one_step ? window.offset : state.rest_offset;
	auto slot = [&](idx_t column) {
		return for_filter ? filter_slot[column] : rest_slot[column] + (state.one_step ? filter_columns.size() : 0);
	};
	auto expression = expression_map.find(ProjectionIndex(position));
	if (expression != expression_map.end()) {
		DataChunk source;
		vector<LogicalType> types;
		auto &sources = source_columns[position];
		for (auto &column : sources) {
			types.push_back(arrow.types[column.GetPrimaryIndex()]);
		}
		source.Initialize(BufferAllocator::Get(context), types);
		for (idx_t i = 0; i < sources.size(); i++) {
			auto column = sources[i].GetPrimaryIndex();
			batch->Convert(slot(column), arrow, column, offset, window.count, source.data[i]);
		}
		source.SetChildCardinality(window.count);
		auto &executor = state.expression_states[position];
		if (!executor) {
			executor = make_uniq<ExpressionExecutor>(context, *expression->second.expression);
		}
		executor->ExecuteExpression(source, target);
		return;
	}
	auto column = source_columns[position][0].GetPrimaryIndex();
	if (IsVirtual(column)) {
		auto data = FlatVector::GetDataMutable<int64_t>(target);
		auto first = block_start[state.block] + window.block_row;
		for (idx_t i = 0; i < window.count; i++) {
			data[i] = NumericCast<int64_t>(first + i);
		}
		FlatVector::SetSize(target, count_t(window.count));
		return;
	}
	batch->Convert(slot(column), arrow, column, offset, window.count, target);
}

void ExtentReader::FilterWindow(ClientContext &context, ExtentLocalState &state, Window &window, DataChunk &chunk) {
	chunk.Reset();
	window.selected = window.count;
	if (state.filter_states.empty()) {
		for (auto &entry : *filters) {
			state.filter_states.push_back(TableFilterState::Initialize(context, entry.Filter()));
		}
	}
	SelectionVector selection;
	idx_t index = 0;
	for (auto &entry : *filters) {
		auto &filter_state = *state.filter_states[index++];
		if (window.selected == 0) {
			break;
		}
		auto position = entry.GetIndex().GetIndex();
		FillColumn(context, state, window, position, chunk, true);
		ColumnSegment::FilterSelection(selection, chunk.data[position], filter_state, window.count, window.selected);
	}
	if (window.selected < window.count && window.selected > 0) {
		// the selection may share memory with the executor: keep our own
		window.selection.Initialize(window.selected);
		for (idx_t i = 0; i < window.selected; i++) {
			window.selection.set_index(i, selection.get_index(i));
		}
	}
}

Window Window::Split(idx_t rows) {
	Window head;
	head.block_row = block_row;
	head.count = rows;
	head.selected = rows;
	head.verdict = verdict;
	head.batch = batch;
	head.offset = offset;
	block_row += rows;
	offset += rows;
	if (selected == count) {
		count -= rows;
		selected = count;
		return head;
	}
	count -= rows;
	idx_t before = 0;
	while (before < selected && selection.get_index(before) < rows) {
		before++;
	}
	SelectionVector after(MaxValue<idx_t>(selected - before, 1));
	for (idx_t i = before; i < selected; i++) {
		after.set_index(i - before, selection.get_index(i) - rows);
	}
	head.selection = std::move(selection);
	head.selected = before;
	selection = std::move(after);
	selected -= before;
	return head;
}

void ExtentReader::FetchBlock(ClientContext &context, ExtentGlobalState &gstate, ExtentLocalState &state) {
	auto scan = gstate.scan.get();
	state.fetched = true;
	auto predicate = state.predicate ? state.predicate.get() : fixed.get();
	auto &ranges = state.ranges;
	ranges = CandidateRanges(scan, reader.get(), state.block, predicate);
	if (gstate.sample.active) {
		SampleRows(gstate, state.block, ranges);
	}
	for (idx_t i = 0; i < ranges.size(); i += 2) {
		for (auto row = ranges[i]; row < ranges[i + 1]; row += STANDARD_VECTOR_SIZE) {
			Window window;
			window.block_row = row;
			window.count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, ranges[i + 1] - row);
			window.selected = window.count;
			state.windows.push_back(std::move(window));
		}
	}
	state.one_step = state.filters_hold || !filters || !filters->HasFilters();
	if (state.windows.empty()) {
		return;
	}
	if (state.one_step) {
		auto columns = filter_columns;
		columns.insert(columns.end(), rest_columns.begin(), rest_columns.end());
		if (!columns.empty()) {
			state.rest_stream = make_uniq<BatchStream>(scan, reader.get(), state.block, columns, ranges);
		}
	} else if (!filter_columns.empty()) {
		state.filter_stream = make_uniq<BatchStream>(scan, reader.get(), state.block, filter_columns, ranges);
	}
}

void ExtentReader::JudgeWindows(ExtentLocalState &state, vector<Window> &windows) {
	auto predicate = state.predicate ? state.predicate.get() : fixed.get();
	if (!predicate || !state.filter_stream) {
		return;
	}
	vector<uint64_t> lengths;
	for (auto &window : windows) {
		lengths.push_back(window.count);
	}
	vector<uint8_t> verdicts(windows.size(), 1);
	state.filter_stream->Judge(predicate, lengths, verdicts);
	for (idx_t i = 0; i < windows.size(); i++) {
		windows[i].verdict = verdicts[i];
	}
}

//! Filters every row of a fetched block, and reads the remaining columns of what survived.
void ExtentReader::FilterBlock(ClientContext &context, PnsScan *scan, ExtentLocalState &state, DataChunk &chunk) {
	state.prepared = true;
	if (state.one_step) {
		return;
	}
	vector<uint64_t> surviving;
	vector<Window> kept;
	idx_t rows = 0;
	idx_t survivors = 0;
	idx_t next = 0;
	while (next < state.windows.size()) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		// the windows of one batch; those that cross its end are cut there
		vector<Window> part;
		if (!state.filter_stream) {
			part = std::move(state.windows);
			next = state.windows.size();
		} else {
			auto batch = state.filter_stream->Next(context);
			if (!batch) {
				throw InternalException("pensieve: \"%s\" has fewer rows than were asked for", file.path);
			}
			for (idx_t offset = 0; offset < batch->RowCount() && next < state.windows.size();) {
				auto &window = state.windows[next];
				auto left = batch->RowCount() - offset;
				window.batch = batch;
				window.offset = offset;
				if (window.count > left) {
					part.push_back(window.Split(left));
					offset += left;
				} else {
					offset += window.count;
					part.push_back(std::move(window));
					next++;
				}
			}
			JudgeWindows(state, part);
		}
		for (auto &window : part) {
			rows += window.count;
			if (window.verdict == 0) {
				continue;
			}
			if (window.verdict == 1 || !fixed_is_all) {
				FilterWindow(context, state, window, chunk);
			}
			survivors += window.selected;
			if (window.selected == 0) {
				continue;
			}
			if (!surviving.empty() && surviving.back() == window.block_row) {
				surviving.back() = window.block_row + window.count;
			} else {
				surviving.push_back(window.block_row);
				surviving.push_back(window.block_row + window.count);
			}
			kept.push_back(std::move(window));
		}
	}
	state.filter_stream.reset();
	state.windows = std::move(kept);
	state.ranges = std::move(surviving);
	pns_scan_skip_rows(scan, "filter", rows - survivors);
	chunk.Reset();
	if (!state.windows.empty() && !rest_columns.empty()) {
		state.rest_stream = make_uniq<BatchStream>(scan, reader.get(), state.block, rest_columns, state.ranges);
	}
}

namespace {

//! Reads a block's first columns on DuckDB's I/O threads, ahead of the thread that decodes it.
class FetchTask : public AsyncTask {
  public:
	FetchTask(ExtentReader &reader_p, ClientContext &context_p, ExtentGlobalState &gstate_p, ExtentLocalState &state_p)
	    : reader(reader_p), context(context_p), gstate(gstate_p), state(state_p) {
	}

	void Execute() override {
		reader.FetchBlock(context, gstate, state);
	}
	idx_t GetIOSize() const override {
		return pns_reader_block_bytes(reader.reader.get(), state.block);
	}

  private:
	ExtentReader &reader;
	ClientContext &context;
	ExtentGlobalState &gstate;
	ExtentLocalState &state;
};

} // namespace

AsyncResult ExtentReader::ScheduleIO(ClientContext &context, GlobalTableFunctionState &gstate_p,
                                     LocalTableFunctionState &lstate_p) {
	if (!IsRemote(file.path) || order) {
		return SourceResultType::HAVE_MORE_OUTPUT;
	}
	auto &gstate = gstate_p.Cast<ExtentGlobalState>();
	auto &state = lstate_p.Cast<ExtentLocalState>();
	auto bytes = pns_reader_block_bytes(reader.get(), state.block);
	if (gstate.bytes_ahead + bytes > gstate.prefetch_bytes) {
		// the block is read when its turn to be decoded comes
		return SourceResultType::HAVE_MORE_OUTPUT;
	}
	gstate.bytes_ahead += bytes;
	state.bytes_ahead = bytes;
	vector<unique_ptr<AsyncTask>> tasks;
	tasks.push_back(make_uniq<FetchTask>(*this, context, gstate, state));
	return AsyncResult(std::move(tasks), TaskSchedulerType::ASYNC);
}

AsyncResult ExtentReader::Scan(ClientContext &context, GlobalTableFunctionState &gstate_p,
                               LocalTableFunctionState &lstate_p, DataChunk &chunk) {
	auto &gstate = gstate_p.Cast<ExtentGlobalState>();
	auto &state = lstate_p.Cast<ExtentLocalState>();
	if (context.IsInterrupted()) {
		throw InterruptException();
	}
	gstate.bytes_ahead -= state.bytes_ahead;
	state.bytes_ahead = 0;
	if (!state.fetched) {
		FetchBlock(context, gstate, state);
	}
	if (!state.prepared) {
		FilterBlock(context, gstate.scan.get(), state, chunk);
	}
	Window window;
	while (window.selected == 0) {
		if (state.next_window >= state.windows.size()) {
			rows_done += pns_reader_block_rows(reader.get(), state.block);
			state.windows.clear();
			state.rest_stream.reset();
			state.rest_batch.reset();
			chunk.SetChildCardinality(0);
			return SourceResultType::FINISHED;
		}
		if (state.rest_stream) {
			// also past the rows of a window's part in which none survived
			if (!state.rest_batch || state.rest_offset >= state.rest_batch->RowCount()) {
				state.rest_batch = state.rest_stream->Next(context);
				state.rest_offset = 0;
				if (!state.rest_batch) {
					throw InternalException("pensieve: \"%s\" has fewer rows than were asked for", file.path);
				}
			}
			auto left = state.rest_batch->RowCount() - state.rest_offset;
			auto &next = state.windows[state.next_window];
			if (next.count > left) {
				window = next.Split(left);
				if (window.selected == 0) {
					state.rest_offset += window.count;
				}
				continue;
			}
		}
		window = std::move(state.windows[state.next_window++]);
		if (window.selected == 0) {
			state.rest_offset += window.count;
		}
	}
	idx_t next_filter = 0;
	for (idx_t position = 0; position < column_indexes.size(); position++) {
		auto filter = next_filter < filter_positions.size() && filter_positions[next_filter] == position;
		if (filter) {
			next_filter++;
		}
		FillColumn(context, state, window, position, chunk, filter);
	}
	state.rest_offset += window.count;
	state.handed_out = std::move(window.batch);
	chunk.SetChildCardinality(window.count);
	if (window.selected < window.count) {
		chunk.Slice(window.selection, window.selected);
	}
	return SourceResultType::HAVE_MORE_OUTPUT;
}

void ExtentReader::FinishFile(ClientContext &context, GlobalTableFunctionState &gstate_p) {
	// blocks of this file may still be decoding in other threads; their I/O is counted when the scan is read
	(void)gstate_p;
}

double ExtentReader::GetProgressInFile(ClientContext &context) {
	return row_count == 0 ? 100.0 : 100.0 * static_cast<double>(rows_done.load()) / static_cast<double>(row_count);
}

} // namespace pensieve
