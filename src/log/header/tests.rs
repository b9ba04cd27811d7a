use super::*;

fn refused(line: &str) -> String {
    SessionHeader::parse(line.as_bytes()).expect_err(line).reason().to_owned()
}

#[test]
fn a_header_comes_back_as_the_line_it_was() {
    for line in [
        r#"{"type":"session","version":3,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#,
        r#"{"type":"session","version":3,"id":"s","createdAt":1,"cwd":"","parentSession":"p","isSeeded":true,"origin":"subagent","delegationDepth":2,"agentPreset":"x"}"#,
        r#"{"type":"session","version":0,"id":"s","createdAt":1,"seedLength":0,"delegationDepth":0}"#,
        r#"{"type":"session","version":1,"id":"s","createdAt":1}"#,
        r#"{"delegationDepth":0, "isSeeded":false,"createdAt":1,"id":"\u0073","version":3,"type":"session"}"#,
        r#"{"type":"session","version":9,"id":"s","createdAt":1,"future":{"a":1.0},"origin":"moon"}"#,
    ] {
        assert_eq!(SessionHeader::parse(line.as_bytes()).unwrap().to_line(), line);
    }
}

/// Whatever the short way takes is what the long one makes of it, and the headers that are written take the short one.
#[test]
fn the_two_ways_to_read_a_header_agree_on_every_line_that_both_read() {
    let lines = [
        r#"{"type":"session","version":3,"id":"s","createdAt":0,"isSeeded":false,"delegationDepth":0}"#,
        r#"{"type":"session","version":3,"id":"größe","createdAt":70,"cwd":"/w","parentSession":"p","isSeeded":true,"origin":"subagent","delegationDepth":2,"agentPreset":"x"}"#,
    ];
    let swaps = ["", " ", "0", "-", "9", "\"", "\\", ",", "{", "}", "\u{1}", "é", "e1", ".0", "null", "true"];
    let mut short = 0;
    for line in lines {
        assert!(Fields::usual(line).is_some(), "{line}");
        for at in (0..line.len()).filter(|at| line.is_char_boundary(*at)) {
            let behind = (at..=line.len()).filter(|end| line.is_char_boundary(*end)).take(3);
            for (swap, end) in swaps.iter().flat_map(|swap| behind.clone().map(move |end| (swap, end))) {
                let changed = [&line[..at], swap, &line[end..]].concat();
                let Some(fields) = Fields::usual(&changed) else { continue };
                short += 1;
                let header = SessionHeader(Arc::new(fields));
                assert_eq!(SessionHeader::parse_any(&changed), Ok(header.clone()), "{changed}");
                assert_eq!(header.to_line(), changed);
            }
        }
    }
    assert!(short > 500, "{short}");
}

#[test]
fn a_header_made_in_rust_equals_the_same_line_parsed() {
    let made = SessionHeader::new(SessionId::new("s").unwrap(), 5)
        .unwrap()
        .with_cwd("/w")
        .with_parent_session("p")
        .with_seed()
        .with_origin(Origin::Subagent)
        .with_delegation_depth(1)
        .with_agent_preset("standard");
    assert_eq!(SessionHeader::parse(made.to_line().as_bytes()).unwrap(), made);
    for version in [0, 1, 2, 3, 4] {
        let other = made.clone().with_version(version);
        assert_eq!(SessionHeader::parse(other.to_line().as_bytes()).unwrap(), other);
        let seeded = other.with_seed();
        assert_eq!(SessionHeader::parse(seeded.to_line().as_bytes()).unwrap(), seeded);
        let bare = br#"{"type":"session","version":1,"id":"s","createdAt":1}"#;
        let again = SessionHeader::parse(bare).unwrap().with_version(version);
        assert_eq!(SessionHeader::parse(again.to_line().as_bytes()).unwrap(), again);
    }
}

#[test]
fn a_header_under_another_id_differs_in_nothing_else() {
    let id = SessionId::new("new \"id\"").unwrap();
    for line in [
        r#"{"type":"session","version":3,"id":"s","createdAt":1,"cwd":"/s","parentSession":"s","isSeeded":true,"origin":"subagent","delegationDepth":2,"agentPreset":"s"}"#,
        r#"{"delegationDepth":0, "isSeeded":false,"createdAt":1,"id":"s","version":3,"type":"session"}"#,
        r#"{"type":"session","version":9,"future":{"id":"s"},"id":"s","createdAt":1,"origin":"moon"}"#,
        r#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":7}"#,
    ] {
        let header = SessionHeader::parse(line.as_bytes()).unwrap().renamed(&id);
        assert_eq!(
            header.to_line(),
            line.replace("\"id\":\"s\",", r#""id":"new \"id\"","#)
                .replace(r#""future":{"id":"new \"id\""}"#, r#""future":{"id":"s"}"#)
        );
        assert_eq!(header.id(), &id);
    }
    let seeded = SessionHeader::parse(br#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":7}"#);
    let shorter = seeded.unwrap().with_seed_length(2);
    assert_eq!(shorter.to_line(), r#"{"type":"session","version":1,"id":"s","createdAt":1,"seedLength":2}"#);
    let none = SessionHeader::new(id, 0).unwrap();
    assert_eq!(none.clone().with_seed_length(2), none);
}

#[test]
fn what_breaks_the_header_is_named() {
    let with = |extra: &str| {
        format!(
            r#"{{"type":"session","version":3,"id":"s","createdAt":1,"isSeeded":false,"delegationDepth":0{extra}}}"#
        )
    };
    assert!(refused(&with(r#","x":1"#)).contains("\"x\""));
    assert!(refused(&with(r#","seedLength":1"#)).contains("seedLength"));
    assert!(refused(&with(r#","sandboxMode":"x""#)).contains("retired"));
    assert!(refused(&with(r#","id":"t""#)).contains("twice"));
    assert!(refused(&with(r#","origin":"user""#)).contains("origin"));
    assert!(refused(&with(r#","cwd":null"#)).contains("cwd"));
    assert!(refused(&with("").replace("\"createdAt\":1", "\"createdAt\":1.5")).contains("createdAt"));
    assert!(refused(&with("").replace("\"createdAt\":1", "\"createdAt\":-0")).contains("createdAt"));
    assert!(refused(&with("").replace("\"id\":\"s\"", "\"id\":\"\"")).contains("empty"));
    assert!(refused(&with("").replace("\"id\":\"s\"", "\"id\":\"\\u0000\"")).contains("NUL"));
    assert!(refused(&with("").replace(",\"delegationDepth\":0", "")).contains("delegationDepth"));
    assert!(refused(&with("").replace("\"isSeeded\":false,", "")).contains("isSeeded"));
    assert!(refused(r#"{"type":"turn/start","seq":0,"time":0,"data":{}}"#).contains("not a session header"));
    assert!(refused(&with(",\n\"cwd\":\"/w\"")).contains("one line"));
    assert!(refused("[]").contains("not a JSON object"));
    assert!(refused("\u{feff}{}").contains("not a JSON object"));
}
