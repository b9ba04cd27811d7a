//! Cases of what a session is called and what its header tells: the same in every place where a header is told.

use super::fixture::{Fixture, reopened};
use super::sample::{self, events, id};
use super::steps::{
    append, close, create_with, listed_ids, log_of, open, refused, snapshot, store_session, store_with, told,
};
use crate::log::{Origin, SessionHeader, SessionId};
use crate::seam::{CreateOptions, ErrorKind, OpenOptions, SessionPersistence};

#[track_caller]
fn assert_everywhere(store: &dyn SessionPersistence, header: &SessionHeader) {
    let handle = open(store, header.id().as_str(), OpenOptions::uninterpreted());
    assert_eq!(handle.header(), header);
    assert_eq!(handle.header().to_line(), header.to_line());
    assert_eq!(handle.id(), header.id());
    assert_eq!(told(store, header.id().as_str()).header.as_ref(), Some(header));
}

/// Checks that a header is told as it was given: pending, stored, without a writer, reopened.
#[track_caller]
fn comes_back(fixture: &dyn Fixture, header: &SessionHeader) {
    let store = fixture.store();
    let options = match header.is_seeded() && header.seed_length().is_none() {
        true => CreateOptions::inheriting(1),
        false => CreateOptions::default(),
    };
    let writer = create_with(&*store, header, options);
    assert_eq!(writer.header(), header);
    assert_everywhere(&*store, header);
    append(&*writer, &events(0..1));
    assert_eq!(writer.header(), header);
    assert_everywhere(&*store, header);
    close(&*writer);
    assert_everywhere(&*store, header);
    drop(writer);
    reopened(fixture, store, |store| assert_everywhere(store, header));
}

pub fn a_plain_header_comes_back(fixture: &dyn Fixture) {
    comes_back(fixture, &sample::header("s"));
}

pub fn a_header_with_every_field_comes_back(fixture: &dyn Fixture) {
    let header = sample::header_created_at("s", (1 << 53) - 1)
        .with_cwd("/srv/ü \"quoted\" \\ 😀")
        .with_parent_session("a parent that is stored nowhere")
        .with_seed()
        .with_origin(Origin::Subagent)
        .with_delegation_depth(3)
        .with_agent_preset("standard");
    comes_back(fixture, &header);
}

pub fn a_header_whose_texts_are_empty_comes_back(fixture: &dyn Fixture) {
    let header = sample::header_created_at("s", 0).with_cwd("").with_parent_session("").with_agent_preset("");
    comes_back(fixture, &header);
}

pub fn a_header_in_a_foreign_order_and_spelling_comes_back(fixture: &dyn Fixture) {
    let line = r#"{"delegationDepth":0, "isSeeded":false,"createdAt":1,"cwd":"\u002fw","id":"\u0073","version":3,"type":"session"}"#;
    comes_back(fixture, &sample::parsed_header(line));
}

pub fn a_header_of_an_old_format_comes_back(fixture: &dyn Fixture) {
    let line = r#"{"type":"session","version":0,"id":"s","createdAt":1,"seedLength":0,"delegationDepth":0}"#;
    comes_back(fixture, &sample::parsed_header(line));
}

pub fn a_header_of_a_newer_format_comes_back_with_keys_that_nobody_knows(fixture: &dyn Fixture) {
    let line = r#"{"type":"session","version":9,"id":"s","createdAt":1,"future":{"a":1.0},"origin":"moon"}"#;
    comes_back(fixture, &sample::parsed_header(line));
}

pub fn sessions_are_found_by_id_whatever_their_folder(fixture: &dyn Fixture) {
    let store = fixture.store();
    let home = sample::header("s").with_cwd("/home");
    store_with(&*store, &home, CreateOptions::default(), &events(0..1));
    let away = sample::header("s").with_cwd("/away");
    refused(store.create(&away, CreateOptions::default()), "s", ErrorKind::AlreadyExists);
    store_with(&*store, &sample::header("t").with_cwd("/home"), CreateOptions::default(), &events(0..2));
    assert_everywhere(&*store, &home);
    assert_eq!(log_of(&*store, "t"), events(0..2));
}

/// Checks that sessions of these ids stand side by side, each with a log of its own.
#[track_caller]
fn stand_side_by_side(fixture: &dyn Fixture, names: &[&str]) {
    let check = |store: &dyn SessionPersistence| {
        for (index, name) in names.iter().enumerate() {
            assert_eq!(log_of(store, name), events(0..index as u64 + 1), "{name:?}");
            assert_eq!(snapshot(store, name).header, Some(sample::header(name)));
        }
        let mut listed: Vec<SessionId> = listed_ids(store).iter().map(|name| id(name)).collect();
        listed.sort();
        let mut expected: Vec<_> = names.iter().map(|name| id(name)).collect();
        expected.sort();
        assert_eq!(listed, expected);
    };
    let store = fixture.store();
    for (index, name) in names.iter().enumerate() {
        store_session(&*store, name, &events(0..index as u64 + 1));
    }
    check(&*store);
    reopened(fixture, store, check);
}

pub fn ids_that_look_like_paths_are_only_names(fixture: &dyn Fixture) {
    stand_side_by_side(fixture, &["../../x", "a/b", "a\\b", "/", ".", "..", "C:", "a~002Fb", "a%2Fb", "con"]);
}

pub fn ids_that_differ_in_case_alone_are_different(fixture: &dyn Fixture) {
    stand_side_by_side(fixture, &["a", "A", "é", "É", "ab", "aB"]);
}

pub fn ids_of_any_script_are_kept_without_a_normal_form(fixture: &dyn Fixture) {
    stand_side_by_side(fixture, &["😀", "é", "e\u{301}", "ي", " ", "a\nb", "\u{feff}a", "a'b\"c;--", "%", "_"]);
}

pub fn an_id_of_the_greatest_length_can_be_used(fixture: &dyn Fixture) {
    let plain = "x".repeat(SessionId::MAX_ESCAPED);
    let escaped = "/".repeat(SessionId::MAX_ESCAPED / 5);
    let neighbour = "x".repeat(SessionId::MAX_ESCAPED - 1);
    assert_eq!(id(&escaped).escaped().len(), SessionId::MAX_ESCAPED);
    stand_side_by_side(fixture, &[&plain, &escaped, &neighbour]);
}
