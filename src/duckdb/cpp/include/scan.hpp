// The multi-file scan over extents: what DuckDB's multi-file machinery needs, backed by the core.
#pragma once

#include "arrow_bridge.hpp"

#include <set>

#include "duckdb/common/multi_file/base_file_reader.hpp"
#include "duckdb/common/multi_file/multi_file_function.hpp"
#include "duckdb/function/partition_stats.hpp"
#include "duckdb/planner/table_filter_state.hpp"
#include "duckdb/storage/table/row_group_order_options.hpp"

namespace pensieve {

struct ExtentOptions : public BaseFileReaderOptions {
	//! Format the caller insists on; empty for "by the leading bytes".
	string format;
	//! Whether binary columns of Parquet files without a type of their own are text.
	bool binary_as_string = false;
	//! Rows of the scan that the caller knows of; 0: none.
	idx_t explicit_cardinality = 0;
};

//! A conjunct that table filters cannot express (it mentions several columns); used for pruning only.
struct Hint {
	string json;
	//! The columns of the scan that it mentions, by the names the scan has for them.
	vector<idx_t> columns;
};

class StoreFileList;

struct ExtentBindData : public TableFunctionData {
	ExtentOptions options;
	vector<Hint> hints;
	//! The order to scan in, if the optimizer asked for one; files are put in order once per plan.
	shared_ptr<RowGroupOrderOptions> order;
	bool files_ordered = false;
	//! The blocks as the optimizer saw them, and those it decided to leave out.
	mutable vector<pair<string, uint32_t>> partitions;
	mutable vector<shared_ptr<PartitionRowGroup>> partition_stats;
	std::set<pair<string, uint32_t>> skipped_blocks;
	//! Rows of the first file.
	idx_t initial_rows = 0;
	//! Files before the list was pruned by partitions and file names.
	idx_t listed_files = 0;
	//! The filters as the core understood them, and what it could not lower; for EXPLAIN.
	string explain;
	string explain_unknown;
	//! The extents of a store's table, if that is what is scanned.
	shared_ptr<StoreFileList> store_files;

	unique_ptr<FunctionData> Copy() const override;
};

//! TABLESAMPLE SYSTEM: of every STANDARD_VECTOR_SIZE rows of a block, whether they are in the sample.
struct RowSample {
	bool active = false;
	//! The part of all hashes that are in.
	uint64_t threshold = 0;
	uint64_t seed = 0;

	bool Contains(const string &file, uint32_t block, idx_t vector) const;
};

struct ExtentGlobalState : public GlobalTableFunctionState {
	ScanPtr scan;
	RowSample sample;
	//! Bytes of blocks that are read ahead of decoding, and how many there may be.
	atomic<idx_t> bytes_ahead {0};
	idx_t prefetch_bytes = 0;
};

//! A run of at most STANDARD_VECTOR_SIZE candidate rows of a block.
struct Window {
	//! Row number of the first row within the block.
	idx_t block_row = 0;
	idx_t count = 0;
	//! Surviving rows, relative to the window; unset selection means all of them.
	SelectionVector selection;
	idx_t selected = 0;
	//! Of the lowered filters: 0 no row satisfies them, 1 some may, 2 all do.
	uint8_t verdict = 1;
	//! The decoded columns of the filters, and the window's first row in them.
	shared_ptr<ArrowBatch> batch;
	idx_t offset = 0;

