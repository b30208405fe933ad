// Stores: a catalog of the core as a DuckDB catalog, and its tables as scans over extents.
#pragma once

#include "scan.hpp"

#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/common/multi_file/multi_file_list.hpp"
#include "duckdb/function/copy_function.hpp"
#include "duckdb/transaction/transaction.hpp"
#include "duckdb/transaction/transaction_manager.hpp"

namespace pensieve {

//! An open store. Shared by everything that came out of it.
struct Store {
	StorePtr handle;
	string kind;
	string address;
	string storage;
	string magic;
	bool read_only = false;
};

//! Opens a store; the session's access settings are checked first.
shared_ptr<Store> OpenStore(ClientContext &context, const string &address, const vector<pair<string, string>> &options);

//! A table pinned to a snapshot.
struct StoreTable {
	shared_ptr<Store> store;
	TablePtr handle;
	string database;
	string name;
	vector<Identifier> names;
	vector<LogicalType> types;

	string QualifiedName() const {
		return database + "." + name;
	}
};

//! A version or an instant as the core takes it; `unit` is "version" or "timestamp".
string AtText(const Identifier &unit, const Value &value);
//! Splits "database.table".
void SplitTableName(const string &name, string &database, string &table);

//! The table in the transaction, or null when there is none. `at` as in pns_tx_table.
shared_ptr<StoreTable> LookupStoreTable(ClientContext &context, const shared_ptr<Store> &store, PnsTx *transaction,
                                        const string &database, const string &name, const string &at);

class StoreTableEntry;

//! The extents of a table that stage 1 left, listed when they are first needed.
class StoreFileList : public MultiFileList {
  public:
	StoreFileList(shared_ptr<StoreTable> table, vector<string> conjuncts, string disabled);

	vector<OpenFileInfo> GetAllFiles() const override;
	FileExpandResult GetExpandResult() const override;
	idx_t GetTotalFileCount() const override;
	unique_ptr<NodeStatistics> GetCardinality(ClientContext &context) const override;
	unique_ptr<MultiFileList> Copy() const override;

	shared_ptr<StoreTable> table;
	vector<string> conjuncts;
	string disabled;
	//! The entry that the scan belongs to, if any.
	optional_ptr<TableCatalogEntry> entry;

	struct Listed {
		vector<OpenFileInfo> files;
		idx_t rows = 0;
		//! Extents considered, and those ruled out by time, distinct, tokens, paths.
		idx_t considered = 0;
		vector<idx_t> skipped;
		string notes;
		//! Manifests of the snapshot, and those that a time filter ruled out unread. None in SQL catalogs.
		idx_t manifests = 0;
		idx_t manifests_skipped = 0;
	};
	const Listed &List() const;

  protected:
	OpenFileInfo GetFile(idx_t i) const override;

  private:
	struct Shared {
		mutex lock;
		unique_ptr<Listed> listed;
	};
	shared_ptr<Shared> shared;
};

//! The scan of a table: the function and its bind data.
TableFunction StoreScanFunction(ClientContext &context, StoreTableEntry &entry, unique_ptr<FunctionData> &bind_data);
virtual_column_map_t StoreVirtualColumns();

//! COPY TO of a format ("tlm", "parquet"), whose functions INSERT uses.
CopyFunction GetExtentCopyFunction(const string &format);

//! The columns as Arrow, and DuckDB's names of their types for messages.
void ExportColumns(ClientContext &context, const vector<LogicalType> &types, const vector<string> &names,
                   const string &table, ArrowSchemaWrapper &schema, vector<string> &type_names);

//! What one thread that writes to an extent has.
struct ExtentSinkThread : public LocalSinkState {
	unique_ptr<LocalFunctionData> writer;
	idx_t rows = 0;
};

//! Writes rows of one table as extents that a transaction makes visible. One extent is written at a time, by many
//! threads.
class ExtentSink {
  public:
	//! `options` are those of the format's COPY.
	ExtentSink(ClientContext &context, const Store &store, PnsTx *transaction, string database, string table,
	           string format, const identifier_map_t<vector<Value>> &options, const vector<Identifier> &names,
	           const vector<LogicalType> &types);

	CopyFunction function;
	unique_ptr<FunctionData> bind_data;
	//! The extents that are complete, with their places for file paths.
	struct Written {
		string location;
		unique_ptr<CopyFunctionFileStatistics> statistics;
	};
	vector<Written> written;

	//! Rows written by threads that are done.
	atomic<idx_t> rows {0};

	//! Writes the rows of a chunk, which creates the file when it is the first with rows.
	void Append(ExecutionContext &context, ExtentSinkThread &thread, DataChunk &chunk);
	//! Ends the thread's part of the extent.
	void Combine(ExecutionContext &context, ExtentSinkThread &thread);
	//! Completes the extent, if one was begun, and appends it to the table. No thread writes any more.
	void Finish(ClientContext &context);
	//! Size of the extent so far: the blocks that are complete.
	idx_t Bytes();

  private:
	GlobalFunctionData &Writer(ClientContext &context);

	PnsTx *transaction;
	string database;
	string table;
	string format;
	string extension;
	mutex lock;
	//! Id, object path and location of the extent, as the core wrote them.
	string id;
	string object_path;
	string location;
	unique_ptr<GlobalFunctionData> writer;
	//! Filled by the writer when the extent is complete.
	unique_ptr<CopyFunctionFileStatistics> statistics;
};

//! What an operator that writes extents has while it runs.
struct ExtentSinkState : public GlobalSinkState {
	unique_ptr<ExtentSink> sink;
};

//! An operator that writes rows as extents and then returns what became of them.
class ExtentSinkOperator : public PhysicalOperator {
  public:
	ExtentSinkOperator(PhysicalPlan &plan, vector<LogicalType> types, idx_t cardinality, bool parallel);

