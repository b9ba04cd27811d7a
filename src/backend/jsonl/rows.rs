//! Rows of a log file: events to rows, and rows to events.

use crate::log::packed::{FIRST_WITHOUT, parse_row};
use crate::log::text::{push_number, push_seqs, write_event_with};
use crate::log::{InvalidRecord, Seq, SessionEvent};

pub(super) use crate::log::packed::Row;

/// Reads a row of a log of format `version`, without its line feed.
pub(super) fn parse(row: &[u8], version: u32) -> Result<Row, InvalidRecord> {
    #[cfg(test)]
    super::work::PARSED.add(1);
    parse_row(row, version)
}

/// Appends the row of an event of a log of format `version`, with its line feed. The formats that pack rows keep lists of
/// seqs plain, and the later ones do not.
pub(super) fn write(out: &mut String, event: &SessionEvent, version: u32) {
    write_event_with(out, event, if version < FIRST_WITHOUT { push_seqs } else { push_runs });
    out.push('\n');
}

/// Appends a list of seqs as files store it: in a list that grows strictly, three or more in a row are `[first,last]`.
fn push_runs(out: &mut String, seqs: &[Seq]) {
    if seqs.windows(2).any(|pair| pair[0] >= pair[1]) {
        return push_seqs(out, seqs);
    }
    let mut before = '[';
    let mut item = |out: &mut String, first: u64, last: Option<u64>| {
        out.push(std::mem::replace(&mut before, ','));
        if let Some(last) = last {
            out.push('[');
            push_number(out, first);
            out.push(',');
            push_number(out, last);
            out.push(']');
        } else {
            push_number(out, first);
        }
    };
    for run in seqs.chunk_by(|a, b| a.get() + 1 == b.get()) {
        match run {
            [first, _, .., last] => item(out, first.get(), Some(last.get())),
            short => short.iter().for_each(|seq| item(out, seq.get(), None)),
        }
    }
    if seqs.is_empty() {
        out.push('[');
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::text;

    fn lines(row: &str, version: u32) -> Vec<String> {
        parse(row.as_bytes(), version)
            .unwrap_or_else(|e| panic!("{row}: {e}"))
            .events()
            .iter()
            .map(|e| e.to_line())
            .collect()
    }

    #[test]
    fn runs_of_three_seqs_and_more_are_compressed_in_lists_that_grow() {
        for (list, stored) in [
            (vec![4], "[4]"),
            (vec![1, 3, 4, 7], "[1,3,4,7]"),
            (vec![1, 3, 4, 5, 7], "[1,[3,5],7]"),
            (vec![9, 2, 3, 4], "[9,2,3,4]"),
            (vec![1, 1, 2, 3], "[1,1,2,3]"),
            (vec![], "[]"),
            ((0..=1_000_000).collect(), "[[0,1000000]]"),
        ] {
            let seqs: Vec<_> = list.iter().map(|n| Seq::new(*n).unwrap()).collect();
            let mut out = String::new();
            push_runs(&mut out, &seqs);
            assert_eq!(out, stored);
        }
    }

    #[test]
    fn an_event_comes_back_from_its_row_whatever_its_row_compresses() {
        for line in [
            r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[1,2,3,4,6]}"#,
            r#"{"type":"x","sourceEventSeqs":[1,2,3],"seq":9,"time":1,"data":{"sourceEventSeqs":[1,2,3]}}"#,
            r#"{"type":"x","seq":9,"time":1,"data":[],"sourceEventSeqs":[ 1,2,3,4 ]}"#,
            r#"{ "type":"x", "data" : [ ],"time":1,"seq":9 }"#,
        ] {
            let event = text::parse_event(line.as_bytes()).unwrap();
            for version in 0..4 {
                let mut row = String::new();
                write(&mut row, &event, version);
                assert_eq!(
                    row.contains("[1,[") || row.contains("[[1"),
                    version >= 2 && !line.contains("[ ") && line.contains("source")
                );
                assert_eq!(lines(row.trim_end_matches('\n'), version), [line]);
            }
        }
    }
}