	//! Cuts off the first `rows` rows, fewer than there are.
	Window Split(idx_t rows);
};

struct ExtentLocalState : public LocalTableFunctionState {
	//! The claimed block, whether its first columns have been read, and whether its rows have been filtered.
	uint32_t block = 0;
	bool fetched = false;
	bool prepared = false;
	//! What the block counts among the bytes read ahead.
	idx_t bytes_ahead = 0;
	//! Rows that evidence within the block has left, as begin and end in turn.
	vector<uint64_t> ranges;
	bool filters_hold = false;
	//! What bloom filters and page indexes are asked; null: the reader's fixed filters.
	std::shared_ptr<PnsPredicate> predicate;
	vector<Window> windows;
	idx_t next_window = 0;
	//! Whether all columns are read in one step, because there is nothing to filter; they are then the remaining ones.
	bool one_step = false;
	//! Columns of the filters, then the remaining ones of the rows that survived.
	unique_ptr<BatchStream> filter_stream;
	unique_ptr<BatchStream> rest_stream;
	//! The batch of remaining columns that rows are handed out of, and the next of its rows.
	shared_ptr<ArrowBatch> rest_batch;
	idx_t rest_offset = 0;
	//! The batch of filter columns whose rows were handed out last: vectors may point into it until the next call.
	shared_ptr<ArrowBatch> handed_out;
	//! Executor states of the filters and expressions of one reader, kept across its blocks, and the reader's number.
	idx_t owner = 0;
	vector<unique_ptr<TableFilterState>> filter_states;
	unordered_map<idx_t, unique_ptr<ExpressionExecutor>> expression_states;
};

class ExtentReader : public BaseFileReader {
  public:
	//! `json_columns`: binary columns to show as JSON.
	ExtentReader(ClientContext &context, OpenFileInfo file, const ExtentOptions &options,
	             const vector<string> &json_columns = vector<string>());

	ReaderPtr reader;
	ArrowColumns arrow;
	idx_t row_count;
	//! Tells readers apart. An address does not: that of a closed reader is used again.
	const idx_t number;

	shared_ptr<BaseUnionData> GetUnionData(idx_t file_idx) override;
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &context, const Identifier &name) override;
	unique_ptr<BaseStatistics> GetVirtualColumnStatistics(ClientContext &context, column_t column) override;
	unique_ptr<BaseStatistics> BlockStatistics(const string &column, const LogicalType &type, int64_t block,
	                                           bool &exact);
	void AddVirtualColumn(column_t virtual_column_id) override;
	void PrepareReader(ClientContext &context, GlobalTableFunctionState &gstate) override;
	bool TryInitializeScan(ClientContext &context, GlobalTableFunctionState &gstate,
	                       LocalTableFunctionState &lstate) override;
	AsyncResult ScheduleIO(ClientContext &context, GlobalTableFunctionState &gstate,
	                       LocalTableFunctionState &lstate) override;
	AsyncResult Scan(ClientContext &context, GlobalTableFunctionState &gstate, LocalTableFunctionState &lstate,
	                 DataChunk &chunk) override;
	void FinishFile(ClientContext &context, GlobalTableFunctionState &gstate) override;
	double GetProgressInFile(ClientContext &context) override;
	string GetReaderType() const override {
		return "pensieve";
	}

	//! Finds the claimed block's candidate rows and reads the bytes of the filters' columns, or of all columns where no
	//! row needs filtering.
	void FetchBlock(ClientContext &context, ExtentGlobalState &gstate, ExtentLocalState &state);

	//! Conjuncts of the scan that only prune, in the file's names; set by the interface before the reader is used.
	vector<string> hints;
	shared_ptr<RowGroupOrderOptions> order;
	//! The file's column that `order` sorts by.
	optional_idx order_column;
	//! Blocks the optimizer decided to leave out.
	optional_ptr<const std::set<pair<string, uint32_t>>> skipped_blocks;

  private:
	void LowerFilters();
	void OrderBlocks();
	PredicatePtr LowerDynamic();
	//! Whether DuckDB itself, shown the block's bounds, finds that a filter of a join or a top-N operator excludes the
	//! block.
	bool DynamicExcludes(ClientContext &context, uint32_t block);
	//! Whether a filter on the row number excludes the block.
	bool RowNumbersExclude(ClientContext &context, uint32_t block);
	//! The evidence that rules a claimed block out after all; null if none does.
	const char *Excluded(ClientContext &context, const ExtentGlobalState &gstate, uint32_t block);
	//! Keeps of a block's candidate rows those that are in the sample.
	void SampleRows(const ExtentGlobalState &gstate, uint32_t block, vector<uint64_t> &ranges);
	void FilterBlock(ClientContext &context, PnsScan *scan, ExtentLocalState &state, DataChunk &chunk);
	void FilterWindow(ClientContext &context, ExtentLocalState &state, Window &window, DataChunk &chunk);
	//! The verdicts of the fixed filters on `windows`, which are those of the filter stream's last batch.
	void JudgeWindows(ExtentLocalState &state, vector<Window> &windows);
	void FillColumn(ClientContext &context, ExtentLocalState &state, const Window &window, idx_t position,
	                DataChunk &chunk, bool for_filter);
	void FindSourceColumns();
	bool IsVirtual(idx_t file_column) const {
		return file_column >= arrow.types.size();
	}

