//! Certificates of authorities that the tests make, in files.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An authority, and a directory for what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: TempDir,
}

/// A certificate and its key.
pub struct Leaf {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub fn sign(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let name = uuid::Uuid::now_v7().to_string();
        let file = |end: &str| self.directory.path().join(format!("{name}.{end}"));
        let leaf = Leaf { cert: file("pem"), key: file("key") };
        std::fs::write(&leaf.cert, signed.pem()).unwrap();
        std::fs::write(&leaf.key, key.serialize_pem()).unwrap();
        leaf
    }

    /// A certificate of `localhost`, for a server that is also a client of others.
    pub fn server(&self) -> Leaf {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params)
    }

    /// Connects as somebody who trusts this authority.
    pub fn connector(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.file())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(config.with_no_client_auth()).into()
    }
}

fn certificate(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}
