//! The table that is printed.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::pairs::Compared;

/// What is wanted of a measured number.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, measured: f64) -> bool {
        match self {
            Self::AtMost(limit) => measured <= limit,
            Self::AtLeast(limit) => measured >= limit,
        }
    }
}

#[derive(Default)]
pub(crate) struct Table {
    lost: usize,
    is_headed: bool,
}

impl Table {
    /// A row whose goal is a ratio of times.
    pub(crate) fn time(&mut self, work: &str, goal: Goal, yardstick: &str, compared: &Compared) {
        let ratio = compared.time();
        self.compared(work, goal, yardstick, compared, ratio.median, &ratio.to_string());
    }

    /// A row whose goal is a ratio of throughputs.
    pub(crate) fn throughput(&mut self, work: &str, goal: Goal, yardstick: &str, compared: &Compared) {
        let ratio = compared.throughput();
        self.compared(work, goal, yardstick, compared, ratio.median, &ratio.to_string());
    }

    fn compared(&mut self, work: &str, goal: Goal, yardstick: &str, compared: &Compared, measured: f64, told: &str) {
        let limit = match goal {
            Goal::AtMost(limit) => format!("at most {limit} x {yardstick}"),
            Goal::AtLeast(limit) => format!("at least {limit} x {yardstick}"),
        };
        let times = format!("{} to {}", Shown(compared.ours), Shown(compared.yardstick));
        self.row(work, &limit, told, &times, goal.is_met(measured));
    }

    /// A row whose goal is a number of its own.
    pub(crate) fn number(&mut self, work: &str, goal: Goal, unit: &str, measured: f64, note: &str) {
        let limit = match goal {
            Goal::AtMost(limit) => format!("at most {limit} {unit}"),
            Goal::AtLeast(limit) => format!("at least {limit} {unit}"),
        };
        let decimals = if measured.fract() == 0.0 || measured.abs() >= 100.0 { 0 } else { 2 };
        self.row(work, &limit, &format!("{measured:.decimals$} {unit}"), note, goal.is_met(measured));
    }

    /// A row that could not be measured here.
    pub(crate) fn skipped(&mut self, work: &str, why: &str) {
        self.line(work, "", "", why, "skipped");
    }

    fn row(&mut self, work: &str, goal: &str, measured: &str, note: &str, is_met: bool) {
        self.lost += usize::from(!is_met);
        self.line(work, goal, measured, note, if is_met { "met" } else { "**lost**" });
    }

    fn line(&mut self, work: &str, goal: &str, measured: &str, note: &str, outcome: &str) {
        if !std::mem::replace(&mut self.is_headed, true) {
            println!("| work | goal | measured (middle half) | ours to yardstick | |\n|---|---|---|---|---|");
        }
        println!("| {work} | {goal} | {measured} | {note} | {outcome} |");
    }

    pub(crate) fn end(&self) {
        match self.lost {
            0 => println!("\nAll rows are met. {}", hardware()),
            lost => println!("\nRows that are lost: {lost}. {}", hardware()),
        }
    }
}

/// A time in the unit that fits.
pub(crate) struct Shown(pub(crate) Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs_f64() {
            s if s >= 1.0 => write!(f, "{s:.2} s"),
            s if s >= 0.01 => write!(f, "{:.0} ms", s * 1e3),
            s if s >= 0.001 => write!(f, "{:.1} ms", s * 1e3),
            s if s >= 0.0001 => write!(f, "{:.0} us", s * 1e6),
            s => write!(f, "{:.1} us", s * 1e6),
        }
    }
}

/// What it was measured on.
pub(crate) fn hardware() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let first = |path: &str, what: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).to_owned()
    };
    let (processor, kernel) = (first("/proc/cpuinfo", "model name"), first("/proc/sys/kernel/osrelease", ""));
    let system = std::env::consts::OS;
    format!("Measured on {cores} cores ({processor}), {}, {system} {kernel}.", file_system())
}

/// The file system that the benches write on.
fn file_system() -> String {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut found: Vec<(&str, &str)> = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            fields.next().zip(fields.next())
        })
        .filter(|(place, _)| here.starts_with(place))
        .collect();
    found.sort_by_key(|(place, _)| place.len());
    found.last().map_or_else(|| "a file system that cannot be told".to_owned(), |(_, kind)| (*kind).to_owned())
}
