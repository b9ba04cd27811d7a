//! The goals: each piece of work next to what the same costs without a store, in turn, so that the ratios hold on a busy
//! machine too.
//!
//! ```sh
//! cargo bench --bench goals                 # all rows, in a few minutes
//! cargo bench --bench goals -- append list  # some of them: append writers bulk read list files processes memory
//! ```
//!
//! The first run makes stores of many sessions beside the build and keeps them there. `SESSIONS_SAMPLES=FOLDER` takes the
//! events of the logs in a folder, `*.jsonl`, in place of generated ones.

mod append;
mod bulk;
mod files;
mod floor;
mod list;
mod memory;
mod pairs;
mod processes;
mod read;
mod sample;
mod table;
mod writers;

use table::Table;

type Group = (&'static str, fn(&mut Table));

const GROUPS: [Group; 8] = [
    ("append", append::rows),
    ("writers", writers::rows),
    ("bulk", bulk::rows),
    ("read", read::rows),
    ("list", list::rows),
    ("files", files::rows),
    ("processes", processes::rows),
    ("memory", memory::rows),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [child, work, rest @ ..] = arguments.as_slice()
        && child == processes::CHILD
    {
        return match work.as_str() {
            "first-append" => processes::first_append(rest),
            "appends" => processes::appends(rest),
            "flush" => processes::flush_many(rest),
            "memory" => memory::child(rest),
            other => panic!("no work is called {other}"),
        };
    }
    if let Some(unknown) = arguments.iter().find(|name| !GROUPS.iter().any(|(group, _)| group == name)) {
        eprintln!("no rows are called {unknown}; there are: {}", GROUPS.map(|(name, _)| name).join(" "));
        std::process::exit(2);
    }
    let mut table = Table::default();
    for (name, rows) in GROUPS {
        if arguments.is_empty() || arguments.iter().any(|wanted| wanted == name) {
            rows(&mut table);
        }
    }
    table.end();
}
