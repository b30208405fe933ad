// ATTACH … (TYPE pensieve): catalog, schemas, tables and transactions over a store of the core.
#include "copy.hpp"
#include "store.hpp"

#include "duckdb/common/arrow/arrow_converter.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/logging/logger.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/parser/parsed_data/alter_table_info.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"
#include "duckdb/planner/tableref/bound_at_clause.hpp"
#include "duckdb/storage/database_size.hpp"
#include "duckdb/storage/storage_extension.hpp"
#include "duckdb/storage/table_storage_info.hpp"

namespace pensieve {

void RegisterStoreScan(ExtensionLoader &loader);
void RegisterStoreLists(ExtensionLoader &loader);
void RegisterStoreCopy(ExtensionLoader &loader);

//===--------------------------------------------------------------------===//
// Transactions
//===--------------------------------------------------------------------===//

StoreTransaction::StoreTransaction(TransactionManager &manager, ClientContext &context, StoreCatalog &catalog_p)
    : Transaction(manager, context), catalog(catalog_p), handle(pns_tx_new(catalog_p.store->handle.get())) {
}

StoreTransaction &StoreTransaction::Get(CatalogTransaction transaction) {
	if (!transaction.transaction) {
		throw InternalException("pensieve: a store was asked for something outside a transaction");
	}
	return transaction.transaction->Cast<StoreTransaction>();
}

StoreTransaction &StoreTransaction::Get(ClientContext &context, Catalog &catalog) {
	return Transaction::Get(context, catalog).Cast<StoreTransaction>();
}

const vector<string> &StoreTransaction::Databases() {
	if (!databases) {
		PnsTexts *texts = nullptr;
		char *error = nullptr;
		Check(pns_store_databases(catalog.store->handle.get(), &texts, &error), error);
		databases = make_uniq<vector<string>>(TakeTexts(texts));
	}
	return *databases;
}

void StoreTransaction::ForgetDatabases() {
	databases.reset();
}

string StoreTransaction::ResolveDatabase(const string &name) {
	string result;
	for (auto &database : Databases()) {
		if (database == name) {
			return database;
		}
		if (StringUtil::CIEquals(database, name)) {
			result = database;
		}
	}
	return result;
}

//! The columns as Arrow, and DuckDB's names of their types for messages.
void ExportColumns(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
                   const string &table, ArrowSchemaWrapper &schema, vector<string> &type_names) {
	auto options = ArrowOptions(context);
	for (auto &type : types) {
		type_names.push_back(type.ToString());
	}
	try {
		ArrowConverter::ToArrowSchema(&schema.arrow_schema, types, names, options);
	} catch (std::exception &error) {
		throw NotImplementedException("%s: a column has a type that extents cannot hold: %s", table,
		                              ErrorData(error).RawMessage());
	}
}

namespace {

class StoreTransactionManager : public TransactionManager {
  public:
	StoreTransactionManager(AttachedDatabase &db, StoreCatalog &catalog_p)
	    : TransactionManager(db), catalog(catalog_p) {
	}

	Transaction &StartTransaction(ClientContext &context) override {
		auto transaction = make_uniq<StoreTransaction>(*this, context, catalog);
		auto &result = *transaction;
		lock_guard<mutex> guard(lock);
		transactions[&result] = std::move(transaction);
		return result;
	}
	ErrorData CommitTransaction(ClientContext &, Transaction &transaction) override {
		auto owned = Take(transaction);
		char *error = nullptr;
		auto kind = pns_tx_commit(owned->handle.get(), &error);
		if (kind == PNS_OK) {
			return ErrorData();
		}
		try {
			ThrowError(kind, error);
		} catch (std::exception &failure) {
			return ErrorData(failure);
		}
	}
	void RollbackTransaction(Transaction &transaction) override {
		// dropping the handle takes back what was written
		Take(transaction);
	}
	void Checkpoint(ClientContext &, bool) override {
	}

