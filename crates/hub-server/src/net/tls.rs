//! Certificates, as rustls wants them: the hub's own, and those of authorities whose clients it knows.
//!
//! A reload replaces the whole configuration of TLS, so that nothing of the old one is left: neither a key nor an authority.

use super::certificate::ClientCertificate;
use parking_lot::RwLock;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, ServerConfig, WebPkiClientVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{self, InconsistentKeys, RootCertStore};
use tokio_rustls::server::TlsStream;

/// A certificate and its key: TLS 1.2 and 1.3 for those who connect. Clones share them, also after a reload.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    provider: Arc<CryptoProvider>,
    /// What new handshakes get.
    current: RwLock<Arc<Current>>,
}

struct Current {
    acceptor: TlsAcceptor,
    clients: Option<Clients>,
}

/// How certificates of clients are checked.
struct Clients {
    authorities: Authorities,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Certificates of authorities. A reload that reads the same ones keeps the list.
pub(super) type Authorities = Arc<[CertificateDer<'static>]>;

/// The files that TLS is made of, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The hub's certificate, followed by those that signed it.
    pub cert: PathBuf,
    /// Its private key. It may be in the same file.
    pub key: PathBuf,
    /// Whose clients may show a certificate; `None`: nobody is asked for one.
    pub clients: Option<ClientAuthorities>,
}

/// Authorities that sign certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthorities {
    /// The file with their certificates.
    pub file: PathBuf,
    /// Whether a client without a certificate is refused. One with a bad certificate always is.
    pub required: bool,
}

/// What [`Tls::prepare`] has read.
#[must_use = "nothing changes until it is committed"]
pub struct PreparedTls(Arc<Current>);

/// Why there is no certificate. Nothing of a key is ever in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not PEM.
    #[error("{} is not PEM: {what}", .file.display())]
    NotPem {
        /// The file.
        file: PathBuf,
        /// What was found.
        what: &'static str,
    },
    /// The certificate's file has none.
    #[error("no certificate in {}: it should have a `BEGIN CERTIFICATE`, then those that signed it", .0.display())]
    NoCertificate(PathBuf),
    /// The key's file has none.
    #[error("no private key in {}: it should have a `BEGIN PRIVATE KEY` (PKCS #8, also RSA and EC)", .0.display())]
    NoKey(PathBuf),
    /// The key is encrypted.
    #[error("the key in {} is encrypted: the hub needs it without a passphrase", .0.display())]
    EncryptedKey(PathBuf),
    /// The certificate cannot be used.
    #[error("the certificate in {} cannot be used: {source}", .file.display())]
    BadCertificate {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The key cannot be used.
    #[error("the key in {} cannot be used: {source}", .file.display())]
    BadKey {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The two are not a pair.
    #[error("the key in {} does not fit the first certificate in {}", .key.display(), .cert.display())]
    NoPair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's.
        key: PathBuf,
    },
    /// A certificate of an authority cannot be used.
    #[error("the certificates in {} cannot be used as those of authorities: {source}", .file.display())]
    BadAuthority {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// rustls does not work with what it was built with.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl Tls {
    /// Reads a certificate, followed by those that signed it, and its key, both PEM. One file may have all of it. Clients are
    /// not asked for certificates.
    ///
    /// # Errors
    /// [`TlsError`], which names the file and what is wrong with it.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::new(&TlsFiles { cert: cert.into(), key: key.into(), clients: None })
    }

    /// Reads everything that TLS is made of.
    ///
    /// # Errors
    /// [`TlsError`], which names the file and what is wrong with it.
    pub fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        // Handed over explicitly: a default of the whole process would be somebody else's to set.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = RwLock::new(Arc::new(Current::read(files, &provider, None)?));
        Ok(Self { shared: Arc::new(Shared { provider, current }) })
    }

    /// Reads everything again, for handshakes from now on; open connections stay as they are.
    ///
    /// # Errors
    /// As [`Tls::new`]; then the old files stay in use.
    pub fn reload(&self, files: &TlsFiles) -> Result<(), TlsError> {
        self.prepare(files).map(|prepared| self.commit(prepared))
    }

    /// The part of a [`reload`](Self::reload) that can fail. Nothing changes yet.
    ///
    /// # Errors
    /// As [`Tls::new`].
    pub fn prepare(&self, files: &TlsFiles) -> Result<PreparedTls, TlsError> {
        let before = self.current();
        let kept = before.clients.as_ref().map(|clients| &clients.authorities);
        Current::read(files, &self.shared.provider, kept).map(|current| PreparedTls(Arc::new(current)))
    }

    /// The part of a [`reload`](Self::reload) that cannot fail.
    pub fn commit(&self, prepared: PreparedTls) {
        *self.shared.current.write() = prepared.0;
    }

    /// The handshake, and the certificate that the client has shown.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<(TlsStream<S>, Option<ClientCertificate>)> {
        let current = self.current();
        let stream = current.acceptor.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let shown = current.clients.as_ref().zip(session.peer_certificates());
        let certificate = shown.and_then(|(clients, chain)| {
            ClientCertificate::new(chain, clients.authorities.clone(), self.clone())
        });
        Ok((stream, certificate))
    }

    /// Whether a chain that was good for `by` is good for the authorities of now.
    pub(super) fn trusts(&self, chain: &[CertificateDer<'static>], by: &Authorities) -> bool {
        let current = self.current();
        let (Some(clients), Some((leaf, rest))) = (&current.clients, chain.split_first()) else {
            return false;
        };
        Arc::ptr_eq(&clients.authorities, by)
            || clients.verifier.verify_client_cert(leaf, rest, UnixTime::now()).is_ok()
    }

    fn current(&self) -> Arc<Current> {
        self.shared.current.read().clone()
    }
}

