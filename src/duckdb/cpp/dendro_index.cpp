// read_dendro(…, index_function := 'name', index_argument := value): a function of the session's catalog tests the
// index that an archive's producer stored beside each segment.
#include "dendro.hpp"

#include "duckdb/common/chrono.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_binder.hpp"

namespace pensieve {

namespace {

//! The one column of the chunk that the call is evaluated on.
constexpr const char *INDEX_COLUMN = "caller_index";

//! Indexes that are held at once, and about how many bytes of them.
constexpr idx_t BATCH_ROWS = STANDARD_VECTOR_SIZE;
constexpr idx_t BATCH_BYTES = 16ULL << 20;

class IndexCallBinder : public ExpressionBinder {
  public:
	IndexCallBinder(Binder &binder, ClientContext &context) : ExpressionBinder(binder, context) {
	}

  protected:
	BindResult BindExpression(unique_ptr<ParsedExpression> &expr_ptr, idx_t depth, bool root_expression) override {
		auto &expr = *expr_ptr;
		switch (expr.GetExpressionClass()) {
		case ExpressionClass::WINDOW:
			throw BinderException("it uses a window function");
		case ExpressionClass::SUBQUERY:
			throw BinderException("it uses a subquery");
		case ExpressionClass::COLUMN_REF: {
			auto &reference = expr.Cast<ColumnRefExpression>();
			if (reference.ColumnNames().size() == 1 && reference.GetColumnName() == INDEX_COLUMN) {
				return BindResult(make_uniq<BoundReferenceExpression>(LogicalType::BLOB, 0U));
			}
			return ExpressionBinder::BindExpression(expr_ptr, depth, root_expression);
		}
		default:
			return ExpressionBinder::BindExpression(expr_ptr, depth, root_expression);
		}
	}
	string UnsupportedAggregateMessage() override {
		return "it is an aggregate";
	}
};

string Message(std::exception &error) {
	return ErrorData(error).RawMessage();
}

} // namespace

unique_ptr<DendroIndexTest> DendroIndexTest::Bind(ClientContext &context, const string &path, const string &function,
                                                  optional_ptr<const Value> argument) {
	auto result = make_uniq<DendroIndexTest>();
	result->function = function;
	string call = function + "(BLOB" + (argument ? ", " + argument->type().ToString() : "") + ")";
	try {
		vector<unique_ptr<ParsedExpression>> arguments;
		arguments.push_back(make_uniq<ColumnRefExpression>(Identifier(INDEX_COLUMN)));
		if (argument) {
			result->argument = *argument;
			arguments.push_back(ConstantExpression::FromValue(*argument));
		}
		unique_ptr<ParsedExpression> parsed =
		    make_uniq<FunctionExpression>(QualifiedName::Parse(function), std::move(arguments));
		auto binder = Binder::CreateBinder(context);
		IndexCallBinder calls(*binder, context);
		auto bound = calls.ExpressionBinder::Bind(parsed);
		if (bound->IsVolatile()) {
			throw BinderException("it is volatile: asked twice, it may answer differently");
		}
		result->call = BoundCastExpression::AddCastToType(context, std::move(bound), LogicalType::BOOLEAN);
	} catch (std::exception &error) {
		throw BinderException("read_dendro(\"%s\"): index_function %s cannot be called: %s", path, call,
		                      Message(error));
	}
	return result;
}

unique_ptr<DendroIndexTest> DendroIndexTest::Copy() const {
	auto result = make_uniq<DendroIndexTest>();
	result->function = function;
	result->argument = argument;
	result->call = call->Copy();
	return result;
}

string DendroIndexTest::ToString() const {
	return call->ToString();
}

void DendroIndexTest::Prune(ClientContext &context, const string &path, PnsDendroScan *segments, PnsScan *scan) const {
	auto started = steady_clock::now();
	auto count = pns_dendro_scan_count(segments);
	vector<uint8_t> keep(count, 1);
	ExpressionExecutor executor(context, *call);
	DataChunk indexes;
	indexes.Initialize(context, {LogicalType::BLOB}, BATCH_ROWS);
	DataChunk answers;
	answers.Initialize(context, {LogicalType::BOOLEAN}, BATCH_ROWS);
	vector<idx_t> places;
	idx_t bytes = 0;
	auto test = [&]() {
		if (places.empty()) {
			return;
		}
		indexes.SetChildCardinality(places.size());
		answers.Reset();
		try {
			executor.Execute(indexes, answers);
		} catch (std::exception &error) {
			if (context.IsInterrupted()) {
				throw;
			}
			throw InvalidInputException("read_dendro(\"%s\"): index_function %s failed: %s", path, function,
			                            Message(error));
		}
		for (idx_t i = 0; i < places.size(); i++) {
			auto answer = answers.GetValue(0, i);
			keep[places[i]] = answer.IsNull() || BooleanValue::Get(answer) ? 1 : 0;
		}
		places.clear();
		bytes = 0;
		indexes.Reset();
	};
	for (idx_t i = 0; i < count; i++) {
		if (context.IsInterrupted()) {
			throw InterruptException();
		}
		uint8_t *data = nullptr;
		uint64_t length = 0;
		char *error = nullptr;
		Check(pns_dendro_scan_index(segments, i, &data, &length, &error), error);
		if (!data) {
			continue;
		}
		auto freed = [length](uint8_t *held) { pns_dendro_index_free(held, length); };
		std::unique_ptr<uint8_t, decltype(freed)> held(data, freed);
		indexes.SetValue(0, places.size(), Value::BLOB(data, length));
		places.push_back(i);
		bytes += length;
		if (places.size() >= BATCH_ROWS || bytes >= BATCH_BYTES) {
			test();
		}
	}
	test();
	std::chrono::duration<double, std::milli> elapsed = steady_clock::now() - started;
	pns_dendro_scan_retain(segments, scan, keep.data(), keep.size(), elapsed.count());
}

} // namespace pensieve
