//! Stores of the shim: catalogs, transactions over them, and tables pinned to a snapshot.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::Schema;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::ffi::{PnsTexts, guard, guard_value, text, texts, to_c_text};
use super::reader::{PnsReader, export, export_schema, remote_settings};
use super::scan::PnsPredicate;
use super::writer::take_schema;
use super::{store_list, store_plan};
use crate::catalog::{
    self, At, AttachOptions, Catalog, Changes, ColumnType, EvidenceKind, Extent, NewExtent, PruneOptions, Pruned,
    TableColumn, TableName, TableView, Transaction,
};
use crate::format::{ExtentReader, ExtentWriteResult};
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

/// An open store.
pub struct PnsStore(Arc<dyn Catalog>);

/// What a transaction of DuckDB sees and changes. Dropped without commit it undoes what it can.
pub struct PnsTx {
    catalog: Arc<dyn Catalog>,
    state: Mutex<TxState>,
}

struct TxState {
    transaction: Option<Transaction>,
    created_databases: Vec<String>,
    /// Where extents were written that no commit knows yet.
    written: Vec<String>,
}

/// A table as one transaction sees it.
pub struct PnsTable {
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) view: TableView,
    /// Whether the catalog knows the view; otherwise the transaction creates the table and it has no extents but the pending ones.
    pub(super) committed: bool,
    /// Extents and columns of this transaction that are not committed yet.
    pub(super) pending: Changes,
}

impl PnsTable {
    fn columns(&self) -> impl Iterator<Item = &TableColumn> {
        self.view.schema.columns.iter().chain(&self.pending.add_columns)
    }

    /// The committed extents.
    pub(super) fn extents(&self) -> Result<Vec<Extent>> {
        if self.committed { self.catalog.extents(&self.view) } else { Ok(Vec::new()) }
    }

    /// Stage 1 over the committed extents.
    pub(super) fn prune(&self, predicate: &BlockPredicate, options: &PruneOptions) -> Result<Pruned> {
        if self.committed { self.catalog.prune(&self.view, predicate, options) } else { Ok(Pruned::default()) }
    }
}

impl Drop for PnsTx {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for location in state.written.drain(..) {
            // objects stay behind as orphans for the garbage collector
            if !location.contains("://") {
                let _ = std::fs::remove_file(&location);
            }
        }
        for database in state.created_databases.drain(..) {
            let _ = self.catalog.drop_database(&database, false);
        }
    }
}

