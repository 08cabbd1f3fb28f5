//! Where a hub is, and how to talk to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::tungstenite::http::Uri;

use crate::{Certificate, Error, ErrorKind, Result};

/// A hub's address with the patience and the limits of this side.
///
/// ```
/// use hub_client::Target;
/// use std::time::Duration;
///
/// let target = Target::new("ws://127.0.0.1:8090/")?.connect_timeout(Duration::from_secs(2));
/// assert!(Target::new("http://127.0.0.1:8090/").is_err());
/// # Ok::<(), hub_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Target {
    pub(crate) url: String,
    host: String,
    secure: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) frame_bytes: usize,
    /// Trusted beside the public ones.
    roots: Vec<CertificateDer<'static>>,
    certificate: Option<Certificate>,
}

impl Target {
    /// A hub at a URL such as `ws://127.0.0.1:8090/` or `wss://hub.example/`.
    ///
    /// # Errors
    /// `Usage` if it is no URL of a WebSocket.
    pub fn new(url: impl Into<String>) -> Result<Self> {
        let url = url.into();
        let wrong = || {
            let text = format!("{} is no WebSocket URL; one is like ws://127.0.0.1:8090/", shown(&url));
            Error::new(ErrorKind::Usage, text)
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(wrong()),
        };
        // An address of IPv6 is in brackets.
        let host = uri.host().map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.is_empty());
        let host = host.ok_or_else(wrong)?.to_owned();
        Ok(Self {
            url,
            host,
            secure,
            connect_timeout: Duration::from_secs(10),
            // A hub answers a publish within 20 s, if need be with `unavailable`.
            answer_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(60),
            frame_bytes: 64 << 20,
            roots: Vec::new(),
            certificate: None,
        })
    }

    /// How long it may take until there is a connection (10 s unless set): name, TCP, TLS and upgrade together.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the hub has for an answer (30 s unless set). A hub that takes longer is given up: the connection ends.
    #[must_use]
    pub fn answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = timeout;
        self
    }

    /// How long nothing may come from the hub (60 s unless set). It is pinged after half of that; if not even the answer
    /// comes, the connection ends.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// The largest frame that is taken from the hub (64 MiB unless set).
    #[must_use]
    pub fn frame_bytes(mut self, bytes: usize) -> Self {
        self.frame_bytes = bytes;
        self
    }

    /// Trusts certificates of these authorities, in PEM, beside the public ones: a hub's own, for example.
    ///
    /// # Errors
    /// `Usage` if there is no certificate in it, or one that cannot be read.
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self> {
        let wrong = |why: String| {
            Error::new(
                ErrorKind::Usage,
                format!("the root certificate cannot be read: {why}; PEM is expected"),
            )
        };
        let before = self.roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            RootCertStore::empty().add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
            self.roots.push(certificate);
        }
        match self.roots.len() > before {
            true => Ok(self),
            false => Err(wrong("there is none".to_owned())),
        }
    }

    /// Shows this certificate to a hub that asks for one.
    #[must_use]
    pub fn client_certificate(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// The name or address of the machine it is on.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address without what may be secret in it, for messages.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// How to speak TLS; `None` if nobody does.
    pub(crate) fn tls(&self) -> Result<Option<Arc<ClientConfig>>> {
        if !self.secure {
            return Ok(None);
        }
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        roots.add_parsable_certificates(self.roots.iter().cloned());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new(ErrorKind::Usage, "TLS cannot be set up").with(error))?
            .with_root_certificates(roots);
        let config = match &self.certificate {
            Some(certificate) => config.with_client_cert_resolver(certificate.resolver()),
            None => config.with_no_client_auth(),
        };
        Ok(Some(Arc::new(config)))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.shown()).finish_non_exhaustive()
    }
}

/// A URL for people: without a password or a token that may be in it.
pub fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let colon = if scheme.is_empty() { "" } else { "://" };
    format!("{scheme}{colon}{host}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        for (url, expected) in [
            ("ws://127.0.0.1:8090/", "ws://127.0.0.1:8090/"),
            ("wss://me:hunter2@hub.example/a@b?token=hunter2", "wss://hub.example/a@b"),
            ("ws://a@b:hunter2@hub.example", "ws://hub.example"),
            ("me:hunter2@hub", "hub"),
        ] {
            assert_eq!(shown(url), expected);
        }
        let target = Target::new("ws://me:hunter2@hub.example/?t=hunter2").unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
    }

    #[test]
    fn the_host_is_the_one_that_is_connected_to() {
        for (url, host) in [
            ("ws://127.0.0.1:8090/", "127.0.0.1"),
            ("wss://[::1]:1/", "::1"),
            ("ws://127.0.0.1@host/", "host"),
            ("ws://me:pass@127.0.0.1.example.com?x@127.0.0.1", "127.0.0.1.example.com"),
        ] {
            assert_eq!(Target::new(url).unwrap().host(), host);
        }
    }

    #[test]
    fn what_is_no_url_of_a_websocket_is_refused_without_its_secrets() {
        for bad in
            ["", "::", "127.0.0.1:8090", "http://hub/", "ws://", "ws:///x", "wss://me:hunter2@", "ws://a b/"]
        {
            let error = Target::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains("is no WebSocket URL"), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_root_certificate_has_to_be_one() {
        let target = Target::new("wss://hub.example/").unwrap();
        for bad in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(
                target.clone().root_certificates(bad.as_bytes()).unwrap_err().kind(),
                ErrorKind::Usage
            );
        }
        let made = rcgen::generate_simple_self_signed(["hub.test".to_owned()]).unwrap();
        target.root_certificates(made.cert.pem().as_bytes()).unwrap();
    }
}
