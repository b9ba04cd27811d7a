//! Values that change while they are serialized: the record is one consistent serialization or nothing.

use std::cell::{Cell, RefCell};

use serde::ser::{Error, SerializeMap};
use serde::{Serialize, Serializer};
use session_persistence::session::AppendOptions;

use super::scene::{Witness, fresh};

/// Says something else each time it is asked.
struct Fickle(Cell<u64>);

impl Serialize for Fickle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.set(self.0.get() + 1);
        serializer.serialize_u64(self.0.get())
    }
}

#[test]
fn a_value_that_says_something_else_each_time_is_asked_once() {
    let session = fresh();
    let witness = Witness::new();
    let _observation = session.observe(witness.clone()).unwrap();
    let fickle = Fickle(Cell::new(0));
    let event = session.append("todo/write", &fickle, AppendOptions::default()).unwrap();
    assert_eq!((fickle.0.get(), event.data().as_str()), (1, "1"));
    assert_eq!(session.event_at(0).unwrap().data().as_str(), "1");
    assert_eq!(witness.events.lock().unwrap()[0].data().as_str(), "1");
}

#[test]
fn a_value_in_a_cell_is_kept_as_it_was() {
    let session = fresh();
    let cell = RefCell::new(vec![1]);
    session.append("todo/write", &cell, AppendOptions::default()).unwrap();
    cell.borrow_mut().push(2);
    assert_eq!(session.event_at(0).unwrap().data().as_str(), "[1]");
    let held = cell.borrow_mut();
    session.append("todo/write", &cell, AppendOptions::default()).unwrap_err();
    drop(held);
    assert_eq!(session.seq(), 1);
}

#[test]
fn a_value_that_fails_half_way_leaves_nothing() {
    struct Failing;
    impl Serialize for Failing {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("a", &1)?;
            Err(S::Error::custom("the other half is gone"))
        }
    }
    let session = fresh();
    let refused = session.append("todo/write", &Failing, AppendOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("the other half is gone"), "{refused}");
    assert_eq!(session.seq(), 0);
    session.append("todo/write", &1, AppendOptions::default()).unwrap();
}
