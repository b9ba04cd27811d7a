//! [`Counts`]: how often something happened.

use rusqlite::Row;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// How often something happened. No number grows past 2^63 - 1.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            pub(super) const COLUMNS: &'static [&'static str] = &[$(stringify!($name)),*];

            pub(super) fn add(&mut self, other: &Self) {
                // SQLite has 63 bits, and a producer may claim any number.
                $(self.$name = self.$name.saturating_add(other.$name).min(i64::MAX as u64);)*
            }

            pub(super) fn values(&self) -> Vec<i64> {
                vec![$(self.$name.cast_signed()),*]
            }

            /// From the columns of a row, from the one at `first` on.
            pub(super) fn read(row: &Row<'_>, first: usize) -> Result<Self, rusqlite::Error> {
                let mut column = first..;
                let mut next = || row.get::<_, u64>(column.next().unwrap_or_default());
                Ok(Self { $($name: next()?,)* })
            }
        }
    };
}

counts! {
    /// Events of any type.
    events,
    /// Messages of a person.
    user_messages,
    /// Turns that were started.
    turns,
    /// Steps that were started.
    steps,
    /// Calls of tools.
    tool_calls,
    /// Results of tools that name an error.
    tool_errors,
    /// Turns that ended with an error.
    turn_errors,
    /// Tokens that models read, as they were told with messages, summaries of compactions, and attempts that came to no
    /// message. The events of attempts name no model.
    input_tokens,
    /// Tokens that models wrote.
    output_tokens,
    /// Tokens that were read from a cache.
    cache_read_tokens,
    /// Tokens that were written to a cache.
    cache_write_tokens,
    /// Tokens that models thought with.
    reasoning_tokens,
}
