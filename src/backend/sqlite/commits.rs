//! [`Commits`]: the queue before the one writer. Whoever finds it idle leads: it commits what it wants together with all that
//! the others queued meanwhile, in one transaction with one wait for the disk, and then hands the lead to the next in
//! line. No thread of its own is needed, and nobody waits where nobody else writes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::change::{Change, Done};
use crate::seam::{Error, Result};

/// A group takes at most so many changes, and stops taking once they are so large, in bytes: who waits for a small change is
/// not to wait for many large ones.
const MOST_CHANGES: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// The changes that wait for the writer.
#[derive(Default)]
pub(super) struct Commits {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Ticket>>,
    is_led: bool,
}

/// A change that waits for a leader, or for becoming one.
struct Ticket {
    state: Mutex<State>,
    moved: Condvar,
    size: usize,
}

enum State {
    /// Without the change where its owner has to make it.
    Waiting(Option<Change<'static>>),
    /// In the hands of a leader.
    Taken,
    /// Its owner leads now.
    Leading(Option<Change<'static>>),
    Done(Result<Done>),
}

impl Commits {
    /// Has a change made, alone or in a group, by `commit`, which gives one outcome for each change that it is given.
    pub(super) fn make(&self, change: Change<'_>, commit: &dyn Fn(&[Change<'_>]) -> Vec<Result<Done>>) -> Result<Done> {
        let mut queue = self.queue();
        if !queue.is_led {
            queue.is_led = true;
            drop(queue);
            return self.lead(change, commit);
        }
        let size = change.size();
        let (waiting, kept) = match change.into_owned() {
            Ok(change) => (Some(change), None),
            Err(change) => (None, Some(change)),
        };
        let ticket = Arc::new(Ticket { size, state: State::Waiting(waiting).into(), moved: Condvar::new() });
        queue.waiting.push_back(ticket.clone());
        drop(queue);
        match ticket.wait() {
            Ok(outcome) => outcome,
            Err(waiting) => self.lead(waiting.or(kept).expect("it waits, or was kept"), commit),
        }
    }

    fn lead(&self, own: Change<'_>, commit: &dyn Fn(&[Change<'_>]) -> Vec<Result<Done>>) -> Result<Done> {
        let (tickets, taken): (Vec<_>, Vec<_>) = self.take(own.size()).into_iter().unzip();
        // Whatever happens in between, the next in line leads and nobody waits for ever.
        let mut lead = Lead { commits: self, followers: tickets.into() };
        let mut group = vec![own];
        group.extend(taken);
        let mut outcomes = commit(&group).into_iter();
        let own = outcomes.next().unwrap_or_else(|| Err(abandoned()));
        for outcome in outcomes {
            if let Some(follower) = lead.followers.pop_front() {
                follower.settle(State::Done(outcome));
            }
        }
        own
    }

    /// Takes the changes that join a group which has `size` bytes already.
    fn take(&self, mut size: usize) -> Vec<(Arc<Ticket>, Change<'static>)> {
        let mut taken = Vec::new();
        let mut queue = self.queue();
        while taken.len() + 1 < MOST_CHANGES
            && let Some(next) = queue.waiting.front()
            && size.saturating_add(next.size) <= MOST_BYTES
            && let Some(ticket) = queue.waiting.pop_front()
        {
            size += ticket.size;
            let state = std::mem::replace(&mut *ticket.state(), State::Taken);
            if let State::Waiting(Some(change)) = state {
                taken.push((ticket, change));
            }
        }
        taken
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the outcome, or for the lead: then the change comes back, where it was given away.
    fn wait(&self) -> Result<Result<Done>, Option<Change<'static>>> {
        let mut state = self.state();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Done(outcome) => return Ok(outcome),
                State::Leading(change) => return Err(change),
                waiting @ (State::Waiting(_) | State::Taken) => *state = waiting,
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, settled: State) {
        *self.state() = settled;
        self.moved.notify_one();
    }
}

/// The lead of a group, handed on when it is dropped.
struct Lead<'c> {
    commits: &'c Commits,
    /// Those that have no outcome yet.
    followers: VecDeque<Arc<Ticket>>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        for follower in self.followers.drain(..) {
            follower.settle(State::Done(Err(abandoned())));
        }
        let mut queue = self.commits.queue();
        while let Some(next) = queue.waiting.pop_front() {
            let mut state = next.state();
            if let State::Waiting(change) = std::mem::replace(&mut *state, State::Taken) {
                *state = State::Leading(change);
                drop(state);
                next.moved.notify_one();
                return;
            }
        }
        queue.is_led = false;
    }
}

