// The scan of a store's table: extents from the catalog, stage 1, and pensieve_scan.
#include "store.hpp"

#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/parser/expression/cast_expression.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"

namespace pensieve {

shared_ptr<Store> OpenStore(ClientContext &context, const string &address_p,
                            const vector<pair<string, string>> &options) {
	auto &fs = FileSystem::GetFileSystem(context);
	auto address = StringUtil::Contains(address_p, "://") ? address_p : fs.ExpandPath(address_p);
	auto lower = StringUtil::Lower(address);
	auto is_file = StringUtil::EndsWith(lower, ".db") || StringUtil::EndsWith(lower, ".sqlite") ||
	               StringUtil::EndsWith(lower, ".sqlite3");
	auto &opener = static_cast<OpenerFileSystem &>(fs);
	if (is_file) {
		opener.VerifyCanAccessFile(address);
	} else {
		opener.VerifyCanAccessDirectory(address);
	}
	string json = "{";
	for (auto &option : options) {
		json += (json.size() > 1 ? "," : "") + QuoteJson(option.first) + ":" + QuoteJson(option.second);
		if (option.first == "storage") {
			opener.VerifyCanAccessDirectory(option.second);
		}
	}
	json += "}";
	PnsStore *handle = nullptr;
	char *error = nullptr;
	auto storage = address;
	for (auto &option : options) {
		storage = option.first == "storage" ? option.second : storage;
	}
	auto remote = RemoteConfiguration(context, storage);
	Check(pns_store_open(address.c_str(), json.c_str(), remote.c_str(), &handle, &error), error);
	auto result = make_shared_ptr<Store>();
	result->handle = StorePtr(handle);
	PnsStoreInfo info {};
	pns_store_info(handle, &info);
	result->kind = TakeString(info.kind);
	result->address = TakeString(info.address);
	result->storage = TakeString(info.storage);
	result->magic = TakeString(info.magic);
	result->read_only = info.read_only != 0;
	return result;
}

string AtText(const Identifier &unit, const Value &value) {
	if (value.IsNull()) {
		throw BinderException("%s NULL names no snapshot", unit.GetIdentifierName());
	}
	if (unit == "version") {
		return "version:" + value.ToString();
	}
	if (unit != "timestamp") {
		throw BinderException("AT (%s => …): a store knows VERSION and TIMESTAMP", unit.GetIdentifierName());
	}
	auto id = value.type().id();
	if (id == LogicalTypeId::TIMESTAMP_NS || id == LogicalTypeId::TIMESTAMP_TZ_NS) {
		return "timestamp_ns:" + std::to_string(value.GetValueUnsafe<int64_t>());
	}
	// an instant: a TIMESTAMP is taken as UTC
	auto instant = value.DefaultCastAs(LogicalType::TIMESTAMP_TZ);
	return "timestamp_us:" + std::to_string(instant.GetValueUnsafe<int64_t>());
}

void SplitTableName(const string &name, string &database, string &table) {
	char *first = nullptr;
	char *second = nullptr;
	char *error = nullptr;
	Check(pns_table_name(name.c_str(), &first, &second, &error), error);
	database = TakeString(first);
	table = TakeString(second);
}

shared_ptr<StoreTable> LookupStoreTable(ClientContext &context, const shared_ptr<Store> &store, PnsTx *transaction,
                                        const string &database, const string &name, const string &at) {
	PnsTable *handle = nullptr;
	char *error = nullptr;
	Check(pns_tx_table(transaction, database.c_str(), name.c_str(), at.c_str(), &handle, &error), error);
	if (!handle) {
		return nullptr;
	}
	auto result = make_shared_ptr<StoreTable>();
	result->handle = TablePtr(handle);
	result->store = store;
	result->database = database;
	result->name = name;
	ArrowSchemaWrapper schema;
	Check(pns_table_schema(handle, reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), &error), error);
	auto columns = ReadArrowSchema(context, schema, result->QualifiedName());
	result->types = columns.types;
	for (auto &column : columns.names) {
		result->names.push_back(Identifier(column));
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Extents
//===--------------------------------------------------------------------===//

StoreFileList::StoreFileList(shared_ptr<StoreTable> table_p, vector<string> conjuncts_p, string disabled_p)
    : table(std::move(table_p)), conjuncts(std::move(conjuncts_p)), disabled(std::move(disabled_p)),
      shared(make_shared_ptr<Shared>()) {
}

const StoreFileList::Listed &StoreFileList::List() const {
	lock_guard<mutex> guard(shared->lock);
	if (shared->listed) {
		return *shared->listed;
	}
	PredicatePtr predicate;
	if (!conjuncts.empty()) {
		auto json = "{\"k\":\"and\",\"args\":[" + StringUtil::Join(conjuncts, ",") + "]}";
		predicate = PredicatePtr(pns_predicate_lower(json.c_str(), json.size()));
	}
	PnsTexts *locations = nullptr;
	PnsExtentCounts counts {};
	char *error = nullptr;
	Check(pns_table_extents(table->handle.get(), predicate.get(), disabled.c_str(), &locations, &counts, &error),
	      error);
	auto result = make_uniq<Listed>();
	result->considered = counts.considered;
	result->skipped.assign(std::begin(counts.skipped), std::end(counts.skipped));
	result->notes = TakeString(counts.notes);
	result->manifests = counts.manifests;
	result->manifests_skipped = counts.manifests_skipped;
	result->rows = counts.rows;
	for (auto &location : TakeTexts(locations)) {
		result->files.emplace_back(location);
	}
	shared->listed = std::move(result);
	return *shared->listed;
}

vector<OpenFileInfo> StoreFileList::GetAllFiles() const {
	return List().files;
}

FileExpandResult StoreFileList::GetExpandResult() const {
	auto count = List().files.size();
	return count == 0   ? FileExpandResult::NO_FILES
	       : count == 1 ? FileExpandResult::SINGLE_FILE
	                    : FileExpandResult::MULTIPLE_FILES;
}

idx_t StoreFileList::GetTotalFileCount() const {
	return List().files.size();
}

unique_ptr<NodeStatistics> StoreFileList::GetCardinality(ClientContext &) const {
	auto rows = List().rows;
	return make_uniq<NodeStatistics>(rows, rows);
}

unique_ptr<MultiFileList> StoreFileList::Copy() const {
	auto result = make_uniq<StoreFileList>(table, conjuncts, disabled);
	result->entry = entry;
	result->shared = shared;
	return std::move(result);
}

OpenFileInfo StoreFileList::GetFile(idx_t i) const {
	auto &files = List().files;
	return i < files.size() ? files[i] : OpenFileInfo();
}

void PruneByCatalog(ClientContext &context, MultiFileBindData &bind_data, const vector<string> &conjuncts) {
	auto &data = bind_data.bind_data->Cast<ExtentBindData>();
	if (!data.store_files || conjuncts.empty() || bind_data.file_list.get() != data.store_files.get()) {
		return;
	}
	auto all = data.store_files->conjuncts;
	for (auto &conjunct : conjuncts) {
		if (std::find(all.begin(), all.end(), conjunct) == all.end()) {
			all.push_back(conjunct);
		}
	}
	auto pruned = make_shared_ptr<StoreFileList>(data.store_files->table, std::move(all), DisabledEvidence(context));
	pruned->entry = data.store_files->entry;
	data.store_files = std::move(pruned);
	bind_data.file_list = data.store_files;
}

void CountStoreFiles(PnsScan *scan, const StoreFileList &files, idx_t remaining) {
	static const char *EVIDENCE[] = {"time", "distinct", "tokens", "paths"};
	auto &listed = files.List();
	pns_scan_manifests(scan, listed.manifests, listed.manifests_skipped);
	pns_scan_files(scan, listed.considered, 0, "partition");
	for (idx_t i = 0; i < listed.skipped.size(); i++) {
		pns_scan_files(scan, 0, listed.skipped[i], EVIDENCE[i]);
	}
	if (remaining < listed.files.size()) {
		pns_scan_files(scan, 0, listed.files.size() - remaining, "partition");
	}
	if (!listed.notes.empty()) {
		pns_scan_note(scan, listed.notes.c_str());
	}
}

vector<string> JsonColumns(const StoreFileList &files) {
	auto &table = *files.table;
	vector<string> result;
	for (idx_t i = 0; i < table.types.size(); i++) {
		if (table.types[i].IsJSONType()) {
			result.push_back(table.names[i].GetIdentifierName());
		}
	}
	return result;
}

string DescribeStoreFiles(const StoreFileList &files) {
	return files.table->QualifiedName() + " at version " +
	       std::to_string(pns_table_sequence(files.table->handle.get()));
}

//===--------------------------------------------------------------------===//
// The scan
//===--------------------------------------------------------------------===//

namespace {

//! Takes the columns from the catalog instead of the files; a file that lacks one reads as NULL.
struct StoreReader : public ExtentFileReader {
	explicit StoreReader(shared_ptr<StoreTable> table_p) : table(std::move(table_p)) {
		function_name = Identifier("pensieve_scan");
	}

	shared_ptr<StoreTable> table;

	bool Bind(MultiFileOptions &, MultiFileList &, vector<LogicalType> &return_types, vector<Identifier> &names,
	          MultiFileReaderBindData &bind_data) override {
		return_types = table->types;
		names = table->names;
		bind_data.schema = MultiFileColumnDefinition::ColumnsFromNamesAndTypes(names, return_types);
		for (auto &column : bind_data.schema) {
			column.default_expression = make_uniq<CastExpression>(column.type, ConstantExpression::Null());
		}
		bind_data.mapping = MultiFileColumnMappingMode::BY_NAME;
		return true;
	}
	unique_ptr<MultiFileReader> Copy() const override {
		return make_uniq<StoreReader>(table);
	}
};

unique_ptr<FunctionData> BindStoreScan(ClientContext &context, const shared_ptr<StoreTable> &table,
                                       vector<LogicalType> &types, vector<Identifier> &names) {
	auto files = make_shared_ptr<StoreFileList>(table, vector<string>(), DisabledEvidence(context));
	MultiFileOptions options;
	options.auto_detect_hive_partitioning = false;
	auto extent_options = make_uniq<ExtentOptions>();
	auto result = ExtentScanFunction::MultiFileBindInternal(context, make_uniq<StoreReader>(table), files, types, names,
	                                                        std::move(options), std::move(extent_options),
	                                                        make_uniq<ExtentInterface>(""));
	result->Cast<MultiFileBindData>().bind_data->Cast<ExtentBindData>().store_files = files;
	return result;
}

//! The version or instant that the parameters name, or nothing.
string AtOf(const named_argument_map_t &parameters) {
	string result;
	for (auto &entry : parameters) {
		if (entry.second.IsNull() || (entry.first != "version" && entry.first != "timestamp")) {
			continue;
		}
		if (!result.empty()) {
			throw BinderException("pensieve_scan takes version or timestamp, not both");
		}
		result = AtText(entry.first, entry.second);
	}
	return result;
}

unique_ptr<FunctionData> ScanBind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                  vector<Identifier> &names) {
	if (input.inputs[0].IsNull() || input.inputs[1].IsNull()) {
		throw BinderException("pensieve_scan needs the address of a store and the name of a table");
	}
	vector<pair<string, string>> options {{"read_only", "true"}};
	for (auto &entry : input.named_parameters) {
		if ((entry.first == "storage" || entry.first == "tenant") && !entry.second.IsNull()) {
			options.emplace_back(StringUtil::Lower(entry.first.GetIdentifierName()), entry.second.ToString());
		}
	}
	auto name = input.inputs[1].ToString();
	string database, table_name;
	SplitTableName(name, database, table_name);
	auto store = OpenStore(context, input.inputs[0].ToString(), options);
	TxPtr transaction(pns_tx_new(store->handle.get()));
	auto table =
	    LookupStoreTable(context, store, transaction.get(), database, table_name, AtOf(input.named_parameters));
	if (!table) {
		throw BinderException("There is no table %s in %s", name, store->address);
	}
	return BindStoreScan(context, table, types, names);
}

TableFunction ScanFunction() {
	return *GetReadFunction("pensieve_scan", "").functions[0];
}

} // namespace

virtual_column_map_t StoreVirtualColumns() {
	virtual_column_map_t result;
	result.insert(
	    make_pair(MultiFileReader::COLUMN_IDENTIFIER_FILENAME, TableColumn("filename", LogicalType::VARCHAR)));
	result.insert(make_pair(MultiFileReader::COLUMN_IDENTIFIER_FILE_ROW_NUMBER,
	                        TableColumn("file_row_number", LogicalType::BIGINT)));
	result.insert(
	    make_pair(MultiFileReader::COLUMN_IDENTIFIER_FILE_INDEX, TableColumn("file_index", LogicalType::UBIGINT)));
	result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
	return result;
}

static optional_ptr<TableCatalogEntry> ScannedEntry(optional_ptr<const FunctionData> bind_data) {
	auto &data = bind_data->Cast<MultiFileBindData>().bind_data->Cast<ExtentBindData>();
	return data.store_files ? data.store_files->entry : nullptr;
}

TableFunction StoreScanFunction(ClientContext &context, StoreTableEntry &entry, unique_ptr<FunctionData> &bind_data) {
	vector<LogicalType> types;
	vector<Identifier> names;
	bind_data = BindStoreScan(context, entry.table, types, names);
	bind_data->Cast<MultiFileBindData>().bind_data->Cast<ExtentBindData>().store_files->entry = entry;
	auto result = ScanFunction();
	result.get_table_entry = ScannedEntry;
	KeepInPlan(result);
	return result;
}

void RegisterStoreScan(ExtensionLoader &loader) {
	auto function = ScanFunction();
	function.GetSignature() = FunctionSignature()
	                              .AddPositionalOnly("address", LogicalType::VARCHAR)
	                              .AddPositionalOnly("table", LogicalType::VARCHAR);
	function.GetSignature().WithTypedKwargs("options", [](TypedKwargs &options) {
		options.Add("version", LogicalType::ANY)
		    .Add("timestamp", LogicalType::ANY)
		    .Add("storage", LogicalType::VARCHAR)
		    .Add("tenant", LogicalType::VARCHAR);
	});
	function.bind = ScanBind;
	loader.RegisterFunction(std::move(function));
}

} // namespace pensieve