impl Current {
    fn read(
        files: &TlsFiles,
        provider: &Arc<CryptoProvider>,
        kept: Option<&Authorities>,
    ) -> Result<Self, TlsError> {
        let pair = read(&files.cert, &files.key, provider)?;
        let clients =
            files.clients.as_ref().map(|clients| Clients::read(clients, provider, kept)).transpose()?;
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let config = match &clients {
            Some(clients) => config.with_client_cert_verifier(clients.verifier.clone()),
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if clients.is_some() {
            // A resumed session would bring the certificate of its first handshake along unchecked.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), clients })
    }
}

impl Clients {
    fn read(
        clients: &ClientAuthorities,
        provider: &Arc<CryptoProvider>,
        kept: Option<&Authorities>,
    ) -> Result<Self, TlsError> {
        let ClientAuthorities { file, required } = clients;
        let bad = |source| TlsError::BadAuthority { file: file.clone(), source };
        let authorities: Authorities = certificates(file)?.into();
        let mut roots = RootCertStore::empty();
        for authority in authorities.iter() {
            roots.add(authority.clone()).map_err(bad)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = if *required { verifier } else { verifier.allow_unauthenticated() };
        let verifier = verifier.build().map_err(|error| bad(rustls::Error::General(error.to_string())))?;
        let authorities = kept.filter(|kept| **kept == authorities).cloned().unwrap_or(authorities);
        Ok(Self { authorities, verifier })
    }
}

fn read(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain = certificates(cert)?;
    let signer = provider
        .key_provider
        .load_private_key(private_key(key)?)
        .map_err(|source| TlsError::BadKey { file: key.into(), source })?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsError::NoPair { cert: cert.into(), key: key.into() })
        }
        Err(source) => Err(TlsError::BadCertificate { file: cert.into(), source }),
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text_of(file)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|err| not_pem(file, &err))?;
    if chain.is_empty() { Err(TlsError::NoCertificate(file.into())) } else { Ok(chain) }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = text_of(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|err| match err {
        pem::Error::NoItemsFound if is_encrypted(&text) => TlsError::EncryptedKey(file.into()),
        pem::Error::NoItemsFound => TlsError::NoKey(file.into()),
        err => not_pem(file, &err),
    })
}

fn text_of(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Read { file: file.into(), source })
}

fn is_encrypted(text: &[u8]) -> bool {
    const MARK: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
    text.windows(MARK.len()).any(|part| part == MARK)
}

/// In our own words: those of the reader quote the file, and the file may be a key.
fn not_pem(file: &Path, err: &pem::Error) -> TlsError {
    let what = match err {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed",
        pem::Error::Base64Decode(_) => "a section is not base64",
        _ => "it cannot be read",
    };
    TlsError::NotPem { file: file.into(), what }
}

impl fmt::Debug for PreparedTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTls").finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
