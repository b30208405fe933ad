// Column statistics of the core as DuckDB's: for the optimizer, for ordering blocks and for answers without a scan.
#include "scan.hpp"

#include "duckdb/storage/statistics/numeric_stats.hpp"
#include "duckdb/storage/statistics/string_stats.hpp"

namespace pensieve {

namespace {

struct StatsGuard {
	PnsColumnStats stats {};
	~StatsGuard() {
		pns_string_free(stats.min);
		pns_string_free(stats.max);
	}
};

//! A bound in the type DuckDB reads the column as; false when it has no exact form there.
bool BoundValue(const string &text, const LogicalType &type, Value &result) {
	auto integer = [&](int64_t &out) {
		auto value = Value(text).DefaultTryCastAs(LogicalType::BIGINT);
		if (!value) {
			return false;
		}
		out = BigIntValue::Get(*value);
		return true;
	};
	// nanoseconds to the unit of the type, exactly or not at all
	auto scaled = [&](int64_t divisor, int64_t &out) {
		auto nanos = Value(text).DefaultTryCastAs(LogicalType::HUGEINT);
		if (!nanos) {
			return false;
		}
		auto value = nanos->GetValueUnsafe<hugeint_t>();
		if (value % hugeint_t(divisor) != hugeint_t(0)) {
			return false;
		}
		return Hugeint::TryCast(value / hugeint_t(divisor), out);
	};
	int64_t number;
	switch (type.id()) {
	case LogicalTypeId::TIMESTAMP_NS:
		if (!scaled(1, number)) {
			return false;
		}
		result = Value::TIMESTAMPNS(timestamp_ns_t(number));
		return true;
	case LogicalTypeId::TIMESTAMP:
		if (!scaled(1000, number)) {
			return false;
		}
		result = Value::TIMESTAMP(timestamp_t(number));
		return true;
	case LogicalTypeId::TIMESTAMP_TZ:
		if (!scaled(1000, number)) {
			return false;
		}
		result = Value::TIMESTAMPTZ(timestamp_tz_t(number));
		return true;
	case LogicalTypeId::TIMESTAMP_TZ_NS:
		if (!scaled(1, number)) {
			return false;
		}
		result = Value::Numeric(type, number);
		return true;
	case LogicalTypeId::TIMESTAMP_MS:
		if (!scaled(1000000, number)) {
			return false;
		}
		result = Value::TIMESTAMPMS(timestamp_ms_t(number));
		return true;
	case LogicalTypeId::TIMESTAMP_SEC:
		if (!scaled(1000000000, number)) {
			return false;
		}
		result = Value::TIMESTAMPSEC(timestamp_sec_t(number));
		return true;
	case LogicalTypeId::DATE:
		if (!integer(number) || number < NumericLimits<int32_t>::Minimum() ||
		    number > NumericLimits<int32_t>::Maximum()) {
			return false;
		}
		result = Value::DATE(date_t(int32_t(number)));
		return true;
	case LogicalTypeId::BOOLEAN:
		result = Value::BOOLEAN(text == "1");
		return text == "1" || text == "0";
	case LogicalTypeId::TINYINT:
	case LogicalTypeId::SMALLINT:
	case LogicalTypeId::INTEGER:
	case LogicalTypeId::BIGINT:
	case LogicalTypeId::UTINYINT:
	case LogicalTypeId::USMALLINT:
	case LogicalTypeId::UINTEGER:
	case LogicalTypeId::UBIGINT:
	case LogicalTypeId::HUGEINT:
	case LogicalTypeId::FLOAT:
	case LogicalTypeId::DOUBLE: {
		auto value = Value(text).DefaultTryCastAs(type);
		if (!value || value->IsNull()) {
			return false;
		}
		result = *value;
		return true;
	}
	default:
		return false;
	}
}

} // namespace

unique_ptr<BaseStatistics> ExtentReader::BlockStatistics(const string &column, const LogicalType &type, int64_t block,
                                                         bool &exact) {
	StatsGuard guard;
	exact = false;
	if (!pns_reader_column_stats(reader.get(), column.c_str(), block, &guard.stats)) {
		return nullptr;
	}
	auto &stats = guard.stats;
	auto floating = type.id() == LogicalTypeId::FLOAT || type.id() == LogicalTypeId::DOUBLE;
	auto all_null = stats.nulls >= 0 && uint64_t(stats.nulls) == stats.rows;
	auto result = BaseStatistics::CreateUnknown(type);
	if (result.GetStatsType() == StatisticsType::NUMERIC_STATS && !all_null) {
		// NaN stands above every bound in DuckDB's order, and writers leave it out of their bounds
		auto bounded = !floating || stats.nans == 0;
		Value min;
		Value max;
		auto has_min = stats.min && bounded && BoundValue(stats.min, type, min);
		auto has_max = stats.max && bounded && BoundValue(stats.max, type, max);
		if (has_min) {
			NumericStats::SetMin(result, min);
		}
		if (has_max) {
			NumericStats::SetMax(result, max);
		}
		exact = has_min && has_max && stats.min_exact && stats.max_exact;
	}
	if (stats.nulls == 0) {
		result.Set(StatsInfo::CANNOT_HAVE_NULL_VALUES);
	}
	return result.ToUnique();
}

unique_ptr<BaseStatistics> ExtentReader::GetVirtualColumnStatistics(ClientContext &, column_t column) {
	if (column != MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER) {
		return nullptr;
	}
	auto result = BaseStatistics::CreateUnknown(LogicalType::BIGINT);
	NumericStats::SetMin(result, Value::BIGINT(0));
	NumericStats::SetMax(result, Value::BIGINT(NumericCast<int64_t>(MaxValue<idx_t>(row_count, 1) - 1)));
	result.Set(StatsInfo::CANNOT_HAVE_NULL_VALUES);
	return result.ToUnique();
}

unique_ptr<BaseStatistics> ExtentReader::GetStatistics(ClientContext &context, const Identifier &name) {
	for (idx_t i = 0; i < arrow.names.size(); i++) {
		if (Identifier(arrow.names[i]) == name) {
			bool exact;
			return BlockStatistics(arrow.names[i], arrow.types[i], -1, exact);
		}
	}
	return nullptr;
}

} // namespace pensieve
