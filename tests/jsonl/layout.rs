//! Where files stand, what is in them, and who may read them.

use std::fs;

use session_persistence::{
    CreateOptions, Encoding, ErrorKind, JsonlOptions, JsonlStore, ListOrder, ListQuery, OpenOptions, SeqRange,
    SessionEvent, SessionHeader, SessionPersistence, text,
};

use super::place::{ENCODINGS, Place, event, events, header, id, ids, list, read, stat, store, writer};

#[test]
fn a_text_holds_the_header_and_then_a_line_an_event() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "a/b", &[&events(0..2), &events(2..3)]);
    let lines: String = std::iter::once(header("a/b").to_line())
        .chain(events(0..3).iter().map(SessionEvent::to_line))
        .map(|line| line + "\n")
        .collect();
    assert_eq!(place.session("a/b"), place.root().join("--w--/a~002Fb"));
    assert_eq!(fs::read_to_string(place.log("a/b")).unwrap(), lines);
}

#[test]
fn compressed_a_log_is_a_frame_for_the_header_and_one_for_each_batch() {
    let place = Place::new(Encoding::Zstd);
    store(&place.open(), "s", &[&events(0..2), &events(2..3)]);
    let bytes = fs::read(place.log("s")).unwrap();
    let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    let starts: Vec<_> = starts.chain([bytes.len()]).collect();
    let frames: Vec<_> = starts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
    let expected = [
        header("s").to_line() + "\n",
        events(0..2).iter().map(|e| e.to_line() + "\n").collect(),
        event(2).to_line() + "\n",
    ];
    assert_eq!(frames.len(), expected.len());
    for (frame, expected) in frames.iter().zip(expected) {
        assert!(frame[4] & 4 != 0, "every frame has a checksum");
        assert_eq!(zstd::decode_all(*frame).unwrap(), expected.into_bytes());
    }
    let empty = place.open().create(&header("empty"), CreateOptions::default()).unwrap();
    empty.flush().unwrap();
    let bytes = fs::read(place.log("empty")).unwrap();
    assert_eq!(zstd::decode_all(&bytes[..]).unwrap(), (header("empty").to_line() + "\n").into_bytes());
    assert_eq!(read(&place.open(), "empty"), []);
    assert_eq!(stat(&place.open(), "empty").event_count, Some(0));
}

#[test]
fn a_log_of_another_version_has_its_version_in_its_name() {
    for (version, name) in [(0, "session.jsonl"), (1, "session.v1.jsonl"), (4, "session.v4.jsonl")] {
        let place = Place::new(Encoding::Raw);
        let store = place.open();
        let header = header("s").with_version(version);
        let writer = store.create(&header, CreateOptions::default()).unwrap();
        writer.append(&events(0..2)).unwrap();
        assert!(place.session("s").join(name).exists(), "{version}");
        let reader = place.open().open(&id("s"), OpenOptions::uninterpreted()).unwrap();
        assert_eq!((reader.header(), reader.read(SeqRange::ALL).unwrap()), (&header, events(0..2)));
    }
}

#[test]
fn the_highest_generation_is_the_log_and_the_others_stay() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let old = header("s").with_version(2);
        let writer = place.open().create(&old, CreateOptions::default()).unwrap();
        writer.append(&events(0..1)).unwrap();
        drop(writer);
        store(&place.open(), "t", &[&events(0..2)]);
        // As another program publishes a migrated log beside the old one.
        let text = fs::read(place.log("t")).unwrap();
        fs::write(place.log("s"), text).unwrap();
        let reader = place.open();
        let wrong = reader.open(&id("s"), OpenOptions::read()).expect_err("its header names t");
        assert_eq!(wrong.kind(), ErrorKind::Corruption);
        store_generation(&place, "s", 3);
        assert_eq!(read(&place.open(), "s"), events(0..3));
        let files = place.files().len();
        assert!(place.open().remove(&id("s")).unwrap());
        assert!(!place.session("s").exists());
        assert_eq!(place.files().len(), files - 4, "both generations, the lock and the folder");
        assert_eq!(ids(&list(&place.open())), ["t"]);
    }
}

/// Writes the log of `name` anew with `count` events, in a root of its own.
fn store_generation(place: &Place, name: &str, count: u64) {
    let other = Place::new(place.encoding);
    store(&other.open(), name, &[&events(0..count)]);
    fs::copy(other.log(name), place.log(name)).unwrap();
}

