//! Who the client is.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;

use crate::{Error, ErrorKind, Result};

/// What a token function may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Make = dyn Fn() -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// How long somebody may take to make a token.
const PATIENCE: Duration = Duration::from_secs(30);

/// A token, a way to get one, or the certificate of the connection.
#[derive(Clone)]
pub(crate) enum Credentials {
    Token(Arc<str>),
    Function(Arc<Make>),
    Certificate,
}

impl Credentials {
    /// A token that holds now; `None` if the certificate is enough.
    pub async fn token(&self) -> Result<Option<Arc<str>>> {
        let make = match self {
            Self::Token(token) => return Ok(Some(token.clone())),
            Self::Certificate => return Ok(None),
            Self::Function(make) => make,
        };
        match tokio::time::timeout(PATIENCE, make()).await {
            Ok(Ok(token)) => Ok(Some(token.into())),
            Ok(Err(error)) => {
                let shared: Arc<dyn std::error::Error + Send + Sync> = error.into();
                Err(Error::new(ErrorKind::Token, "there is no token for the hub").with_shared(shared))
            }
            Err(_) => {
                let text = format!("the token function gave nothing within {} s", PATIENCE.as_secs());
                Err(Error::new(ErrorKind::Token, text))
            }
        }
    }

    /// Whether another token can be had.
    pub fn renewable(&self) -> bool {
        matches!(self, Self::Function(_))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Function(_) => "Function(…)",
            Self::Certificate => "Certificate",
        })
    }
}

/// How long a token is good for before it is renewed: four fifths of what is left of it.
pub(crate) fn renew_after(exp: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let left = Duration::from_secs(exp).saturating_sub(now).mul_f64(0.8);
    // Timers do not reach a hundred years. And tokens that are old when they are made must not keep the hub busy.
    left.clamp(Duration::from_secs(1), Duration::from_secs(30 * 86_400))
}