  private:
	unique_ptr<StoreTransaction> Take(Transaction &transaction) {
		lock_guard<mutex> guard(lock);
		auto entry = transactions.find(&transaction);
		if (entry == transactions.end()) {
			throw InternalException("pensieve: unknown transaction");
		}
		auto result = std::move(entry->second);
		transactions.erase(entry);
		return result;
	}

	StoreCatalog &catalog;
	mutex lock;
	unordered_map<Transaction *, unique_ptr<StoreTransaction>> transactions;
};

string AtOf(const EntryLookupInfo &lookup) {
	auto at = lookup.GetAtClause();
	if (!at) {
		return string();
	}
	return AtText(at->Unit(), at->GetValue());
}

} // namespace

//===--------------------------------------------------------------------===//
// Tables
//===--------------------------------------------------------------------===//

StoreTableEntry::StoreTableEntry(Catalog &catalog, SchemaCatalogEntry &schema, CreateTableInfo &info,
                                 shared_ptr<StoreTable> table_p)
    : TableCatalogEntry(catalog, schema, info), table(std::move(table_p)), columns(std::move(info.columns)) {
}

TableFunction StoreTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	return StoreScanFunction(context, *this, bind_data);
}

TableStorageInfo StoreTableEntry::GetStorageInfo(ClientContext &) {
	return TableStorageInfo();
}

vector<column_t> StoreTableEntry::GetRowIdColumns() const {
	throw NotImplementedException("%s: DELETE, TRUNCATE, UPDATE and MERGE INTO are not available for tables of a store",
	                              table->QualifiedName());
}

//! Types that the catalog would take for another one.
static void CheckColumnType(const ColumnDefinition &column, const string &table) {
	auto &type = column.Type();
	if (type.id() == LogicalTypeId::VARCHAR && !StringType::GetCollation(type).empty()) {
		throw NotImplementedException(
		    "Column \"%s\" of %s: a store keeps no collations; compare with COLLATE in queries",
		    column.Name().GetIdentifierName(), table);
	}
}

//===--------------------------------------------------------------------===//
// Schemas
//===--------------------------------------------------------------------===//

StoreSchema::StoreSchema(Catalog &catalog, CreateSchemaInfo &info, string database_p)
    : SchemaCatalogEntry(catalog, info), database(std::move(database_p)) {
}

static vector<string> TableNames(StoreTransaction &transaction, const string &database) {
	PnsTexts *texts = nullptr;
	char *error = nullptr;
	Check(pns_tx_tables(transaction.handle.get(), database.c_str(), &texts, &error), error);
	return TakeTexts(texts);
}

optional_ptr<CatalogEntry> StoreSchema::Find(StoreTransaction &transaction, ClientContext &context, const string &name,
                                             const string &at) {
	lock_guard<mutex> guard(transaction.lock);
	vector<string> key {database, name, at};
	auto known = transaction.tables.find(key);
	if (known != transaction.tables.end()) {
		return known->second;
	}
	auto &store = transaction.catalog.store;
	auto table = LookupStoreTable(context, store, transaction.handle.get(), database, name, at);
	if (!table) {
		for (auto &other : TableNames(transaction, database)) {
			if (other != name && StringUtil::CIEquals(other, name)) {
				table = LookupStoreTable(context, store, transaction.handle.get(), database, other, at);
				break;
			}
		}
	}
	if (!table) {
		return nullptr;
	}
	CreateTableInfo info(*this, Identifier(table->name));
	for (idx_t i = 0; i < table->names.size(); i++) {
		info.columns.AddColumn(ColumnDefinition(table->names[i], table->types[i]));
	}
	auto entry = make_uniq<StoreTableEntry>(catalog, *this, info, std::move(table));
	optional_ptr<CatalogEntry> result = entry.get();
	transaction.entries.push_back(std::move(entry));
	transaction.tables[key] = result;
	return result;
}