impl PnsTx {
    fn with<T>(&self, body: impl FnOnce(&mut TxState) -> Result<T>) -> Result<T> {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TxState {
    fn transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(|| Error::InvalidInput("the transaction is already committed".to_owned()))
    }
}

fn read_options(options: &str) -> Result<AttachOptions> {
    let pairs: BTreeMap<String, String> =
        serde_json::from_str(options).map_err(|e| Error::InvalidInput(e.to_string()))?;
    AttachOptions::from_pairs(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// The columns of a schema that DuckDB exported; `types` are DuckDB's names of the types, for messages.
fn columns(
    catalog: &dyn Catalog,
    table: &TableName,
    schema: &Schema,
    types: &[impl AsRef<str>],
) -> Result<Vec<TableColumn>> {
    let mut names = types.iter();
    schema
        .fields()
        .iter()
        .map(|field| {
            let duckdb = names.next().map_or("", AsRef::as_ref);
            let found = ColumnType::from_field(field);
            match found.filter(|column_type| catalog.supports_type(column_type)) {
                Some(column_type) => Ok(TableColumn::new(field.name(), column_type)),
                None => Err(Error::unsupported(
                    table.to_string(),
                    format!(
                        "column \"{}\" has type {duckdb}, which the {} catalog cannot name; it can name {}",
                        field.name(),
                        catalog.kind(),
                        duckdb_names(catalog.type_names()).join(", ")
                    ),
                )),
            }
        })
        .collect()
}

/// The catalog's type names with DuckDB's beside them.
fn duckdb_names(names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| {
            let duckdb = match *name {
                "bool" => "BOOLEAN",
                "int" => "INTEGER",
                "long" => "BIGINT",
                "real" => "DOUBLE",
                "string" => "VARCHAR",
                "timestamp" => "TIMESTAMP_NS",
                "dynamic" => "JSON",
                "vector(N)" => "FLOAT[N]",
                "byte" => "TINYINT",
                "short" => "SMALLINT",
                "ubyte" => "UTINYINT",
                "ushort" => "USMALLINT",
                "uint" => "UINTEGER",
                "ulong" => "UBIGINT",
                "float" => "FLOAT",
                "decimal(P,S)" => "DECIMAL(P,S)",
                "date" => "DATE",
                "time" => "TIME",
                "timestamp_us" => "TIMESTAMP",
                "timestamptz" => "TIMESTAMPTZ",
                "binary" => "BLOB",
                "uuid" => "UUID",
                "hugeint" => "HUGEINT",
                "uhugeint" => "UHUGEINT",
                "time_ns" => "TIME_NS",
                "timetz" => "TIMETZ",
                "timestamp_s" => "TIMESTAMP_S",
                "timestamp_ms" => "TIMESTAMP_MS",
                "timestamptz_ns" => "TIMESTAMPTZ_NS",
                "interval" => "INTERVAL",
                "bit" => "BIT",
                "bignum" => "BIGNUM",
                "list(T)" => "LIST",
                "array(T,N)" => "ARRAY",
                "map(K,V)" => "MAP",
                name if name.starts_with("struct(") => "STRUCT",
                other => other,
            };
            duckdb.to_owned()
        })
        .collect()
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_open(
    address: *const c_char,
    options: *const c_char,
    remote: *const c_char,
    out: *mut *mut PnsStore,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let mut options = read_options(&text(options))?;
            options.object_store = remote_settings(&text(remote))?;
            let store = catalog::open(&text(address), &options)?;
            *out = Box::into_raw(Box::new(PnsStore(store)));
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_free(store: *mut PnsStore) {
    if !store.is_null() {
        // SAFETY: made by `pns_store_open` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(store) }));
    }
}

/// `PnsStoreInfo` of the header.
#[repr(C)]
pub struct PnsStoreInfo {
    kind: *mut c_char,
    address: *mut c_char,
    storage: *mut c_char,
    magic: *mut c_char,
    read_only: c_int,
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_info(store: *const PnsStore, out: *mut PnsStoreInfo) {
    guard_value((), || {
        // SAFETY: by the header's contract.
        let (catalog, out) = unsafe { (&(*store).0, &mut *out) };
        out.kind = to_c_text(catalog.kind());
        out.address = to_c_text(catalog.address());
        out.storage = to_c_text(catalog.storage_root());
        out.magic = to_c_text(catalog.extent_magic().unwrap_or_default());
        out.read_only = c_int::from(catalog.read_only());
    });
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_databases(
    store: *const PnsStore,
    out: *mut *mut PnsTexts,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = PnsTexts::new((*store).0.databases()?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_new(store: *const PnsStore) -> *mut PnsTx {
    guard_value(std::ptr::null_mut(), || {
        // SAFETY: by the header's contract.
        let catalog = Arc::clone(unsafe { &(*store).0 });
        let state = TxState {
            transaction: Some(Transaction::new(Arc::clone(&catalog))),
            created_databases: Vec::new(),
            written: Vec::new(),
        };
        Box::into_raw(Box::new(PnsTx { catalog, state: Mutex::new(state) }))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_free(transaction: *mut PnsTx) {
    if !transaction.is_null() {
        // SAFETY: made by `pns_tx_new` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(transaction) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_commit(transaction: *const PnsTx, error: *mut *mut c_char) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            tx.with(|state| {
                // from here on nothing is undone: a commit that failed on the way back may have happened
                state.written.clear();
                state.created_databases.clear();
                state.transaction.take().map_or(Ok(()), |transaction| transaction.commit().map(drop))
            })
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_create_database(
    transaction: *const PnsTx,
    name: *const c_char,
    created: *mut c_int,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = text(name).into_owned();
            let new = tx.catalog.create_database(&name)?;
            if new {
                tx.with(|state| {
                    state.created_databases.push(name);
                    Ok(())
                })?;
            }
            *created = c_int::from(new);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_drop_database(
    transaction: *const PnsTx,
    name: *const c_char,
    cascade: c_int,
    existed: *mut c_int,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = text(name).into_owned();
            let dropped = tx.with(|state| {
                let dropped = state.transaction()?.drop_database(&name, cascade != 0)?;
                state.created_databases.retain(|d| *d != name);
                Ok(dropped)
            })?;
            *existed = c_int::from(dropped);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_tables(
    transaction: *const PnsTx,
    database: *const c_char,
    out: *mut *mut PnsTexts,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            *out = PnsTexts::new(tx.with(|state| state.transaction()?.names(&text(database)))?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_table(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    at: *const c_char,
    out: *mut *mut PnsTable,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            *out = std::ptr::null_mut();
            let found = match text(at).parse()? {
                At::Head => tx.with(|state| {
                    let seen = state.transaction()?.table(&name)?;
                    Ok(seen.map(|seen| (seen.view.clone(), seen.committed, seen.pending.clone())))
                })?,
                at => tx.catalog.table_at(&name, at)?.map(|view| (view, true, Changes::default())),
            };
            if let Some((view, committed, pending)) = found {
                let table = PnsTable { catalog: Arc::clone(&tx.catalog), view, committed, pending };
                *out = Box::into_raw(Box::new(table));
            }
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_create_table(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    schema: *mut FFI_ArrowSchema,
    types: *const *const c_char,
    type_count: u64,
    if_not_exists: c_int,
    created: *mut c_int,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            let columns = columns(tx.catalog.as_ref(), &name, &schema, &texts(types, type_count))?;
            let new = tx.with(|state| state.transaction()?.create(&name, &columns, if_not_exists != 0))?;
            *created = c_int::from(new);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_drop_table(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            if tx.catalog.read_only() {
                return Err(Error::InvalidInput(format!("{} is attached read-only", tx.catalog.address())));
            }
            tx.with(|state| state.transaction()?.drop_table(&name).map(drop))
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_add_column(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    schema: *mut FFI_ArrowSchema,
    types: *const *const c_char,
    type_count: u64,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            let add_columns = columns(tx.catalog.as_ref(), &name, &schema, &texts(types, type_count))?;
            tx.with(|state| state.transaction()?.change(&name, Changes { add_columns, ..Changes::default() }))
        })
    }
}

/// `PnsNewExtent` of the header.
#[repr(C)]
pub struct PnsNewExtent {
    id: *mut c_char,
    object_path: *mut c_char,
    location: *mut c_char,
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_new_extent(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    extension: *const c_char,
    out: *mut PnsNewExtent,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            if tx.catalog.read_only() {
                return Err(Error::InvalidInput(format!("{} is attached read-only", tx.catalog.address())));
            }
            let name = TableName::new(text(database), text(table));
            let id = uuid::Uuid::new_v4();
            let object_path = tx.catalog.new_extent_path(&name, id, &text(extension));
            let location = tx.catalog.extent_location(&object_path);
            if !location.contains("://")
                && let Some(directory) = std::path::Path::new(&location).parent()
            {
                std::fs::create_dir_all(directory)
                    .map_err(|e| Error::io(directory.display().to_string(), "create the directory", e))?;
            }
            tx.with(|state| {
                state.written.push(location.clone());
                Ok(())
            })?;
            *out = PnsNewExtent {
                id: to_c_text(&id.to_string()),
                object_path: to_c_text(&object_path),
                location: to_c_text(&location),
            };
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_name(
    name: *const c_char,
    database: *mut *mut c_char,
    table: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let name = TableName::parse(&text(name))?;
            *database = to_c_text(&name.database);
            *table = to_c_text(&name.table);
            Ok(())
        })
    }
}

fn written(json: &str, id: &str, object_path: &str) -> Result<ExtentWriteResult> {
    let wrong = |what: String| Error::InvalidInput(format!("result of writing {object_path}: {what}"));
    let value: serde_json::Value = serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?;
    let number = |key: &str| value[key].as_u64().ok_or_else(|| wrong(format!("no {key}")));
    Ok(ExtentWriteResult {
        extent_id: id.parse().map_err(|_| wrong(format!("\"{id}\" is not a UUID")))?,
        object_path: object_path.to_owned(),
        byte_size: number("byte_size")?,
        row_count: number("row_count")?,
        block_count: u32::try_from(number("block_count")?).map_err(|e| wrong(e.to_string()))?,
        time_ranges: serde_json::from_value(value["time_ranges"].clone()).map_err(|e| wrong(e.to_string()))?,
        present_paths: serde_json::from_value(value["present_paths"].clone()).map_err(|e| wrong(e.to_string()))?,
        column_stats: serde_json::from_value(value["column_stats"].clone()).map_err(|e| wrong(e.to_string()))?,
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_tx_append(
    transaction: *const PnsTx,
    database: *const c_char,
    table: *const c_char,
    id: *const c_char,
    object_path: *const c_char,
    format: *const c_char,
    result: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            let written = written(&text(result), &text(id), &text(object_path))?;
            let new = NewExtent::ingested(written, text(format));
            tx.with(|state| state.transaction()?.change(&name, Changes::append(vec![new])))
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_free(table: *mut PnsTable) {
    if !table.is_null() {
        // SAFETY: made by `pns_tx_table` and freed once.
        guard_value((), || drop(unsafe { Box::from_raw(table) }));
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_sequence(table: *const PnsTable) -> u64 {
    // SAFETY: by the header's contract.
    guard_value(0, || unsafe { &*table }.view.snapshot.sequence)
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_schema(
    table: *const PnsTable,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = Schema::new((*table).columns().map(|c| c.column_type.to_field(&c.name)).collect::<Vec<_>>());
            std::ptr::write(out, export_schema(&schema)?);
            Ok(())
        })
    }
}

/// `PnsExtentCounts` of the header.
#[repr(C)]
pub struct PnsExtentCounts {
    rows: u64,
    considered: u64,
    skipped: [u64; EvidenceKind::ALL.len()],
    manifests: u64,
    manifests_skipped: u64,
    notes: *mut c_char,
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_extents(
    table: *const PnsTable,
    predicate: *const PnsPredicate,
    disabled: *const c_char,
    locations: *mut *mut PnsTexts,
    counts: *mut PnsExtentCounts,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let table = &*table;
            let everything = BlockPredicate::Constant(Some(true));
            let predicate = predicate.as_ref().map_or(&everything, |p| p.get());
            let disabled = text(disabled);
            let options = PruneOptions::disabling(disabled.split(',').filter(|name| !name.is_empty()));
            let pruned = table.prune(predicate, &options)?;
            let pending = &table.pending.append;
            let committed = pruned.extents.iter().map(|extent| (&extent.object_path, extent.row_count));
            let pending_rows = pending.iter().map(|extent| (&extent.written.object_path, extent.written.row_count));
            let (paths, rows): (Vec<&String>, Vec<u64>) = committed.chain(pending_rows).unzip();
            *counts = PnsExtentCounts {
                rows: rows.into_iter().fold(0, u64::saturating_add),
                considered: pruned.counts.extents_considered.saturating_add(pending.len() as u64),
                skipped: EvidenceKind::ALL.map(|kind| pruned.counts.skipped(kind)),
                manifests: pruned.counts.manifests_considered,
                manifests_skipped: pruned.counts.manifests_skipped,
                notes: to_c_text(&pruned.counts.notes.join("; ")),
            };
            *locations = PnsTexts::new(paths.into_iter().map(|path| table.catalog.extent_location(path)).collect());
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_list_schema(
    function: *const c_char,
    out: *mut FFI_ArrowSchema,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = store_list::schema(&text(function))?;
            std::ptr::write(out, export_schema(&schema)?);
            Ok(())
        })
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_list(
    table: *const PnsTable,
    function: *const c_char,
    out: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let table = &*table;
            let rows = store_list::rows(&text(function), table)?;
            std::ptr::write(out, export(rows));
            Ok(())
        })
    }
}

/// Opens an extent as the host does for a scan (`PnsOpener` of the header).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PnsOpener {
    context: *mut c_void,
    open: unsafe extern "C" fn(*mut c_void, *const c_char, u64) -> *mut PnsReader,
}

impl PnsOpener {
    /// The extent at `location`. The error of a failure is the host's to tell.
    ///
    /// # Safety
    /// The call that was given the opener is not over.
    unsafe fn open(&self, location: &str) -> Result<Arc<dyn ExtentReader>> {
        // SAFETY: by the contract of this function; the reader is given to us.
        unsafe {
            let reader = (self.open)(self.context, location.as_ptr().cast(), location.len() as u64);
            if reader.is_null() {
                return Err(Error::io(location, "open", "the host could not"));
            }
            Ok(Arc::clone(&Box::from_raw(reader).extent))
        }
    }
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_plan(
    table: *const PnsTable,
    predicate: *const PnsPredicate,
    disabled: *const c_char,
    opener: PnsOpener,
    out: *mut FFI_ArrowArray,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let everything = BlockPredicate::Constant(Some(true));
            let predicate = predicate.as_ref().map_or(&everything, |p| p.get());
            let disabled = text(disabled);
            let disabled: Vec<&str> = disabled.split(',').filter(|name| !name.is_empty()).collect();
            let rows = store_plan::rows(&*table, predicate, &disabled, &|location| opener.open(location))?;
            std::ptr::write(out, export(rows));
            Ok(())
        })
    }
}
