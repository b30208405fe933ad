// What the optimizer asks of a scan: row counts and exact bounds without reading data, and the order to scan in.
#include "scan.hpp"

#include "duckdb/common/multi_file/multi_file_list.hpp"
#include "duckdb/function/partition_stats.hpp"
#include "duckdb/storage/statistics/numeric_stats.hpp"
#include "duckdb/storage/table/row_group_reorderer.hpp"

namespace pensieve {

namespace {

//! Above this many files, footers are not read just to answer the optimizer.
constexpr idx_t MAX_PLANNED_FILES = 1000;

//! Statistics of one block in terms of the scan's columns.
struct BlockPartition : public PartitionRowGroup {
	BlockPartition(shared_ptr<ExtentReader> reader_p, uint32_t block_p, shared_ptr<vector<optional_idx>> columns_p)
	    : reader(std::move(reader_p)), block(block_p), columns(std::move(columns_p)) {
	}

	shared_ptr<ExtentReader> reader;
	uint32_t block;
	//! The file's columns that those of the scan are.
	shared_ptr<vector<optional_idx>> columns;

	unique_ptr<BaseStatistics> Statistics(const StorageIndex &index, bool &exact) {
		exact = false;
		auto column = index.GetPrimaryIndex();
		if (column >= columns->size() || index.HasChildren() || !(*columns)[column].IsValid()) {
			return nullptr;
		}
		auto own = (*columns)[column].GetIndex();
		return reader->BlockStatistics(reader->arrow.names[own], reader->arrow.types[own], block, exact);
	}
	unique_ptr<BaseStatistics> GetColumnStatistics(const StorageIndex &index) override {
		bool exact;
		return Statistics(index, exact);
	}
	bool MinMaxIsExact(const StorageIndex &index) override {
		bool exact;
		Statistics(index, exact);
		return exact;
	}
	bool HasPendingWrites() override {
		return false;
	}
};

vector<shared_ptr<ExtentReader>> OpenAll(ClientContext &context, const MultiFileBindData &bind_data) {
	vector<shared_ptr<ExtentReader>> result;
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto files = bind_data.file_list->GetAllFiles();
	if (files.size() > MAX_PLANNED_FILES) {
		return result;
	}
	for (auto &file : files) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		if (bind_data.initial_reader && bind_data.initial_reader->GetFileName() == file.path) {
			result.push_back(shared_ptr_cast<BaseFileReader, ExtentReader>(bind_data.initial_reader));
			continue;
		}
		try {
			result.push_back(make_shared_ptr<ExtentReader>(context, file, data.options));
		} catch (std::exception &) {
			// the scan reports the file; the plan goes without it
			return {};
		}
	}
	return result;
}

//! Position of a block in the scan order: which group it belongs to, and its bound.
struct OrderKey {
	Value bound;
	bool all_null = false;
	bool may_have_null = true;
};

OrderKey KeyOf(BaseStatistics *stats, const RowGroupOrderOptions &order) {
	OrderKey key;
	if (!stats) {
		return key;
	}
	key.all_null = !stats->CanHaveNoNull();
	key.may_have_null = stats->CanHaveNull();
	if (!key.all_null && order.column_type == OrderByColumnType::NUMERIC &&
	    stats->GetStatsType() == StatisticsType::NUMERIC_STATS) {
		key.bound = RowGroupReorderer::RetrieveStat(*stats, order.order_by, order.column_type);
	}
	return key;
}

} // namespace

optional_idx FileColumn(const MultiFileBindData &bind_data, const ExtentReader &reader, idx_t index) {
	if (index >= bind_data.names.size() || bind_data.IsGeneratedColumn(index)) {
		return optional_idx();
	}
	auto &bind = bind_data.reader_bind;
	auto declared = index < bind.schema.size() ? &bind.schema[index] : nullptr;
	auto by_id = declared && bind.mapping == MultiFileColumnMappingMode::BY_FIELD_ID;
	auto name = declared && !by_id ? Identifier(declared->GetIdentifierName()) : bind_data.names[index];
	for (idx_t i = 0; i < reader.columns.size(); i++) {
		auto &column = reader.columns[i];
		auto has_id = !column.identifier.IsNull();
		if (by_id && !has_id) {
			// DuckDB, too, stops at the first column without an id
			break;
		}
		if (by_id ? column.GetIdentifierFieldId() == declared->GetIdentifierFieldId() : column.name == name) {
			return reader.arrow.types[i] == bind_data.types[index] ? optional_idx(i) : optional_idx();
		}
	}
	return optional_idx();
}

vector<PartitionStatistics> ScanPartitionStats(ClientContext &context, GetPartitionStatsInput &input) {
	auto &bind_data = input.bind_data->Cast<MultiFileBindData>();
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	vector<PartitionStatistics> result;
	auto readers = OpenAll(context, bind_data);
	data.partitions.clear();
	data.partition_stats.clear();
	for (auto &reader : readers) {
		auto blocks = pns_reader_block_count(reader->reader.get());
		auto columns = make_shared_ptr<vector<optional_idx>>();
		for (idx_t i = 0; i < bind_data.types.size(); i++) {
			columns->push_back(FileColumn(bind_data, *reader, i));
		}
		for (uint32_t block = 0; block < blocks; block++) {
			PartitionStatistics partition;
			partition.count = pns_reader_block_rows(reader->reader.get(), block);
			partition.count_type = CountType::COUNT_EXACT;
			if (partition.count == 0) {
				continue;
			}
			partition.partition_row_group = make_shared_ptr<BlockPartition>(reader, block, columns);
			data.partitions.emplace_back(reader->GetFileName(), block);
			data.partition_stats.push_back(partition.partition_row_group);
			result.push_back(std::move(partition));
		}
	}
	return result;
}

