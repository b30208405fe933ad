-- The part of the server's layout that stores tables and extents, made only in a database that has none of it. A database that a server
-- of the original is to share must be migrated by that server first.
CREATE TABLE IF NOT EXISTS databases (
    id uuid PRIMARY KEY, name text NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL,
    UNIQUE (tenant_id, name));
CREATE TABLE IF NOT EXISTS tables (
    id uuid PRIMARY KEY, database_id uuid NOT NULL REFERENCES databases ON DELETE CASCADE, name text NOT NULL,
    current_snapshot_id uuid, schema_snapshot_id uuid, config jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL,
    UNIQUE (database_id, name));
CREATE TABLE IF NOT EXISTS schema_snapshots (
    id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    arrow_schema jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (
    id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    parent_id uuid, sequence_number bigint NOT NULL, schema_snapshot_id uuid NOT NULL, summary jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL,
    UNIQUE (table_id, sequence_number));
CREATE TABLE IF NOT EXISTS manifests (
    id uuid PRIMARY KEY, snapshot_id uuid NOT NULL REFERENCES snapshots ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('data', 'delete', 'compaction')), extent_count int NOT NULL, byte_size bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), tenant_id uuid NOT NULL);
CREATE TABLE IF NOT EXISTS extents (
    id uuid PRIMARY KEY, table_id uuid NOT NULL REFERENCES tables ON DELETE CASCADE,
    manifest_id uuid REFERENCES manifests ON DELETE CASCADE, schema_snapshot_id uuid NOT NULL, object_path text NOT NULL,
    byte_size bigint NOT NULL, row_count bigint NOT NULL, min_timestamp timestamptz, max_timestamp timestamptz,
    column_stats jsonb NOT NULL DEFAULT '{}', present_paths text[] NOT NULL DEFAULT '{}', bloom_filters bytea,
    compaction_gen int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), deleted_at timestamptz,
    tenant_id uuid NOT NULL);
CREATE INDEX IF NOT EXISTS extents_live ON extents (tenant_id, table_id) WHERE deleted_at IS NULL;
CREATE TABLE IF NOT EXISTS extent_indexes (
    id uuid PRIMARY KEY, tenant_id uuid NOT NULL, table_id uuid NOT NULL, extent_id uuid NOT NULL REFERENCES extents ON DELETE CASCADE,
    column_name text NOT NULL, kind text NOT NULL, object_path text NOT NULL, byte_size bigint NOT NULL,
    params jsonb NOT NULL DEFAULT '{}', embedding_model_id text, created_at timestamptz NOT NULL DEFAULT now());
CREATE UNIQUE INDEX IF NOT EXISTS extent_indexes_unique
    ON extent_indexes (extent_id, column_name, kind, coalesce(embedding_model_id, ''));
