//! [`Sql`]: questions of a person in SQL, which cannot change anything.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Batch, Connection, ErrorCode, Statement};

use super::connection::open_reading;
use super::failure::Context;
use super::look::Look;
use super::visit::Visitor;
use crate::seam::{Error, Result};

pub(crate) use rusqlite::types::ValueRef as Value;

/// A connection of its own to the file of a store, for statements that read.
pub(crate) struct Sql<'a> {
    asked: Asked,
    path: PathBuf,
    context: Context<'a>,
}

/// What is asked.
enum Asked {
    Store(Connection),
    /// A store that this process cannot write.
    Visited(Visitor),
}

/// Who takes the rows of an answer.
pub(crate) trait Rows {
    /// How taking them fails, beside the failures of the database.
    type Failure: From<Error>;

    /// The names of the columns, before the first row and also when there is none.
    fn columns(&mut self, names: &[&str]) -> Result<(), Self::Failure>;

    /// One row, with a value for each column.
    fn row(&mut self, values: &[Value<'_>]) -> Result<(), Self::Failure>;
}

impl<'a> Sql<'a> {
    /// Connects to the file at `path`, which must be known to be a store: keep one open on it meanwhile.
    ///
    /// # Errors
    ///
    /// As for opening a store.
    pub(crate) fn open(path: &'a Path, busy_timeout: Duration) -> Result<Self> {
        let context = Context::store(path);
        let path = path.canonicalize().map_err(|e| context.io("finding", e))?;
        let mut asked = if Look::at(&path, None, busy_timeout)?.is_writable {
            Asked::Store(open_reading(&path, busy_timeout).map_err(|e| context.sqlite(e))?)
        } else {
            Asked::Visited(Visitor::connect(&path, busy_timeout, &context)?)
        };
        only_read(asked.connection_mut()).map_err(|e| context.sqlite(e))?;
        Ok(Self { asked, path, context })
    }

    /// Runs one statement that reads, and hands on each row as it comes.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a text that is not one statement that reads, or that SQLite does not accept; the failures
    /// of the database and of `rows`.
    pub(crate) fn query<R: Rows>(&self, text: &str, rows: &mut R) -> Result<(), R::Failure> {
        let mut statement = self.prepare(text)?;
        let names: Vec<_> = statement.column_names().map(str::to_owned).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        rows.columns(&names)?;
        let mut found = statement.query([]).map_err(|e| self.failed(e))?;
        while let Some(row) = found.next().map_err(|e| self.failed(e))? {
            let values: Result<Vec<_>, _> = (0..names.len()).map(|index| row.get_ref(index)).collect();
            rows.row(&values.map_err(|e| self.failed(e))?)?;
        }
        match &self.asked {
            // Read without a lock, it may be of two states.
            Asked::Visited(visitor) if !visitor.is_unchanged(&self.path, &self.context)? => {
                Err(self.context.busy().into())
            }
            _ => Ok(()),
        }
    }

    fn prepare(&self, text: &str) -> Result<Statement<'_>> {
        let mut statements = Batch::new(self.asked.connection(), text);
        let Some(statement) = statements.next().map_err(|e| self.failed(e))? else {
            return Err(refused("there is no statement"));
        };
        if !matches!(statements.next(), Ok(None)) {
            return Err(refused("there is more than one statement, ask one at a time"));
        }
        if !statement.readonly() {
            return Err(refused(ONLY_READING));
        }
        if statement.parameter_count() > 0 {
            return Err(refused("the statement has parameters, write their values into it"));
        }
        Ok(statement)
    }

    fn failed(&self, error: rusqlite::Error) -> Error {
        match (error.sqlite_error_code(), &error) {
            (Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly), _) => refused(ONLY_READING),
            (_, rusqlite::Error::SqlInputError { msg, .. }) => refused(msg),
            // What SQLite calls an error without a kind: the statement asks for something that makes no sense.
            (Some(ErrorCode::Unknown | ErrorCode::TypeMismatch | ErrorCode::ApiMisuse), _) => {
                refused(&error.to_string())
            }
            _ => self.context.sqlite(error),
        }
    }
}

const ONLY_READING: &str = "only a statement that reads is allowed; nothing was changed";

fn refused(reason: &str) -> Error {
    Error::InvalidArgument { session: None, reason: format!("SQL: {reason}") }
}

impl Asked {
    fn connection(&self) -> &Connection {
        match self {
            Self::Store(connection) => connection,
            Self::Visited(visitor) => &visitor.connection,
        }
    }

    fn connection_mut(&mut self) -> &mut Connection {
        match self {
            Self::Store(connection) => connection,
            Self::Visited(visitor) => &mut visitor.connection,
        }
    }
}

fn only_read(connection: &mut Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.authorizer(Some(
        |context: AuthContext<'_>| {
            if reads(context.action) { Authorization::Allow } else { Authorization::Deny }
        },
    ))
}

/// Whether an action only reads. That a statement is read-only says less: ATTACH makes files, and so does VACUUM INTO
/// through it, and a pragma can take back `query_only`.
fn reads(action: AuthAction<'_>) -> bool {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !function_name.eq_ignore_ascii_case("load_extension"),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            DESCRIBING.contains(&&*name) || (pragma_value.is_none() && TELLING.contains(&&*name))
        }
        _ => false,
    }
}

/// The pragmas whose argument is the name of what they describe.
const DESCRIBING: [&str; 10] = [
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
    "integrity_check",
    "quick_check",
];

/// The pragmas that tell a setting when they have no argument.
const TELLING: [&str; 12] = [
    "application_id",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "encoding",
    "freelist_count",
    "function_list",
    "page_count",
    "page_size",
    "schema_version",
    "user_version",
];