//! The optimizer shortened OFFSET by whole blocks, which the scan must now leave out: those that come first in its own
//! order.
static void SkipOffsetBlocks(ExtentBindData &data, const RowGroupOrderOptions &order) {
	data.skipped_blocks.clear();
	auto null_groups = order.leading_null_group_offset;
	multimap<Value, idx_t> ordered;
	for (idx_t i = 0; i < data.partitions.size(); i++) {
		auto stats = data.partition_stats[i]->GetColumnStatistics(order.column_idx);
		auto key = KeyOf(stats.get(), order);
		if (key.all_null) {
			if (order.null_order == OrderByNullType::NULLS_FIRST && null_groups > 0) {
				null_groups--;
				data.skipped_blocks.insert(data.partitions[i]);
			}
			continue;
		}
		if (key.bound.IsNull() || (order.null_order == OrderByNullType::NULLS_FIRST && key.may_have_null)) {
			continue;
		}
		ordered.emplace(key.bound, i);
	}
	auto left = order.row_group_offset;
	if (order.order_type == OrderType::ASCENDING) {
		for (auto it = ordered.begin(); it != ordered.end() && left > 0; ++it, --left) {
			data.skipped_blocks.insert(data.partitions[it->second]);
		}
	} else {
		for (auto it = ordered.rbegin(); it != ordered.rend() && left > 0; ++it, --left) {
			data.skipped_blocks.insert(data.partitions[it->second]);
		}
	}
}

//! Blocks (or files) that may hold NULLs asked for first, then by bound, then those without bounds. The order only
//! decides how soon a LIMIT is satisfied: the operator above sorts, so ties and overlaps need no care here.
static bool Before(const OrderKey &left, const OrderKey &right, const RowGroupOrderOptions &order) {
	auto rank = [&](const OrderKey &key) {
		if (order.null_order == OrderByNullType::NULLS_FIRST && (key.all_null || key.may_have_null)) {
			return 0;
		}
		return key.bound.IsNull() ? (key.all_null ? 3 : 2) : 1;
	};
	auto left_rank = rank(left);
	auto right_rank = rank(right);
	if (left_rank != right_rank) {
		return left_rank < right_rank;
	}
	if (left.bound.IsNull() || right.bound.IsNull()) {
		return !left.bound.IsNull() && right.bound.IsNull();
	}
	return order.order_type == OrderType::ASCENDING ? left.bound < right.bound : left.bound > right.bound;
}

void ScanSetOrder(unique_ptr<RowGroupOrderOptions> options, optional_ptr<FunctionData> bind_data_p) {
	auto &bind_data = bind_data_p->Cast<MultiFileBindData>();
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	data.order = shared_ptr<RowGroupOrderOptions>(options.release());
	if (data.order->row_group_offset > 0 || data.order->leading_null_group_offset > 0) {
		SkipOffsetBlocks(data, *data.order);
	}
}

void OrderFiles(ClientContext &context, MultiFileBindData &bind_data) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	auto column = data.order ? data.order->column_idx.GetPrimaryIndex() : 0;
	if (!data.order || data.files_ordered || !bind_data.union_readers.empty() || !ReadsFileColumn(bind_data, column) ||
	    bind_data.file_list->GetExpandResult() != FileExpandResult::MULTIPLE_FILES) {
		return;
	}
	data.files_ordered = true;
	auto readers = OpenAll(context, bind_data);
	if (readers.empty()) {
		return;
	}
	auto indexed = IndexedFiles(*bind_data.file_list);
	vector<pair<OrderKey, OpenFileInfo>> keyed;
	for (idx_t i = 0; i < readers.size() && i < indexed.size(); i++) {
		unique_ptr<BaseStatistics> stats;
		auto own = FileColumn(bind_data, *readers[i], column);
		if (own.IsValid()) {
			auto &arrow = readers[i]->arrow;
			bool exact;
			stats = readers[i]->BlockStatistics(arrow.names[own.GetIndex()], arrow.types[own.GetIndex()], -1, exact);
		}
		keyed.emplace_back(KeyOf(stats.get(), *data.order), indexed[i]);
	}
	std::stable_sort(keyed.begin(), keyed.end(),
	                 [&](const pair<OrderKey, OpenFileInfo> &a, const pair<OrderKey, OpenFileInfo> &b) {
		                 return Before(a.first, b.first, *data.order);
	                 });
	vector<OpenFileInfo> files;
	for (auto &entry : keyed) {
		files.push_back(std::move(entry.second));
	}
	bind_data.file_list = make_shared_ptr<SimpleMultiFileList>(std::move(files));
	auto first = bind_data.file_list->GetFirstFile();
	if (bind_data.initial_reader && bind_data.initial_reader->GetFileName() == first.path) {
		// it will read that file, which may have been listed twice
		bind_data.initial_reader->file = std::move(first);
	}
}

void ExtentReader::OrderBlocks() {
	auto blocks = pns_reader_block_count(reader.get());
	block_order.clear();
	for (uint32_t i = 0; i < blocks; i++) {
		if (!skipped_blocks || skipped_blocks->find(make_pair(file.path, i)) == skipped_blocks->end()) {
			block_order.push_back(i);
		}
	}
	if (!order || !order_column.IsValid()) {
		return;
	}
	auto column = order_column.GetIndex();
	vector<OrderKey> keys(blocks);
	for (auto block : block_order) {
		bool exact;
		auto stats = BlockStatistics(arrow.names[column], arrow.types[column], block, exact);
		keys[block] = KeyOf(stats.get(), *order);
	}
	std::stable_sort(block_order.begin(), block_order.end(),
	                 [&](uint32_t a, uint32_t b) { return Before(keys[a], keys[b], *order); });
}

} // namespace pensieve