	bool lowered = false;
	//! For each position of the scan the file columns it reads: one, or those of the expression that replaces it.
	vector<vector<ColumnIndex>> source_columns;
	//! Whether `fixed` holds every filter that must be applied, so that rows known to satisfy it need no filtering.
	bool fixed_is_all = true;
	PredicatePtr fixed;
	vector<string> fixed_parts;
	//! The fixed filters and the dynamic ones as they were at the last claim.
	std::shared_ptr<PnsPredicate> combined;
	//! Positions of the filters, all in terms of the file's columns, whose bound changes while the scan runs.
	vector<idx_t> dynamic_filters;
	//! Positions of the filters on the row number.
	vector<idx_t> row_number_filters;
	//! Scan positions read in the first and in the second step, and for each the columns of the batch it is built from.
	vector<idx_t> filter_positions;
	vector<ColumnIndex> filter_columns;
	vector<ColumnIndex> rest_columns;
	unordered_map<idx_t, idx_t> filter_slot;
	unordered_map<idx_t, idx_t> rest_slot;
	vector<uint32_t> block_order;
	idx_t next_block = 0;
	atomic<idx_t> rows_done {0};
	vector<idx_t> block_start;
};

//! The sample that a scan is asked for.
void SetSample(ClientContext &context, const SampleOptions &options, RowSample &sample);
void RegisterSample(ExtensionLoader &loader);

//! Lists files with DuckDB's file systems, and object stores that none of them serves with the core's client.
struct ExtentFileReader : public MultiFileReader {
	using MultiFileReader::CreateFileList;
	shared_ptr<MultiFileList> CreateFileList(ClientContext &context, const vector<string> &paths,
	                                         const FileGlobInput &glob_input) override;
	unique_ptr<MultiFileReader> Copy() const override;
	static unique_ptr<MultiFileReader> Create(const BoundTableFunction &function);
	//! Keep `file_index` that of the whole list, whichever files are left and in whichever order they are read: two
	//! scans that late materialization makes of one meet by it.
	unique_ptr<MultiFileList> DynamicFilterPushdown(const MultiFileList &files,
	                                                MultiFileDynamicPushdownInfo &pushdown_info) override;
	void FinalizeBind(MultiFileReaderData &reader_data, const MultiFileOptions &file_options,
	                  const MultiFileReaderBindData &options, const vector<MultiFileColumnDefinition> &global_columns,
	                  const vector<ColumnIndex> &global_column_ids, ClientContext &context,
	                  optional_ptr<MultiFileReaderGlobalState> global_state) override;
};

//! Which column of a file column `index` of the scan is read from as it is stored: what is known of the one holds for
//! the other. Invalid for a generated column, one that the file lacks, and one that is read as another type.
optional_idx FileColumn(const MultiFileBindData &bind_data, const ExtentReader &reader, idx_t index);

//! The files of a list, each of which remembers its place in it.
vector<OpenFileInfo> IndexedFiles(const MultiFileList &files);
//! Whether a scan filters by `file_index`, which DuckDB also does by the place in the list of what is left.
bool FiltersByFileIndex(const vector<ColumnIndex> &columns, const TableFilterSet &filters);

struct ExtentInterface : public MultiFileReaderInterface {
	explicit ExtentInterface(string format);

	static unique_ptr<MultiFileReaderInterface> CreateInterface(ClientContext &context);

