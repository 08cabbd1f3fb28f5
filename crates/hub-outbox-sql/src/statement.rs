//! Statements.

use sqlx::AssertSqlSafe;
use std::sync::Arc;

/// The text of a statement. All that is put into one are checked names; values are bound.
#[derive(Clone)]
pub struct Statement(Arc<str>);

impl Statement {
    /// As the driver takes it.
    pub fn sql(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(self.0.clone())
    }

    /// To be explained.
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Statement {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}