#[test]
fn a_root_keeps_the_encoding_that_it_has() {
    for (encoding, other) in [(Encoding::Raw, Encoding::Zstd), (Encoding::Zstd, Encoding::Raw)] {
        let place = Place::new(encoding);
        store(&place.open(), "a", &[&events(0..1)]);
        let mut options = JsonlOptions::default();
        options.encoding = other;
        store(&JsonlStore::open_with(place.root(), options.clone()).unwrap(), "b", &[&events(0..1)]);
        assert!(place.log("b").exists());
        // Two stores over one empty root: the first that stores decides.
        let place = Place::new(encoding);
        let (first, second) = (place.open(), JsonlStore::open_with(place.root(), options).unwrap());
        store(&first, "a", &[&events(0..1)]);
        store(&second, "b", &[&events(0..1)]);
        assert!(place.log("b").exists());
    }
}

#[test]
fn a_log_in_both_encodings_is_unclear_and_told_so() {
    let place = Place::new(Encoding::Raw);
    store(&place.open(), "s", &[&events(0..1)]);
    fs::write(place.log("s").with_extension("jsonl.zstd"), "x").unwrap();
    let store = place.open();
    assert_eq!(stat(&store, "s").header, None);
    assert_eq!(list(&store).len(), 1);
    assert_eq!(store.open(&id("s"), OpenOptions::read()).err().unwrap().kind(), ErrorKind::Corruption);
    assert!(store.remove(&id("s")).unwrap());
    assert!(!place.session("s").exists());
}

#[test]
fn ids_of_every_kind_and_folders_of_every_kind_are_found_again() {
    let long = "x".repeat(240);
    let names = [
        "a/b",
        "a\\b",
        "..",
        ".",
        "../../x",
        "A",
        "a",
        "é",
        "e\u{301}",
        "con",
        "a.",
        "a%2Fb",
        "a~002Fb",
        "a\nb",
        "--",
        "😀",
        " ",
        "session.lock",
        &long,
    ];
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open();
        let cwds = [Some("/w"), Some(""), None, Some("relative/x"), Some("/"), Some("C:\\x"), Some("😀 "), Some("..")];
        let header = |(at, name): (usize, &&str)| {
            let header = SessionHeader::new(id(name), at as u64).unwrap();
            match cwds[at % cwds.len()] {
                Some(cwd) => header.with_cwd(cwd),
                None => header,
            }
        };
        for named in names.iter().enumerate() {
            let writer = store.create(&header(named), CreateOptions::default()).unwrap();
            writer.append(&events(0..2)).unwrap();
        }
        for store in [store, place.open()] {
            let mut sorted = names.to_vec();
            sorted.sort_unstable();
            assert_eq!(ids(&list(&store)), sorted);
            for named in names.iter().enumerate() {
                assert_eq!(stat(&store, named.1).header, Some(header(named)));
                assert_eq!(read(&store, named.1), events(0..2));
            }
            let created = store.list(&ListQuery::default().with_order(ListOrder::Created)).unwrap();
            let created: Vec<_> = created.items.iter().rev().map(|snapshot| snapshot.id.as_str()).collect();
            assert_eq!(created, names);
        }
        for (path, _) in place.files() {
            assert!(path.strip_prefix(place.root()).unwrap().components().count() <= 3, "{}", path.display());
        }
        assert!(place.root().join("_no-cwd").join("..".replace('.', "~002E")).exists() || names.len() < 3);
    }
}

