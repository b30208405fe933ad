-- The part of the local-mode layout that stores tables and extents. A store of the original has more tables; they are left alone.
CREATE TABLE IF NOT EXISTS databases (
    id BLOB PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL, tenant_id BLOB NOT NULL,
    UNIQUE (tenant_id, name));
CREATE TABLE IF NOT EXISTS tables (
    id BLOB PRIMARY KEY, database_id BLOB NOT NULL, name TEXT NOT NULL, current_snapshot_id BLOB, schema_snapshot_id BLOB,
    config TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL, tenant_id BLOB NOT NULL,
    UNIQUE (tenant_id, database_id, name));
CREATE TABLE IF NOT EXISTS schema_snapshots (
    id BLOB PRIMARY KEY, table_id BLOB NOT NULL, arrow_schema TEXT NOT NULL, created_at TEXT NOT NULL, tenant_id BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (
    id BLOB PRIMARY KEY, table_id BLOB NOT NULL, parent_id BLOB, sequence_number INTEGER NOT NULL, schema_snapshot_id BLOB NOT NULL,
    summary TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL, tenant_id BLOB NOT NULL,
    UNIQUE (table_id, sequence_number));
CREATE TABLE IF NOT EXISTS manifests (
    id BLOB PRIMARY KEY, snapshot_id BLOB NOT NULL, kind TEXT NOT NULL, extent_count INTEGER NOT NULL, byte_size INTEGER NOT NULL,
    created_at TEXT NOT NULL, tenant_id BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS extents (
    id BLOB PRIMARY KEY, table_id BLOB NOT NULL, manifest_id BLOB NOT NULL, schema_snapshot_id BLOB NOT NULL,
    object_path TEXT NOT NULL, byte_size INTEGER NOT NULL, row_count INTEGER NOT NULL, min_timestamp TEXT, max_timestamp TEXT,
    column_stats TEXT NOT NULL DEFAULT '{}', present_paths TEXT NOT NULL DEFAULT '[]', compaction_gen INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL, deleted_at TEXT, tenant_id BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS extents_by_table ON extents (tenant_id, table_id) WHERE deleted_at IS NULL;
CREATE TABLE IF NOT EXISTS extent_indexes (
    id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, extent_id BLOB NOT NULL, column_name TEXT NOT NULL,
    kind TEXT NOT NULL, object_path TEXT NOT NULL, byte_size INTEGER NOT NULL, params TEXT NOT NULL DEFAULT '{}',
    embedding_model_id TEXT, created_at TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS extent_indexes_unique
    ON extent_indexes (extent_id, column_name, kind, coalesce(embedding_model_id, ''));
CREATE TABLE IF NOT EXISTS ann_tree (
    id BLOB PRIMARY KEY, tenant_id BLOB NOT NULL, table_id BLOB NOT NULL, column_name TEXT NOT NULL, embedding_model_id TEXT,
    generation INTEGER NOT NULL, extent_fingerprint TEXT NOT NULL, object_path TEXT NOT NULL, byte_size INTEGER NOT NULL,
    params TEXT NOT NULL DEFAULT '{}', created_at TEXT NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS ann_tree_unique ON ann_tree (table_id, column_name, coalesce(embedding_model_id, ''));
