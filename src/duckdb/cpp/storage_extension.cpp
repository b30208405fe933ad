// ATTACH … (TYPE pensieve): who attaches an address.
#include "dendro.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"
#include "duckdb/storage/storage_extension.hpp"

namespace pensieve {

unique_ptr<Catalog> AttachStore(ClientContext &context, AttachedDatabase &db, AttachInfo &info, AttachOptions &options);
unique_ptr<TransactionManager> CreateStoreTransactions(AttachedDatabase &db, Catalog &catalog);

static unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo>, ClientContext &context, AttachedDatabase &db,
                                  const string &, AttachInfo &info, AttachOptions &options) {
	// a missing archive is an error, not a new store
	if (IsDendroArchive(context, info.path) || StringUtil::EndsWith(StringUtil::Lower(info.path), ".dendro")) {
		return AttachDendro(context, db, info, options);
	}
	return AttachStore(context, db, info, options);
}

static unique_ptr<TransactionManager> CreateTransactions(optional_ptr<StorageExtensionInfo>, AttachedDatabase &db,
                                                         Catalog &catalog) {
	auto result = CreateDendroTransactions(db, catalog);
	if (!result) {
		result = CreateStoreTransactions(db, catalog);
	}
	return result;
}

//! What the process has of one database instance.
struct InstanceInfo : public StorageExtensionInfo {
	InstanceInfo() {
		static atomic<uint64_t> last {0};
		number = ++last;
	}
	uint64_t number;
};

uint64_t InstanceNumber(ClientContext &context) {
	auto extension = StorageExtension::Find(DBConfig::GetConfig(context), "pensieve");
	auto info = extension ? dynamic_cast<InstanceInfo *>(extension->storage_info.get()) : nullptr;
	if (!info) {
		throw InternalException("pensieve: the database does not know its own extension");
	}
	return info->number;
}

void RegisterAttach(ExtensionLoader &loader) {
	auto extension = make_shared_ptr<StorageExtension>();
	extension->storage_info = make_shared_ptr<InstanceInfo>();
	extension->attach = Attach;
	extension->create_transaction_manager = CreateTransactions;
	StorageExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), "pensieve", std::move(extension));
}

} // namespace pensieve
