// ATTACH 'x.dendro' (TYPE pensieve): an archive as a read-only catalog with a table for each stream.
//
// A statement sees one snapshot of the archive: its first lookup reads the catalog, and every stream is bound from
// that. The next statement sees what is there then, also inside a transaction, so that a session which keeps a
// transaction open neither keeps the writer's log from shrinking nor reads segments that retention has removed.
#include "dendro.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/common/opener_file_system.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/parser/parsed_data/alter_table_info.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"
#include "duckdb/parser/parsed_data/create_index_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/planner/logical_operator.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/storage/table_storage_info.hpp"
#include "duckdb/transaction/meta_transaction.hpp"
#include "duckdb/transaction/transaction.hpp"

namespace pensieve {

namespace {

struct DendroViewDeleter {
	void operator()(PnsDendroView *view) const {
		pns_dendro_view_free(view);
	}
};

//! A stream as the statement sees it.
struct DendroStream {
	vector<LogicalType> types;
	vector<string> names;
	unique_ptr<DendroBindData> data;
	//! What a scan of it does not return.
	string notes;
};

//! The archive as one statement sees it.
class DendroView {
  public:
	DendroView(string path_p, const string &local, const string &options) : path(std::move(path_p)) {
		PnsDendroView *raw = nullptr;
		char *error = nullptr;
		Check(pns_dendro_view(local.c_str(), options.c_str(), &raw, &error), error);
		handle.reset(raw);
		auto count = pns_dendro_view_count(raw);
		for (uint64_t i = 0; i < count; i++) {
			names.push_back(TakeString(pns_dendro_view_name(raw, i)));
		}
		streams.resize(names.size());
	}

	//! Place of the stream that SQL calls `name`: the one of exactly that name, otherwise the only one that differs in
	//! case.
	optional_idx Find(const string &name) const {
		auto exact = std::find(names.begin(), names.end(), name);
		if (exact != names.end()) {
			return optional_idx(NumericCast<idx_t>(exact - names.begin()));
		}
		optional_idx result;
		for (idx_t i = 0; i < names.size(); i++) {
			if (!StringUtil::CIEquals(names[i], name)) {
				continue;
			}
			if (result.IsValid()) {
				throw BinderException("%s: \"%s\" is either of the streams \"%s\" and \"%s\": write it as one of them",
				                      path, name, names[result.GetIndex()], names[i]);
			}
			result = i;
		}
		return result;
	}

	DendroStream &Bind(ClientContext &context, idx_t index) {
		auto &stream = streams[index];
		if (!stream) {
			PnsDendro *raw = nullptr;
			char *error = nullptr;
			Check(pns_dendro_view_bind(handle.get(), index, &raw, &error), error);
			std::shared_ptr<PnsDendro> dendro(raw, pns_dendro_free);
			auto bound = make_uniq<DendroStream>();
			bound->notes = TakeString(pns_dendro_notes(raw));
			bound->data = DescribeDendro(context, std::move(dendro), path, bound->types, bound->names);
			stream = std::move(bound);
		}
		return *stream;
	}

	string path;
	vector<string> names;

  private:
	std::unique_ptr<PnsDendroView, DendroViewDeleter> handle;
	vector<unique_ptr<DendroStream>> streams;
};

//! The views of a connection's current statement, by catalog.
class DendroViews : public ClientContextState {
  public:
	struct Held {
		idx_t query;
		shared_ptr<DendroView> view;
	};

	void QueryEnd() override {
		Clear();
	}
	void TransactionCommit(MetaTransaction &, ClientContext &) override {
		Clear();
	}
	void TransactionRollback(MetaTransaction &, ClientContext &) override {
		Clear();
	}

	mutex lock;
	unordered_map<idx_t, Held> views;

  private:
	void Clear() {
		lock_guard<mutex> guard(lock);
		views.clear();
	}
};

class DendroCatalog;

//! Keeps the entries that it handed out.
class DendroTransaction : public Transaction {
  public:
	DendroTransaction(TransactionManager &manager, ClientContext &context) : Transaction(manager, context) {
	}

