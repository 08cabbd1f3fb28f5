//! Certificates, as rustls wants them.

use parking_lot::RwLock;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys};
use tokio_rustls::server::TlsStream;

/// A certificate and its key: TLS 1.2 and 1.3 for those who connect. Clones share them, also after a reload.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
}

/// What new handshakes get.
struct Current(RwLock<Arc<CertifiedKey>>);

/// A certificate and its key that [`Tls::prepare`] has read.
#[must_use = "nothing changes until it is committed"]
pub struct PreparedTls(Arc<CertifiedKey>);

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
    /// rustls does not work with what it was built with.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl Tls {
    /// Reads a certificate, followed by those that signed it, and its key, both PEM. One file may have all of it.
    ///
    /// # Errors
    /// [`TlsError`], which names the file and what is wrong with it.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        // Handed over explicitly: a default of the whole process would be somebody else's to set.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = Arc::new(Current(RwLock::new(read(cert, key, &provider)?)));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current })
    }

    /// Reads them again, for handshakes from now on; open connections stay as they are.
    ///
    /// # Errors
    /// As [`Tls::from_files`]; then the old ones stay in use.
    pub fn reload(&self, cert: &Path, key: &Path) -> Result<(), TlsError> {
        self.prepare(cert, key).map(|prepared| self.commit(prepared))
    }

    /// The part of a [`reload`](Self::reload) that can fail. Nothing changes yet.
    ///
    /// # Errors
    /// As [`Tls::from_files`].
    pub fn prepare(&self, cert: &Path, key: &Path) -> Result<PreparedTls, TlsError> {
        read(cert, key, self.acceptor.config().crypto_provider()).map(PreparedTls)
    }

    /// The part of a [`reload`](Self::reload) that cannot fail.
    pub fn commit(&self, prepared: PreparedTls) {
        *self.current.0.write() = prepared.0;
    }

    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        self.acceptor.accept(stream).await
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

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
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
