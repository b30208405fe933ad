// Types of Parquet that DuckDB's import of Arrow does not know: times of the day in UTC and shredded VARIANTs.
#include "arrow_bridge.hpp"

#include "duckdb/common/arrow/arrow_type_extension.hpp"
#include "duckdb/common/arrow/schema_metadata.hpp"
#include "duckdb/common/types/variant/parquet_variant_iterator.hpp"
#include "duckdb/common/types/variant/variant_builder.hpp"
#include "duckdb/common/vector/struct_vector.hpp"
#include "duckdb/function/table/arrow/arrow_duck_schema.hpp"
#include "duckdb/main/config.hpp"

namespace pensieve {

namespace {

//! An extension type that is only read: DuckDB keeps writing its own.
[[noreturn]] void NotWritten(DuckDBArrowSchemaHolder &, ArrowSchema &, const LogicalType &type, ClientContext &,
                             const ArrowTypeExtension &) {
	throw NotImplementedException("pensieve: %s has another Arrow type", type.ToString());
}

//! A time of the day in UTC.
struct UtcTime {
	template <class T>
	static void Fill(Vector &source, Vector &result, idx_t count, int64_t per_microsecond) {
		auto times = FlatVector::GetData<T>(source);
		auto target = FlatVector::GetDataMutable<dtime_tz_t>(result);
		for (idx_t i = 0; i < count; i++) {
			if (FlatVector::IsNull(source, i)) {
				FlatVector::SetNull(result, i, true);
			} else {
				target[i] = dtime_tz_t(dtime_t(times[i].value / per_microsecond), 0);
			}
		}
		FlatVector::SetSize(result, count_t(count));
	}
	static void ArrowToDuck(ClientContext &, Vector &source, Vector &result, idx_t count) {
		source.Flatten();
		if (source.GetType().id() == LogicalTypeId::TIME_NS) {
			Fill<dtime_ns_t>(source, result, count, 1000);
		} else {
			Fill<dtime_t>(source, result, count, 1);
		}
	}
	static unique_ptr<ArrowType> GetType(ClientContext &, const ArrowSchema &schema, const ArrowSchemaMetadata &) {
		string format = schema.format ? schema.format : "";
		auto precision = format == "ttm"   ? ArrowDateTimeType::MILLISECONDS
		                 : format == "ttn" ? ArrowDateTimeType::NANOSECONDS
		                                   : ArrowDateTimeType::MICROSECONDS;
		auto internal = format == "ttn" ? LogicalType(LogicalTypeId::TIME_NS) : LogicalType(LogicalTypeId::TIME);
		auto result = make_uniq<ArrowType>(LogicalType::TIME_TZ, make_uniq<ArrowDateTimeInfo>(precision));
		result->extension_data = make_shared_ptr<ArrowTypeExtensionData>(LogicalType::TIME_TZ, internal, ArrowToDuck);
		return result;
	}
};

//! The rows of a VARIANT of which some parts are columns of their own, put together again. DuckDB's cursor over them
//! does not offer its values outside its own source, so the parts are walked here; what is binary, DuckDB emits.
struct VariantRows {
	//! A value that is a column of its own.
	struct Leaf {
		ParquetVariantNode node;
		const ShreddedGroupView &view;
		idx_t index;

		template <class T>
		T GetData() const {
			return UnifiedVectorFormat::GetData<T>(view.leaf_format)[view.leaf_format.sel->get_index(index)];
		}
		string_t GetString() const {
			return node.GetString();
		}
		VariantDecimalProperties GetDecimalProperties() const {
			return node.GetDecimalProperties();
		}
	};

	//! A field of an object: a part of its own, or binary.
	struct Field {
		string key;
		optional_ptr<const ShreddedGroupView> view;
		const_data_ptr_t data;
		const_data_ptr_t end;
	};

	ParquetVariantIterator &iterator;
	Vector &storage;

