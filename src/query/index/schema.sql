-- One row: which file this is, for another one in its place has another name; and whether it was brought up to a store once.
CREATE TABLE file (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL,
    -- What the store says that it is; nothing before the first update, or where it does not say.
    store TEXT,
    is_filled INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What is indexed of each session. A number is never given again, so that a session that is indexed anew is another row.
CREATE TABLE session (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    -- The revision up to which all is indexed; none while that is not reached.
    revision TEXT,
    -- How many events are indexed.
    events INTEGER NOT NULL,
    -- The running digest of the header and of all that is indexed: its seed and its value.
    seed INTEGER NOT NULL,
    digest INTEGER NOT NULL,
    inherited INTEGER NOT NULL,
    cwd TEXT,
    parent TEXT,
    -- Why no more of it is indexed.
    problem TEXT,
    title TEXT,
    is_open INTEGER NOT NULL DEFAULT 0,
    first_time INTEGER,
    last_time INTEGER
) STRICT;

-- The searchable texts of events.
CREATE TABLE document (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    type TEXT NOT NULL,
    text TEXT NOT NULL,
    -- XXH3-64 of the row, in a chain of seeds over session, seq, time, type and text.
    checksum INTEGER NOT NULL,
    UNIQUE (session, seq)
) STRICT;

-- The same texts, folded, as sets of three letters that follow on one another.
CREATE VIRTUAL TABLE letters USING fts5(
    text, content = '', contentless_delete = 1, detail = none, tokenize = 'trigram case_sensitive 1'
);

-- What happened in a session on a day, by model where it is told; what it inherited apart.
CREATE TABLE count (
    session INTEGER NOT NULL,
    is_inherited INTEGER NOT NULL,
    day INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    events INTEGER NOT NULL,
    user_messages INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    tool_errors INTEGER NOT NULL,
    turn_errors INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (session, is_inherited, day, provider, model)
) STRICT, WITHOUT ROWID;
