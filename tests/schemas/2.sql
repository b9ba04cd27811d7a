-- The schema of a store, version 2. Text is UTF-8; times are milliseconds since 1970.
--
-- Read the views at the end: their names and columns stay. The tables are the crate's own and may change with the
-- version in `PRAGMA user_version`. Tables, views and indexes of your own beside them are welcome.
--
-- The triggers refuse every change of the crate's tables by any other program. The crate's one writing connection runs
-- with triggers off and makes the same checks itself, once a batch: run for each row they made a bulk append 15 to 30 per
-- cent slower (benches/immutability.rs).

PRAGMA application_id = 0x53655065;
PRAGMA user_version = 2;

-- The identity of the store, and a counter that a flush raises so that it has something to commit.
CREATE TABLE store (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  store_id  TEXT NOT NULL,
  flushes   INTEGER NOT NULL,
  -- The highest activity of a session that was removed.
  removed_activity INTEGER NOT NULL
) STRICT;

-- One row a session: its header and what `stat` and `list` tell of its events. The generated columns are for people: they
-- are NULL where SQLite's JSON functions do not take the header, which then is nested deeper than 1000 levels.
CREATE TABLE sessions (
  -- AUTOINCREMENT: the number of a removed session, a part of its events' keys, is never given again.
  number           INTEGER PRIMARY KEY AUTOINCREMENT CHECK (number < 2147483648),
  id               TEXT NOT NULL UNIQUE,
  -- Random, so that a session made anew under the same id and number differs.
  incarnation      INTEGER NOT NULL,
  created_at       INTEGER NOT NULL,
  -- The header line as it is exported, and XXH3-64 of its bytes, seeded with the incarnation.
  header           TEXT NOT NULL,
  header_checksum  INTEGER NOT NULL,
  inherited_count  INTEGER NOT NULL,
  event_count      INTEGER NOT NULL,
  -- Bytes of the exported text: each line and its line feed.
  size_bytes       INTEGER NOT NULL,
  last_time        INTEGER,
  -- Raised by each transaction that changes the log.
  revision         INTEGER NOT NULL,
  -- XXH3-64 over the checksums of all rows in order: starts as header_checksum; each row's checksum, as 8 bytes in
  -- little-endian order, is hashed with the chain so far as its seed.
  chain            INTEGER NOT NULL,
  -- Grows with every write to any session of the store: the order of recency, whatever clocks said.
  activity         INTEGER NOT NULL UNIQUE,
  -- The sum, modulo 2^64, over the session's rows in session_types of XXH3-64 of the type's bytes and the first seq as 8
  -- bytes in little-endian order, seeded with the incarnation.
  types_checksum   INTEGER NOT NULL,
  -- XXH3-64, seeded with the incarnation, of these as 8 bytes each in little-endian order: created_at, header_checksum,
  -- inherited_count, event_count, size_bytes, last_time IS NOT NULL, ifnull(last_time, 0), revision, chain, activity,
  -- types_checksum, and written_at where it is not NULL.
  checksum         INTEGER NOT NULL,
  version          INTEGER GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.version', NULL)) VIRTUAL,
  cwd              TEXT GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.cwd', NULL)) VIRTUAL,
  parent_session   TEXT GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.parentSession', NULL)) VIRTUAL,
  origin           TEXT GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.origin', NULL)) VIRTUAL,
  delegation_depth INTEGER GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.delegationDepth', NULL)) VIRTUAL,
  agent_preset     TEXT GENERATED ALWAYS AS (iif(json_valid(header), header ->> '$.agentPreset', NULL)) VIRTUAL,
  -- When it was last written, by the clock of its writer and never earlier than before. NULL: by version 1, which did
  -- not note it.
  written_at       INTEGER,
  -- Raised whenever the session is opened for writing: a writer whose number is another one was replaced.
  fence            INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX sessions_by_creation ON sessions (created_at DESC, id);

-- One row an event. Session number and seq make one integer key, so that a session's events lie together and one range
-- of keys is one slice of a log.
CREATE TABLE events (
  key               INTEGER PRIMARY KEY,
  type              TEXT NOT NULL,
  time              INTEGER NOT NULL,
  -- JSON, verbatim.
  data              TEXT NOT NULL,
  -- JSON: a plain list of seqs.
  source_event_seqs TEXT,
  -- JSON.
  surface_op        TEXT,
  ignorable         INTEGER CHECK (ignorable = 1),
  -- How the exported line differs from the usual order and spelling of its keys: a letter a key, or the place of the data
  -- in bytes, a colon, and the line without its data.
  envelope          TEXT,
  -- XXH3-64 of the exported line without its line feed, seeded with the session's incarnation.
  checksum          INTEGER NOT NULL,
  session           INTEGER GENERATED ALWAYS AS (key >> 32) VIRTUAL,
  seq               INTEGER GENERATED ALWAYS AS (key & 4294967295) VIRTUAL
) STRICT;

-- The event types of each session with the first event of each that is not marked ignorable: what a reader must know,
-- without a look at the events.
CREATE TABLE session_types (
  session   INTEGER NOT NULL REFERENCES sessions (number),
  type      TEXT NOT NULL,
  first_seq INTEGER NOT NULL,
  PRIMARY KEY (session, type)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_insert BEFORE INSERT ON events
BEGIN SELECT RAISE(ABORT, 'events are appended through session-persistence only'); END;
CREATE TRIGGER events_update BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'stored events never change'); END;
CREATE TRIGGER events_delete BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events go only with their session, removed through session-persistence'); END;

CREATE TRIGGER sessions_insert BEFORE INSERT ON sessions
BEGIN SELECT RAISE(ABORT, 'sessions are created through session-persistence only'); END;
CREATE TRIGGER sessions_update BEFORE UPDATE ON sessions
BEGIN SELECT RAISE(ABORT, 'what a store tells of a session follows from its events'); END;
CREATE TRIGGER sessions_delete BEFORE DELETE ON sessions
BEGIN SELECT RAISE(ABORT, 'sessions are removed through session-persistence only'); END;

CREATE TRIGGER session_types_insert BEFORE INSERT ON session_types
BEGIN SELECT RAISE(ABORT, 'the types of a session follow from its events'); END;
CREATE TRIGGER session_types_update BEFORE UPDATE ON session_types
BEGIN SELECT RAISE(ABORT, 'the types of a session follow from its events'); END;
CREATE TRIGGER session_types_delete BEFORE DELETE ON session_types
BEGIN SELECT RAISE(ABORT, 'the types of a session follow from its events'); END;

CREATE TRIGGER store_insert BEFORE INSERT ON store
BEGIN SELECT RAISE(ABORT, 'the identity of a store never changes'); END;
CREATE TRIGGER store_update BEFORE UPDATE ON store
BEGIN SELECT RAISE(ABORT, 'the identity of a store never changes'); END;
CREATE TRIGGER store_delete BEFORE DELETE ON store
BEGIN SELECT RAISE(ABORT, 'the identity of a store never changes'); END;

-- Each event, by session id and seq. Give a session id and it reads that session's events only.
CREATE VIEW session_events AS
SELECT s.id AS session_id, e.seq, e.type, e.time, e.data, e.source_event_seqs, e.surface_op, e.ignorable
FROM sessions AS s
JOIN events AS e ON e.key BETWEEN s.number << 32 AND (s.number << 32) | 4294967295;

-- The views below skip data that SQLite's JSON functions do not take: it is nested deeper than 1000 levels.

-- Each turn with the event that ended it, if one did before the next turn started.
CREATE VIEW session_turns AS
SELECT b.session_id, b.turn, b.start_seq, b.start_time, e.seq AS end_seq, e.time AS end_time,
       e.data ->> '$.reason.kind' AS reason
FROM (
  SELECT s.id AS session_id, b.seq AS start_seq, b.time AS start_time, b.data ->> '$.turn' AS turn,
         (SELECT n.key FROM events AS n
          WHERE n.key > b.key AND n.key <= (s.number << 32) | 4294967295 AND n.type IN ('turn/start', 'turn/end')
          ORDER BY n.key LIMIT 1) AS next_key
  FROM sessions AS s
  JOIN events AS b ON b.key BETWEEN s.number << 32 AND (s.number << 32) | 4294967295
  WHERE b.type = 'turn/start' AND json_valid(b.data)
) AS b
LEFT JOIN events AS e ON e.key = b.next_key AND e.type = 'turn/end' AND json_valid(e.data);

-- Each tool call that was started, with its result, if there is one in the same turn.
CREATE VIEW session_tool_calls AS
SELECT c.session_id, c.turn, c.step, c.call_id, c.name, c.arguments, c.call_seq, c.call_time,
       r.seq AS result_seq, r.time AS result_time,
       r.data ->> '$.message.content[0].isError' AS is_error, r.data ->> '$.error.code' AS error_code
FROM (
  SELECT s.id AS session_id, c.seq AS call_seq, c.time AS call_time, c.data ->> '$.turn' AS turn,
         c.data ->> '$.step' AS step, c.data ->> '$.callId' AS call_id, c.data ->> '$.name' AS name,
         c.data ->> '$.arguments' AS arguments,
         (SELECT n.key FROM events AS n
          WHERE n.key > c.key AND n.key <= (s.number << 32) | 4294967295
            AND (n.type IN ('turn/start', 'turn/end')
                 OR n.type = 'tool/result' AND json_valid(n.data)
                    AND n.data ->> '$.message.source.callId' = c.data ->> '$.callId')
          ORDER BY n.key LIMIT 1) AS next_key
  FROM sessions AS s
  JOIN events AS c ON c.key BETWEEN s.number << 32 AND (s.number << 32) | 4294967295
  WHERE c.type = 'tool/call' AND json_valid(c.data)
) AS c
LEFT JOIN events AS r ON r.key = c.next_key AND r.type = 'tool/result';

-- Each message as it was stored, in log order; the surface of a session may show others in its place.
CREATE VIEW session_messages AS
SELECT s.id AS session_id, e.seq, e.time, e.type,
       CASE e.type WHEN 'user/message' THEN e.data ->> '$.role' ELSE e.data ->> '$.message.role' END AS role,
       CASE e.type WHEN 'user/message' THEN e.data -> '$.content' ELSE e.data -> '$.message.content' END AS content,
       e.data ->> '$.turn' AS turn, e.data ->> '$.step' AS step,
       e.data ->> '$.usage.inputTokens' AS input_tokens, e.data ->> '$.usage.outputTokens' AS output_tokens
FROM sessions AS s
JOIN events AS e ON e.key BETWEEN s.number << 32 AND (s.number << 32) | 4294967295
WHERE e.type IN ('user/message', 'system/message', 'assistant/message', 'tool/result') AND json_valid(e.data);

-- Each session, as `list` tells of it.
CREATE VIEW session_overview AS
SELECT id AS session_id, version, created_at, cwd, parent_session, origin, delegation_depth, agent_preset,
       inherited_count, event_count, size_bytes, last_time, activity, written_at
FROM sessions;
