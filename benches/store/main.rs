//! What each call of a store costs, for SQLite and for plain files: `cargo bench --bench store`, or with a part of the name
//! of some of them behind `--`; with `--features search` the search index too. How that compares to what the same costs
//! without a store is `cargo bench --bench goals`.

mod append;
mod read;
#[allow(dead_code, reason = "the other bench uses all of it")]
#[path = "../goals/sample.rs"]
mod sample;
#[cfg(feature = "search")]
mod search;
mod sessions;
mod stores;

use std::time::Duration;

use criterion::Criterion;

fn main() {
    if let Some((kind, path)) = stores::asked_of_child() {
        return read::first_append(&kind, &path);
    }
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    append::groups(&mut criterion);
    read::groups(&mut criterion);
    sessions::groups(&mut criterion);
    #[cfg(feature = "search")]
    search::groups(&mut criterion);
    criterion.final_summary();
}