//! Entries that no longer show the table's state.
static void ForgetTables(StoreTransaction &transaction) {
	lock_guard<mutex> guard(transaction.lock);
	transaction.tables.clear();
}

optional_ptr<CatalogEntry> StoreSchema::LookupEntry(CatalogTransaction transaction, const EntryLookupInfo &lookup) {
	if (lookup.GetCatalogType() != CatalogType::TABLE_ENTRY) {
		return nullptr;
	}
	return Find(StoreTransaction::Get(transaction), transaction.GetContext(), lookup.GetEntryName(), AtOf(lookup));
}

//! What a listing looks up. Listings, also those that find names like a misspelt one, are of all attached databases:
//! what cannot be read is left out with a warning, and an error only to those who ask for it by name.
static void ForListing(ClientContext &context, const string &what, const std::function<void()> &look_up) {
	string reason;
	try {
		look_up();
		return;
	} catch (std::exception &failure) {
		ErrorData error(failure);
		if (error.Type() == ExceptionType::INTERRUPT || error.Type() == ExceptionType::FATAL ||
		    error.Type() == ExceptionType::INTERNAL) {
			throw;
		}
		reason = error.RawMessage();
	}
	DUCKDB_LOG_WARNING(context, "pensieve: %s is left out of the listing: %s", what, reason);
}

void StoreSchema::Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	if (type != CatalogType::TABLE_ENTRY) {
		return;
	}
	auto &transaction = StoreTransaction::Get(context, catalog);
	vector<string> names;
	ForListing(context, catalog.GetName().GetIdentifierName() + "." + database,
	           [&]() { names = TableNames(transaction, database); });
	for (auto &name : names) {
		optional_ptr<CatalogEntry> entry;
		ForListing(context, catalog.GetName().GetIdentifierName() + "." + database + "." + name,
		           [&]() { entry = Find(transaction, context, name, string()); });
		if (entry) {
			callback(*entry);
		}
	}
}

void StoreSchema::Scan(CatalogType, const std::function<void(CatalogEntry &)> &) {
	throw NotImplementedException("a store is listed inside a transaction only");
}

static void CheckWritable(const Store &store) {
	if (store.read_only) {
		throw InvalidInputException("%s is attached read-only", store.address);
	}
}

optional_ptr<CatalogEntry> StoreSchema::CreateTable(CatalogTransaction transaction_p, BoundCreateTableInfo &info) {
	auto &transaction = StoreTransaction::Get(transaction_p);
	auto &context = transaction_p.GetContext();
	auto &base = info.Base();
	auto &store = *transaction.catalog.store;
	CheckWritable(store);
	auto name = base.GetTableName().GetIdentifierName();
	auto existing = Find(transaction, context, name, string());
	if (existing) {
		if (base.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT) {
			return nullptr;
		}
		if (base.on_conflict == OnCreateConflict::REPLACE_ON_CONFLICT) {
			throw NotImplementedException("CREATE OR REPLACE TABLE %s.%s: drop the table first", database, name);
		}
		throw CatalogException("Table with name \"%s\" already exists in %s!", name, database);
	}
	if (!base.constraints.empty()) {
		throw NotImplementedException(
		    "Table %s.%s: a store keeps no constraints (NOT NULL, PRIMARY KEY, UNIQUE, CHECK); "
		    "leave them out",
		    database, name);
	}
	vector<LogicalType> types;
	vector<string> names;
	for (auto &column : base.columns.Logical()) {
		if (column.Generated() || column.HasDefaultValue()) {
			throw NotImplementedException("Column \"%s\" of %s.%s: a store keeps no defaults and no generated columns",
			                              column.Name().GetIdentifierName(), database, name);
		}
		CheckColumnType(column, database + "." + name);
		types.push_back(StoredType(column.Type()));
		names.push_back(column.Name().GetIdentifierName());
	}
	ArrowSchemaWrapper schema;
	vector<string> type_names;
	ExportColumns(context, types, names, database + "." + name, schema, type_names);
	auto type_pointers = TextPointers(type_names);
	char *error = nullptr;
	int created = 0;
	if (transaction.ResolveDatabase(database).empty()) {
		// the default schema is there even before anything is in it
		int made = 0;
		Check(pns_tx_create_database(transaction.handle.get(), database.c_str(), &made, &error), error);
		transaction.ForgetDatabases();
	}
	auto status = pns_tx_create_table(
	    transaction.handle.get(), database.c_str(), name.c_str(),
	    reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), type_pointers.data(), type_pointers.size(),
	    base.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT ? 1 : 0, &created, &error);
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	if (!created && base.on_conflict != OnCreateConflict::IGNORE_ON_CONFLICT) {
		throw CatalogException("Table with name \"%s\" already exists in %s!", name, database);
	}
	ForgetTables(transaction);
	return Find(transaction, context, name, string());
}

