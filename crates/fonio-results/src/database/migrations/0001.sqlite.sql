-- Comparison keys: only results with the same key are compared.
CREATE TABLE keys (
    key_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    test_version TEXT NOT NULL,
    file_system TEXT NOT NULL,
    mode TEXT NOT NULL,
    size_class TEXT NOT NULL,
    -- The number of received results.
    results BIGINT NOT NULL
);

-- A model of a device and one of its revisions.
CREATE TABLE devices (
    device_id INTEGER PRIMARY KEY,
    -- The model's name in addresses.
    slug TEXT NOT NULL,
    -- The revision's name in addresses.
    revision_slug TEXT NOT NULL,
    kind TEXT NOT NULL,
    maker TEXT NOT NULL,
    model TEXT NOT NULL,
    revision TEXT NOT NULL,
    results BIGINT NOT NULL,
    UNIQUE (slug, revision_slug)
);

-- The figures that are ranked.
CREATE TABLE figures (
    figure_id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE results (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    -- Seconds since 1970.
    received_at BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    device_id BIGINT NOT NULL,
    -- SHA-256 of the delete token.
    token_hash BLOB NOT NULL,
    -- Why the result is hidden; NULL: it is received.
    hidden_reason TEXT
);
CREATE INDEX results_of_device ON results (device_id, key_id, seq);

-- The submitted documents, compressed with zstd.
CREATE TABLE documents (
    seq INTEGER PRIMARY KEY,
    document BLOB NOT NULL
);

-- One row for each figure of each received result, in the order of the ranking: smaller scores are better.
CREATE TABLE ranks (
    key_id BIGINT NOT NULL,
    figure_id BIGINT NOT NULL,
    score REAL NOT NULL,
    seq BIGINT NOT NULL,
    device_id BIGINT NOT NULL,
    PRIMARY KEY (key_id, figure_id, score, seq)
) WITHOUT ROWID;

-- The number of received results per bin of scores. Scope 0: all devices; otherwise the device's id.
CREATE TABLE bins (
    scope BIGINT NOT NULL,
    key_id BIGINT NOT NULL,
    figure_id BIGINT NOT NULL,
    bin BIGINT NOT NULL,
    results BIGINT NOT NULL,
    PRIMARY KEY (scope, key_id, figure_id, bin)
) WITHOUT ROWID;

-- The best result of each device.
CREATE TABLE best (
    key_id BIGINT NOT NULL,
    figure_id BIGINT NOT NULL,
    device_id BIGINT NOT NULL,
    score REAL NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (key_id, figure_id, device_id)
) WITHOUT ROWID;
CREATE INDEX best_by_score ON best (key_id, figure_id, score, device_id, seq);
