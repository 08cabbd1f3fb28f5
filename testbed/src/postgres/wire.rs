//! As much of PostgreSQL's protocol as it takes to run a statement: for making databases, and for looking into them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server that does not answer in this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Version 3.0 of the protocol.
const VERSION: i32 = 3 << 16;
/// No answer that a test asks for is longer.
const LONGEST: usize = 64 << 20;

/// A row of an answer: every value as the server writes it, `None` where it is null.
pub type Row = Vec<Option<String>>;

/// Runs statements, separated by `;`, over a connection of their own to the database that `url` names. Returns their rows,
/// all together. Several statements are one transaction.
pub async fn query(url: &str, sql: &str) -> Result<Vec<Row>> {
    let target = Target::parse(url)?;
    let run = async {
        let mut connection = Connection::open(&target).await?;
        connection.run(sql).await
    };
    let done = tokio::time::timeout(PATIENCE, run).await;
    done.with_context(|| format!("no answer after {PATIENCE:?}"))
        .flatten()
        .with_context(|| format!("PostgreSQL on {}, database {}", target.server, target.database))
}

/// What an address says.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    server: String,
    user: String,
    password: Option<String>,
    database: String,
}

impl Target {
    fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.context("the address of a PostgreSQL starts with postgres://")?;
        let rest = rest.split('?').next().unwrap_or_default();
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, server) = authority.rsplit_once('@').unwrap_or(("postgres", authority));
        let (user, password) =
            who.split_once(':').map_or((who, None), |(user, password)| (user, Some(password.to_owned())));
        let server = if server.contains(':') { server.to_owned() } else { format!("{server}:5432") };
        let database = if database.is_empty() { user } else { database };
        Ok(Self { server, user: user.to_owned(), password, database: database.to_owned() })
    }
}

struct Connection(TcpStream);

impl Connection {
    async fn open(target: &Target) -> Result<Self> {
        let mut connection = Self(TcpStream::connect(&target.server).await.context("cannot connect")?);
        let mut body = VERSION.to_be_bytes().to_vec();
        for word in ["user", &target.user, "database", &target.database, ""] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        connection.send(None, &body).await?;
        loop {
            let (kind, body) = connection.receive().await?;
            match (kind, body.get(..4)) {
                (b'Z', _) => return Ok(connection),
                (b'R', Some([0, 0, 0, 0])) => {}
                (b'R', Some([0, 0, 0, 3])) => {
                    let password = target.password.as_deref().context("the server wants a password")?;
                    connection.send(Some(b'p'), &[password.as_bytes(), &[0]].concat()).await?;
                }
                (b'R', Some([0, 0, 0, method])) => {
                    bail!(
                        "the server asks who we are in a way that tests do not know (method {method}): let it trust \
                         whoever comes over loopback"
                    )
                }
                _ => {}
            }
        }
    }

    async fn run(&mut self, sql: &str) -> Result<Vec<Row>> {
        self.send(Some(b'Q'), &[sql.as_bytes(), &[0]].concat()).await?;
        let mut rows = Vec::new();
        loop {
            match self.receive().await? {
                (b'D', body) => rows.push(row(&body).context("a row that makes no sense")?),
                (b'G', _) => bail!("the statement waits for data, and there is none"),
                (b'Z', _) => break,
                _ => {}
            }
        }
        // It ends the connection in any case.
        let _ = self.send(Some(b'X'), &[]).await;
        Ok(rows)
    }

    async fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<()> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&i32::try_from(body.len() + 4)?.to_be_bytes());
        message.extend_from_slice(body);
        self.0.write_all(&message).await.context("the connection is lost")
    }

    /// The next message. What the server complains of is an error.
    async fn receive(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).await.context("the connection is lost")?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        ensure!((4..LONGEST).contains(&length), "a message of {length} bytes");
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).await.context("the connection is lost")?;
        if kind == b'E' {
            bail!("{}", complaint(&body));
        }
        Ok((kind, body))
    }
}

/// The values of a `DataRow`.
fn row(body: &[u8]) -> Option<Row> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut values = Row::new();
    for _ in 0..i16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        // -1 is how null is written.
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push(None);
            continue;
        };
        let (value, after) = rest.split_at_checked(length)?;
        rest = after;
        values.push(Some(String::from_utf8_lossy(value).into_owned()));
    }
    Some(values)
}

/// The text of an `ErrorResponse`, and its code, which tells errors apart.
fn complaint(body: &[u8]) -> String {
    let fields: Vec<_> = body.split(|byte| *byte == 0).filter_map(<[u8]>::split_first).collect();
    let field = |name: u8| {
        let found = fields.iter().find(|(kind, _)| **kind == name);
        found.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    format!("{} ({})", field(b'M'), field(b'C'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_address_is_read_with_and_without_its_parts() {
        let parts = |url: &str| {
            let target = Target::parse(url).unwrap();
            format!("{} {} {:?} {}", target.server, target.user, target.password, target.database)
        };
        assert_eq!(parts("postgres://me:secret@h:1/db?sslmode=disable"), "h:1 me Some(\"secret\") db");
        assert_eq!(parts("postgresql://me@h/"), "h:5432 me None me");
        assert_eq!(parts("postgres://h:1"), "h:1 postgres None postgres");
        assert!(Target::parse("mongodb://h:1/").is_err());
    }

    #[test]
    fn rows_have_values_and_nulls_and_are_not_read_beyond_their_end() {
        let body = [0, 2, 0, 0, 0, 2, b'h', b'i', 255, 255, 255, 255];
        assert_eq!(row(&body), Some(vec![Some("hi".to_owned()), None]));
        assert_eq!(row(&body[..7]), None);
        assert_eq!(row(&[]), None);
    }

    #[test]
    fn a_complaint_is_told_with_its_code() {
        assert_eq!(complaint(b"SERROR\0C3D000\0Mno such database\0\0"), "no such database (3D000)");
    }
}
