// The boundary between the C++ shim and the Rust core. C++ translates DuckDB's objects into these calls and back; every
// decision (what to read, what to skip, what a message says) is made on the Rust side. Mirrored by `src/duckdb/ffi.rs`.
//
// Ownership: what a function returns through an `out` pointer belongs to the caller and is released with the matching
// `_free`. Errors: functions that can fail return 0 on success; otherwise `*error` is a NUL-terminated message (free
// with `pns_string_free`) and the return value is a PnsErrorKind.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ArrowSchema;
struct ArrowArray;

typedef struct PnsReader PnsReader;
typedef struct PnsScan PnsScan;
typedef struct PnsPredicate PnsPredicate;
typedef struct PnsWriter PnsWriter;
typedef struct PnsBlock PnsBlock;
typedef struct PnsStore PnsStore;
typedef struct PnsTx PnsTx;
typedef struct PnsTable PnsTable;

enum PnsErrorKind {
	PNS_OK = 0,
	PNS_INVALID_INPUT = 1,
	PNS_IO = 2,
	PNS_CORRUPT = 3,
	PNS_UNSUPPORTED = 4,
	PNS_INTERRUPTED = 5,
	PNS_INTERNAL = 6,
	PNS_CONFLICT = 7
};

// A file that DuckDB's file system opened. `read_at` fills exactly `length` bytes or fails; it may be called from
// several threads. Messages returned by callbacks are freed with pensieve_host_string_free, which the shim provides.
typedef struct PnsHostFile {
	void *context;
	char *(*read_at)(void *context, uint64_t offset, uint8_t *target, uint64_t length);
	void (*release)(void *context);
	uint64_t size;
	const char *version; // borrowed during the call that receives the struct
} PnsHostFile;

// A file that DuckDB's file system opened for writing. `finish` makes it durable and visible; `abort` removes it.
typedef struct PnsHostSink {
	void *context;
	char *(*write)(void *context, const uint8_t *data, uint64_t length);
	char *(*finish)(void *context);
	void (*abort)(void *context);
	void (*release)(void *context);
} PnsHostSink;

void pensieve_host_string_free(char *message);
void pns_string_free(char *text);
// Frees an array that a function returned through `out`, of `count` u64 values.
void pns_u64_free(uint64_t *values, uint64_t count);

// A list of texts, which may hold any character: text `index` has `length` bytes (it is not NUL-terminated), valid
// until the list is freed; null beyond the end.
typedef struct PnsTexts PnsTexts;
uint64_t pns_texts_count(const PnsTexts *texts);
const char *pns_texts_get(const PnsTexts *texts, uint64_t index, uint64_t *length);
void pns_texts_free(PnsTexts *texts);

// URLs that match a pattern in an object store.
int pns_glob(const char *pattern, const char *remote, PnsTexts **out, char **error);

// --- extents ---------------------------------------------------------------------------------------------------------
// `host` null: `path` is a local file, read (and memory-mapped) directly, or the URL of an object, read through the
// core. `format` empty: by the leading bytes.
// `remote`, here and below: a JSON object of the object store's configuration by object_store's names, or empty for the
// environment's.
int pns_reader_open(const char *path, const char *format, const PnsHostFile *host, const char *remote, PnsReader **out,
                    char **error);
void pns_reader_free(PnsReader *reader);
// Shows the binary ones of the named columns as JSON text. Before the reader is used.
void pns_reader_show_json(PnsReader *reader, const char *const *names, uint64_t count);
// Shows bytes that the file gives no type as text. Before the reader is used.
int pns_reader_show_text(PnsReader *reader, char **error);
int pns_reader_schema(PnsReader *reader, struct ArrowSchema *out, char **error);
uint32_t pns_reader_block_count(PnsReader *reader);
uint64_t pns_reader_block_rows(PnsReader *reader, uint32_t block);
//! Bytes of the block in its file.
uint64_t pns_reader_block_bytes(PnsReader *reader, uint32_t block);
uint64_t pns_reader_row_count(PnsReader *reader);
// Bytes and requests asked of the store so far.
void pns_reader_io(PnsReader *reader, uint64_t *bytes, uint64_t *requests);
// Statistics of one column over the whole extent (block < 0) or one block. Bounds are text: integers, unscaled
// decimals, days, and nanoseconds as decimal integers, floats in shortest round-trip form, booleans as 0/1, strings as
// they are; null when unknown. Counts are -1 when unknown. Free the texts with pns_string_free.
typedef struct PnsColumnStats {
	char *min;
	char *max;
	int min_exact;
	int max_exact;
	int64_t nulls;
	int64_t nans;
	uint64_t rows;
} PnsColumnStats;
// Returns 0 when nothing at all is known (and leaves `out` alone), else 1.
int pns_reader_column_stats(PnsReader *reader, const char *column, int64_t block, PnsColumnStats *out);
// Rows for the listing functions ("tlm_metadata", "tlm_blocks") about this file.
int pns_reader_describe(PnsReader *reader, const char *function, struct ArrowArray *out, char **error);
int pns_describe_schema(const char *function, struct ArrowSchema *out, char **error);

