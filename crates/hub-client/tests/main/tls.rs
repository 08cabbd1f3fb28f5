//! Hubs behind TLS.

use crate::hub::soon;
use futures_util::{SinkExt, StreamExt};
use hub_client::{Connection, ErrorKind, Target};
use rcgen::CertifiedKey;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_tungstenite::tungstenite::Message;

struct Hub {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    pem: String,
}

impl Hub {
    async fn start() -> Self {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, acceptor: Arc::new(config).into(), pem: cert.pem() }
    }

    fn target(&self, host: &str) -> Target {
        Target::new(format!("wss://{host}:{}/", self.listener.local_addr().unwrap().port())).unwrap()
    }

    /// Answers one request, if there is one.
    async fn serve(&self) {
        let (stream, _) = self.listener.accept().await.unwrap();
        let Ok(stream) = self.acceptor.accept(stream).await else { return };
        let mut socket = Box::pin(tokio_tungstenite::accept_async(stream)).await.unwrap();
        let Some(Ok(Message::Text(_))) = socket.next().await else { panic!("no AUTH") };
        socket.send(Message::Text(r#"{"op":"OK","corr":"1","sub":"ada"}"#.into())).await.unwrap();
        while let Some(Ok(_)) = socket.next().await {}
    }
}

#[tokio::test]
async fn a_hub_with_a_certificate_of_its_own_is_trusted_if_that_is_said() {
    let hub = Hub::start().await;
    let target = hub.target("localhost").root_certificates(hub.pem.as_bytes()).unwrap();
    let talk = async {
        let connection = Connection::connect(&target).await.unwrap();
        assert_eq!(connection.authenticate("t").await.unwrap().sub.as_deref(), Some("ada"));
        connection.close().await;
    };
    soon(async { tokio::join!(talk, hub.serve()) }).await;
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_or_of_another_host_is_refused() {
    let hub = Hub::start().await;
    let unknown = hub.target("localhost");
    let elsewhere = hub.target("127.0.0.1").root_certificates(hub.pem.as_bytes()).unwrap();
    for target in [unknown, elsewhere] {
        let (connected, ()) = soon(async { tokio::join!(Connection::connect(&target), hub.serve()) }).await;
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect);
        assert!(error.to_string().contains("certificate"), "{error}");
    }
}