	//! Whether the row is NULL.
	bool Emit(idx_t row, VariantBuilder &builder) {
		if (FlatVector::IsNull(storage, row)) {
			return true;
		}
		iterator.BeginRow(row);
		if (IsMissing(iterator.GetRootView(), row)) {
			return true;
		}
		EmitValue(iterator.GetRootView(), row, builder);
		return false;
	}

  private:
	static bool IsTyped(const ShreddedGroupView &view, idx_t index) {
		if (!view.has_typed_value) {
			return false;
		}
		switch (view.kind) {
		case ParquetGroupKind::OBJECT:
			return view.typed_validity->IsValid(index);
		case ParquetGroupKind::ARRAY:
			return (*view.list)[index].IsValid();
		default:
			return view.leaf_format.validity.RowIsValid(view.leaf_format.sel->get_index(index));
		}
	}
	static bool IsMissing(const ShreddedGroupView &view, idx_t index) {
		return !IsTyped(view, index) && !(*view.value)[index].IsValid();
	}

	void EmitValue(const ShreddedGroupView &view, idx_t index, VariantBuilder &builder) {
		if (!IsTyped(view, index)) {
			auto value = (*view.value)[index];
			if (!value.IsValid()) {
				builder.EmitNull();
				return;
			}
			auto &bytes = value.GetValueUnsafe();
			auto data = const_data_ptr_cast(bytes.GetData());
			CheckBytes(data, 1, data + bytes.GetSize());
			iterator.EmitBinary(data, data + bytes.GetSize(), builder);
			return;
		}
		if (view.kind == ParquetGroupKind::OBJECT) {
			auto fields = Fields(view, index);
			builder.EmitObject(
			    fields.size(), [&](idx_t i) { return string_t(fields[i].key); },
			    [&](idx_t i) {
				    if (fields[i].view) {
					    EmitValue(*fields[i].view, index, builder);
				    } else {
					    iterator.EmitBinary(fields[i].data, fields[i].end, builder);
				    }
			    });
		} else if (view.kind == ParquetGroupKind::ARRAY) {
			auto list = (*view.list)[index].GetValueUnsafe();
			builder.EmitArray(list.length, [&](idx_t i) { EmitValue(*view.element, list.offset + i, builder); });
		} else {
			auto node = ParquetVariantNode::MakeShredded(iterator, view, index);
			builder.EmitPrimitiveNode(Leaf {node, view, index}, node.GetTypeId());
		}
	}

	//! The fields of an object, those of its own columns before the binary ones of the same name, in the order of their
	//! names.
	vector<Field> Fields(const ShreddedGroupView &view, idx_t index) {
		map<string, Field> fields;
		for (idx_t i = 0; i < view.fields.size(); i++) {
			if (!IsMissing(*view.fields[i], index)) {
				auto &key = view.field_names[i];
				fields.emplace(key, Field {key, view.fields[i].get(), nullptr, nullptr});
			}
		}
		auto rest = (*view.value)[index];
		if (rest.IsValid()) {
			auto &bytes = rest.GetValueUnsafe();
			auto data = const_data_ptr_cast(bytes.GetData());
			AddBinaryFields(data, data + bytes.GetSize(), fields);
		}
		vector<Field> result;
		for (auto &entry : fields) {
			result.push_back(std::move(entry.second));
		}
		return result;
	}

