// Arrow schemas and arrays of the core as DuckDB types and vectors.
#include "arrow_bridge.hpp"

#include "duckdb/function/table/arrow/arrow_duck_schema.hpp"

namespace pensieve {

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
			if (child.format && string(child.format) == "u" && !child.dictionary && !child.metadata &&
			    result.types.back().id() == LogicalTypeId::VARCHAR) {
				dictionary = make_shared_ptr<ArrowType>(LogicalType::INTEGER);
				dictionary->SetDictionary(ArrowType::GetArrowLogicalType(context, child));
			}
			result.dictionary_types.push_back(std::move(dictionary));
		} catch (std::exception &error) {
			throw NotImplementedException("Cannot read column \"%s\" of \"%s\": DuckDB has no type for Arrow format "
			                              "'%s' (%s); select the other columns "
			                              "after rewriting the file without it",
			                              name, file, child.format ? child.format : "", ErrorData(error).RawMessage());
		}
		result.names.push_back(std::move(name));
	}
	return result;
}

ArrowBatch::ArrowBatch(ClientContext &context_p, shared_ptr<ArrowArrayWrapper> array_p)
    : context(context_p), array(std::move(array_p)) {
	states.resize(NumericCast<idx_t>(array->arrow_array.n_children));
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

void ArrowBatch::Convert(idx_t column, const ArrowColumns &columns, idx_t index, idx_t offset, idx_t size,
                         Vector &target) {
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

} // namespace pensieve