	unique_ptr<BaseFileReaderOptions> InitializeOptions(ClientContext &context,
	                                                    optional_ptr<TableFunctionInfo> info) override;
	bool ParseCopyOption(ClientContext &context, const Identifier &key, const vector<Value> &values,
	                     BaseFileReaderOptions &options, vector<Identifier> &expected_names,
	                     vector<LogicalType> &expected_types) override;
	bool ParseOption(ClientContext &context, const Identifier &key, const Value &val, MultiFileOptions &file_options,
	                 BaseFileReaderOptions &options) override;
	unique_ptr<TableFunctionData> InitializeBindData(MultiFileBindData &multi_file_data,
	                                                 unique_ptr<BaseFileReaderOptions> options) override;
	void BindReader(ClientContext &context, vector<LogicalType> &return_types, vector<Identifier> &names,
	                MultiFileBindData &bind_data) override;
	void FinalizeBindData(MultiFileBindData &multi_file_data) override;
	optional_idx MaxThreads(const MultiFileBindData &bind_data, const MultiFileGlobalState &global_state,
	                        FileExpandResult expand_result) override;
	unique_ptr<GlobalTableFunctionState> InitializeGlobalState(ClientContext &context, MultiFileBindData &bind_data,
	                                                           MultiFileGlobalState &global_state) override;
	unique_ptr<LocalTableFunctionState> InitializeLocalState(ClientContext &, GlobalTableFunctionState &) override;
	shared_ptr<BaseFileReader> CreateReader(ClientContext &context, GlobalTableFunctionState &gstate,
	                                        BaseUnionData &union_data, const MultiFileBindData &bind_data) override;
	shared_ptr<BaseFileReader> CreateReader(ClientContext &context, GlobalTableFunctionState &gstate,
	                                        const OpenFileInfo &file, idx_t file_idx,
	                                        const MultiFileBindData &bind_data) override;
	shared_ptr<BaseFileReader> CreateReader(ClientContext &context, const OpenFileInfo &file,
	                                        BaseFileReaderOptions &options,
	                                        const MultiFileOptions &file_options) override;
	unique_ptr<NodeStatistics> GetCardinality(const MultiFileBindData &bind_data, idx_t file_count) override;
	void GetVirtualColumns(ClientContext &context, MultiFileBindData &bind_data, virtual_column_map_t &result) override;
	unique_ptr<MultiFileReaderInterface> Copy() override;
	FileGlobInput GetGlobInput() override;
	//! Files that are not on the local disk are read ahead, except where an order lets a scan stop early.
	bool SupportsReadAhead(const MultiFileBindData &bind_data) const override;

	string format;
};

//! Whether a column of the table is the files' column of the same name: not one of the path or the row number, and not
//! one that the caller's schema maps to another name or to a field id. Only then do the files' statistics under that
//! name speak of it.
bool ReadsFileColumn(const MultiFileBindData &bind_data, idx_t column);

//! Stage 1: lets the catalog rule out extents by conjuncts in the core's JSON. Does nothing for plain files.
void PruneByCatalog(ClientContext &context, MultiFileBindData &bind_data, const vector<string> &conjuncts);
//! Counts what stage 1 ruled out.
void CountStoreFiles(PnsScan *scan, const StoreFileList &files, idx_t remaining);
//! The columns of a store's table that are JSON.
vector<string> JsonColumns(const StoreFileList &files);
//! What EXPLAIN says about a store's table.
string DescribeStoreFiles(const StoreFileList &files);

//! Row counts and statistics of every block, for answers from metadata.
vector<PartitionStatistics> ScanPartitionStats(ClientContext &context, GetPartitionStatsInput &input);
//! Remembers the order the optimizer asks for.
void ScanSetOrder(unique_ptr<RowGroupOrderOptions> options, optional_ptr<FunctionData> bind_data);
//! Puts the files of a scan into the order asked for, by their bounds.
void OrderFiles(ClientContext &context, MultiFileBindData &bind_data);

using ExtentScanFunction = MultiFileFunction<ExtentInterface>;

} // namespace pensieve