#[test]
fn lines_of_any_spelling_come_back_as_they_are_stored() {
    let lines = [
        r#"{"type":"turn/start","data":{"b":1,"a":1.0},"seq":0,"time":-5}"#,
        r#"{ "type" : "turn\/start" , "data" : {"k":1,"k":2} , "seq":1, "time":1 }"#,
        r#"{"type":"user/message","seq":2,"time":1,"data":["\ud83d",9007199254740993,1e400],"surfaceOp":"append","sourceEventSeqs":[0,1]}"#,
        r#"{"type":"user/message","seq":3,"time":1,"data":null,"sourceEventSeqs":[0,1,2],"surfaceOp":"append"}"#,
        r#"{"type":"user/message","surfaceOp":"append","sourceEventSeqs":[0,1,2,3],"seq":4,"time":1,"data":null}"#,
        r#"{"type":"user/message","seq":5,"time":1,"data":null,"sourceEventSeqs":[0, 1,2,3],"surfaceOp":"append"}"#,
        r#"{"type":"x/y","seq":6,"time":1,"data":null,"surfaceOp":{"mark":1.0},"ignorable":true}"#,
    ];
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let batch: Vec<_> = lines.iter().map(|line| text::parse_event(line.as_bytes()).unwrap()).collect();
        store(&place.open(), "s", &[&batch[..1], &batch[1..]]);
        for store in [place.open(), place.open_forgetful()] {
            assert_eq!(read(&store, "s").iter().map(SessionEvent::to_line).collect::<Vec<_>>(), lines);
        }
        if encoding == Encoding::Raw {
            let stored = fs::read_to_string(place.log("s")).unwrap();
            let row = |seq: usize| stored.lines().nth(seq + 1).unwrap();
            assert!(row(3).contains(r#""sourceEventSeqs":[[0,2]],"surfaceOp""#), "{}", row(3));
            assert!(row(4).contains(r#""sourceEventSeqs":[[0,3]],"seq""#), "{}", row(4));
            assert_eq!(row(5), lines[5]);
            // A carriage return is white space of the file.
            let other = stored.replace('\n', "\r\n");
            fs::write(place.log("s"), other).unwrap();
            let lines: Vec<_> = read(&place.open(), "s").iter().map(SessionEvent::to_line).collect();
            assert_eq!(lines, batch.iter().map(SessionEvent::to_line).collect::<Vec<_>>());
            writer(&place.open(), "s").append(&events(7..8)).unwrap();
            assert_eq!(read(&place.open(), "s").len(), 8);
        }
    }
}

#[test]
fn every_slice_is_the_same_with_and_without_memory() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let big = "x".repeat(40_000);
        let log: Vec<_> = (0..60)
            .map(|seq| {
                let data = if seq % 3 == 0 { format!("{{\"text\":\"{big}{seq}\"}}") } else { format!("[{seq}]") };
                super::place::typed("todo/write", seq, &data)
            })
            .collect();
        let batches: Vec<_> = log.chunks(7).collect();
        store(&place.open(), "s", &batches);
        let (remembering, forgetful) = (place.open(), place.open_forgetful());
        for store in [&remembering, &forgetful] {
            let reader = store.open(&id("s"), OpenOptions::read()).unwrap();
            for from in 0..=61 {
                let behind = log.get(from..).unwrap_or_default();
                assert_eq!(reader.read(SeqRange::from(from as u64..)).unwrap(), behind);
                assert_eq!(reader.read(SeqRange::new(from as u64, Some(2))).unwrap(), behind[..behind.len().min(2)]);
            }
        }
        let writer = writer(&forgetful, "s");
        writer.append(&events(60..62)).unwrap();
        assert_eq!(writer.read(SeqRange::from(59..)).unwrap(), [&log[59..], &events(60..62)].concat());
    }
}

#[cfg(unix)]
#[test]
fn new_files_and_folders_are_private_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;
    // A process of its own: the umask is one for all threads.
    if let Ok(root) = std::env::var("SESSIONS_TEST_PRIVATE_ROOT") {
        let store_at = JsonlStore::open(root).unwrap();
        store(&store_at, "s", &[&events(0..2), &events(2..3)]);
        return;
    }
    for umask in ["000", "022"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/root");
        let test = std::env::current_exe().unwrap();
        let name = "layout::new_files_and_folders_are_private_whatever_the_umask";
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("umask {umask} && exec \"$0\" --exact {name}"))
            .arg(test)
            .env("SESSIONS_TEST_PRIVATE_ROOT", &root)
            .status()
            .unwrap();
        assert!(status.success());
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(root.parent().unwrap()), mode(&root)), (0o700, 0o700));
        for entry in ["--w--", "--w--/s", "--w--/s/session.v3.jsonl.zstd", "--w--/s/session.lock"] {
            let path = root.join(entry);
            assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "umask {umask}: {entry}");
        }
    }
}

#[test]
fn a_failed_creation_leaves_no_file_and_no_folder() {
    let place = Place::new(Encoding::Zstd);
    let store = place.open();
    let writer = store.create(&header("s"), CreateOptions::default()).unwrap();
    assert_eq!(writer.append(&events(1..2)).unwrap_err().kind(), ErrorKind::NotContiguous);
    drop(writer);
    assert_eq!(place.files(), []);
}