	mutex lock;
	vector<unique_ptr<CatalogEntry>> entries;
	//! The newest entry of each stream.
	unordered_map<string, reference<TableCatalogEntry>> newest;
};

class DendroTransactionManager : public TransactionManager {
  public:
	explicit DendroTransactionManager(AttachedDatabase &db) : TransactionManager(db) {
	}

	Transaction &StartTransaction(ClientContext &context) override {
		auto transaction = make_uniq<DendroTransaction>(*this, context);
		auto &result = *transaction;
		lock_guard<mutex> guard(lock);
		transactions[&result] = std::move(transaction);
		return result;
	}
	ErrorData CommitTransaction(ClientContext &, Transaction &transaction) override {
		End(transaction);
		return ErrorData();
	}
	void RollbackTransaction(Transaction &transaction) override {
		End(transaction);
	}
	void Checkpoint(ClientContext &, bool) override {
	}

  private:
	void End(Transaction &transaction) {
		lock_guard<mutex> guard(lock);
		transactions.erase(&transaction);
	}

	mutex lock;
	unordered_map<Transaction *, unique_ptr<DendroTransaction>> transactions;
};

class DendroTableEntry : public TableCatalogEntry {
  public:
	DendroTableEntry(Catalog &catalog, SchemaCatalogEntry &schema, CreateTableInfo &info, string stream_p)
	    : TableCatalogEntry(catalog, schema, info), stream(std::move(stream_p)), columns(std::move(info.columns)) {
	}

	//! The stream's exact name.
	string stream;
	ColumnList columns;
	idx_t estimate = 0;

	bool HasColumns(const DendroStream &other) const {
		auto &types = other.types;
		if (columns.LogicalColumnCount() != types.size()) {
			return false;
		}
		idx_t i = 0;
		for (auto &column : columns.Logical()) {
			if (column.Name().GetIdentifierName() != other.names[i] || column.Type() != types[i]) {
				return false;
			}
			i++;
		}
		return true;
	}

	const ColumnList &GetColumns() const override {
		return columns;
	}
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &, column_t) override {
		return nullptr;
	}
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) override;
	TableStorageInfo GetStorageInfo(ClientContext &) override {
		TableStorageInfo result;
		result.cardinality = estimate;
		return result;
	}
	virtual_column_map_t GetVirtualColumns() const override {
		return DendroVirtualColumns();
	}
	//! What DELETE, UPDATE and MERGE ask for first.
	vector<column_t> GetRowIdColumns() const override;
};

class DendroSchema : public SchemaCatalogEntry {
  public:
	DendroSchema(Catalog &catalog, CreateSchemaInfo &info) : SchemaCatalogEntry(catalog, info) {
	}

	void Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	void Scan(CatalogType, const std::function<void(CatalogEntry &)> &) override {
		// nothing is kept outside transactions
	}
	optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup) override;
	optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) override {
		throw ReadOnly();
	}
	optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction, CreateFunctionInfo &) override {
		throw ReadOnly();
	}
	optional_ptr<CatalogEntry> CreateTable(CatalogTransaction, BoundCreateTableInfo &) override {
		throw ReadOnly();
	}
	optional_ptr<CatalogEntry> CreateView(CatalogTransaction, CreateViewInfo &) override {
		throw ReadOnly();
	}
	optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction, CreateSequenceInfo &) override {
		throw ReadOnly();
	}
	optional_ptr<CatalogEntry> CreateType(CatalogTransaction, CreateTypeInfo &) override {
		throw ReadOnly();
	}
	void DropEntry(ClientContext &, DropInfo &) override {
		throw ReadOnly();
	}
	void Alter(CatalogTransaction, AlterInfo &) override {
		throw ReadOnly();
	}

  private:
	InvalidInputException ReadOnly() const;
	//! The stream's entry; `broken` is why it cannot be bound, if so.
	TableCatalogEntry &Entry(ClientContext &context, DendroView &view, idx_t index);
	TableCatalogEntry &BrokenEntry(ClientContext &context, const string &stream, const string &why);
	unique_ptr<DendroTableEntry> MakeEntry(const string &stream, const vector<string> &names,
	                                       const vector<LogicalType> &types, const string &comment);
};

