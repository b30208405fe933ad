// Arrow schemas and arrays of the core as DuckDB types and vectors.
#include "arrow_bridge.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/function/table/arrow/arrow_duck_schema.hpp"

namespace pensieve {

namespace {

//! Whether a field of a Parquet file, or one within it, has an id.
bool HasFieldId(const ::ArrowSchema &schema) {
	if (!ArrowSchemaMetadata(schema.metadata).GetOption("PARQUET:field_id").empty()) {
		return true;
	}
	for (int64_t i = 0; i < schema.n_children; i++) {
		if (HasFieldId(*schema.children[i])) {
			return true;
		}
	}
	return false;
}

void SetFieldIds(MultiFileColumnDefinition &column, const ::ArrowSchema &schema) {
	auto id = Value(ArrowSchemaMetadata(schema.metadata).GetOption("PARQUET:field_id"));
	if (auto number = id.DefaultTryCastAs(LogicalType::INTEGER)) {
		column.identifier = *number;
	}
	// DuckDB's entries of a MAP are Arrow's: a struct of key and value; an extension type has no fields of its own
	for (idx_t i = 0; i < column.children.size() && i < NumericCast<idx_t>(schema.n_children); i++) {
		SetFieldIds(column.children[i], *schema.children[i]);
	}
}

//! The column as DuckDB's multi-file reader describes it, with the ids that the file gives it and its fields.
MultiFileColumnDefinition DefineColumn(const string &name, const LogicalType &type, const ::ArrowSchema &schema) {
	if (!HasFieldId(schema)) {
		return MultiFileColumnDefinition::CreateFromNameAndType(Identifier(name), type);
	}
	auto result = MultiFileColumnDefinition::CreateNested(Identifier(name), type);
	SetFieldIds(result, schema);
	return result;
}

} // namespace

ArrowColumns ReadArrowSchema(ClientContext &context, ArrowSchemaWrapper &schema, const string &file) {
	ArrowColumns result;
	auto &root = schema.arrow_schema;
	for (int64_t i = 0; i < root.n_children; i++) {
		auto &child = *root.children[i];
		string name = child.name ? child.name : "";
		try {
			unique_ptr<ArrowType> type;
			if (child.dictionary) {
				// an extension type is that of the values, though its name stands with the indices
				auto metadata = child.metadata;
				auto values_metadata = child.dictionary->metadata;
				child.metadata = nullptr;
				child.dictionary->metadata = values_metadata ? values_metadata : metadata;
				try {
					type = ArrowType::GetArrowLogicalType(context, child);
					type->SetDictionary(ArrowType::GetArrowLogicalType(context, *child.dictionary));
				} catch (...) {
					child.metadata = metadata;
					child.dictionary->metadata = values_metadata;
					throw;
				}
				child.metadata = metadata;
				child.dictionary->metadata = values_metadata;
			} else {
				type = ArrowType::GetArrowLogicalType(context, child);
			}
			type->ThrowIfInvalid();
			result.types.push_back(type->GetDuckType(true));
			result.arrow_types.push_back(shared_ptr<ArrowType>(type.release()));
			shared_ptr<ArrowType> dictionary;
			if (child.format && string(child.format) == "u" && !child.dictionary &&
			    !ArrowSchemaMetadata(child.metadata).HasExtension() &&
			    result.types.back().id() == LogicalTypeId::VARCHAR) {
				dictionary = make_shared_ptr<ArrowType>(LogicalType::INTEGER);
				dictionary->SetDictionary(ArrowType::GetArrowLogicalType(context, child));
			}
			result.dictionary_types.push_back(std::move(dictionary));
			result.unreadable.emplace_back();
		} catch (std::exception &error) {
			result.types.resize(result.names.size());
			result.arrow_types.resize(result.names.size());
			result.types.push_back(LogicalType::VARCHAR);
			result.arrow_types.push_back(make_shared_ptr<ArrowType>(LogicalType::VARCHAR));
			result.dictionary_types.emplace_back();
			result.unreadable.push_back(
			    StringUtil::Format("%s: column \"%s\" cannot be read: DuckDB has no type for Arrow format '%s' (%s); "
				                   "select the other columns",
				                   file, name, child.format ? child.format : "", ErrorData(error).RawMessage()));
		}
		result.definitions.push_back(DefineColumn(name, result.types.back(), child));
		result.names.push_back(std::move(name));
	}
	return result;
}

ClientProperties ArrowOptions(ClientContext &context) {
	return ClientProperties("UTC", ArrowOffsetSize::REGULAR, false, false, true, ArrowFormatVersion::V1_0, &context);
}

void WriteArrowSchema(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
                      const char *target, ArrowSchemaWrapper &schema) {
	auto options = ArrowOptions(context);
	for (idx_t i = 0; i < types.size(); i++) {
		// one column at a time first, so that a type without an Arrow form is reported with its column
		ArrowSchemaWrapper probe;
		try {
			ArrowConverter::ToArrowSchema(&probe.arrow_schema, {types[i]}, {names[i]}, options);
		} catch (std::exception &error) {
			throw NotImplementedException(
			    "Cannot write column \"%s\" of type %s to %s: %s; cast it, for example to VARCHAR", names[i],
			    types[i].ToString(), target, ErrorData(error).RawMessage());
		}
	}
	ArrowConverter::ToArrowSchema(&schema.arrow_schema, types, names, options);
}

ArrowBatch::ArrowBatch(ClientContext &context_p, shared_ptr<ArrowArrayWrapper> array_p,
                       shared_ptr<vector<SharedDictionary>> dictionaries_p)
    : context(context_p), array(std::move(array_p)), dictionaries(std::move(dictionaries_p)) {
	states.resize(NumericCast<idx_t>(array->arrow_array.n_children));
	if (!dictionaries) {
		dictionaries = make_shared_ptr<vector<SharedDictionary>>();
	}
	dictionaries->resize(MaxValue(states.size(), dictionaries->size()));
}

idx_t ArrowBatch::RowCount() const {
	return NumericCast<idx_t>(array->arrow_array.length);
}

idx_t ArrowBatch::ColumnCount() const {
	return states.size();
}

const ArrowType &ArrowColumns::TypeOf(idx_t index, const ArrowArray &array) const {
	if (!array.dictionary || arrow_types[index]->GetPhysicalType() == ArrowArrayPhysicalType::DICTIONARY_ENCODED) {
		return *arrow_types[index];
	}
	if (!dictionary_types[index]) {
		throw InternalException("pensieve: column \"%s\" came as a dictionary", names[index]);
	}
	return *dictionary_types[index];
}

template <class T>
static void SelectKeys(const ArrowArray &array, idx_t first, idx_t size, idx_t null_position, SelectionVector &result) {
	auto keys = static_cast<const T *>(array.buffers[1]) + first;
	auto validity = array.null_count == 0 ? nullptr : static_cast<const uint8_t *>(array.buffers[0]);
	if (!validity && sizeof(T) == sizeof(sel_t)) {
		// The keys themselves: what a scan returned is looked at until it is called again, and the batch lives longer.
		result.Initialize(reinterpret_cast<sel_t *>(const_cast<T *>(keys)), size);
		return;
	}
	result.Initialize(size);
	for (idx_t i = 0; i < size; i++) {
		auto valid = !validity || (validity[(first + i) / 8] >> ((first + i) % 8) & 1);
		result.set_index(i, valid ? static_cast<idx_t>(keys[i]) : null_position);
	}
}

//! The keys of a dictionary array, its NULLs as `null_position`. False: keys of a kind that is left to DuckDB's import.
static bool SelectKeys(LogicalTypeId keys, const ArrowArray &array, idx_t first, idx_t size, idx_t null_position,
                       SelectionVector &result) {
	switch (keys) {
	case LogicalTypeId::TINYINT:
		SelectKeys<int8_t>(array, first, size, null_position, result);
		return true;
	case LogicalTypeId::UTINYINT:
		SelectKeys<uint8_t>(array, first, size, null_position, result);
		return true;
	case LogicalTypeId::SMALLINT:
		SelectKeys<int16_t>(array, first, size, null_position, result);
		return true;
	case LogicalTypeId::USMALLINT:
		SelectKeys<uint16_t>(array, first, size, null_position, result);
		return true;
	case LogicalTypeId::INTEGER:
		SelectKeys<int32_t>(array, first, size, null_position, result);
		return true;
	case LogicalTypeId::UINTEGER:
		SelectKeys<uint32_t>(array, first, size, null_position, result);
		return true;
	default:
		return false;
	}
}

buffer_ptr<DictionaryEntry> ArrowBatch::TextDictionary(idx_t column, const ArrowArray &array, const ArrowType &type,
                                                       const LogicalType &target) {
	auto &values = *array.dictionary;
	auto &shared = (*dictionaries)[column];
	auto plain = values.n_buffers == 3 && values.offset == 0;
	// the owner keeps its memory: nothing else can have come to lie there
	if (plain && shared.entry && shared.offsets == values.buffers[1] && shared.data == values.buffers[2] &&
	    shared.length == values.length) {
		return shared.entry;
	}
	auto &values_type = type.GetDictionary();
	if (target.id() != LogicalTypeId::VARCHAR || values_type.HasDictionary() || values_type.HasExtension() ||
	    values_type.GetPhysicalType() != ArrowArrayPhysicalType::DEFAULT) {
		return nullptr;
	}
	auto size = NumericCast<idx_t>(values.length);
	ArrowArrayScanState state(context);
	state.owned_data = this->array;
	auto result = DictionaryVector::CreateReusableDictionary(target, size + 1);
	ArrowToDuckDBConversion::SetValidityMask(result->data, values, 0, size, 0, 0, true);
	ArrowToDuckDBConversion::ColumnArrowToDuckDB(result->data, values, 0, state, size, values_type);
	// dictionary vectors have no validity of their own: NULLs point to one entry more
	result->data.Reserve(size + 1);
	FlatVector::SetSize(result->data, count_t(size + 1));
	FlatVector::SetNull(result->data, size, true);
	if (plain) {
		shared = {result, this->array, values.buffers[1], values.buffers[2], values.length};
	}
	return result;
}

void ArrowBatch::Convert(idx_t column, const ArrowColumns &columns, idx_t index, idx_t offset, idx_t size,
                         Vector &target) {
	if (!columns.unreadable[index].empty()) {
		throw NotImplementedException(columns.unreadable[index]);
	}
	auto &parent = array->arrow_array;
	auto &child = *parent.children[column];
	auto &type = columns.TypeOf(index, child);
	if (!states[column]) {
		states[column] = make_uniq<ArrowArrayScanState>(context);
	}
	auto &state = *states[column];
	if (!state.owned_data) {
		state.owned_data = array;
	}
	switch (type.GetPhysicalType()) {
	case ArrowArrayPhysicalType::DICTIONARY_ENCODED:
		// An entry with an identity lets DuckDB hash and look up each distinct value once, not once per row.
		if (auto dictionary = TextDictionary(column, child, type, target.GetType())) {
			SelectionVector keys;
			auto first = NumericCast<idx_t>(parent.offset + child.offset) + offset;
			auto values = NumericCast<idx_t>(child.dictionary->length);
			if (SelectKeys(type.GetDuckType().id(), child, first, size, values, keys)) {
				target.Dictionary(dictionary, keys, size);
				break;
			}
		}
		ArrowToDuckDBConversion::ColumnArrowToDuckDBDictionary(target, child, offset, state, size, type);
		break;
	case ArrowArrayPhysicalType::RUN_END_ENCODED:
		ArrowToDuckDBConversion::ColumnArrowToDuckDBRunEndEncoded(target, child, offset, state, size, type);
		break;
	default:
		ArrowToDuckDBConversion::SetValidityMask(target, child, offset, size, parent.offset, -1);
		ArrowToDuckDBConversion::ColumnArrowToDuckDB(target, child, offset, state, size, type);
		break;
	}
	// every vector carries its own size in DuckDB 2.0; a missing one makes IS NULL lie
	FlatVector::SetSize(target, count_t(size));
}

void ArrowBatch::Emit(const ArrowColumns &columns, idx_t &offset, DataChunk &output) {
	auto count = MinValue<idx_t>(STANDARD_VECTOR_SIZE, RowCount() - offset);
	for (idx_t i = 0; count > 0 && i < output.ColumnCount(); i++) {
		Convert(i, columns, i, offset, count, output.data[i]);
	}
	offset += count;
	output.SetChildCardinality(count);
}

vector<uint64_t> CandidateRanges(PnsScan *scan, PnsReader *reader, uint32_t block, const PnsPredicate *predicate) {
	uint64_t *values = nullptr;
	uint64_t count = 0;
	char *error = nullptr;
	Check(pns_scan_candidates(scan, reader, block, predicate, &values, &count, &error), error);
	vector<uint64_t> result(values, values + count * 2);
	pns_u64_free(values, count * 2);
	return result;
}

//! A column as `pns_rows_open` wants it.
static void WriteColumn(const ColumnIndex &column, vector<uint32_t> &numbers) {
	numbers.push_back(NumericCast<uint32_t>(column.GetPrimaryIndex()));
	auto &fields = column.GetChildIndexes();
	for (auto &field : fields) {
		if (!field.HasPrimaryIndex()) {
			// a path within a VARIANT
			numbers.push_back(0);
			return;
		}
	}
	numbers.push_back(NumericCast<uint32_t>(fields.size()));
	for (auto &field : fields) {
		WriteColumn(field, numbers);
	}
}

BatchStream::BatchStream(PnsScan *scan, PnsReader *reader, uint32_t block, const vector<ColumnIndex> &columns,
                         const vector<uint64_t> &ranges)
    : dictionaries(make_shared_ptr<vector<SharedDictionary>>()) {
	vector<uint32_t> numbers;
	for (auto &column : columns) {
		WriteColumn(column, numbers);
	}
	PnsRows *opened = nullptr;
	char *error = nullptr;
	Check(pns_rows_open(scan, reader, block, numbers.data(), columns.size(), numbers.size(), ranges.data(),
	                    ranges.size() / 2, &opened, &error),
	      error);
	rows = RowsPtr(opened);
}

shared_ptr<ArrowBatch> BatchStream::Next(ClientContext &context) {
	while (true) {
		auto array = make_shared_ptr<ArrowArrayWrapper>();
		char *error = nullptr;
		Check(pns_rows_next(rows.get(), reinterpret_cast<::ArrowArray *>(&array->arrow_array), &error), error);
		if (!array->arrow_array.release) {
			return nullptr;
		}
		if (array->arrow_array.length > 0) {
			return make_shared_ptr<ArrowBatch>(context, std::move(array), dictionaries);
		}
	}
}

void BatchStream::Judge(const PnsPredicate *predicate, const vector<uint64_t> &lengths,
                        vector<uint8_t> &verdicts) const {
	pns_rows_judge(rows.get(), predicate, lengths.data(), lengths.size(), verdicts.data());
}

} // namespace pensieve