#[test]
fn drafts_that_a_crash_left_are_no_session_and_go_with_the_next_creation() {
    let place = Place::new(Encoding::Raw);
    fs::create_dir_all(place.session("s")).unwrap();
    let draft = place.session("s").join("session.v3.jsonl.0123456789ab.tmp");
    fs::write(&draft, header("s").to_line()).unwrap();
    fs::write(place.session("s").join("session.lock"), "").unwrap();
    let at = place.open();
    assert_eq!((list(&at).len(), at.stat(&id("s")).unwrap()), (0, None));
    store(&at, "s", &[&events(0..1)]);
    assert!(!draft.exists());
    assert_eq!(read(&place.open(), "s"), events(0..1));
}

#[cfg(unix)]
#[test]
fn a_session_behind_a_symbolic_link_is_read_and_not_removed() {
    for encoding in ENCODINGS {
        let (place, other) = (Place::new(encoding), Place::new(encoding));
        store(&other.open(), "s", &[&events(0..2)]);
        store(&place.open(), "kept", &[&events(0..2)]);
        std::os::unix::fs::symlink(other.session("s"), place.session("s")).unwrap();
        let (before, at) = (other.files(), place.open());
        assert_eq!(read(&at, "s"), events(0..2));
        let refused = at.remove(&id("s")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let told = refused.to_string();
        assert!(told.contains(&*place.session("s").display().to_string()) && told.contains("link"), "{told}");
        assert_eq!(other.files(), before);
        assert_eq!((read(&at, "s"), list(&at).len()), (events(0..2), 2));
        std::fs::remove_file(place.session("s")).unwrap();
        assert!(!at.remove(&id("s")).unwrap());
    }
}

#[test]
fn what_is_not_ours_in_the_folder_of_a_session_stays_when_it_is_removed() {
    let place = Place::new(Encoding::Raw);
    let at = place.open();
    store(&at, "s", &[&events(0..1)]);
    fs::write(place.session("s").join("notes.txt"), "mine").unwrap();
    assert!(at.remove(&id("s")).unwrap());
    assert!(!at.remove(&id("s")).unwrap());
    assert!(place.session("s").join("notes.txt").exists() && !place.log("s").exists());
    assert_eq!(at.stat(&id("s")).unwrap(), None);
    store(&at, "s", &[&events(0..2)]);
    assert_eq!(read(&at, "s"), events(0..2));
}

/// The header and the events of a plain log.
fn plain_log(path: &std::path::Path) -> (SessionHeader, Vec<String>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    (SessionHeader::parse(lines.next().unwrap().as_bytes()).unwrap(), lines.collect())
}

/// Roots that DeepSeek Harness wrote, beside the plain logs of the same sessions, in the folder that SESSION_SAMPLES
/// names: `dsh-root/raw`, `dsh-root/zstd` and `logs/<id>.jsonl`.
#[test]
fn roots_of_deepseek_harness_open_in_place_and_stay_as_they_are() {
    let Some(samples) = std::env::var_os("SESSION_SAMPLES").map(std::path::PathBuf::from) else {
        eprintln!("SKIPPED: SESSION_SAMPLES names no folder with roots that DeepSeek Harness wrote");
        return;
    };
    for encoding in ["raw", "zstd"] {
        let root = samples.join("dsh-root").join(encoding);
        let files = || {
            let found =
                std::process::Command::new("find").arg(&root).args(["-printf", "%p %s %T@ %C@\n"]).output().unwrap();
            String::from_utf8(found.stdout).unwrap()
        };
        let before = files();
        for memo_bytes in [JsonlOptions::default().memo_bytes, 0] {
            let mut options = JsonlOptions::default();
            options.memo_bytes = memo_bytes;
            let store = JsonlStore::open_existing_with(&root, options).unwrap();
            let listed = list(&store);
            assert!(!listed.is_empty());
            for snapshot in listed {
                let (header, lines) = plain_log(&samples.join("logs").join(format!("{}.jsonl", snapshot.id)));
                assert_eq!(snapshot.header.as_ref(), Some(&header));
                assert_eq!(snapshot.event_count, Some(lines.len() as u64));
                let reader = store.open(&snapshot.id, OpenOptions::uninterpreted()).unwrap();
                let read: Vec<_> = reader.read(SeqRange::ALL).unwrap().iter().map(SessionEvent::to_line).collect();
                assert_eq!(read, lines);
                for way in [OpenOptions::read(), OpenOptions::write()] {
                    let refused = store.open(&snapshot.id, way).expect_err("format 0 is too old");
                    assert_eq!(refused.kind(), ErrorKind::FormatUnsupported);
                }
            }
        }
        assert_eq!(files(), before, "nothing is added, not even a lock");
    }
}
