// Which columns of an extent a scan reads, what its filters mean to the core, and which blocks it claims. What may be
// skipped is decided by the core.
#include "scan.hpp"

#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/table_filter_set.hpp"
#include "duckdb/storage/statistics/numeric_stats.hpp"

namespace pensieve {

static string JsonAnd(const vector<string> &parts) {
	return "{\"k\":\"and\",\"args\":[" + StringUtil::Join(parts, ",") + "]}";
}

//! Which file columns each position of the scan reads: one, or those of the expression that replaces it.
void ExtentReader::FindSourceColumns() {
	for (idx_t position = 0; position < column_indexes.size(); position++) {
		auto entry = expression_map.find(ProjectionIndex(position));
		if (entry != expression_map.end()) {
			source_columns.push_back(entry->second.column_indexes);
			continue;
		}
		auto column = column_ids[MultiFileLocalIndex(position)].GetId();
		vector<ColumnIndex> source;
		source.emplace_back(column, column_indexes[position].GetChildIndexes());
		source_columns.push_back(std::move(source));
	}
}

//! Whether no row with such values passes a filter, as DuckDB judges.
static bool Excludes(ClientContext &context, const TableFilter &filter, const BaseStatistics &stats) {
	auto result = ExpressionFilter::GetExpressionFilter(filter, "pensieve scan").CheckStatistics(context, stats);
	return result == FilterPropagateResult::FILTER_ALWAYS_FALSE ||
	       result == FilterPropagateResult::FILTER_FALSE_OR_NULL;
}

//! Adds to a column that is read already what else is read of it.
static void AddFields(ColumnIndex &column, const ColumnIndex &other) {
	auto &fields = column.GetChildIndexesMutable();
	if (!other.HasChildren() || fields.empty()) {
		fields.clear();
		return;
	}
	fields.insert(fields.end(), other.GetChildIndexes().begin(), other.GetChildIndexes().end());
}

void ExtentReader::PrepareReader(ClientContext &context, GlobalTableFunctionState &gstate) {
	LowerFilters();
}

//! Splits the scan's columns into those the filters read and the rest, and lowers the filters once per file.
void ExtentReader::LowerFilters() {
	if (lowered) {
		return;
	}
	lowered = true;
	FindSourceColumns();
	OrderBlocks();
	unordered_set<idx_t> filtered;
	vector<string> parts;
	if (filters) {
		for (auto &entry : *filters) {
			auto position = entry.GetIndex().GetIndex();
			filtered.insert(position);
			auto &expression = *ExpressionFilter::GetExpressionFilter(entry.Filter(), "pensieve scan").expr;
			auto &sources = source_columns[position];
			auto optional = ExpressionFilter::IsOptionalFilter(entry.Filter());
			auto dynamic = HasDynamicPart(expression);
			// the filter may be in other terms than the file's: its statistics say nothing about it then
			auto foreign = expression_map.find(ProjectionIndex(position)) != expression_map.end() ||
			               IsVirtual(sources[0].GetPrimaryIndex());
			fixed_is_all = fixed_is_all && (optional || !(foreign || dynamic));
			if (foreign) {
				if (expression_map.find(ProjectionIndex(position)) == expression_map.end()) {
					row_number_filters.push_back(position);
				}
				continue;
			}
			if (optional || dynamic) {
				dynamic_filters.push_back(position);
			}
			if (!dynamic) {
				auto &name = arrow.names[sources[0].GetPrimaryIndex()];
				parts.push_back(ExpressionToJson(expression, [&](const Expression &) { return name; }));
			}
		}
	}
	parts.insert(parts.end(), hints.begin(), hints.end());
	fixed_parts = parts;
	if (!parts.empty()) {
		auto json = JsonAnd(parts);
		fixed = PredicatePtr(pns_predicate_lower(json.c_str(), json.size()));
	}
	for (idx_t position = 0; position < column_indexes.size(); position++) {
		auto filter = filtered.find(position) != filtered.end();
		if (filter) {
			filter_positions.push_back(position);
		}
		for (auto &column : source_columns[position]) {
			if (IsVirtual(column.GetPrimaryIndex())) {
				continue;
			}
			auto &slots = filter ? filter_slot : rest_slot;
			auto &list = filter ? filter_columns : rest_columns;
			auto slot = slots.emplace(column.GetPrimaryIndex(), list.size());
			if (slot.second) {
				list.push_back(column);
			} else {
				AddFields(list[slot.first->second], column);
			}
		}
	}
}

PredicatePtr ExtentReader::LowerDynamic() {
	if (dynamic_filters.empty() || !filters) {
		return nullptr;
	}
	vector<string> parts;
	for (auto position : dynamic_filters) {
		auto column = source_columns[position][0].GetPrimaryIndex();
		auto &filter = filters->GetFilterByColumnIndex(ProjectionIndex(position));
		auto &expression = *ExpressionFilter::GetExpressionFilter(filter, "pensieve scan").expr;
		auto &name = arrow.names[column];
		parts.push_back(ExpressionToJson(expression, [&](const Expression &) { return name; }));
	}
	auto json = JsonAnd(parts);
	auto result = PredicatePtr(pns_predicate_lower(json.c_str(), json.size()));
	parts.insert(parts.end(), fixed_parts.begin(), fixed_parts.end());
	auto all = JsonAnd(parts);
	combined = std::shared_ptr<PnsPredicate>(pns_predicate_lower(all.c_str(), all.size()), PredicateDeleter());
	return result;
}

bool ExtentReader::DynamicExcludes(ClientContext &context, uint32_t block) {
	for (auto position : dynamic_filters) {
		auto column = source_columns[position][0].GetPrimaryIndex();
		bool exact;
		auto stats = BlockStatistics(arrow.names[column], arrow.types[column], block, exact);
		if (stats && Excludes(context, filters->GetFilterByColumnIndex(ProjectionIndex(position)), *stats)) {
			return true;
		}
	}
	return false;
}

bool ExtentReader::RowNumbersExclude(ClientContext &context, uint32_t block) {
	auto rows = pns_reader_block_rows(reader.get(), block);
	if (row_number_filters.empty() || rows == 0) {
		return false;
	}
	auto stats = BaseStatistics::CreateUnknown(LogicalType::BIGINT);
	NumericStats::SetMin(stats, Value::BIGINT(NumericCast<int64_t>(block_start[block])));
	NumericStats::SetMax(stats, Value::BIGINT(NumericCast<int64_t>(block_start[block] + rows - 1)));
	stats.Set(StatsInfo::CANNOT_HAVE_NULL_VALUES);
	for (auto position : row_number_filters) {
		if (Excludes(context, filters->GetFilterByColumnIndex(ProjectionIndex(position)), stats)) {
			return true;
		}
	}
	return false;
}

const char *ExtentReader::Excluded(ClientContext &context, const ExtentGlobalState &gstate, uint32_t block) {
	// filters that only DuckDB can read (ranges and bitmaps of a join's keys)
	if (!dynamic_filters.empty() && pns_scan_uses(gstate.scan.get(), "dynamic_filter") &&
	    DynamicExcludes(context, block)) {
		return "dynamic_filter";
	}
	if (RowNumbersExclude(context, block)) {
		return "minmax";
	}
	if (gstate.sample.active) {
		auto rows = pns_reader_block_rows(reader.get(), block);
		auto any = false;
		for (idx_t row = 0; row < rows && !any; row += STANDARD_VECTOR_SIZE) {
			any = gstate.sample.Contains(file.path, block, row / STANDARD_VECTOR_SIZE);
		}
		if (!any) {
			return "sample";
		}
	}
	return nullptr;
}

bool ExtentReader::TryInitializeScan(ClientContext &context, GlobalTableFunctionState &gstate_p,
                                     LocalTableFunctionState &lstate_p) {
	LowerFilters();
	auto &gstate = gstate_p.Cast<ExtentGlobalState>();
	auto &state = lstate_p.Cast<ExtentLocalState>();
	// a bound that was tightened since the last claim rules out more blocks now
	PredicatePtr dynamic;
	if (next_block < block_order.size()) {
		dynamic = LowerDynamic();
	}
	while (next_block < block_order.size()) {
		auto block = block_order[next_block++];
		auto decision = pns_scan_claim(gstate.scan.get(), reader.get(), block, fixed.get(), dynamic.get());
		if (decision == 0) {
			rows_done += pns_reader_block_rows(reader.get(), block);
			continue;
		}
		if (auto evidence = Excluded(context, gstate, block)) {
			pns_scan_skip_block(gstate.scan.get(), evidence);
			rows_done += pns_reader_block_rows(reader.get(), block);
			continue;
		}
		if (state.owner != number) {
			state.owner = number;
			state.filter_states.clear();
			state.expression_states.clear();
		}
		state.block = block;
		state.predicate = combined;
		state.fetched = false;
		state.prepared = false;
		// every row satisfies the filters by the block's statistics: nothing to evaluate
		state.filters_hold = decision == 2 && fixed_is_all;
		state.windows.clear();
		state.next_window = 0;
		state.filter_stream.reset();
		state.rest_stream.reset();
		state.rest_batch.reset();
		return true;
	}
	return false;
}

} // namespace pensieve
