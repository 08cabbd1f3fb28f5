//! The certificate that a client shows to a hub that asks for one.

use std::fmt;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::{Error, ErrorKind, Result};

/// A certificate and its key, for [`Target::client_certificate`](crate::Target::client_certificate). Clones share them.
#[derive(Clone)]
pub struct Certificate(Arc<CertifiedKey>);

impl Certificate {
    /// Reads a certificate, followed by those that signed it, and its private key, both PEM.
    ///
    /// # Errors
    /// `Usage` if one of them is not there or cannot be read, or they are not a pair. Nothing of the key is in the error.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self> {
        let wrong = |what: &str| {
            let text = format!("the client certificate cannot be used: {what}");
            Error::new(ErrorKind::Usage, text)
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| wrong("no certificate in PEM (`BEGIN CERTIFICATE`)"))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| wrong("no private key in PEM (`BEGIN PRIVATE KEY`, without a passphrase)"))?;
        let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
        pair.map(|pair| Self(Arc::new(pair))).map_err(|error| wrong(&error.to_string()))
    }

    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(self.0.clone().into())
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_certificate_needs_its_own_key_and_shows_nothing_of_it() {
        let make = || rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
        let (one, other) = (make(), make());
        let (cert, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        let good = Certificate::from_pem(cert.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(format!("{good:?}"), "Certificate { .. }");
        let secret = key.lines().nth(1).unwrap();
        for (cert, key) in [
            (&*cert, &*other.signing_key.serialize_pem()),
            (&*cert, ""),
            ("", &*key),
            (&*key, &*key),
            (&*cert, &*key.replace("-----END", "-----AND")),
        ] {
            let error = Certificate::from_pem(cert.as_bytes(), key.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(!format!("{error} {error:?}").contains(&secret[..16]), "{error}");
        }
    }
}
