-- The hash of a result's device and figures, so that one result counts once.
ALTER TABLE results ADD COLUMN content_hash BLOB;
CREATE UNIQUE INDEX results_by_content ON results (content_hash) WHERE content_hash IS NOT NULL;

-- The column keys.results does not count hidden results. With this index, a key without any result is found fast.
CREATE INDEX hidden_of_key ON results (key_id) WHERE hidden_reason IS NOT NULL;

-- Submissions that wait for review. No page, answer or dump reads the documents of this table.
CREATE TABLE held (
    id TEXT PRIMARY KEY,
    -- Seconds since 1970.
    received_at BIGINT NOT NULL,
    -- SHA-256 of the delete token.
    token_hash BLOB NOT NULL,
    content_hash BLOB NOT NULL UNIQUE,
    -- The unknown texts with their fields, as JSON.
    texts TEXT NOT NULL,
    -- The document, compressed with zstd.
    document BLOB NOT NULL
);
CREATE INDEX held_by_time ON held (received_at, id);

-- The texts that the operator has accepted.
CREATE TABLE accepted_texts (
    field TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (field, text)
);

-- Decisions of the operator that the service has not carried out yet.
CREATE TABLE decisions (
    decision_id INTEGER PRIMARY KEY,
    -- The id of the result.
    id TEXT NOT NULL,
    -- publish, publish_once, reject or withhold.
    verdict TEXT NOT NULL
);