class DendroCatalog : public Catalog {
  public:
	DendroCatalog(AttachedDatabase &db, string path_p, string local_p, string options_p)
	    : Catalog(db), path(std::move(path_p)), local(std::move(local_p)), options(std::move(options_p)) {
	}

	//! As written, absolute, and as JSON for pns_dendro_view.
	string path;
	string local;
	string options;

	//! The archive as the current statement sees it.
	shared_ptr<DendroView> View(ClientContext &context) {
		auto views = context.registered_state->GetOrCreate<DendroViews>("pensieve_dendro");
		auto query = context.transaction.GetActiveQuery();
		lock_guard<mutex> guard(views->lock);
		auto &held = views->views[GetOid()];
		if (!held.view || held.query != query) {
			held.view.reset();
			held.view = make_shared_ptr<DendroView>(path, local, options);
			held.query = query;
		}
		return held.view;
	}

	InvalidInputException ReadOnly() {
		return InvalidInputException(
		    "\"%s\" is read-only: a dendro archive (\"%s\") belongs to its producer; COPY … TO 'new.dendro' "
		    "(FORMAT dendro, …) writes an archive of its own",
		    GetName().GetIdentifierName(), path);
	}

	void Initialize(bool) override {
		CreateSchemaInfo info;
		info.SetQualifiedName(QualifiedName(GetName(), Identifier(DEFAULT_SCHEMA), Identifier()));
		schema = make_uniq<DendroSchema>(*this, info);
	}
	string GetCatalogType() override {
		return "pensieve";
	}
	optional_ptr<SchemaCatalogEntry> LookupSchema(CatalogTransaction transaction, const EntryLookupInfo &lookup,
	                                              OnEntryNotFound if_not_found) override {
		return LookupSchemaPath(transaction, lookup, if_not_found,
		                        [&](const EntryLookupInfo &name) -> optional_ptr<CatalogEntry> {
			                        if (name.GetEntryIdentifier() == DEFAULT_SCHEMA) {
				                        return schema.get();
			                        }
			                        return nullptr;
		                        });
	}
	void ScanSchemas(ClientContext &, std::function<void(SchemaCatalogEntry &)> callback) override {
		callback(*schema);
	}
	optional_ptr<CatalogEntry> CreateSchema(CatalogTransaction, CreateSchemaInfo &) override {
		throw ReadOnly();
	}
	void DropSchema(ClientContext &, DropInfo &) override {
		throw ReadOnly();
	}
	PhysicalOperator &PlanCreateTableAs(ClientContext &, PhysicalPlanGenerator &, LogicalCreateTable &,
	                                    PhysicalOperator &) override {
		throw ReadOnly();
	}
	PhysicalOperator &PlanInsert(ClientContext &, PhysicalPlanGenerator &, LogicalInsert &,
	                             optional_ptr<PhysicalOperator>) override {
		throw ReadOnly();
	}
	PhysicalOperator &PlanDelete(ClientContext &, PhysicalPlanGenerator &, LogicalDelete &,
	                             PhysicalOperator &) override {
		throw ReadOnly();
	}
	PhysicalOperator &PlanUpdate(ClientContext &, PhysicalPlanGenerator &, LogicalUpdate &,
	                             PhysicalOperator &) override {
		throw ReadOnly();
	}
	PhysicalOperator &PlanMergeInto(ClientContext &, PhysicalPlanGenerator &, LogicalMergeInto &,
	                                PhysicalOperator &) override {
		throw ReadOnly();
	}
	unique_ptr<LogicalOperator> BindCreateIndex(Binder &, CreateStatement &, TableCatalogEntry &,
	                                            unique_ptr<LogicalOperator>) override {
		throw ReadOnly();
	}
	unique_ptr<LogicalOperator> BindAlterAddIndex(Binder &, TableCatalogEntry &, unique_ptr<LogicalOperator>,
	                                              unique_ptr<CreateIndexInfo>, unique_ptr<AlterTableInfo>) override {
		throw ReadOnly();
	}
	DatabaseSize GetDatabaseSize(ClientContext &) override {
		return DatabaseSize();
	}
	bool InMemory() override {
		return false;
	}
	string GetDBPath() override {
		return path;
	}
	bool HasConflictingAttachOptions(const string &other, const AttachOptions &attach) override;

