use crate::folder::{Folder, Run, event, header, objects};

fn demo() -> Folder {
    let folder = Folder::new();
    folder.run(&["demo", "--store", "sessions.db"]).done();
    folder
}

#[test]
fn nothing_that_sql_can_say_changes_anything() {
    let folder = demo();
    let before = folder.content();
    for statement in [
        "DELETE FROM events",
        "UPDATE sessions SET event_count = 0",
        "INSERT INTO store VALUES (2, 'x', 0)",
        "DROP VIEW session_events",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "CREATE TEMP TRIGGER t BEFORE INSERT ON events BEGIN SELECT 1; END",
        "ALTER TABLE events RENAME TO e",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "ATTACH 'other.db' AS o",
        "DETACH main",
        "REINDEX",
        "ANALYZE",
        "BEGIN IMMEDIATE",
        "SAVEPOINT s",
        "PRAGMA query_only = 0",
        "PRAGMA user_version = 9",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA writable_schema = 1",
        "PRAGMA incremental_vacuum",
        "PRAGMA optimize",
        "EXPLAIN DELETE FROM events",
        "WITH x AS (SELECT 1) DELETE FROM events",
    ] {
        folder.run(&["sql", statement]).failed("InvalidArgument", &["nothing was changed"]);
        assert!(folder.content() == before, "{statement}");
    }
}

#[test]
fn what_is_not_one_statement_of_sql_is_refused_with_the_reason() {
    let folder = demo();
    for (statement, reason) in [
        ("selct 1", "syntax error"),
        ("select * from absent", "no such table: absent"),
        ("select 1; select 2", "more than one statement"),
        ("select 1; selct", "more than one statement"),
        ("select ?1", "parameters"),
        ("/* nothing */", "no statement"),
        ("select json('{')", "malformed JSON"),
        ("select load_extension('x')", "load_extension"),
    ] {
        folder.run(&["sql", statement]).failed("InvalidArgument", &[reason]);
    }
    assert_eq!(folder.run(&["sql", "select 1 as one; -- and no more"]).done(), "one\n1\n");
}

#[test]
fn values_of_every_type_are_printed_for_a_person_and_for_a_program() {
    let folder = demo();
    let query = "select 1 as n, 1 as n, null as void, 1.0 as r, -9e999 as i, x'00ff' as b, 'a' || char(9, 10, 27) as t, \
                 9007199254740993 as big";
    let out = folder.run(&["sql", query]).done();
    assert_eq!(out, "n\tn\tvoid\tr\ti\tb\tt\tbig\n1\t1\t\t1.0\t-9e999\tx'00ff'\ta\\t\\n\\u{1b}\t9007199254740993\n");
    let out = folder.run(&["sql", "--json", query]).done();
    let expected =
        r#"{"n":1,"n_2":1,"void":null,"r":1.0,"i":-9e999,"b":"x'00ff'","t":"a\t\n\u001b","big":9007199254740993}"#;
    assert_eq!(out.trim_end(), expected);
    assert_eq!(folder.run(&["sql", "select 1 as x where 0"]).done(), "x\n");
    assert_eq!(folder.run(&["sql", "--json", "select 1 as x where 0"]).done(), "");
}

#[test]
fn a_query_can_be_piped_and_without_one_the_views_are_told() {
    let folder = demo();
    let run = Run::of(folder.command().arg("sql").write_stdin("select count(*) as sessions\nfrom session_overview;\n"));
    assert_eq!(run.done(), "sessions\n6\n");
    let views = Run::of(folder.command().arg("sql").write_stdin("")).done();
    for name in ["session_events", "session_turns", "session_tool_calls", "session_messages", "session_overview"] {
        assert!(views.contains(name), "{views}");
    }
    assert!(views.contains("session_id, seq, type, time, data"), "{views}");
    let views = objects(&Run::of(folder.command().args(["sql", "--json"]).write_stdin("")).done());
    assert!(views.iter().any(|v| v["view"] == "session_turns"));
}

#[test]
fn stored_text_is_whole_in_sql() {
    let folder = Folder::new();
    folder.write("log.jsonl", header("s") + &event("todo/write", 0, r#"{"t":"a\u0000b","n":1e400}"#));
    folder.run(&["import", "log.jsonl"]).done();
    let row = &objects(&folder.run(&["sql", "--json", "select data from session_events"]).done())[0];
    assert_eq!(row["data"], r#"{"t":"a\u0000b","n":1e400}"#);
}
