// Rows of DuckDB cut into Arrow arrays, by their number and by their bytes.
#include "arrow_blocks.hpp"

#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/common/types/data_chunk.hpp"

#include <algorithm>

namespace pensieve {

//! Whether values of the type differ in size.
static bool VariesInSize(const LogicalType &type) {
	switch (type.InternalType()) {
	case PhysicalType::VARCHAR:
	case PhysicalType::LIST:
		return true;
	case PhysicalType::ARRAY:
		return VariesInSize(ArrayType::GetChildType(type));
	case PhysicalType::STRUCT: {
		if (type.id() == LogicalTypeId::VARIANT) {
			return true;
		}
		auto &children = StructType::GetChildTypes(type);
		return std::any_of(children.begin(), children.end(),
		                   [](const auto &child) { return VariesInSize(child.second); });
	}
	default:
		return false;
	}
}

//! Bytes of one value of a type whose values do not differ in size.
static idx_t FixedBytes(const LogicalType &type) {
	switch (type.InternalType()) {
	case PhysicalType::STRUCT: {
		idx_t sum = 0;
		for (auto &child : StructType::GetChildTypes(type)) {
			sum += FixedBytes(child.second);
		}
		return sum;
	}
	case PhysicalType::ARRAY:
		return ArrayType::GetSize(type) * FixedBytes(ArrayType::GetChildType(type));
	default:
		return GetTypeIdSize(type.InternalType());
	}
}

//! A vector, and what of its size is the same in every row.
struct SizedVector {
	explicit SizedVector(const RecursiveUnifiedVectorFormat &format_p)
	    : format(format_p), varies(VariesInSize(format_p.logical_type)) {
		if (!varies) {
			fixed = FixedBytes(format.logical_type);
			return;
		}
		for (auto &child : format.children) {
			children.emplace_back(child);
		}
	}

	//! Bytes of the value in a row.
	idx_t Bytes(idx_t row) const {
		if (!varies) {
			return fixed;
		}
		auto index = format.unified.sel->get_index(row);
		auto valid = format.unified.validity.RowIsValid(index);
		idx_t sum = sizeof(int32_t);
		switch (format.logical_type.InternalType()) {
		case PhysicalType::VARCHAR:
			return valid ? sum + UnifiedVectorFormat::GetData<string_t>(format.unified)[index].GetSize() : sum;
		case PhysicalType::LIST: {
			if (!valid) {
				return sum;
			}
			auto entry = UnifiedVectorFormat::GetData<list_entry_t>(format.unified)[index];
			if (!children[0].varies) {
				return sum + entry.length * children[0].fixed;
			}
			for (idx_t i = 0; i < entry.length; i++) {
				sum += children[0].Bytes(entry.offset + i);
			}
			return sum;
		}
		case PhysicalType::ARRAY: {
			auto size = ArrayType::GetSize(format.logical_type);
			for (idx_t i = 0; i < size; i++) {
				sum += children[0].Bytes(index * size + i);
			}
			return sum;
		}
		default:
			// the fields of a struct have its rows
			for (auto &child : children) {
				sum += child.Bytes(row);
			}
			return sum;
		}
	}

	const RecursiveUnifiedVectorFormat &format;
	bool varies;
	idx_t fixed = 0;
	vector<SizedVector> children;
};

void RowBytes(DataChunk &chunk, vector<idx_t> &bytes) {
	bytes.assign(chunk.size(), 0);
	for (auto &column : chunk.data) {
		if (!VariesInSize(column.GetType())) {
			auto fixed = FixedBytes(column.GetType());
			for (auto &row : bytes) {
				row += fixed;
			}
			continue;
		}
		RecursiveUnifiedVectorFormat format;
		Vector::RecursiveToUnifiedFormat(column, format);
		SizedVector sized(format);
		for (idx_t row = 0; row < bytes.size(); row++) {
			bytes[row] += sized.Bytes(row);
		}
	}
}

ArrowBlocks::ArrowBlocks(ClientContext &context_p, const vector<LogicalType> &types_p, idx_t max_rows_p,
                         idx_t max_bytes_p, idx_t expected_rows_p, Taker take_p)
    : context(context_p), types(types_p), max_rows(max_rows_p), max_bytes(max_bytes_p),
      expected_rows(MinValue(expected_rows_p, max_rows_p)), take(std::move(take_p)) {
}

void ArrowBlocks::Append(DataChunk &chunk) {
	RowBytes(chunk, row_bytes);
	idx_t from = 0;
	while (from < chunk.size()) {
		auto collected = appender ? appender->RowCount() : 0;
		auto to = from;
		while (to < chunk.size() && collected + to - from < max_rows) {
			if (collected + to - from > 0 && bytes + row_bytes[to] > max_bytes) {
				break;
			}
			bytes += row_bytes[to++];
		}
		AppendRows(chunk, from, to);
		from = to;
		if (from < chunk.size() || appender->RowCount() >= max_rows) {
			Finish();
		}
	}
}

void ArrowBlocks::AppendRows(DataChunk &chunk, idx_t from, idx_t to) {
	if (from == to) {
		return;
	}
	if (!appender) {
		appender = make_uniq<ArrowAppender>(types, expected_rows, ArrowOptions(context),
		                                    ArrowTypeExtensionData::GetExtensionTypes(context, types));
	}
	DataChunk part;
	auto rows = &chunk;
	if (to - from < chunk.size()) {
		// Rows are always appended from the first on: with an offset, DuckDB's appender converts too few elements of a
		// fixed-size list (its child is told the number of its own rows, not where they start).
		part.InitializeEmpty(types);
		part.Reference(chunk);
		part.Slice(from, to - from);
		part.Flatten();
		rows = &part;
	}
	try {
		appender->Append(*rows, 0, to - from, to - from);
	} catch (InvalidInputException &error) {
		if (!StringUtil::Contains(ErrorData(error).RawMessage(), "Arrow Appender: The maximum")) {
			throw;
		}
		throw InvalidInputException("One column of a block would have more than 2 GiB, which Arrow cannot hold. Blocks "
		                            "are cut by ROWS_PER_BLOCK and "
		                            "BYTES_PER_BLOCK, so one row has as much by itself: write such values in parts");
	}
}

void ArrowBlocks::Finish() {
	if (!appender) {
		return;
	}
	auto rows = appender->RowCount();
	auto array = appender->Finalize();
	appender.reset();
	bytes = 0;
	take(array, rows);
}

} // namespace pensieve