  private:
	unique_ptr<DendroSchema> schema;
};

} // namespace

//===--------------------------------------------------------------------===//
// Tables
//===--------------------------------------------------------------------===//

TableFunction DendroTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	auto view = catalog.Cast<DendroCatalog>().View(context);
	auto index = view->Find(stream);
	if (!index.IsValid() || view->names[index.GetIndex()] != stream) {
		throw TransactionException("%s: the stream \"%s\" has gone since the query was planned; run it again",
		                           view->path, stream);
	}
	auto &bound = view->Bind(context, index.GetIndex());
	if (!HasColumns(bound)) {
		throw TransactionException(
		    "%s: the columns of the stream \"%s\" have changed since the query was planned; run it "
		    "again",
		    view->path, stream);
	}
	auto data = unique_ptr_cast<FunctionData, DendroBindData>(bound.data->Copy());
	data->table = this;
	bind_data = std::move(data);
	auto result = GetDendroScanFunction();
	KeepInPlan(result);
	return result;
}

vector<column_t> DendroTableEntry::GetRowIdColumns() const {
	throw catalog.Cast<DendroCatalog>().ReadOnly();
}

unique_ptr<DendroTableEntry> DendroSchema::MakeEntry(const string &stream, const vector<string> &names,
                                                     const vector<LogicalType> &types, const string &comment) {
	CreateTableInfo info(*this, Identifier(stream));
	for (idx_t i = 0; i < types.size(); i++) {
		info.columns.AddColumn(ColumnDefinition(Identifier(names[i]), types[i]));
	}
	auto entry = make_uniq<DendroTableEntry>(catalog, *this, info, stream);
	if (!comment.empty()) {
		entry->comment = Value(comment);
	}
	return entry;
}

TableCatalogEntry &DendroSchema::Entry(ClientContext &context, DendroView &view, idx_t index) {
	auto &stream = view.names[index];
	auto &bound = view.Bind(context, index);
	auto comment = bound.notes.empty() ? Value() : Value(bound.notes);
	auto &transaction = Transaction::Get(context, catalog).Cast<DendroTransaction>();
	lock_guard<mutex> guard(transaction.lock);
	auto known = transaction.newest.find(stream);
	if (known != transaction.newest.end()) {
		auto &entry = known->second.get().Cast<DendroTableEntry>();
		if (entry.HasColumns(bound) && Value::NotDistinctFrom(entry.comment, comment)) {
			return entry;
		}
		transaction.newest.erase(known);
	}
	auto entry = MakeEntry(stream, bound.names, bound.types, bound.notes);
	entry->estimate = pns_dendro_row_estimate(bound.data->dendro.get());
	auto &result = *entry;
	transaction.newest.emplace(stream, result);
	transaction.entries.push_back(std::move(entry));
	return result;
}

TableCatalogEntry &DendroSchema::BrokenEntry(ClientContext &context, const string &stream, const string &why) {
	auto entry = MakeEntry(
	    stream, {"source_id", "source_uuid", "labels"},
	    {LogicalType::BIGINT, LogicalType::VARCHAR, LogicalType::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR)},
	    "cannot be read: " + why);
	auto &result = *entry;
	auto &transaction = Transaction::Get(context, catalog).Cast<DendroTransaction>();
	lock_guard<mutex> guard(transaction.lock);
	transaction.entries.push_back(std::move(entry));
	return result;
}

InvalidInputException DendroSchema::ReadOnly() const {
	return catalog.Cast<DendroCatalog>().ReadOnly();
}

optional_ptr<CatalogEntry> DendroSchema::LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup) {
	if (lookup.GetCatalogType() != CatalogType::TABLE_ENTRY) {
		return nullptr;
	}
	auto &context = transaction.GetContext();
	auto view = catalog.Cast<DendroCatalog>().View(context);
	auto index = view->Find(lookup.GetEntryName());
	if (!index.IsValid()) {
		return nullptr;
	}
	return Entry(context, *view, index.GetIndex());
}

