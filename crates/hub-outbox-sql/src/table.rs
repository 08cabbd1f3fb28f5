//! The names of a table and of what belongs to it.

use crate::error::ConnectError;

/// The longest name of a table: those of its indexes are longer, and PostgreSQL cuts at 63 bytes.
const LONGEST: usize = 40;
/// The longest name of a schema.
const LONGEST_SCHEMA: usize = 63;

/// A table whose name can stand in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    schema: Option<String>,
    name: String,
}

impl Table {
    /// Reads a name; PostgreSQL knows schemas.
    pub fn parse(text: &str, with_schema: bool) -> Result<Self, ConnectError> {
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) if with_schema => (Some(schema), name),
            _ => (None, text),
        };
        let is_good = is_name(name, LONGEST) && schema.is_none_or(|schema| is_name(schema, LONGEST_SCHEMA));
        if !is_good {
            let before = if with_schema { ", with a schema before a dot if need be" } else { "" };
            return Err(ConnectError::Settings(format!(
                "the table of an outbox is called {text:?}; letters, digits and underscores are allowed, no digit at \
                 the beginning, and {LONGEST} bytes at most{before}"
            )));
        }
        Ok(Self { schema: schema.map(str::to_owned), name: name.to_owned() })
    }

    /// As it was written.
    pub fn plain(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }

    /// As it stands in statements.
    pub fn quoted(&self) -> String {
        self.of_schema("")
    }

    /// The table with the shares of drainers.
    pub fn drainers(&self) -> String {
        self.of_schema("_drainers")
    }

    /// Something else of the same schema, such as a function.
    pub fn of_schema(&self, ending: &str) -> String {
        let name = self.part(ending);
        self.schema.as_ref().map_or(name.clone(), |schema| format!("\"{schema}\".{name}"))
    }

    /// Something that is named without a schema, such as an index.
    pub fn part(&self, ending: &str) -> String {
        format!("\"{}{ending}\"", self.name)
    }

    /// Where news of it are told. Another schema's table has another channel, however long the names are.
    pub fn channel(&self) -> String {
        let hash = self
            .plain()
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        format!("event_hub_{}_{hash:08x}", self.name)
    }
}

fn is_name(text: &str, longest: usize) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty()
        && text.len() <= longest
        && text.bytes().all(is_letter)
        && !text.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_quoted_and_those_that_would_have_to_be_escaped_are_refused() {
        let table = Table::parse("shop.Outbox_2", true).unwrap();
        assert_eq!(table.quoted(), "\"shop\".\"Outbox_2\"");
        assert_eq!(table.drainers(), "\"shop\".\"Outbox_2_drainers\"");
        assert_eq!(
            (table.part("_due").as_str(), table.plain().as_str()),
            ("\"Outbox_2_due\"", "shop.Outbox_2")
        );
        assert_eq!(Table::parse("outbox", false).unwrap().quoted(), "\"outbox\"");
        let long = "x".repeat(41);
        for bad in ["", "a b", "a\"b", "a;b", "1a", "a.b.c", ".a", "a.", "ä", long.as_str()] {
            let told = Table::parse(bad, true).unwrap_err().to_string();
            assert!(told.contains("letters, digits and underscores"), "{told}");
        }
        assert!(Table::parse("main.outbox", false).is_err());
    }

    #[test]
    fn a_channel_fits_and_is_the_tables_own() {
        let channel = |name: &str| Table::parse(name, true).unwrap().channel();
        let long = format!("{}.{}", "s".repeat(63), "t".repeat(40));
        assert!(channel(&long).len() < 64);
        assert_ne!(channel("a.outbox"), channel("b.outbox"));
        assert_eq!(channel("outbox"), "event_hub_outbox_6458f940", "it is in databases");
    }
}
