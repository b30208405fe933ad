// TABLESAMPLE n PERCENT (SYSTEM) is left to the scan, which then reads only what is in the sample.
//
// DuckDB would push samples of a number of rows as well, as a percentage of the estimated rows with a LIMIT above: of a
// list of files whose rows are not all known it could then return fewer rows than were asked for. Those stay above the
// scan.
#include "scan.hpp"

#include "duckdb/common/random_engine.hpp"
#include "duckdb/common/types/hash.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/operator/logical_sample.hpp"

namespace pensieve {

void SetSample(ClientContext &context, const SampleOptions &options, RowSample &sample) {
	auto part = options.sample_size.DefaultCastAs(LogicalType::DOUBLE).GetValue<double>() / 100.0;
	sample.active = part < 1.0;
	sample.threshold = part <= 0.0 ? 0 : uint64_t(part * 18446744073709549568.0);
	// without a seed every execution draws another sample
	sample.seed = options.seed.IsValid() ? options.seed.GetIndex()
	                                     : (uint64_t(RandomEngine::Get(context).NextRandomInteger()) << 32 |
	                                        RandomEngine::Get(context).NextRandomInteger());
}

bool RowSample::Contains(const string &file, uint32_t block, idx_t vector) const {
	// mixed after every part: what is only combined differs between two seeds by one constant for all vectors
	auto hash = Hash(CombineHash(Hash(seed), Hash(file.c_str(), file.size())));
	hash = Hash(CombineHash(hash, Hash(uint64_t(block))));
	hash = Hash(CombineHash(hash, Hash(uint64_t(vector))));
	return hash <= threshold;
}

void ExtentReader::SampleRows(const ExtentGlobalState &gstate, uint32_t block, vector<uint64_t> &ranges) {
	vector<uint64_t> sampled;
	uint64_t before = 0;
	uint64_t after = 0;
	for (idx_t i = 0; i < ranges.size(); i += 2) {
		before += ranges[i + 1] - ranges[i];
		for (auto row = ranges[i]; row < ranges[i + 1];) {
			auto vector = row / STANDARD_VECTOR_SIZE;
			auto end = MinValue<uint64_t>(ranges[i + 1], (vector + 1) * STANDARD_VECTOR_SIZE);
			if (gstate.sample.Contains(file.path, block, vector)) {
				after += end - row;
				if (!sampled.empty() && sampled.back() == row) {
					sampled.back() = end;
				} else {
					sampled.push_back(row);
					sampled.push_back(end);
				}
			}
			row = end;
		}
	}
	pns_scan_skip_rows(gstate.scan.get(), "sample", before - after);
	ranges = std::move(sampled);
}

static bool IsOurs(const LogicalGet &get) {
	auto bind_data = dynamic_cast<MultiFileBindData *>(get.bind_data.get());
	return bind_data && dynamic_cast<ExtentBindData *>(bind_data->bind_data.get());
}

static void PushSamples(OptimizerExtensionInput &, unique_ptr<LogicalOperator> &plan) {
	vector<reference<unique_ptr<LogicalOperator>>> open {plan};
	while (!open.empty()) {
		auto &op = open.back().get();
		open.pop_back();
		if (op->type == LogicalOperatorType::LOGICAL_SAMPLE &&
		    op->children[0]->type == LogicalOperatorType::LOGICAL_GET) {
			auto &options = op->Cast<LogicalSample>().sample_options;
			auto &get = op->children[0]->Cast<LogicalGet>();
			if (options->method == SampleMethod::SYSTEM_SAMPLE && options->is_percentage && IsOurs(get) &&
			    !get.extra_info.sample_options && !get.table_filters.HasFilters()) {
				get.extra_info.sample_options = std::move(options);
				op = std::move(op->children[0]);
			}
		}
		for (auto &child : op->children) {
			open.push_back(child);
		}
	}
}

void RegisterSample(ExtensionLoader &loader) {
	OptimizerExtension extension;
	extension.pre_optimize_function = PushSamples;
	OptimizerExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), std::move(extension));
}

} // namespace pensieve