void DendroSchema::Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY) {
		return;
	}
	auto view = catalog.Cast<DendroCatalog>().View(context);
	for (idx_t i = 0; i < view->names.size(); i++) {
		optional_ptr<TableCatalogEntry> entry;
		try {
			entry = Entry(context, *view, i);
		} catch (std::exception &failure) {
			ErrorData error(failure);
			if (error.Type() == ExceptionType::INTERRUPT || error.Type() == ExceptionType::INTERNAL) {
				throw;
			}
			// one stream that cannot be read must not hide the others
			entry = BrokenEntry(context, view->names[i], error.RawMessage());
		}
		callback(*entry);
	}
}

//===--------------------------------------------------------------------===//
// ATTACH
//===--------------------------------------------------------------------===//

//! Options of ATTACH as JSON for pns_dendro_view.
static string DendroAttachOptions(const string &path, const unordered_map<string, Value> &options) {
	map<string, string> parts;
	for (auto &option : options) {
		auto name = StringUtil::Lower(option.first);
		auto &value = option.second;
		if (name != "source" && name != "label" && name != "labels" && name != "union_by_name") {
			throw BinderException(
			    "Unrecognized option \"%s\" for the dendro archive \"%s\"; the options are SOURCE id or "
			    "uuid, LABEL {'key': 'value'}, UNION_BY_NAME",
			    option.first, path);
		}
		if (value.IsNull()) {
			throw BinderException("%s is NULL", StringUtil::Upper(name));
		}
		if (name == "source") {
			parts["source"] = QuoteJson(value.ToString());
		} else if (name == "union_by_name") {
			parts[name] = BooleanValue::Get(value.DefaultCastAs(LogicalType::BOOLEAN)) ? "true" : "false";
		} else {
			parts["labels"] = DendroLabelsJson(value, StringUtil::Upper(name));
		}
	}
	string result;
	for (auto &part : parts) {
		result += (result.empty() ? "" : ",") + QuoteJson(part.first) + ":" + part.second;
	}
	return "{" + result + "}";
}

bool DendroCatalog::HasConflictingAttachOptions(const string &other, const AttachOptions &attach) {
	return Catalog::HasConflictingAttachOptions(other, attach) || DendroAttachOptions(other, attach.options) != options;
}

bool IsDendroArchive(ClientContext &context, const string &given) {
	auto address = DendroLocalName(given);
	if (IsRemote(address)) {
		return false;
	}
	auto &fs = static_cast<OpenerFileSystem &>(FileSystem::GetFileSystem(context));
	try {
		fs.VerifyCanAccessFile(address);
	} catch (PermissionException &) {
		// a directory that may be used is not an archive
		fs.VerifyCanAccessDirectory(address);
		return false;
	}
	if (!fs.FileExists(address)) {
		return false;
	}
	int result = 0;
	char *error = nullptr;
	Check(pns_dendro_is_archive(fs.ExpandPath(address).c_str(), &result, &error), error);
	return result != 0;
}

unique_ptr<Catalog> AttachDendro(ClientContext &context, AttachedDatabase &db, const AttachInfo &info,
                                 const AttachOptions &options) {
	for (auto &option : info.options) {
		auto name = StringUtil::Lower(option.first);
		auto write = name == "read_write" || name == "readwrite";
		if (!write && name != "read_only" && name != "readonly") {
			continue;
		}
		if (BooleanValue::Get(option.second.DefaultCastAs(LogicalType::BOOLEAN)) == write) {
			throw BinderException("\"%s\" is a dendro archive, which is attached read-only", info.path);
		}
	}
	auto local = DendroPath(context, info.path);
	auto &fs = FileSystem::GetFileSystem(context);
	if (!fs.IsPathAbsolute(local)) {
		local = fs.JoinPath(FileSystem::GetWorkingDirectory(), local);
	}
	auto json = DendroAttachOptions(info.path, options.options);
	// what is wrong with the archive is said now
	DendroView view(info.path, local, json);
	db.SetReadOnlyDatabase();
	return make_uniq<DendroCatalog>(db, info.path, local, json);
}

unique_ptr<TransactionManager> CreateDendroTransactions(AttachedDatabase &db, Catalog &catalog) {
	if (!dynamic_cast<DendroCatalog *>(&catalog)) {
		return nullptr;
	}
	return make_uniq<DendroTransactionManager>(db);
}

} // namespace pensieve
