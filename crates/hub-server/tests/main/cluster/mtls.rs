//! Hubs that ask each other for certificates.

use super::nodes::*;
use crate::certificates::Authority;
use crate::world::{ALL, token};
use hub_client::{Arrival, Connection, SubscribeRequest, Target};

async fn client(node: &Node, authority: &Authority) -> Connection {
    let target = Target::new(format!("wss://localhost:{}/", node.address.port())).unwrap();
    let target = target.root_certificates(authority.pem()).unwrap();
    let target = target.client_certificate(authority.client("urn:user:ada").shown());
    let connection = Connection::connect(&target).await.unwrap();
    connection.authenticate(&token(ALL)).await.unwrap();
    connection
}

#[tokio::test]
async fn hubs_that_require_certificates_reach_each_other_with_their_own() {
    let (cluster, authority) = (Cluster::new(), Authority::new("cluster"));
    let secure = |with_certificate: bool| Secure {
        tls: authority.tls(&authority, true),
        roots: authority.pem().to_vec(),
        certificate: with_certificate.then(|| authority.server().shown()),
    };
    let (owner, edge) = (cluster.node_by(secure(true)).await, cluster.node_by(secure(true)).await);
    owner.owns("g").await;
    let connection = client(&edge, &authority).await;
    let mut deliveries = connection.subscribe(SubscribeRequest::new("t", Some("g"))).await.unwrap();
    assert_eq!(owner.members("t", "g"), 1);
    edge.publish("t", [1]).await;
    let Arrival::Event(delivered) = deliveries.recv().await.unwrap() else { panic!("no event") };
    assert_eq!(delivered.event.seq(), 1);

    // One without a certificate has no way there, until it gets one.
    let bare = cluster.node_by(secure(false)).await;
    let connection = client(&bare, &authority).await;
    let refused = connection.subscribe(SubscribeRequest::new("t", Some("g"))).await.err().unwrap();
    assert_eq!(refused.code(), Some(hub_client::Code::Unavailable), "{refused}");
    bare.hub.set_cluster_certificate(Some(authority.server().shown()));
    let _deliveries = connection.subscribe(SubscribeRequest::new("t", Some("g"))).await.unwrap();
    assert_eq!(owner.members("t", "g"), 2);
}
