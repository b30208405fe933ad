// Arrow schemas and arrays of the core as DuckDB types and vectors.
#pragma once

#include "pensieve_shim.hpp"

#include "duckdb/common/arrow/arrow_wrapper.hpp"
#include "duckdb/common/multi_file/multi_file_data.hpp"
#include "duckdb/common/vector/dictionary_vector.hpp"
#include "duckdb/function/table/arrow.hpp"

namespace pensieve {

//! The columns of a file as DuckDB sees them.
struct ArrowColumns {
	vector<string> names;
	vector<LogicalType> types;
	vector<shared_ptr<ArrowType>> arrow_types;
	//! The file's field ids, in the shape of the columns.
	vector<MultiFileColumnDefinition> definitions;
	//! For plain text columns: the type of a block that the core hands over as a dictionary. Null for all others.
	vector<shared_ptr<ArrowType>> dictionary_types;
	//! For columns that DuckDB has no type for: what to say when one is read. They are declared as VARCHAR, so that the
	//! others can be read.
	vector<string> unreadable;

	//! The type to convert an array of column `index` with.
	const ArrowType &TypeOf(idx_t index, const ArrowArray &array) const;
};

//! Reads an Arrow struct schema.
ArrowColumns ReadArrowSchema(ClientContext &context, ArrowSchemaWrapper &schema, const string &file);

//! How DuckDB's types are written as Arrow: nothing lost, plain offsets, no views (every Arrow reader takes those).
ClientProperties ArrowOptions(ClientContext &context);

//! The schema of columns to write; a type without an Arrow form is an error that names its column and `target`, what is
//! written ("an extent").
void WriteArrowSchema(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
                      const char *target, ArrowSchemaWrapper &schema);

//! The values of a text dictionary as an entry that the vectors of many batches share, and the batch whose memory it
//! is.
struct SharedDictionary {
	buffer_ptr<DictionaryEntry> entry;
	shared_ptr<ArrowArrayWrapper> owner;
	const void *offsets = nullptr;
	const void *data = nullptr;
	int64_t length = 0;
};

//! One decoded struct array and what is needed to turn slices of its columns into vectors.
class ArrowBatch {
  public:
	ArrowBatch(ClientContext &context, shared_ptr<ArrowArrayWrapper> array,
	           shared_ptr<vector<SharedDictionary>> dictionaries = nullptr);

	idx_t RowCount() const;
	idx_t ColumnCount() const;
	//! Converts `size` rows of the batch's column `column`, which is column `index` of the file, from row `offset` on;
	//! zero-copy where the layouts agree.
	void Convert(idx_t column, const ArrowColumns &columns, idx_t index, idx_t offset, idx_t size, Vector &target);

	//! Fills `output` with the batch's next rows from row `offset` on, all columns in order, and moves `offset` past
	//! them.
	void Emit(const ArrowColumns &columns, idx_t &offset, DataChunk &output);

  private:
	//! How DuckDB's types are written as Arrow: nothing lost, plain offsets, no views (every Arrow reader takes those).
	ClientProperties ArrowOptions(ClientContext &context);

	//! The schema of columns to write; a type without an Arrow form is an error that names its column and `target`,
	//! what is written ("an extent").
	void WriteArrowSchema(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
	                      const char *target, ArrowSchemaWrapper &schema);

	//! The values of a text dictionary as an entry that all vectors with this dictionary share; null for other types.
	buffer_ptr<DictionaryEntry> TextDictionary(idx_t column, const ArrowArray &array, const ArrowType &type,
	                                           const LogicalType &target);

	ClientContext &context;
	shared_ptr<ArrowArrayWrapper> array;
	vector<unique_ptr<ArrowArrayScanState>> states;
	//! One for each column; shared with the other batches of a stream.
	shared_ptr<vector<SharedDictionary>> dictionaries;
};

//! Columns of rows of a claimed block, decoded a batch at a time. Their bytes are in memory once it is constructed.
class BatchStream {
  public:
	//! `columns` are those of the file; of a struct with child indexes only these fields are read, the others come as
	//! NULL.
	BatchStream(PnsScan *scan, PnsReader *reader, uint32_t block, const vector<ColumnIndex> &columns,
	            const vector<uint64_t> &ranges);

	//! The next batch, which has rows; null after the last.
	shared_ptr<ArrowBatch> Next(ClientContext &context);
	//! What `predicate` says about so many rows each of the last batch; see `pns_rows_judge`.
	void Judge(const PnsPredicate *predicate, const vector<uint64_t> &lengths, vector<uint8_t> &verdicts) const;

  private:
	RowsPtr rows;
	shared_ptr<vector<SharedDictionary>> dictionaries;
};

//! The rows of a claimed block that finer evidence leaves, as begin and end in turn; may do I/O.
vector<uint64_t> CandidateRanges(PnsScan *scan, PnsReader *reader, uint32_t block, const PnsPredicate *predicate);

} // namespace pensieve
