//! TLS: certificates that fit, and clients that do not.

use super::*;
use hub_server::net::{TlsError, TlsFiles};
use std::path::PathBuf;
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};

/// A certificate of its own, in files.
struct Pair {
    dir: TempDir,
    der: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["hub.test".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { dir, der: made.cert.der().clone() }
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn other(&self, text: &str) -> PathBuf {
        let path = self.dir.path().join("other.pem");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn tls(&self) -> Tls {
        Tls::from_files(&self.cert(), &self.key()).unwrap()
    }

    /// A handshake by somebody who trusts this certificate alone.
    async fn connect(
        &self,
        server: &Server,
        versions: &[&'static SupportedProtocolVersion],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        soon(connector.connect("hub.test".try_into().unwrap(), server.connect().await)).await
    }
}

#[tokio::test]
async fn both_versions_of_tls_get_http_1() {
    let pair = Pair::new();
    let server = server(Limits::default(), Some(pair.tls()), PATIENT).await;
    for (asked, got) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut client = pair.connect(&server, &[asked]).await.unwrap();
        let me = client.get_ref().0.local_addr().unwrap().to_string();
        assert_eq!(ask(&mut client, "/who").await, me);
        let (_, session) = client.get_ref();
        assert_eq!(session.protocol_version(), Some(got));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
}

#[tokio::test]
async fn a_reload_changes_the_certificate_of_new_connections_only() {
    let (old, new) = (Pair::new(), Pair::new());
    let tls = old.tls();
    let server = server(Limits::default(), Some(tls.clone()), PATIENT).await;
    let mut before = old.connect(&server, &[&TLS13]).await.unwrap();
    new.connect(&server, &[&TLS13]).await.expect_err("not yet");

    // A bad pair changes nothing.
    let files = |cert, key| TlsFiles { cert, key, clients: None };
    tls.reload(&files(new.cert(), old.key())).expect_err("no pair");
    old.connect(&server, &[&TLS13]).await.unwrap();

    tls.reload(&files(new.cert(), new.key())).unwrap();
    new.connect(&server, &[&TLS13]).await.unwrap();
    old.connect(&server, &[&TLS13]).await.expect_err("no more");
    ask(&mut before, "/who").await;
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_does_no_harm() {
    let pair = Pair::new();
    let server = server(Limits::default(), Some(pair.tls()), PATIENT).await;
    let mut plain = server.connect().await;
    send(&mut plain, "GET /who HTTP/1.1\r\nhost: hub\r\n\r\n").await;
    assert!(!rest(&mut plain).await.contains("HTTP/1.1"));
    let mut client = pair.connect(&server, &[&TLS13]).await.unwrap();
    ask(&mut client, "/who").await;
}

#[tokio::test]
async fn a_client_that_begins_no_handshake_or_never_ends_it_is_cut_off() {
    let pair = Pair::new();
    let server = server(Limits::default(), Some(pair.tls()), IMPATIENT).await;
    let (mut silent, mut half) = (server.connect().await, server.connect().await);
    // The head of a record that announces a ClientHello of 512 bytes.
    soon(half.write_all(&[22, 3, 1, 2, 0, 1])).await.unwrap();
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(rest(&mut half).await, "");
}

#[tokio::test]
async fn draining_does_not_wait_for_a_handshake() {
    let pair = Pair::new();
    let server = server(Limits::default(), Some(pair.tls()), PATIENT).await;
    let mut silent = server.connect().await;
    // The silent one was accepted before this one.
    let mut client = pair.connect(&server, &[&TLS13]).await.unwrap();
    ask(&mut client, "/who").await;
    assert_eq!(server.hub.drain(LONG).await, 0);
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn a_connection_too_many_is_closed_without_a_handshake() {
    let pair = Pair::new();
    let server = server(Limits { connections: 1, ..Limits::default() }, Some(pair.tls()), PATIENT).await;
    let _first = pair.connect(&server, &[&TLS13]).await.unwrap();
    assert_eq!(rest(&mut server.connect().await).await, "");
}

#[test]
fn a_file_that_does_not_do_is_named_with_what_is_wrong() {
    let (pair, stranger) = (Pair::new(), Pair::new());
    let said = |cert: &PathBuf, key: &PathBuf| Tls::from_files(cert, key).unwrap_err().to_string();
    let (cert, key) = (pair.cert(), pair.key());

    let missing = pair.dir.path().join("missing.pem");
    let text = said(&missing, &key);
    assert!(text.contains("missing.pem") && text.contains("cannot read"), "{text}");
    let text = said(&key, &key);
    assert!(text.contains("key.pem") && text.contains("no certificate"), "{text}");
    let text = said(&cert, &cert);
    assert!(text.contains("cert.pem") && text.contains("no private key"), "{text}");
    let text = said(&cert, &stranger.key());
    assert!(text.contains("cert.pem") && text.contains("key.pem") && text.contains("does not fit"), "{text}");
    let sealed = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let text = said(&cert, &pair.other(sealed));
    assert!(text.contains("other.pem") && text.contains("encrypted"), "{text}");
    let text = said(&pair.other("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), &key);
    assert!(text.contains("other.pem") && text.contains("cannot be used"), "{text}");
}

#[test]
fn an_error_about_a_key_shows_nothing_of_it() {
    let pair = Pair::new();
    let text = std::fs::read_to_string(pair.key()).unwrap();
    let secret = text.lines().nth(1).unwrap().to_owned();
    for broken in [
        text.replace("-----END", "-----AND"),
        text.replace("BEGIN PRIVATE KEY-----\n", "BEGIN PRIVATE KEY "),
        text.replace('M', "!"),
    ] {
        let err = Tls::from_files(&pair.cert(), &pair.other(&broken)).unwrap_err();
        assert!(!format!("{err} {err:?}").contains(&secret[..16]), "{err}");
        assert!(matches!(err, TlsError::NotPem { .. } | TlsError::NoKey(_)), "{err:?}");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_cut_off_under_tls_too() {
    let pair = Pair::new();
    let patience = Patience { write: Duration::from_millis(100), ..PATIENT };
    let server = server(Limits::default(), Some(pair.tls()), patience).await;
    let mut client = pair.connect(&server, &[&TLS13]).await.unwrap();
    slow::never_reads(&mut client, &server).await;
}
