// Rows cut into Arrow arrays, by their number and by their bytes.
#pragma once

#include "arrow_bridge.hpp"

#include "duckdb/common/arrow/arrow_appender.hpp"

namespace pensieve {

//! Bytes of decoded values that a block has at most, unless one row alone has more.
constexpr idx_t DEFAULT_BYTES_PER_BLOCK = 64ULL << 20;
//! The largest limit: Arrow counts the bytes of one text column in 31 bits.
constexpr idx_t MAX_BYTES_PER_BLOCK = 1ULL << 30;

//! How many bytes of decoded values each row of a chunk has.
void RowBytes(DataChunk &chunk, vector<idx_t> &bytes);

//! Collects rows, and hands them over as one Arrow array whenever a limit is reached.
class ArrowBlocks {
  public:
	//! Takes a finished array, which is its own from then on, and the number of its rows.
	using Taker = std::function<void(ArrowArray &array, idx_t rows)>;

	//! `expected_rows`: how many rows an array is likely to have.
	ArrowBlocks(ClientContext &context, const vector<LogicalType> &types, idx_t max_rows, idx_t max_bytes,
	            idx_t expected_rows, Taker take);

	void Append(DataChunk &chunk);
	//! Hands over the rows that are left, if any.
	void Finish();

  private:
	void AppendRows(DataChunk &chunk, idx_t from, idx_t to);

	ClientContext &context;
	const vector<LogicalType> &types;
	idx_t max_rows;
	idx_t max_bytes;
	idx_t expected_rows;
	Taker take;
	unique_ptr<ArrowAppender> appender;
	//! Of the rows in `appender`.
	idx_t bytes = 0;
	vector<idx_t> row_bytes;
};

} // namespace pensieve