// --- predicates ------------------------------------------------------------------------------------------------------
// `json` is an expression tree (src/predicate/lower.rs). Never fails: what cannot be lowered is "unknown".
PnsPredicate *pns_predicate_lower(const char *json, size_t length);
void pns_predicate_free(PnsPredicate *predicate);
// Readable text of the predicate, and of what could not be lowered (empty when everything was).
char *pns_predicate_text(PnsPredicate *predicate);
char *pns_predicate_unknown(PnsPredicate *predicate);
// Whether it says anything about a column: 0 for one that is unknown as a whole.
int pns_predicate_prunes(const PnsPredicate *predicate);

// --- scans -----------------------------------------------------------------------------------------------------------
// One scan of one table function call. `disabled` is a comma-separated list of evidence kinds to ignore.
// `instance` numbers the databases of this process and `connection` the connections of one of them; `query` numbers the
// connection's queries: the scans of one query are listed together.
PnsScan *pns_scan_new(uint64_t instance, uint64_t connection, uint64_t query, const char *source, const char *disabled);
void pns_scan_free(PnsScan *scan);
// Files: how many the caller listed, and how many its own file pruning (partitions, file names, catalog) ruled out.
void pns_scan_files(PnsScan *scan, uint64_t considered, uint64_t skipped, const char *evidence);
// Counts manifests of a table, and those of them that their time bounds ruled out.
void pns_scan_manifests(PnsScan *scan, uint64_t considered, uint64_t skipped);
void pns_scan_note(PnsScan *scan, const char *note);
// What to do with a block: 0 skip, 1 read and filter, 2 every row satisfies `fixed`. Either predicate may be null. Does
// no I/O.
int pns_scan_claim(PnsScan *scan, PnsReader *reader, uint32_t block, const PnsPredicate *fixed,
                   const PnsPredicate *dynamic);
// Whether an evidence kind is in use, and counting a claimed block that it ruled out after all.
int pns_scan_uses(PnsScan *scan, const char *evidence);
void pns_scan_skip_block(PnsScan *scan, const char *evidence);
// Finer evidence, may do I/O: the rows of the block worth decoding as [start, end) pairs. `count` = number of pairs.
int pns_scan_candidates(PnsScan *scan, PnsReader *reader, uint32_t block, const PnsPredicate *fixed, uint64_t **ranges,
                        uint64_t *count, char **error);
// Decodes columns of the given rows, a batch at a time; their bytes are read by `open`. `columns` has for each column
// its index in the file's schema (in the order wanted) and the number of its fields that are wanted, which follow in
// the same way with their index in the struct; 0 fields are all of them, and those that are not wanted may come as
// NULL.
typedef struct PnsRows PnsRows;
int pns_rows_open(PnsScan *scan, PnsReader *reader, uint32_t block, const uint32_t *columns, uint64_t column_count,
                  uint64_t number_count, const uint64_t *ranges, uint64_t range_count, PnsRows **out, char **error);
// The next rows as a struct array; one that is released already when there are no more.
int pns_rows_next(PnsRows *rows, struct ArrowArray *out, char **error);
// What a predicate says about windows of the last batch, which follow each other and have so many rows each: 0 none
// satisfies it, 1 some may, 2 all do. Verdicts stay as they are where nothing is known.
void pns_rows_judge(const PnsRows *rows, const PnsPredicate *predicate, const uint64_t *lengths, uint64_t count,
                    uint8_t *verdicts);
void pns_rows_free(PnsRows *rows);
// Counts candidate rows that were left out after all.
void pns_scan_skip_rows(PnsScan *scan, const char *evidence, uint64_t rows);
// Titles and values for EXPLAIN ANALYZE, in turn.
PnsTexts *pns_scan_summary(PnsScan *scan);
// The counters of a connection's last scans.
int pns_last_scans(uint64_t instance, uint64_t connection, struct ArrowArray *out, char **error);
int pns_last_scans_schema(struct ArrowSchema *out, char **error);

// --- writing ---------------------------------------------------------------------------------------------------------
// `options` is a JSON object:
// {"format":"tlm","compression":…,"dictionary":b,"magic":…,"bloom_columns":[…],"sorted_by":[…]}. `host` null: a local
// file. The schema is consumed.
int pns_writer_new(const char *path, const char *options, const PnsHostSink *host, const char *remote,
                   struct ArrowSchema *schema, PnsWriter **out, char **error);
// Checks options and schema without creating anything; used when a COPY is bound. The schema is consumed.
int pns_writer_check(const char *options, struct ArrowSchema *schema, char **error);
// Encodes a block (the struct array is consumed); callable from many threads at once.
int pns_writer_encode(PnsWriter *writer, struct ArrowArray *array, PnsBlock **out, char **error);
// Appends an encoded block (consumed), one caller at a time.
int pns_writer_append(PnsWriter *writer, PnsBlock *block, char **error);
void pns_block_free(PnsBlock *block);
uint64_t pns_writer_bytes(PnsWriter *writer);
// Completes the file; `result` is a JSON object with the fields of ExtentWriteResult.
int pns_writer_finish(PnsWriter *writer, char **result, char **error);
// Drops an unfinished writer and what it wrote.
void pns_writer_free(PnsWriter *writer);