void StoreSchema::DropEntry(ClientContext &context, DropInfo &info) {
	auto &transaction = StoreTransaction::Get(context, catalog);
	CheckWritable(*transaction.catalog.store);
	auto name = info.GetQualifiedName().Name().GetIdentifierName();
	if (info.type != CatalogType::TABLE_ENTRY) {
		throw NotImplementedException("a store has tables only: cannot drop \"%s\"", name);
	}
	auto entry = Find(transaction, context, name, string());
	if (!entry) {
		if (info.if_not_found == OnEntryNotFound::RETURN_NULL) {
			return;
		}
		throw CatalogException("Table with name %s does not exist in %s!", name, database);
	}
	auto &table = *entry->Cast<StoreTableEntry>().table;
	char *error = nullptr;
	Check(pns_tx_drop_table(transaction.handle.get(), database.c_str(), table.name.c_str(), &error), error);
	ForgetTables(transaction);
}

void StoreSchema::Alter(CatalogTransaction transaction_p, AlterInfo &info) {
	auto &transaction = StoreTransaction::Get(transaction_p);
	auto &context = transaction_p.GetContext();
	CheckWritable(*transaction.catalog.store);
	auto name = info.GetQualifiedName().Name().GetIdentifierName();
	if (info.type == AlterType::SET_COMMENT || info.type == AlterType::SET_COLUMN_COMMENT) {
		throw NotImplementedException("COMMENT ON %s.%s: a store keeps no comments", database, name);
	}
	if (info.type != AlterType::ALTER_TABLE ||
	    info.Cast<AlterTableInfo>().alter_table_type != AlterTableType::ADD_COLUMN) {
		throw NotImplementedException("ALTER %s: tables of a store can only get new columns (ALTER TABLE … ADD COLUMN)",
		                              name);
	}
	auto &add = info.Cast<AddColumnInfo>();
	auto entry = Find(transaction, context, name, string());
	if (!entry) {
		if (info.if_not_found == OnEntryNotFound::RETURN_NULL) {
			return;
		}
		throw CatalogException("Table with name %s does not exist in %s!", name, database);
	}
	auto &table = *entry->Cast<StoreTableEntry>().table;
	auto column = add.new_column.Name().GetIdentifierName();
	if (add.new_column.Generated() || add.new_column.HasDefaultValue()) {
		throw NotImplementedException("Column \"%s\" of %s: a store keeps no defaults and no generated columns", column,
		                              table.QualifiedName());
	}
	CheckColumnType(add.new_column, table.QualifiedName());
	for (auto &existing : table.names) {
		if (existing == add.new_column.Name()) {
			if (add.if_column_not_exists) {
				return;
			}
			throw CatalogException("Column with name %s already exists in %s!", column, table.QualifiedName());
		}
	}
	ArrowSchemaWrapper schema;
	vector<string> type_names;
	ExportColumns(context, {StoredType(add.new_column.Type())}, {column}, table.QualifiedName(), schema, type_names);
	auto type_pointers = TextPointers(type_names);
	char *error = nullptr;
	auto status = pns_tx_add_column(transaction.handle.get(), database.c_str(), table.name.c_str(),
	                                reinterpret_cast<::ArrowSchema *>(&schema.arrow_schema), type_pointers.data(),
	                                type_pointers.size(), &error);
	schema.arrow_schema.release = nullptr;
	Check(status, error);
	ForgetTables(transaction);
}

