//! Migrations: what brings a store of an earlier version to the one that this build reads and writes.
//!
//! They are numbered by the version that they lead to and only ever added to. Each leaves the very schema that `schema.sql`
//! makes anew.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, TransactionBehavior};

use super::failure::Context;
use super::schema::{self, VERSION};
use crate::seam::Result;

/// What leads to version 2, in which a writer that was replaced is told so by a number of its session, and the age of a
/// session by the clock of its writers and not by the times of its events.
const TO_2: &str = "\
ALTER TABLE sessions ADD COLUMN written_at INTEGER;
ALTER TABLE sessions ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
DROP VIEW session_overview;
CREATE VIEW session_overview AS
SELECT id AS session_id, version, created_at, cwd, parent_session, origin, delegation_depth, agent_preset,
       inherited_count, event_count, size_bytes, last_time, activity, written_at
FROM sessions;
PRAGMA user_version = 2;
";

/// What leads to version 3, in which the sessions of a working directory, a parent, an origin or a format are found without
/// looking at the others. A store of version 2 that cannot be written is read as it is, only slower.
const TO_3: &str = "\
CREATE INDEX sessions_by_cwd ON sessions (cwd, activity);
CREATE INDEX sessions_by_cwd_and_creation ON sessions (cwd, created_at DESC, id);
CREATE INDEX sessions_by_parent ON sessions (parent_session, created_at DESC, id) WHERE parent_session IS NOT NULL;
CREATE INDEX sessions_by_origin ON sessions (origin, created_at DESC, id) WHERE origin IS NOT NULL;
CREATE INDEX sessions_by_version ON sessions (version, created_at DESC, id);
CREATE INDEX sessions_told_otherwise ON sessions (created_at DESC, id)
WHERE json_valid(header) = 0 OR instr(header, '\\u0000') > 0 OR instr(lower(header), '\\ud') > 0;
PRAGMA user_version = 3;
";

/// Each version that was ever written, with what leads from it to the next.
const MIGRATIONS: [(i64, &str); 2] = [(1, TO_2), (2, TO_3)];

/// Whether a version can be brought to this one.
pub(super) fn is_known(version: i64) -> bool {
    MIGRATIONS.iter().any(|(from, _)| *from == version)
}

/// Brings the store in a file to the version of this build, in one transaction: of several processes that try, one does.
pub(super) fn migrate(path: &Path, busy_timeout: Duration) -> Result<()> {
    let context = Context::store(path);
    let failed = |e| context.sqlite(e);
    let mut connection = super::connection::open(path, busy_timeout).map_err(failed)?;
    migrate_connection(&mut connection, &context)?;
    connection.close().map_err(|(_, e)| failed(e))
}

fn migrate_connection(connection: &mut Connection, context: &Context<'_>) -> Result<()> {
    let failed = |e| context.sqlite(e);
    // A trigger of the user's own must not take part.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).map_err(failed)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    loop {
        // Read where nobody else can change it any more.
        let version = schema::check_migratable(&transaction, context)?;
        if version == VERSION {
            return transaction.commit().map_err(failed);
        }
        let migration = MIGRATIONS.iter().find(|(from, _)| *from == version).map(|(_, sql)| sql);
        let sql = migration.ok_or_else(|| schema::unknown_version(version, context))?;
        transaction.execute_batch(sql).map_err(failed)?;
        log::info!("brought a store of version {version} one version further");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The schema of each earlier version, as it was.
    const EARLIER: [(i64, &str); 2] =
        [(1, include_str!("../../../tests/schemas/1.sql")), (2, include_str!("../../../tests/schemas/2.sql"))];

    /// What a schema is made of: all columns with their types, and the text of all else.
    fn shape(connection: &Connection) -> Vec<(String, String)> {
        let mut objects = connection
            .prepare("SELECT type || ' ' || name, type, name, ifnull(sql, '') FROM sqlite_schema ORDER BY 1")
            .unwrap();
        let rows = objects.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, String>(3)?))
        });
        let mut shape = Vec::new();
        for (label, kind, name, sql) in rows.unwrap().map(Result::unwrap) {
            if kind == "table" {
                let mut columns = connection.prepare("SELECT * FROM pragma_table_xinfo(?1)").unwrap();
                let told = columns.query_map([&name], |row| {
                    Ok((0..7).map(|i| format!("{:?} ", row.get_ref(i).unwrap())).collect::<String>())
                });
                shape.push((label.clone(), told.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("\n")));
                let strict: (i64, i64) = connection
                    .query_row("SELECT strict, wr FROM pragma_table_list(?1)", [&name], |r| Ok((r.get(0)?, r.get(1)?)))
                    .unwrap();
                shape.push((label, format!("{strict:?}")));
            } else {
                shape.push((label, sql.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
        }
        shape
    }

    #[test]
    fn a_migrated_schema_is_the_fresh_one() {
        let path = Path::new(":memory:");
        let context = Context::store(path);
        let mut fresh = Connection::open_in_memory().unwrap();
        schema::create(&mut fresh, &context).unwrap();
        for (version, sql) in EARLIER {
            let mut earlier = Connection::open_in_memory().unwrap();
            earlier.execute_batch(sql).unwrap();
            assert_eq!(schema::check_migratable(&earlier, &context).unwrap(), version);
            assert_ne!(shape(&earlier), shape(&fresh));
            migrate_connection(&mut earlier, &context).unwrap();
            assert_eq!(shape(&earlier), shape(&fresh), "from version {version}");
            assert_eq!(schema::check_migratable(&earlier, &context).unwrap(), VERSION);
            migrate_connection(&mut earlier, &context).unwrap();
            assert_eq!(shape(&earlier), shape(&fresh), "a second time changes nothing");
        }
        assert_eq!(EARLIER.map(|(version, _)| version), MIGRATIONS.map(|(version, _)| version));
    }
}
