// Bound expressions and table filters as JSON for the core. No decision is made here: what has no JSON form becomes
// "other".
#include "pensieve_shim.hpp"

#include "duckdb/planner/expression/bound_between_expression.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_comparison_expression.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression/bound_operator_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/table_filter_functions.hpp"

#include <cmath>

namespace pensieve {

static void Quote(string &out, const string &text) {
	static const char *HEX = "0123456789abcdef";
	out += '"';
	for (auto c : text) {
		auto byte = static_cast<unsigned char>(c);
		if (c == '"' || c == '\\') {
			out += '\\';
			out += c;
		} else if (byte < 0x20) {
			out += "\\u00";
			out += HEX[byte >> 4];
			out += HEX[byte & 15];
		} else {
			out += c;
		}
	}
	out += '"';
}

static string HexOf(const string &bytes) {
	static const char *HEX = "0123456789abcdef";
	string out;
	out.reserve(bytes.size() * 2);
	for (auto c : bytes) {
		auto byte = static_cast<unsigned char>(c);
		out += HEX[byte >> 4];
		out += HEX[byte & 15];
	}
	return out;
}

static string FloatText(double value) {
	if (std::isnan(value)) {
		return "nan";
	}
	if (std::isinf(value)) {
		return value > 0 ? "inf" : "-inf";
	}
	return StringUtil::Format("%.17g", value);
}

//! The value in the encoding documented in `src/predicate/lower.rs`.
static string ValueText(const Value &value) {
	switch (value.type().id()) {
	case LogicalTypeId::BOOLEAN:
		return BooleanValue::Get(value) ? "true" : "false";
	case LogicalTypeId::FLOAT:
		return FloatText(FloatValue::Get(value));
	case LogicalTypeId::DOUBLE:
		return FloatText(DoubleValue::Get(value));
	case LogicalTypeId::DECIMAL: {
		// the unscaled integer: the physical value without its decimal type
		switch (value.type().InternalType()) {
		case PhysicalType::INT16:
			return std::to_string(value.GetValueUnsafe<int16_t>());
		case PhysicalType::INT32:
			return std::to_string(value.GetValueUnsafe<int32_t>());
		case PhysicalType::INT64:
			return std::to_string(value.GetValueUnsafe<int64_t>());
		default:
			return Value::HUGEINT(value.GetValueUnsafe<hugeint_t>()).ToString();
		}
	}
	case LogicalTypeId::VARCHAR:
		return StringValue::Get(value);
	case LogicalTypeId::BLOB:
		return HexOf(StringValue::Get(value));
	case LogicalTypeId::DATE:
		return std::to_string(value.GetValueUnsafe<int32_t>());
	case LogicalTypeId::TIME:
	case LogicalTypeId::TIMESTAMP:
	case LogicalTypeId::TIMESTAMP_SEC:
	case LogicalTypeId::TIMESTAMP_MS:
	case LogicalTypeId::TIMESTAMP_NS:
	case LogicalTypeId::TIMESTAMP_TZ:
	case LogicalTypeId::TIMESTAMP_TZ_NS:
	case LogicalTypeId::TIME_NS:
		return std::to_string(value.GetValueUnsafe<int64_t>());
	default:
		if (value.type().InternalType() == PhysicalType::INT64 && value.type().IsTemporal()) {
			return std::to_string(value.GetValueUnsafe<int64_t>());
		}
		return value.ToString();
	}
}

static void ConstantJson(string &out, const Value &value) {
	out += "{\"k\":\"const\",\"type\":";
	Quote(out, value.type().ToString());
	out += ",\"value\":";
	if (value.IsNull()) {
		out += "null";
	} else {
		Quote(out, ValueText(value));
	}
	out += "}";
}

static void OtherJson(string &out, const string &text) {
	out += "{\"k\":\"other\",\"text\":";
	Quote(out, text);
	out += "}";
}

static const char *CompareName(ExpressionType type) {
	switch (type) {
	case ExpressionType::COMPARE_EQUAL:
		return "=";
	case ExpressionType::COMPARE_NOTEQUAL:
		return "<>";
	case ExpressionType::COMPARE_LESSTHAN:
		return "<";
	case ExpressionType::COMPARE_LESSTHANOREQUALTO:
		return "<=";
	case ExpressionType::COMPARE_GREATERTHAN:
		return ">";
	case ExpressionType::COMPARE_GREATERTHANOREQUALTO:
		return ">=";
	case ExpressionType::COMPARE_DISTINCT_FROM:
		return "IS DISTINCT FROM";
	case ExpressionType::COMPARE_NOT_DISTINCT_FROM:
		return "IS NOT DISTINCT FROM";
	default:
		return nullptr;
	}
}

static void Lower(string &out, const Expression &expression, const ColumnNamer &namer);

static void List(string &out, const vector<unique_ptr<Expression>> &children, idx_t from, const ColumnNamer &namer) {
	out += "[";
	for (idx_t i = from; i < children.size(); i++) {
		if (i > from) {
			out += ",";
		}
		Lower(out, *children[i], namer);
	}
	out += "]";
}

static void Unary(string &out, const char *kind, const Expression &child, const ColumnNamer &namer) {
	out += "{\"k\":\"";
	out += kind;
	out += "\",\"arg\":";
	Lower(out, child, namer);
	out += "}";
}

static const char *BoolText(bool value) {
	return value ? "true" : "false";
}

//! A bound that a join or a top-N operator keeps tightening: what it is at this moment.
static void DynamicJson(string &out, const BoundFunctionExpression &call, const ColumnNamer &namer) {
	auto &data = call.BindInfo()->Cast<DynamicFilterFunctionData>();
	if (!data.filter_data || !data.filter_data->initialized || call.GetChildren().empty()) {
		return OtherJson(out, "dynamic filter without a bound yet");
	}
	Value constant;
	ExpressionType type;
	{
		annotated_shared_lock<annotated_shared_mutex> guard(data.filter_data->lock);
		constant = data.filter_data->constant;
		type = data.filter_data->comparison_type;
	}
	auto name = CompareName(type);
	if (!name) {
		return OtherJson(out, "dynamic filter");
	}
	out += "{\"k\":\"cmp\",\"op\":\"";
	out += name;
	out += "\",\"l\":";
	Lower(out, *call.GetChildren()[0], namer);
	out += ",\"r\":";
	ConstantJson(out, constant);
	out += "}";
}

static void FunctionJson(string &out, const BoundFunctionExpression &call, const ColumnNamer &namer) {
	auto &name = call.Function().GetName().GetIdentifierName();
	if (name == OptionalFilterScalarFun::NAME) {
		auto &child = call.BindInfo()->Cast<OptionalFilterFunctionData>().child_filter_expr;
		return child ? Lower(out, *child, namer) : OtherJson(out, name);
	}
	if (name == SelectivityOptionalFilterScalarFun::NAME) {
		auto &child = call.BindInfo()->Cast<SelectivityOptionalFilterFunctionData>().child_filter_expr;
		return child ? Lower(out, *child, namer) : OtherJson(out, name);
	}
	if (name == DynamicFilterScalarFun::NAME) {
		return DynamicJson(out, call, namer);
	}
	if (TableFilterFunctions::IsTableFilterFunction(call.Function().GetName())) {
		return OtherJson(out, name);
	}
	out += "{\"k\":\"fn\",\"name\":";
	Quote(out, name);
	out += ",\"args\":";
	List(out, call.GetChildren(), 0, namer);
	out += "}";
}

static void Lower(string &out, const Expression &expression, const ColumnNamer &namer) {
	auto type = expression.GetExpressionType();
	switch (expression.GetExpressionClass()) {
	case ExpressionClass::BOUND_REF:
	case ExpressionClass::BOUND_COLUMN_REF: {
		auto name = namer(expression);
		if (name.empty()) {
			return OtherJson(out, expression.ToString());
		}
		auto &return_type = expression.GetReturnType();
		out += "{\"k\":\"col\",\"name\":";
		Quote(out, name);
		out += ",\"type\":";
		Quote(out, return_type.ToString());
		if (return_type.id() == LogicalTypeId::VARCHAR) {
			auto collation = StringType::GetCollation(return_type);
			if (!collation.empty()) {
				out += ",\"collation\":";
				Quote(out, collation);
			}
		}
		out += "}";
		return;
	}
	case ExpressionClass::BOUND_CONSTANT:
		return ConstantJson(out, expression.Cast<BoundConstantExpression>().GetValue());
	case ExpressionClass::BOUND_PARAMETER:
		out += "{\"k\":\"param\"}";
		return;
	case ExpressionClass::BOUND_CONJUNCTION:
		out += type == ExpressionType::CONJUNCTION_AND ? "{\"k\":\"and\",\"args\":" : "{\"k\":\"or\",\"args\":";
		List(out, expression.Cast<BoundConjunctionExpression>().GetChildren(), 0, namer);
		out += "}";
		return;
	case ExpressionClass::BOUND_OPERATOR: {
		auto &children = expression.Cast<BoundOperatorExpression>().GetChildren();
		switch (type) {
		case ExpressionType::OPERATOR_NOT:
			return Unary(out, "not", *children[0], namer);
		case ExpressionType::OPERATOR_IS_NULL:
			return Unary(out, "isnull", *children[0], namer);
		case ExpressionType::OPERATOR_IS_NOT_NULL:
			return Unary(out, "isnotnull", *children[0], namer);
		case ExpressionType::COMPARE_IN:
		case ExpressionType::COMPARE_NOT_IN:
			out += type == ExpressionType::COMPARE_IN ? "{\"k\":\"in\",\"arg\":" : "{\"k\":\"notin\",\"arg\":";
			Lower(out, *children[0], namer);
			out += ",\"list\":";
			List(out, children, 1, namer);
			out += "}";
			return;
		default:
			return OtherJson(out, expression.ToString());
		}
	}
	case ExpressionClass::BOUND_FUNCTION: {
		auto &call = expression.Cast<BoundFunctionExpression>();
		if (BoundCastExpression::IsCast(expression)) {
			out += "{\"k\":\"cast\",\"type\":";
			Quote(out, BoundCastExpression::TargetType(call).ToString());
			out += ",\"try\":";
			out += BoolText(BoundCastExpression::IsTryCast(call));
			out += ",\"arg\":";
			Lower(out, BoundCastExpression::Child(call), namer);
			out += "}";
			return;
		}
		if (type == ExpressionType::COMPARE_BETWEEN && BoundBetweenExpression::HasValidBindData(call)) {
			out += "{\"k\":\"between\",\"lo_inc\":";
			out += BoolText(BoundBetweenExpression::LowerInclusive(call));
			out += ",\"hi_inc\":";
			out += BoolText(BoundBetweenExpression::UpperInclusive(call));
			out += ",\"arg\":";
			Lower(out, BoundBetweenExpression::Input(call), namer);
			out += ",\"lo\":";
			Lower(out, BoundBetweenExpression::LowerBound(call), namer);
			out += ",\"hi\":";
			Lower(out, BoundBetweenExpression::UpperBound(call), namer);
			out += "}";
			return;
		}
		auto compare = BoundComparisonExpression::IsComparison(expression) ? CompareName(type) : nullptr;
		if (compare) {
			out += "{\"k\":\"cmp\",\"op\":\"";
			out += compare;
			out += "\",\"l\":";
			Lower(out, BoundComparisonExpression::Left(call), namer);
			out += ",\"r\":";
			Lower(out, BoundComparisonExpression::Right(call), namer);
			out += "}";
			return;
		}
		return FunctionJson(out, call, namer);
	}
	default:
		return OtherJson(out, expression.ToString());
	}
}

string ExpressionToJson(const Expression &expression, const ColumnNamer &namer) {
	string out;
	Lower(out, expression, namer);
	return out;
}

bool HasDynamicPart(const Expression &expression) {
	if (expression.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION) {
		auto &call = expression.Cast<BoundFunctionExpression>();
		auto &name = call.Function().GetName().GetIdentifierName();
		if (name == DynamicFilterScalarFun::NAME) {
			return true;
		}
		if (name == OptionalFilterScalarFun::NAME) {
			auto &child = call.BindInfo()->Cast<OptionalFilterFunctionData>().child_filter_expr;
			return child && HasDynamicPart(*child);
		}
		if (name == SelectivityOptionalFilterScalarFun::NAME) {
			auto &child = call.BindInfo()->Cast<SelectivityOptionalFilterFunctionData>().child_filter_expr;
			return child && HasDynamicPart(*child);
		}
	}
	bool found = false;
	ExpressionIterator::EnumerateChildren(expression,
	                                      [&](const Expression &child) { found = found || HasDynamicPart(child); });
	return found;
}

} // namespace pensieve
