// SORT_BY of COPY: a sort that is put below the COPY before DuckDB optimizes the plan.
#include "copy.hpp"

#include "duckdb/function/copy_function.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/operator/logical_copy_to_file.hpp"
#include "duckdb/planner/operator/logical_order.hpp"

namespace pensieve {

static string SortText(const vector<Value> &values) {
	vector<string> parts;
	for (auto &value : values) {
		parts.push_back(value.type().id() == LogicalTypeId::LIST ? SortText(ListValue::GetChildren(value))
		                                                         : value.ToString());
	}
	return StringUtil::Join(parts, ", ");
}

vector<SortKey> ParseSortBy(ClientContext &context, const vector<Value> &values, const vector<string> &names) {
	auto text = SortText(values);
	vector<SortKey> result;
	auto &config = DBConfig::GetConfig(context);
	for (auto &order : Parser(context).ParseOrderList(text)) {
		string column;
		if (order.expression->GetExpressionClass() == ExpressionClass::COLUMN_REF) {
			auto &reference = order.expression->Cast<ColumnRefExpression>();
			if (!reference.IsQualified()) {
				column = reference.GetColumnName().GetIdentifierName();
			}
		}
		auto known = std::find_if(names.begin(), names.end(),
		                          [&](const string &name) { return StringUtil::CIEquals(name, column); });
		if (column.empty() || known == names.end()) {
			throw BinderException("SORT_BY names \"%s\", which is not a column of the file; the columns are %s",
			                      order.expression->ToString(), StringUtil::Join(names, ", "));
		}
		auto type = config.ResolveOrder(context, order.type);
		auto nulls = config.ResolveNullOrder(context, type, order.null_order);
		result.push_back(SortKey {*known, type, nulls});
	}
	return result;
}

string SortByJson(const vector<SortKey> &keys) {
	vector<string> parts;
	for (auto &key : keys) {
		parts.push_back(StringUtil::Format("{\"column\":%s,\"descending\":%s,\"nulls_first\":%s}",
		                                   QuoteJson(key.column), key.type == OrderType::DESCENDING ? "true" : "false",
		                                   key.nulls == OrderByNullType::NULLS_FIRST ? "true" : "false"));
	}
	return "[" + StringUtil::Join(parts, ",") + "]";
}

static void SortCopy(LogicalCopyToFile &copy) {
	auto bind_data = dynamic_cast<ExtentCopyBindData *>(copy.bind_data.get());
	if (!bind_data || bind_data->sort_by.empty() || bind_data->sorts) {
		return;
	}
	if (copy.per_thread_output) {
		throw BinderException("SORT_BY and PER_THREAD_OUTPUT cannot be combined: every thread would sort only its own "
		                      "rows; use FILE_SIZE_BYTES for several sorted files");
	}
	auto &child = copy.children[0];
	child->ResolveOperatorTypes();
	auto bindings = child->GetColumnBindings();
	vector<BoundOrderByNode> orders;
	for (auto &key : bind_data->sort_by) {
		auto position = std::find(copy.names.begin(), copy.names.end(), key.column) - copy.names.begin();
		auto column = NumericCast<idx_t>(position);
		if (column >= bindings.size()) {
			throw BinderException("SORT_BY: \"%s\" is not a column of the query", key.column);
		}
		auto &type = child->types[column];
		unique_ptr<Expression> expression;
		if (copy.partition_output) {
			expression = make_uniq<BoundReferenceExpression>(Identifier(key.column), type, column);
		} else {
			expression = make_uniq<BoundColumnRefExpression>(Identifier(key.column), type, bindings[column]);
		}
		orders.emplace_back(key.type, key.nulls, std::move(expression));
	}
	bind_data->sorts = true;
	if (copy.partition_output) {
		// DuckDB sorts within each partition itself
		for (auto &order : orders) {
			copy.order_columns.push_back(std::move(order));
		}
		return;
	}
	auto sort = make_uniq<LogicalOrder>(std::move(orders));
	sort->children.push_back(std::move(child));
	sort->ResolveOperatorTypes();
	copy.children[0] = std::move(sort);
}

static void SortCopies(OptimizerExtensionInput &, unique_ptr<LogicalOperator> &plan) {
	vector<reference<LogicalOperator>> open {*plan};
	while (!open.empty()) {
		auto &op = open.back().get();
		open.pop_back();
		if (op.type == LogicalOperatorType::LOGICAL_COPY_TO_FILE) {
			SortCopy(op.Cast<LogicalCopyToFile>());
		}
		for (auto &child : op.children) {
			open.push_back(*child);
		}
	}
}

void RegisterCopySort(ExtensionLoader &loader) {
	OptimizerExtension extension;
	extension.pre_optimize_function = SortCopies;
	OptimizerExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), std::move(extension));
}

} // namespace pensieve