/// What is told to who waited for a thread that panicked.
fn abandoned() -> Error {
    let reason =
        "the thread that wrote for several others panicked; read the log to see whether this change was stored";
    Error::Io { session: None, operation: "writing in a group".to_owned(), source: reason.into() }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::events::{Events, Source};
    use super::*;
    use crate::log::{SessionEvent, SessionHeader, SessionId};
    use crate::seam::Removal;

    fn change(name: &str) -> Change<'static> {
        Change::Remove { id: SessionId::new(name).unwrap(), only: None }
    }

    /// Runs a leader that is held up until `followers` others wait, and gives the sizes of the groups.
    fn groups_of(followers: usize, commit: impl Fn(&[Change<'_>]) -> Vec<Result<Done>> + Sync) -> Vec<usize> {
        let commits = Commits::default();
        let sizes = Mutex::new(Vec::new());
        let (started, calls) = (Barrier::new(2), AtomicUsize::new(0));
        let commit = |group: &[Change<'_>]| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                started.wait();
                while commits.queue().waiting.len() < followers {
                    std::thread::yield_now();
                }
            }
            sizes.lock().unwrap().push(group.len());
            commit(group)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| commits.make(change("leader"), &commit));
            started.wait();
            for n in 0..followers {
                let (commits, commit) = (&commits, &commit);
                scope.spawn(move || commits.make(change(&format!("follower-{n}")), commit));
            }
        });
        assert!(!commits.queue().is_led && commits.queue().waiting.is_empty());
        sizes.into_inner().unwrap()
    }

    #[test]
    fn all_that_queued_while_one_was_committed_go_in_the_next_group() {
        let commit = |group: &[Change<'_>]| group.iter().map(|_| Ok(Done::Removed(Removal::Removed))).collect();
        assert_eq!(groups_of(40, commit), [1, 40]);
    }

    #[test]
    fn a_group_has_a_bound_and_the_rest_is_the_next_one() {
        let commit = |group: &[Change<'_>]| group.iter().map(|_| Ok(Done::Removed(Removal::Removed))).collect();
        assert_eq!(groups_of(300, commit), [1, MOST_CHANGES, 300 - MOST_CHANGES]);
    }

    struct Given;

    impl Source for Given {
        fn next(&self, _: &SessionId, _: u64) -> Result<Vec<SessionEvent>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn what_only_its_own_thread_can_give_waits_for_its_turn_and_is_made_there_alone() {
        let commits = Commits::default();
        let header = SessionHeader::new(SessionId::new("given").unwrap(), 0).unwrap();
        let (started, calls) = (Barrier::new(2), AtomicUsize::new(0));
        let made = Mutex::new(Vec::new());
        let commit = |group: &[Change<'_>]| {
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                started.wait();
                while commits.queue().waiting.len() < 9 {
                    std::thread::yield_now();
                }
            }
            let names = group.iter().map(|change| change.session().unwrap().to_string()).collect::<Vec<_>>();
            made.lock().unwrap().push((std::thread::current().id(), names));
            group.iter().map(|_| Ok(Done::Removed(Removal::Removed))).collect()
        };
        let giver = std::thread::scope(|scope| {
            scope.spawn(|| commits.make(change("leader"), &commit));
            started.wait();
            let (commits, commit) = (&commits, &commit);
            for n in 0..8 {
                scope.spawn(move || commits.make(change(&n.to_string()), commit));
            }
            let given = Change::Materialize { header, inherited: 0, events: Events::Given(&Given) };
            commits.make(given, commit).unwrap();
            std::thread::current().id()
        });
        let made = made.into_inner().unwrap();
        let given: Vec<_> = made.iter().filter(|(_, names)| names.iter().any(|name| name == "given")).collect();
        assert_eq!(given, [&(giver, vec!["given".to_owned()])]);
        assert_eq!(made.iter().map(|(_, names)| names.len()).sum::<usize>(), 10);
        assert!(!commits.queue().is_led && commits.queue().waiting.is_empty());
    }

    #[test]
    fn a_leader_that_panics_leaves_nobody_waiting() {
        let commits = Commits::default();
        let (started, panicked) = (Barrier::new(2), AtomicUsize::new(0));
        let commit = |group: &[Change<'_>]| {
            if panicked.fetch_add(1, Ordering::SeqCst) == 0 {
                started.wait();
                while commits.queue().waiting.len() < 3 {
                    std::thread::yield_now();
                }
                panic!("on purpose");
            }
            group.iter().map(|_| Ok(Done::Removed(Removal::Removed))).collect()
        };
        std::thread::scope(|scope| {
            let leader = scope.spawn(|| commits.make(change("leader"), &commit));
            started.wait();
            let (commits, commit) = (&commits, &commit);
            let others: Vec<_> =
                (0..3).map(|n| scope.spawn(move || commits.make(change(&n.to_string()), commit))).collect();
            assert!(leader.join().is_err());
            for other in others {
                assert!(matches!(other.join().unwrap(), Ok(Done::Removed(Removal::Removed))));
            }
        });
    }

    #[test]
    fn each_gets_its_own_outcome() {
        let commits = Commits::default();
        let commit = |group: &[Change<'_>]| {
            let told = |c: &Change<'_>| Err(Error::NotFound { session: c.session().unwrap().clone() });
            std::thread::yield_now();
            group.iter().map(told).collect()
        };
        std::thread::scope(|scope| {
            for n in 0..32 {
                let (commits, commit) = (&commits, &commit);
                scope.spawn(move || {
                    for round in 0..50 {
                        let name = format!("{n}-{round}");
                        let told = commits.make(change(&name), commit).err().unwrap();
                        assert_eq!(told.session().unwrap().as_str(), name);
                    }
                });
            }
        });
    }
}
