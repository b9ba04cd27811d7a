use super::*;

#[test]
fn a_line_is_held_against_its_event_without_another_copy_of_the_data() {
    let data = format!("[\"{}\"]", "d".repeat(1 << 20));
    let line = format!(r#"{{"type":"x","seq":9,"time":1,"data":{data},"sourceEventSeqs":[1,2]}}"#);
    let event = parse_event(line.as_bytes()).unwrap();
    let mut around = String::new();
    assert!(is_in_order(&line, &data, &event, &Key::ALL, &mut around));
    assert!(around.capacity() < 256, "{} bytes", around.capacity());
}

/// Whatever the short way takes is what the long one makes of it, and the lines that this crate writes take the short one.
#[test]
fn the_two_ways_to_read_a_line_agree_on_every_line_that_both_read() {
    let lines = [
        r#"{"type":"x","seq":9,"time":-1,"data":{"a":[1.0,"\ud83d"]}}"#,
        r#"{"type":"größer","seq":0,"time":0,"data":null,"surfaceOp":"append"}"#,
        r#"{"type":"","seq":9,"time":1,"data":[],"sourceEventSeqs":[8,0,8],"surfaceOp":"append"}"#,
        r#"{"type":"x","seq":9,"time":1,"data":"}","sourceEventSeqs":[]}"#,
    ];
    let swaps = ["", " ", "0", "-", "9", "\"", "\\", ",", "[", "]", "{", "}", "\u{1}", "é", "e1", ".0", "null"];
    let mut short = 0;
    for line in lines {
        assert!(usual_event(line).is_some(), "{line}");
        for at in (0..line.len()).filter(|at| line.is_char_boundary(*at)) {
            let behind = (at..=line.len()).filter(|end| line.is_char_boundary(*end)).take(3);
            for (swap, end) in swaps.iter().flat_map(|swap| behind.clone().map(move |end| (swap, end))) {
                let changed = [&line[..at], swap, &line[end..]].concat();
                let Some(event) = usual_event(&changed) else { continue };
                short += 1;
                assert_eq!(parse_any(&changed).as_ref(), Ok(&event), "{changed}");
                assert_eq!(event.envelope(), &Envelope::Standard, "{changed}");
                assert_eq!(event.to_line(), changed);
            }
        }
    }
    assert!(short > 500, "{short}");
    for line in [
        r#"{"type":"text-chunks","seq":9,"time":1,"data":{}}"#,
        r#"{"type":"x","seq":9,"time":1,"data":{},"sourceEventSeqs":[9]}"#,
        r#"{"type":"x","seq":9,"time":1,"data":{},"sourceEventSeqs":[[1,2]]}"#,
        r#"{"type":"x","seq":9007199254740992,"time":1,"data":{}}"#,
        r#"{"type":"x","seq":9,"time":9007199254740992,"data":{}}"#,
        r#"{"type":"x","seq":9,"time":1,"data":{},"surfaceOp":"append","sourceEventSeqs":[1]}"#,
        r#"{"type":"x","seq":9,"time":1,"data":{}} "#,
    ] {
        assert!(usual_event(line).is_none(), "{line}");
    }
}

#[test]
fn a_line_that_differs_from_its_event_anywhere_is_not_taken_for_its_usual_spelling() {
    let line = r#"{"type":"x","seq":9,"time":1,"data":{"a":1},"sourceEventSeqs":[1,2]}"#;
    let event = parse_event(line.as_bytes()).unwrap();
    let is_usual = |line: &str| is_in_order(line, r#"{"a":1}"#, &event, &Key::ALL, &mut String::new());
    assert!(is_usual(line));
    for at in 0..line.len() {
        let (before, behind) = line.split_at(at);
        assert!(!is_usual(&format!("{before} {behind}")), "a space at {at}");
        assert!(!is_usual(&format!("{before}{}", &behind[1..])), "without the byte at {at}");
        assert!(!is_usual(before), "cut at {at}");
    }
    assert!(!is_usual(&format!("{line} ")));
}
