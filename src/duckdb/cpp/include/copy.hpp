// What COPY … TO an extent keeps between binding and writing.
#pragma once

#include "arrow_blocks.hpp"
#include "pensieve_shim.hpp"

#include "duckdb/function/copy_function.hpp"
#include "duckdb/planner/bound_result_modifier.hpp"

namespace pensieve {

//! One column of SORT_BY.
struct SortKey {
	string column;
	OrderType type;
	OrderByNullType nulls;
};

struct ExtentCopyBindData : public TableFunctionData {
	vector<LogicalType> types;
	vector<string> names;
	idx_t rows_per_block = 122880;
	idx_t bytes_per_block = DEFAULT_BYTES_PER_BLOCK;
	//! JSON of the core's write options.
	string options;
	vector<SortKey> sort_by;
	//! Whether the plan has a sort for `sort_by`.
	bool sorts = false;

	unique_ptr<FunctionData> Copy() const override {
		return make_uniq<ExtentCopyBindData>(*this);
	}
};

//! The columns of SORT_BY: each a column's name as in SQL, with ASC, DESC and NULLS FIRST or LAST where wanted.
vector<SortKey> ParseSortBy(ClientContext &context, const vector<Value> &values, const vector<string> &names);
//! The same for the core.
string SortByJson(const vector<SortKey> &keys);
//! The argument of an option that has one.
Value SingleValue(const Identifier &name, const vector<Value> &values, bool null_allowed = true);
//! The number of bytes that an option such as '64MB' says.
idx_t ParseBytes(const Identifier &name, const string &text);
//! The type as which extents hold values: enumerations, wherever they are, are text.
LogicalType StoredType(const LogicalType &type);
//! Enumerations are written as their text; every other type is written as it is.
vector<unique_ptr<Expression>> CastEnums(CopyToSelectInput &input);
//! Has the plan of a COPY sort its rows.
void RegisterCopySort(ExtensionLoader &loader);

} // namespace pensieve