	//! The fields of an object in the binary encoding: their number, the numbers of their names, their offsets, their
	//! values.
	void AddBinaryFields(const_data_ptr_t data, const_data_ptr_t end, map<string, Field> &fields) {
		CheckBytes(data, 1, end);
		auto header = VariantValueMetadata::FromHeaderByte(*data++);
		if (header.basic_type != VariantBasicType::OBJECT) {
			throw InvalidInputException("A VARIANT in a Parquet file has fields of its own and is no object");
		}
		auto count_size = header.is_large ? 4 : 1;
		auto count = Number(data, count_size, end);
		auto ids = data + count_size;
		CheckBytes(ids, count * header.field_id_size, end);
		auto offsets = ids + count * header.field_id_size;
		CheckBytes(offsets, (count + 1) * header.field_offset_size, end);
		auto values = offsets + (count + 1) * header.field_offset_size;
		auto &names = iterator.GetMetadata().strings;
		for (idx_t i = 0; i < count; i++) {
			auto id = Number(ids + i * header.field_id_size, header.field_id_size, end);
			auto offset = Number(offsets + i * header.field_offset_size, header.field_offset_size, end);
			CheckBytes(values, offset + 1, end);
			if (id >= names.size()) {
				throw InvalidInputException("A VARIANT in a Parquet file names a field that its metadata lacks");
			}
			fields.emplace(names[id], Field {names[id], nullptr, values + offset, end});
		}
	}

	static void CheckBytes(const_data_ptr_t data, idx_t size, const_data_ptr_t end) {
		if (data > end || idx_t(end - data) < size) {
			throw InvalidInputException("A VARIANT in a Parquet file is cut off");
		}
	}
	static idx_t Number(const_data_ptr_t data, idx_t size, const_data_ptr_t end) {
		CheckBytes(data, size, end);
		idx_t result = 0;
		for (idx_t i = 0; i < size; i++) {
			result |= idx_t(data[i]) << (8 * i);
		}
		return result;
	}
};

//! A VARIANT whose struct has, besides its metadata and value, a typed value.
struct ShreddedVariant {
	static void ArrowToDuck(ClientContext &, Vector &source, Vector &result, idx_t count) {
		source.Flatten();
		auto &types = StructType::GetChildTypes(source.GetType());
		auto &entries = StructVector::GetEntries(source);
		child_list_t<LogicalType> group_types;
		idx_t metadata = 0;
		for (idx_t i = 0; i < types.size(); i++) {
			if (types[i].first == "metadata") {
				metadata = i;
			} else {
				group_types.push_back(types[i]);
			}
		}
		Vector group(LogicalType::STRUCT(std::move(group_types)), count);
		auto &group_entries = StructVector::GetEntries(group);
		for (idx_t i = 0, next = 0; i < types.size(); i++) {
			if (i != metadata) {
				group_entries[next++].Reference(entries[i]);
			}
		}
		FlatVector::SetSize(group, count_t(count));
		ParquetVariantIterator iterator(entries[metadata], group);
		VariantRows rows {iterator, source};
		BuildVariant(rows, count, result);
	}
	static unique_ptr<ArrowType> GetType(ClientContext &context, const ArrowSchema &schema,
	                                     const ArrowSchemaMetadata &) {
		vector<shared_ptr<ArrowType>> children;
		child_list_t<LogicalType> storage;
		for (int64_t i = 0; i < schema.n_children; i++) {
			auto &child = *schema.children[i];
			children.push_back(ArrowType::GetArrowLogicalType(context, child));
			storage.emplace_back(Identifier(child.name ? child.name : ""), children.back()->GetDuckType(true));
		}
		auto result = make_uniq<ArrowType>(LogicalType::VARIANT(), make_uniq<ArrowStructInfo>(std::move(children)));
		result->extension_data = make_shared_ptr<ArrowTypeExtensionData>(
		    LogicalType::VARIANT(), LogicalType::STRUCT(std::move(storage)), ArrowToDuck);
		return result;
	}
};

void RegisterType(const DBConfig &config, const string &name, const LogicalType &type, get_type_t get_type) {
	if (config.HasArrowExtension(ArrowExtensionMetadata(name, string(), string(), string()))) {
		return;
	}
	config.RegisterArrowExtension({name, NotWritten, get_type, make_shared_ptr<ArrowTypeExtensionData>(type)});
}

} // namespace

void RegisterArrowTypes(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	RegisterType(config, "pensieve.time_tz", LogicalType::TIME_TZ, UtcTime::GetType);
	RegisterType(config, "pensieve.variant", LogicalType::VARIANT(), ShreddedVariant::GetType);
}

} // namespace pensieve
