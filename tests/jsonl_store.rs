//! The store of plain files through the seam: what it writes, finds again, and leaves alone.
#![cfg(feature = "jsonl")]

use session_persistence::*;

fn event(seq: u64) -> SessionEvent {
    SessionEvent::new("turn/start", seq, 1000 + seq as i64, Json::parse(&format!(r#"{{"turn":{seq}}}"#)).unwrap())
        .unwrap()
}

#[test]
fn a_session_comes_back_from_a_new_store() {
    for encoding in [Encoding::Zstd, Encoding::Raw] {
        let folder = tempfile::tempdir().unwrap();
        let mut options = JsonlOptions::default();
        options.encoding = encoding;
        let store = JsonlStore::open_with(folder.path(), options).unwrap();
        let header = SessionHeader::new(SessionId::new("a/b").unwrap(), 5).unwrap().with_cwd("/srv/app");
        let writer = store.create(&header, CreateOptions::default()).unwrap();
        writer.append(&[event(0), event(1)]).unwrap();
        writer.append(&[event(2)]).unwrap();
        writer.flush().unwrap();
        writer.append(&[event(5)]).unwrap_err();
        drop(writer);
        let store = JsonlStore::open(folder.path()).unwrap();
        let snapshot = store.stat(header.id()).unwrap().unwrap();
        println!("{snapshot:#?}");
        assert_eq!(snapshot.event_count, Some(3));
        let w = store.open(header.id(), OpenOptions::write()).unwrap();
        w.append(&[event(3)]).unwrap();
        assert_eq!(w.read(SeqRange::ALL).unwrap(), (0..4).map(event).collect::<Vec<_>>());
        let page = store.list(&ListQuery::default()).unwrap();
        assert_eq!(page.items.len(), 1);
        println!(
            "{:?}",
            std::process::Command::new("find")
                .arg(folder.path())
                .arg("-ls")
                .output()
                .map(|o| String::from_utf8(o.stdout))
        );
    }
}
