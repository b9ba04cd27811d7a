//! Our stores next to DeepSeek Harness's own packages: the same work on the same events, in turn, each in a new process and
//! timed inside it. `bash benches/peers/run` installs the packages and starts this.
//!
//! ```sh
//! bash benches/peers/run                        # sqlite, zstd and raw, in a short form
//! SESSIONS_FULL=1 bash benches/peers/run        # 100,000 events and 10,000 sessions, which the goals are for
//! bash benches/peers/run sqlite                 # one of them
//! ```

mod ours;
#[allow(dead_code, reason = "the other bench uses all of it")]
#[path = "../goals/pairs.rs"]
mod pairs;
#[allow(dead_code, reason = "the other bench uses all of it")]
#[path = "../goals/sample.rs"]
mod sample;
#[allow(dead_code, reason = "the other bench uses all of it")]
#[path = "../goals/table.rs"]
mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pairs::{Compared, alternate};
use table::{Goal, Table};

const PAIRS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ours", work, kind, place, log, rest @ ..] => {
            println!("{}", ours::run(work, kind, place, log, rest.first().unwrap_or(&"")).as_nanos());
        }
        ["against", packages, kinds @ ..] => compare(Path::new(packages), kinds),
        _ => println!("peers: skipped, start it by `bash benches/peers/run`"),
    }
}

/// The two sides, and what they work on.
struct Sides {
    packages: PathBuf,
    folder: tempfile::TempDir,
    kind: &'static str,
}

impl Sides {
    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ours(&self, work: &str, place: &str, log: &str, argument: &str) -> Duration {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("ours");
        self.run(command, work, &format!("ours-{place}"), log, argument)
    }

    fn theirs(&self, work: &str, place: &str, log: &str, argument: &str) -> Duration {
        let mut command = Command::new(self.packages.join("node_modules/node/bin/node"));
        command.arg(self.packages.join("dsh.mjs"));
        self.run(command, work, &format!("theirs-{place}"), log, argument)
    }

    fn run(&self, mut command: Command, work: &str, place: &str, log: &str, argument: &str) -> Duration {
        command.args([work, self.kind]).arg(self.log(place)).arg(self.log(log)).arg(argument);
        let output = command.output().expect("a process");
        let told = String::from_utf8_lossy(&output.stdout).trim().parse();
        let told = told.unwrap_or_else(|_| panic!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
        Duration::from_nanos(told)
    }

    /// Both on a store that is there already.
    fn on(&self, work: &str, place: &str, log: &str, argument: &str) -> Compared {
        alternate(PAIRS, || self.ours(work, place, log, argument), || self.theirs(work, place, log, argument))
    }

    /// Both on a new store each time.
    fn anew(&self, work: &str, log: &str, argument: &str) -> Compared {
        let (mut ours, mut theirs) = (0, 0);
        let name = |count: &mut usize| {
            *count += 1;
            format!("{work}-{count}")
        };
        let compared = alternate(
            PAIRS,
            || self.ours(work, &name(&mut ours), log, argument),
            || self.theirs(work, &name(&mut theirs), log, argument),
        );
        for n in 1..=PAIRS {
            for side in ["ours", "theirs"] {
                remove(&self.log(&format!("{side}-{work}-{n}")));
            }
        }
        compared
    }
}

fn remove(place: &Path) {
    let removed = if place.is_dir() { std::fs::remove_dir_all(place) } else { std::fs::remove_file(place) };
    removed.expect("removed");
}

fn compare(packages: &Path, wanted: &[&str]) {
    let is_full = std::env::var_os("SESSIONS_FULL").is_some();
    // Whole turns: DSH ends one that broke off before it goes on.
    let (events, sessions) = if is_full { (100_008, 10_000) } else { (20_004, 1_000) };
    let mut table = Table::default();
    for kind in ["sqlite", "zstd", "raw"] {
        if !wanted.is_empty() && !wanted.contains(&kind) {
            continue;
        }
        let sides = Sides { packages: packages.to_owned(), folder: sample::scratch(), kind };
        rows(&mut table, &sides, events, sessions);
    }
    table.end();
}

fn rows(table: &mut Table, sides: &Sides, events: u64, sessions: u64) {
    let kind = sides.kind;
    for (name, count) in [("warm", 2_100), ("some", 2_000), ("long", events)] {
        write_log(&sides.log(name), count);
    }
    let theirs = format!("DSH's {kind}");
    let mut faster = |work: &str, times: f64, compared: &Compared| {
        table.throughput(&format!("{kind}: {work}"), Goal::AtLeast(times), &theirs, compared);
    };
    faster("durable append of one event, 100 in a row", 2.0, &sides.anew("append", "warm", "2000"));
    faster("durable batches of 50, 2,000 events", 2.0, &sides.anew("batches", "some", "50"));
    faster(&format!("bulk of {events} events, durable batches of 1,000"), 3.0, &sides.anew("bulk", "long", "1000"));

    sides.ours("bulk", "store", "long", "1000");
    sides.theirs("bulk", "store", "long", "1000");
    faster("full read in a new process", 6.0, &sides.on("read", "store", "long", ""));
    faster("last 100 in a new process", 50.0, &sides.on("suffix", "store", "long", ""));
    faster("last 100 once more", 50.0, &sides.on("suffix-again", "store", "long", ""));
    let next = std::cell::Cell::new((events, events));
    let first = alternate(
        PAIRS,
        || {
            let (ours, theirs) = next.get();
            next.set((ours + 1, theirs));
            sides.ours("first-append", "store", "long", &ours.to_string())
        },
        || {
            let (ours, theirs) = next.get();
            next.set((ours, theirs + 1));
            sides.theirs("first-append", "store", "long", &theirs.to_string())
        },
    );
    faster("first append in a new process", 10.0, &first);

    let many = sessions.to_string();
    sides.ours("make", "many", "some", &many);
    sides.theirs("make", "many", "some", &many);
    let all = if kind == "sqlite" { 1.5 } else { 20.0 };
    faster(&format!("list of all {sessions} sessions in a new process"), all, &sides.on("list", "many", "some", ""));
    faster("first page of 50 in a new process", 100.0, &sides.on("page", "many", "some", ""));
    faster("first page of 50 once more", 100.0, &sides.on("page-again", "many", "some", ""));
    faster("revision of one in a new process", 1.0, &sides.on("revision", "many", "some", "session-77"));
}

/// A plain log of the format that both sides take.
fn write_log(path: &Path, count: u64) {
    let mut text = String::from(
        r#"{"type":"session","version":0,"id":"long","createdAt":1700000000000,"cwd":"/srv","delegationDepth":0}"#,
    );
    text.push('\n');
    for event in sample::events(count) {
        writeln!(text, "{}", event.to_line()).expect("text grows");
    }
    std::fs::write(path, text).expect("written");
}