static NotImplementedException TablesOnly(const char *what) {
	return NotImplementedException("a store has tables only: it cannot hold %s", what);
}
optional_ptr<CatalogEntry> StoreSchema::CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) {
	throw TablesOnly("indexes");
}
optional_ptr<CatalogEntry> StoreSchema::CreateFunction(CatalogTransaction, CreateFunctionInfo &) {
	throw TablesOnly("functions");
}
optional_ptr<CatalogEntry> StoreSchema::CreateView(CatalogTransaction, CreateViewInfo &) {
	throw TablesOnly("views");
}
optional_ptr<CatalogEntry> StoreSchema::CreateSequence(CatalogTransaction, CreateSequenceInfo &) {
	throw TablesOnly("sequences");
}
optional_ptr<CatalogEntry> StoreSchema::CreateType(CatalogTransaction, CreateTypeInfo &) {
	throw TablesOnly("types");
}

//===--------------------------------------------------------------------===//
// The catalog
//===--------------------------------------------------------------------===//

StoreCatalog::StoreCatalog(AttachedDatabase &db, shared_ptr<Store> store_p) : Catalog(db), store(std::move(store_p)) {
}

StoreSchema &StoreCatalog::Schema(const string &database) {
	lock_guard<mutex> guard(lock);
	auto &schema = schemas[database];
	if (!schema) {
		CreateSchemaInfo info;
		info.SetQualifiedName(QualifiedName(GetName(), Identifier(database), Identifier()));
		schema = make_uniq<StoreSchema>(*this, info, database);
	}
	return *schema;
}

optional_ptr<SchemaCatalogEntry> StoreCatalog::LookupSchema(CatalogTransaction transaction_p,
                                                            const EntryLookupInfo &lookup_p,
                                                            OnEntryNotFound if_not_found) {
	auto &transaction = StoreTransaction::Get(transaction_p);
	return LookupSchemaPath(transaction_p, lookup_p, if_not_found,
	                        [&](const EntryLookupInfo &lookup) -> optional_ptr<CatalogEntry> {
		                        auto database = transaction.ResolveDatabase(lookup.GetEntryName());
		                        if (database.empty() && lookup.GetEntryIdentifier() == DEFAULT_SCHEMA) {
			                        database = DEFAULT_SCHEMA;
		                        }
		                        if (database.empty()) {
			                        return nullptr;
		                        }
		                        return &Schema(database);
	                        });
}

void StoreCatalog::ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) {
	auto &transaction = StoreTransaction::Get(context, *this);
	vector<string> databases;
	ForListing(context, GetName().GetIdentifierName(), [&]() {
		databases = transaction.Databases();
		if (transaction.ResolveDatabase(DEFAULT_SCHEMA).empty()) {
			databases.push_back(DEFAULT_SCHEMA);
		}
	});
	for (auto &database : databases) {
		callback(Schema(database));
	}
}

optional_ptr<CatalogEntry> StoreCatalog::CreateSchema(CatalogTransaction transaction_p, CreateSchemaInfo &info) {
	auto &transaction = StoreTransaction::Get(transaction_p);
	CheckWritable(*store);
	auto name = info.SchemaName().GetIdentifierName();
	if (!transaction.ResolveDatabase(name).empty()) {
		if (info.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT) {
			return nullptr;
		}
		throw CatalogException("Schema with name \"%s\" already exists!", name);
	}
	char *error = nullptr;
	int created = 0;
	Check(pns_tx_create_database(transaction.handle.get(), name.c_str(), &created, &error), error);
	transaction.ForgetDatabases();
	return &Schema(name);
}

