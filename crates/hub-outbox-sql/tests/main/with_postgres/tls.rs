//! Servers that are reached over TLS.

use crate::hub::{Hub, row};
use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{ConnectError, Options, PostgresOutbox};
use hub_testbed::postgres::Postgres;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_is_drained_over_tls_and_only_from_who_has_the_right_certificate() {
    let made = || generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (CertifiedKey { cert, signing_key }, other) = (made(), made());
    let server = Postgres::start_with_tls(&cert.pem(), &signing_key.serialize_pem()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let url = |mode: &str, trusted: &str| {
        let path = dir.path().join(mode);
        std::fs::write(&path, trusted).unwrap();
        let (port, path) = (server.address().port(), path.display().to_string());
        format!("postgres://postgres@localhost:{port}/postgres?sslmode={mode}&sslrootcert={path}")
    };
    let trusting = url("verify-full", &cert.pem());
    PostgresOutbox::init(&trusting, &Options::default()).await.unwrap();
    let outbox = Arc::new(PostgresOutbox::connect(&trusting, Options::default()).await.unwrap());
    let hub = Hub::drains(&outbox).await;
    outbox.add(vec![row(1, Some("k"))]).await.unwrap();
    assert_eq!(hub.published("t", 1).await, ["1"]);
    let asked = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                 WHERE application_name = 'event-hub'";
    let rows = hub_testbed::postgres::query(&server.url(), asked).await.unwrap();
    assert_eq!(rows[0][0].as_deref(), Some("t"), "all that it opened, the one that listens too");
    hub.stop().await;
    let deceived = PostgresOutbox::connect(&url("verify-ca", &other.cert.pem()), Options::default()).await;
    let error = deceived.err().expect("that is somebody else");
    assert!(matches!(error, ConnectError::Unreachable { .. } | ConnectError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}
