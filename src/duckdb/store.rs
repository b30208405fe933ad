//! Stores of the shim: catalogs, transactions over them, and tables pinned to a snapshot.
//!
//! Lists cross the boundary as text: records end with U+001E, their fields are separated by U+001F.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, Field, Schema};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};

use super::ffi::{guard, guard_value, text, to_c_text};
use super::reader::{export, export_schema, remote_settings, storage_options};
use super::scan::PnsPredicate;
use super::writer::take_schema;
use super::{store_list, store_plan};
use crate::catalog::{
    self, At, AttachOptions, Catalog, Changes, ColumnType, EvidenceKind, Extent, NewExtent, PruneOptions, Pruned,
    TableColumn, TableName, TableView, Transaction,
};
use crate::format::ExtentWriteResult;
use crate::predicate::BlockPredicate;
use crate::{Error, Result};

const FIELD: char = '\u{1f}';
const RECORD: char = '\u{1e}';

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

fn list(items: impl IntoIterator<Item = String>) -> *mut c_char {
    let mut out = String::new();
    for item in items {
        out.push_str(&item);
        out.push(RECORD);
    }
    to_c_text(&out)
}

/// The Arrow field of a column as DuckDB is to see it.
fn field(column: &TableColumn) -> Field {
    let (data_type, extension) = match column.column_type {
        ColumnType::Dynamic => (DataType::Utf8, Some("arrow.json")),
        ColumnType::Uuid => (DataType::FixedSizeBinary(16), Some("arrow.uuid")),
        _ => (column.column_type.to_arrow(), None),
    };
    let field = Field::new(&column.name, data_type, true);
    match extension {
        None => field,
        Some(name) => {
            let metadata: std::collections::HashMap<String, String> = [
                ("ARROW:extension:name".to_owned(), name.to_owned()),
                ("ARROW:extension:metadata".to_owned(), String::new()),
            ]
            .into();
            field.with_metadata(metadata)
        }
    }
}

/// The columns of a schema that DuckDB exported; `types` are DuckDB's names of the types, for messages.
fn columns(catalog: &dyn Catalog, table: &TableName, schema: &Schema, types: &str) -> Result<Vec<TableColumn>> {
    let mut names = types.split(FIELD);
    schema
        .fields()
        .iter()
        .map(|field| {
            let duckdb = names.next().unwrap_or_default();
            let extension = field.metadata().get("ARROW:extension:name").map(String::as_str);
            let found = match extension {
                None => ColumnType::from_arrow(field.data_type()),
                Some("arrow.json") => Some(ColumnType::Dynamic),
                Some("arrow.uuid") => Some(ColumnType::Uuid),
                Some("arrow.bool8") => Some(ColumnType::Bool),
                Some(_) => None,
            };
            match found.filter(|column_type| catalog.supports_type(column_type)) {
                Some(column_type) => Ok(TableColumn::new(field.name(), column_type)),
                None => Err(Error::unsupported(
                    format!("column \"{}\" of {table}", field.name()),
                    format!(
                        "the {} catalog has no name for the type {duckdb}; it can name {}",
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

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_info(store: *const PnsStore) -> *mut c_char {
    guard_value(std::ptr::null_mut(), || {
        // SAFETY: by the header's contract.
        let catalog = unsafe { &(*store).0 };
        to_c_text(&format!(
            "{}{FIELD}{}{FIELD}{}{FIELD}{}{FIELD}{}",
            catalog.kind(),
            catalog.address(),
            catalog.storage_root(),
            catalog.extent_magic().unwrap_or_default(),
            if catalog.read_only() { "1" } else { "0" },
        ))
    })
}

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_store_databases(
    store: *const PnsStore,
    out: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            *out = list((*store).0.databases()?);
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
    out: *mut *mut c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            *out = list(tx.with(|state| state.transaction()?.names(&text(database)))?);
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
    types: *const c_char,
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
            let columns = columns(tx.catalog.as_ref(), &name, &schema, &text(types))?;
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
    types: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let schema = take_schema(schema)?;
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            let add_columns = columns(tx.catalog.as_ref(), &name, &schema, &text(types))?;
            tx.with(|state| state.transaction()?.change(&name, Changes { add_columns, ..Changes::default() }))
        })
    }
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
    out: *mut *mut c_char,
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
            *out = to_c_text(&format!("{id}{FIELD}{object_path}{FIELD}{location}"));
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
    extent: *const c_char,
    format: *const c_char,
    result: *const c_char,
    error: *mut *mut c_char,
) -> c_int {
    // SAFETY: by the header's contract.
    unsafe {
        guard(error, || {
            let tx = &*transaction;
            let name = TableName::new(text(database), text(table));
            let extent = text(extent);
            let mut fields = extent.split(FIELD);
            let (id, path) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
            let new = NewExtent::ingested(written(&text(result), id, path)?, text(format));
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
            let schema = Schema::new((*table).columns().map(field).collect::<Vec<_>>());
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
pub unsafe extern "C" fn pns_table_extents(
    table: *const PnsTable,
    predicate: *const PnsPredicate,
    disabled: *const c_char,
    out: *mut *mut c_char,
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
            let considered = pruned.counts.extents_considered.saturating_add(pending.len() as u64);
            let mut lines = format!("{considered}");
            for kind in EvidenceKind::ALL {
                let _ = write!(lines, "{FIELD}{}", pruned.counts.skipped(kind));
            }
            let counts = &pruned.counts;
            let (manifests, skipped) = (counts.manifests_considered, counts.manifests_skipped);
            let _ = write!(lines, "{FIELD}{}{FIELD}{manifests}{FIELD}{skipped}{RECORD}", counts.notes.join("; "));
            for extent in &pruned.extents {
                let location = table.catalog.extent_location(&extent.object_path);
                let _ = write!(lines, "{location}{FIELD}{}{FIELD}{}{RECORD}", extent.byte_size, extent.row_count);
            }
            for extent in pending {
                let written = &extent.written;
                let location = table.catalog.extent_location(&written.object_path);
                let _ = write!(lines, "{location}{FIELD}{}{FIELD}{}{RECORD}", written.byte_size, written.row_count);
            }
            *out = to_c_text(&lines);
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

/// See the header.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pns_table_plan(
    table: *const PnsTable,
    predicate: *const PnsPredicate,
    disabled: *const c_char,
    remote: *const c_char,
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
            let rows = store_plan::rows(&*table, predicate, &disabled, &storage_options(&text(remote))?)?;
            std::ptr::write(out, export(rows));
            Ok(())
        })
    }
}
