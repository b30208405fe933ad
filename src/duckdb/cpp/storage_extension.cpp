// ATTACH … (TYPE pensieve): who attaches an address.
#include "dendro.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/parser/parsed_data/attach_info.hpp"
#include "duckdb/storage/storage_extension.hpp"

namespace pensieve {

#ifdef PENSIEVE_STORES
unique_ptr<Catalog> AttachStore(ClientContext &context, AttachedDatabase &db, AttachInfo &info, AttachOptions &options);
unique_ptr<TransactionManager> CreateStoreTransactions(AttachedDatabase &db, Catalog &catalog);
#endif

static unique_ptr<Catalog> Attach(optional_ptr<StorageExtensionInfo>, ClientContext &context, AttachedDatabase &db,
                                  const string &, AttachInfo &info, AttachOptions &options) {
	if (IsDendroArchive(context, info.path)) {
		return AttachDendro(context, db, info, options);
	}
#ifdef PENSIEVE_STORES
	return AttachStore(context, db, info, options);
#else
	auto &fs = FileSystem::GetFileSystem(context);
	if (!IsRemote(info.path) && fs.FileExists(info.path)) {
		// opening it as an archive says what it is instead
		return AttachDendro(context, db, info, options);
	}
	throw NotImplementedException(
	    "Cannot attach \"%s\": there is no dendro archive at this address, and this build attaches "
	    "nothing else",
	    info.path);
#endif
}

static unique_ptr<TransactionManager> CreateTransactions(optional_ptr<StorageExtensionInfo>, AttachedDatabase &db,
                                                         Catalog &catalog) {
	auto result = CreateDendroTransactions(db, catalog);
#ifdef PENSIEVE_STORES
	if (!result) {
		result = CreateStoreTransactions(db, catalog);
	}
#endif
	return result;
}

void RegisterAttach(ExtensionLoader &loader) {
	auto extension = make_shared_ptr<StorageExtension>();
	extension->attach = Attach;
	extension->create_transaction_manager = CreateTransactions;
	StorageExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), "pensieve", std::move(extension));
}

} // namespace pensieve