void StoreCatalog::DropSchema(ClientContext &context, DropInfo &info) {
	auto &transaction = StoreTransaction::Get(context, *this);
	CheckWritable(*store);
	auto &qualified = info.GetQualifiedName();
	auto name = (qualified.Name().empty() ? qualified.Schema() : qualified.Name()).GetIdentifierName();
	auto database = transaction.ResolveDatabase(name);
	if (database.empty()) {
		if (info.if_not_found == OnEntryNotFound::RETURN_NULL) {
			return;
		}
		throw CatalogException("Schema with name \"%s\" does not exist!", name);
	}
	char *error = nullptr;
	int existed = 0;
	Check(pns_tx_drop_database(transaction.handle.get(), database.c_str(), info.cascade ? 1 : 0, &existed, &error),
	      error);
	transaction.ForgetDatabases();
	ForgetTables(transaction);
}

DatabaseSize StoreCatalog::GetDatabaseSize(ClientContext &) {
	return DatabaseSize();
}

PhysicalOperator &StoreCatalog::PlanDelete(ClientContext &, PhysicalPlanGenerator &, LogicalDelete &,
                                           PhysicalOperator &) {
	throw NotImplementedException("DELETE from a store is not available");
}

PhysicalOperator &StoreCatalog::PlanUpdate(ClientContext &, PhysicalPlanGenerator &, LogicalUpdate &,
                                           PhysicalOperator &) {
	throw NotImplementedException("UPDATE of a store is not available: extents are immutable; insert corrected rows");
}

PhysicalOperator &StoreCatalog::PlanMergeInto(ClientContext &, PhysicalPlanGenerator &, LogicalMergeInto &,
                                              PhysicalOperator &) {
	throw NotImplementedException("MERGE INTO a store is not available: extents are immutable; insert corrected rows");
}

unique_ptr<LogicalOperator> StoreCatalog::BindCreateIndex(Binder &, CreateStatement &, TableCatalogEntry &table,
                                                          unique_ptr<LogicalOperator>) {
	throw NotImplementedException(
	    "CREATE INDEX on \"%s\": a store keeps no indexes beside the statistics of its extents",
	    table.name.GetIdentifierName());
}

unique_ptr<LogicalOperator> StoreCatalog::BindAlterAddIndex(Binder &, TableCatalogEntry &table,
                                                            unique_ptr<LogicalOperator>, unique_ptr<CreateIndexInfo>,
                                                            unique_ptr<AlterTableInfo>) {
	throw NotImplementedException("ALTER TABLE \"%s\": a store keeps no keys and no unique columns",
	                              table.name.GetIdentifierName());
}

//===--------------------------------------------------------------------===//
// ATTACH
//===--------------------------------------------------------------------===//

unique_ptr<Catalog> AttachStore(ClientContext &context, AttachedDatabase &db, AttachInfo &info,
                                AttachOptions &options) {
	vector<pair<string, string>> pairs;
	for (auto &option : options.options) {
		auto name = StringUtil::Lower(option.first);
		auto is_time = name == "snapshot_time";
		pairs.emplace_back(name, is_time ? AtText(Identifier("timestamp"), option.second) : option.second.ToString());
	}
	if (options.access_mode == AccessMode::READ_ONLY) {
		pairs.emplace_back("read_only", "true");
	}
	return make_uniq<StoreCatalog>(db, OpenStore(context, info.path, pairs));
}

unique_ptr<TransactionManager> CreateStoreTransactions(AttachedDatabase &db, Catalog &catalog) {
	return make_uniq<StoreTransactionManager>(db, catalog.Cast<StoreCatalog>());
}

void RegisterStores(ExtensionLoader &loader) {
	RegisterSecrets(loader);
	RegisterStoreScan(loader);
	RegisterStoreLists(loader);
	RegisterStoreCopy(loader);
}

} // namespace pensieve