// --- stores ----------------------------------------------------------------------------------------------------------
// `options` is a JSON object of text values with the names of ATTACH's options (storage, tenant, read_only, snapshot,
// and snapshot_time as `at` below).
int pns_store_open(const char *address, const char *options, const char *remote, PnsStore **out, char **error);
void pns_store_free(PnsStore *store);
// `magic`: the TLM magic that readers of the store understand; may be empty. The texts are freed with pns_string_free.
typedef struct PnsStoreInfo {
	char *kind;
	char *address;
	char *storage;
	char *magic;
	int read_only;
} PnsStoreInfo;
void pns_store_info(PnsStore *store, PnsStoreInfo *out);
int pns_store_databases(PnsStore *store, PnsTexts **out, char **error);
// A transaction pins every table to the snapshot it first saw. Tables come and go at its commit. Freed without one, it
// removes the extents it wrote.
PnsTx *pns_tx_new(PnsStore *store);
void pns_tx_free(PnsTx *transaction);
int pns_tx_commit(PnsTx *transaction, char **error);
int pns_tx_create_database(PnsTx *transaction, const char *name, int *created, char **error);
int pns_tx_drop_database(PnsTx *transaction, const char *name, int cascade, int *existed, char **error);
int pns_tx_tables(PnsTx *transaction, const char *database, PnsTexts **out, char **error);
// `at`: "", "version:<sequence>", "timestamp_ns:<nanoseconds>" or "timestamp_us:<microseconds>". `*out` stays null when
// there is no such table.
int pns_tx_table(PnsTx *transaction, const char *database, const char *table, const char *at, PnsTable **out,
                 char **error);
// Splits the name of a table: database.table, each of them as it is or in double quotes.
int pns_table_name(const char *name, char **database, char **table, char **error);
// The schema is consumed; `types` are DuckDB's names of its types, for messages. `*created` is 0
// when there is such a table. With `if_not_exists` one that somebody else creates before the commit is as good.
int pns_tx_create_table(PnsTx *transaction, const char *database, const char *table, struct ArrowSchema *schema,
                        const char *const *types, uint64_t type_count, int if_not_exists, int *created, char **error);
int pns_tx_drop_table(PnsTx *transaction, const char *database, const char *table, char **error);
int pns_tx_add_column(PnsTx *transaction, const char *database, const char *table, struct ArrowSchema *schema,
                      const char *const *types, uint64_t type_count, char **error);
// Where to write a new extent. The texts are freed with pns_string_free.
typedef struct PnsNewExtent {
	char *id;
	char *object_path;
	char *location;
} PnsNewExtent;
// The directory of the location exists afterwards.
int pns_tx_new_extent(PnsTx *transaction, const char *database, const char *table, const char *extension,
                      PnsNewExtent *out, char **error);
// Makes a written extent part of the table at commit. `id` and `object_path` are those of pns_tx_new_extent, `result`
// is what pns_writer_finish returned.
int pns_tx_append(PnsTx *transaction, const char *database, const char *table, const char *id, const char *object_path,
                  const char *format, const char *result, char **error);
void pns_table_free(PnsTable *table);
uint64_t pns_table_sequence(PnsTable *table);
int pns_table_schema(PnsTable *table, struct ArrowSchema *out, char **error);
// The extents that may hold a row that satisfies the predicate (null: all of them): where they are, their rows
// together, and what was considered and ruled out by time, distinct, tokens and paths. `notes` is freed with
// pns_string_free.
typedef struct PnsExtentCounts {
	uint64_t rows;
	uint64_t considered;
	uint64_t skipped[4];
	uint64_t manifests;
	uint64_t manifests_skipped;
	char *notes;
} PnsExtentCounts;
int pns_table_extents(PnsTable *table, const PnsPredicate *predicate, const char *disabled, PnsTexts **locations,
                      PnsExtentCounts *counts, char **error);
// Rows of pensieve_snapshots, pensieve_extents, pensieve_column_stats.
int pns_table_list_schema(const char *function, struct ArrowSchema *out, char **error);
int pns_table_list(PnsTable *table, const char *function, struct ArrowArray *out, char **error);
// Opens the extent at a location of `length` bytes as a scan does, so that the session's access settings, secrets and
// file systems hold. The reader is given away; null when it failed, which the caller of the call below then reports.
typedef struct PnsOpener {
	void *context;
	PnsReader *(*open)(void *context, const char *location, uint64_t length);
} PnsOpener;
// What a scan with the predicate would read, and the extents and blocks it would skip: rows of pensieve_plan.
int pns_table_plan(PnsTable *table, const PnsPredicate *predicate, const char *disabled, PnsOpener opener,
                   struct ArrowArray *out, char **error);

// --- settings --------------------------------------------------------------------------------------------------------
void pns_set_metadata_cache_bytes(uint64_t bytes);
// Version text for the shim's own checks.
const char *pns_version(void);

#ifdef __cplusplus
}
#endif
