// The part of the boundary that is about dendro archives. The rules are those of `pensieve_ffi.h`. Mirrored by
// `src/duckdb/dendro*.rs`.
#pragma once

#include "pensieve_ffi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PnsDendro PnsDendro;
typedef struct PnsDendroView PnsDendroView;
typedef struct PnsDendroScan PnsDendroScan;
typedef struct PnsDendroListing PnsDendroListing;
typedef struct PnsDendroWriter PnsDendroWriter;

// --- a stream as a table ---------------------------------------------------------------------------------------------
// `options` is a JSON object: {"source":…,"stream":…,"labels":{…},"union_by_name":b,"ts_column":…}, all optional. The
// segments are those of one snapshot, which ends with the call.
int pns_dendro_bind(const char *path, const char *options, PnsDendro **out, char **error);
void pns_dendro_free(PnsDendro *dendro);
int pns_dendro_schema(PnsDendro *dendro, struct ArrowSchema *out, char **error);
char *pns_dendro_stream(PnsDendro *dendro);
uint64_t pns_dendro_segment_count(PnsDendro *dendro);
// Log rows of the segments; the number of rows a scan returns is another one.
uint64_t pns_dendro_row_estimate(PnsDendro *dendro);
// What a scan does not return, and what cannot be read; empty when there is nothing to say.
char *pns_dendro_notes(PnsDendro *dendro);

// Starts a scan: a snapshot of its own, and the segments that `fixed` (may be null) leaves by the catalog alone. Notes
// unsealed rows in `scan`; with `strict` they are an error. `disabled` is as for pns_scan_new.
int pns_dendro_start(PnsDendro *dendro, PnsScan *scan, const char *disabled, const PnsPredicate *fixed, int strict,
                     PnsDendroScan **out, char **error);
void pns_dendro_scan_free(PnsDendroScan *scan);
uint64_t pns_dendro_scan_count(PnsDendroScan *scan);
// The caller's index of segment `index` of the scan: `out` is null when there is none, otherwise `length` bytes for
// pns_dendro_index_free.
int pns_dendro_scan_index(PnsDendroScan *scan, uint64_t index, uint8_t **out, uint64_t *length, char **error);
void pns_dendro_index_free(uint8_t *bytes, uint64_t length);
// Drops the segments whose flag, of `count` for the scan's segments in order, is 0; counts them in `scan`. Before any
// segment is opened.
void pns_dendro_scan_retain(PnsDendroScan *dendro, PnsScan *scan, const uint8_t *keep, uint64_t count, double millis);
// Opens segment `index` of the scan as an extent with the table's columns. Callable from many threads at once.
int pns_dendro_scan_open(PnsDendroScan *scan, uint64_t index, PnsReader **out, char **error);

// --- an archive as one statement sees it -----------------------------------------------------------------------------
// `out` is 1 when the file is an archive by its content, also when it is one that cannot be read.
int pns_dendro_is_archive(const char *path, int *out, char **error);
// Starts a snapshot, which ends when the view is freed; everything bound from the view shows it. `options` are those of
// pns_dendro_bind without the stream.
int pns_dendro_view(const char *path, const char *options, PnsDendroView **out, char **error);
void pns_dendro_view_free(PnsDendroView *view);
// The streams, each name once.
uint64_t pns_dendro_view_count(PnsDendroView *view);
char *pns_dendro_view_name(PnsDendroView *view, uint64_t index);
int pns_dendro_view_bind(PnsDendroView *view, uint64_t index, PnsDendro **out, char **error);

// --- listings --------------------------------------------------------------------------------------------------------
int pns_dendro_listing_schema(const char *function, struct ArrowSchema *out, char **error);
// `with_index` makes dendro_segments read the callers' indexes.
int pns_dendro_listing(const char *function, const char *path, int with_index, PnsDendroListing **out, char **error);
// `more` is 0 when there are no rows left, and then `out` is not written.
int pns_dendro_listing_next(PnsDendroListing *listing, struct ArrowArray *out, int *more, char **error);
void pns_dendro_listing_free(PnsDendroListing *listing);

// --- writing ---------------------------------------------------------------------------------------------------------
// `options` is a JSON object:
// {"stream":…,"ts_column":…,"labels":{…},"metadata":{…},"segment_rows":n,"segment_bytes":n}. The archive is written to
// `path`; `target` is where it will be in the end. The schema is consumed.
int pns_dendro_writer_new(const char *path, const char *target, const char *options, struct ArrowSchema *schema,
                          PnsDendroWriter **out, char **error);
// Whether rows of the schema, which is consumed, can be written with the options.
int pns_dendro_writer_check(const char *options, struct ArrowSchema *schema, char **error);
// Appends rows (the struct array is consumed) in order, one caller at a time.
int pns_dendro_writer_append(PnsDendroWriter *writer, struct ArrowArray *array, char **error);
// Completes the archive; `result` is a JSON object.
int pns_dendro_writer_finish(PnsDendroWriter *writer, char **result, char **error);
void pns_dendro_writer_free(PnsDendroWriter *writer);

#ifdef __cplusplus
}
#endif
