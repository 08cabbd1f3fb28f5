//! Certificates of authorities that the tests make, in files.

use hub_server::net::{ClientAuthorities, Tls, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An authority, and a directory for what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    directory: TempDir,
}

/// A certificate and its key.
pub struct Leaf {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Leaf {
    /// For the client of the hub.
    pub fn shown(&self) -> hub_client::Certificate {
        let read = |path: &Path| std::fs::read(path).unwrap();
        hub_client::Certificate::from_pem(&read(&self.cert), &read(&self.key)).unwrap()
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), &pem).unwrap();
        Self { issuer: Issuer::new(params, key), pem, directory }
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    pub fn pem(&self) -> &[u8] {
        self.pem.as_bytes()
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

    /// TLS of a server with a certificate of this authority, for clients of another.
    pub fn tls(&self, clients: &Self, required: bool) -> Tls {
        Tls::new(&self.files(clients, required)).unwrap()
    }

    /// The files of the same.
    pub fn files(&self, clients: &Self, required: bool) -> TlsFiles {
        let Leaf { cert, key } = self.server();
        TlsFiles { cert, key, clients: Some(ClientAuthorities { file: clients.file(), required }) }
    }

    /// A certificate of a client that is called so.
    pub fn client(&self, uri: &str) -> Leaf {
        self.sign(&client(uri))
    }

    /// Connects as somebody who trusts this authority, and shows `leaf`.
    pub fn connector(&self, leaf: Option<&Leaf>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.file())).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match leaf {
            Some(leaf) => {
                let key = PrivateKeyDer::from_pem_file(&leaf.key).unwrap();
                config.with_client_auth_cert(vec![certificate(&leaf.cert)], key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        Arc::new(config).into()
    }
}

/// What is asked for the certificate of a client that is called so.
pub fn client(uri: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params
}

fn certificate(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}