	bool parallel;

	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override;
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override;
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override;
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return parallel;
	}
	bool SinkOrderDependent() const override {
		return !parallel;
	}
	bool IsSource() const override {
		return true;
	}
};

class StoreCatalog;

class StoreTransaction : public Transaction {
  public:
	StoreTransaction(TransactionManager &manager, ClientContext &context, StoreCatalog &catalog);

	static StoreTransaction &Get(CatalogTransaction transaction);
	static StoreTransaction &Get(ClientContext &context, Catalog &catalog);

	//! Names of the databases, listed once per transaction.
	const vector<string> &Databases();
	void ForgetDatabases();
	//! The exact name of a database or table that SQL names without regard to case; empty when there is none.
	string ResolveDatabase(const string &name);

	StoreCatalog &catalog;
	TxPtr handle;
	//! Entries handed out; they live as long as the transaction.
	vector<unique_ptr<CatalogEntry>> entries;
	mutex lock;
	//! By database, table and place in time.
	std::map<vector<string>, optional_ptr<CatalogEntry>> tables;

  private:
	unique_ptr<vector<string>> databases;
};

class StoreSchema : public SchemaCatalogEntry {
  public:
	StoreSchema(Catalog &catalog, CreateSchemaInfo &info, string database);

	//! The database's exact name.
	string database;

	void Scan(ClientContext &context, CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	void Scan(CatalogType type, const std::function<void(CatalogEntry &)> &callback) override;
	optional_ptr<CatalogEntry> CreateIndex(CatalogTransaction, CreateIndexInfo &, TableCatalogEntry &) override;
	optional_ptr<CatalogEntry> CreateFunction(CatalogTransaction, CreateFunctionInfo &) override;
	optional_ptr<CatalogEntry> CreateTable(CatalogTransaction, BoundCreateTableInfo &) override;
	optional_ptr<CatalogEntry> CreateView(CatalogTransaction, CreateViewInfo &) override;
	optional_ptr<CatalogEntry> CreateSequence(CatalogTransaction, CreateSequenceInfo &) override;
	optional_ptr<CatalogEntry> CreateType(CatalogTransaction, CreateTypeInfo &) override;
	optional_ptr<CatalogEntry> LookupEntry(CatalogTransaction, const EntryLookupInfo &) override;
	void DropEntry(ClientContext &context, DropInfo &info) override;
	void Alter(CatalogTransaction transaction, AlterInfo &info) override;

  private:
	optional_ptr<CatalogEntry> Find(StoreTransaction &transaction, ClientContext &context, const string &name,
	                                const string &at);
};

class StoreTableEntry : public TableCatalogEntry {
  public:
	StoreTableEntry(Catalog &catalog, SchemaCatalogEntry &schema, CreateTableInfo &info, shared_ptr<StoreTable> table);

	shared_ptr<StoreTable> table;
	ColumnList columns;

	const ColumnList &GetColumns() const override {
		return columns;
	}
	unique_ptr<BaseStatistics> GetStatistics(ClientContext &, column_t) override {
		return nullptr;
	}
	TableFunction GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) override;
	TableStorageInfo GetStorageInfo(ClientContext &context) override;
	virtual_column_map_t GetVirtualColumns() const override {
		return StoreVirtualColumns();
	}
	//! What DELETE, UPDATE and MERGE ask for first.
	vector<column_t> GetRowIdColumns() const override;
};

class StoreCatalog : public Catalog {
  public:
	StoreCatalog(AttachedDatabase &db, shared_ptr<Store> store);

	shared_ptr<Store> store;

	void Initialize(bool) override {
	}
	string GetCatalogType() override {
		return "pensieve";
	}
	optional_ptr<CatalogEntry> CreateSchema(CatalogTransaction transaction, CreateSchemaInfo &info) override;
	optional_ptr<SchemaCatalogEntry> LookupSchema(CatalogTransaction transaction, const EntryLookupInfo &lookup,
	                                              OnEntryNotFound if_not_found) override;
	void ScanSchemas(ClientContext &context, std::function<void(SchemaCatalogEntry &)> callback) override;
	PhysicalOperator &PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner, LogicalCreateTable &op,
	                                    PhysicalOperator &plan) override;
	PhysicalOperator &PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
	                             optional_ptr<PhysicalOperator> plan) override;
	PhysicalOperator &PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
	                             PhysicalOperator &plan) override;
	PhysicalOperator &PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
	                             PhysicalOperator &plan) override;
	PhysicalOperator &PlanMergeInto(ClientContext &context, PhysicalPlanGenerator &planner, LogicalMergeInto &op,
	                                PhysicalOperator &plan) override;
	unique_ptr<LogicalOperator> BindCreateIndex(Binder &binder, CreateStatement &stmt, TableCatalogEntry &table,
	                                            unique_ptr<LogicalOperator> plan) override;
	unique_ptr<LogicalOperator> BindAlterAddIndex(Binder &binder, TableCatalogEntry &table,
	                                              unique_ptr<LogicalOperator> plan,
	                                              unique_ptr<CreateIndexInfo> create_info,
	                                              unique_ptr<AlterTableInfo> alter_info) override;
	DatabaseSize GetDatabaseSize(ClientContext &context) override;
	bool InMemory() override {
		return false;
	}
	string GetDBPath() override {
		return store->address;
	}
	bool SupportsTimeTravel() const override {
		return true;
	}
	void DropSchema(ClientContext &context, DropInfo &info) override;

	StoreSchema &Schema(const string &database);

  private:
	mutex lock;
	unordered_map<string, unique_ptr<StoreSchema>> schemas;
};

} // namespace pensieve
