//! Tokens that are taken back.

use crate::world::{ALL, SECRET, Wall, World, signed};
use hub_core::{Bus, Clock, MemoryStore};
use hub_server::Settings;
use hub_server::auth::mint::{Claims, mint_at};
use hub_server::auth::{AuthConfig, Revoked, Secret};
use serde_json::json;
use std::time::Duration;

fn token(wall: &Wall, jti: Option<&str>) -> String {
    let claims = Claims {
        sub: Some("eve".into()),
        jti: jti.map(str::to_owned),
        scopes: ALL.iter().map(|scope| (*scope).to_owned()).collect(),
        ttl: Some(Duration::from_secs(3600)),
        ..Claims::default()
    };
    mint_at(&Secret::new(SECRET), &claims, wall.wall())
}

async fn world(store: &MemoryStore, wall: &Wall) -> World {
    let bus = Bus::builder(store.clone()).clock(wall.clone()).open().await.unwrap();
    World::by(wall.clone(), bus, Settings::default()).await
}

#[tokio::test]
async fn a_revoked_subject_loses_its_sockets_and_comes_back_with_a_new_token() {
    let (store, wall) = (MemoryStore::new(), Wall::new());
    let world = world(&store, &wall).await;
    let (mut eve, mut ada) = (world.client_with(&token(&wall, None)).await, world.client(ALL).await);
    eve.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g", "opts": {"maxAttempts": 1}})).await;
    ada.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    assert_eq!(eve.next().await["event"]["seq"], 1);
    let old = token(&wall, None);
    world.hub.revoke(Revoked::Subject("eve".into())).await.unwrap();
    assert_eq!(eve.next().await["code"], "token_revoked");
    assert_eq!(u16::from(eve.closed().await.unwrap().code), 1008);
    // Its lease is free, and counted no failure.
    ada.ok(json!({"op": "SUBSCRIBE", "topic": "t", "group": "g"})).await;
    assert_eq!(ada.next().await["ctx"]["attempt"], 2);
    assert_eq!(world.stranger().await.err(json!({"op": "AUTH", "token": old})).await, "token_revoked");
    wall.advance(1_000);
    world.client_with(&token(&wall, None)).await;
}

#[tokio::test]
async fn one_token_is_revoked_by_its_id_and_stays_so_over_a_restart() {
    let (store, wall) = (MemoryStore::new(), Wall::new());
    let world_ = world(&store, &wall).await;
    let (bad, good) = (token(&wall, Some("one")), token(&wall, Some("two")));
    let mut kept = world_.client_with(&good).await;
    world_.hub.revoke(Revoked::Token("one".into())).await.unwrap();
    assert_eq!(world_.stranger().await.err(json!({"op": "AUTH", "token": bad})).await, "token_revoked");
    kept.ok(json!({"op": "PUBLISH", "topic": "t", "payload": 1})).await;
    drop(kept);
    world_.bus().stop().await.unwrap();
    let again = world(&store, &wall).await;
    assert_eq!(again.stranger().await.err(json!({"op": "AUTH", "token": bad})).await, "token_revoked");
    again.client_with(&good).await;
}

#[tokio::test]
async fn a_rotated_secret_ends_the_sessions_that_it_does_not_cover() {
    let world = World::new().await;
    let mut client = world.client_with(&signed(Some("ada"), ALL)).await;
    let rotated = AuthConfig {
        secret: Some(Secret::new("another secret, as long as it has to be")),
        ..AuthConfig::default()
    };
    world.hub.auth().reload(rotated).unwrap();
    world.hub.apply(Settings::default());
    assert_eq!(client.next().await["code"], "token_revoked");
    assert_eq!(u16::from(client.closed().await.unwrap().code), 1008);
}

#[tokio::test]
async fn a_token_that_is_valid_for_too_long_is_refused() {
    let world = World::new().await;
    let short = AuthConfig {
        secret: Some(Secret::new(SECRET)),
        max_lifetime_secs: Some(600),
        ..AuthConfig::default()
    };
    world.hub.auth().reload(short).unwrap();
    let answer = world.stranger().await.ask(json!({"op": "AUTH", "token": signed(Some("ada"), ALL)})).await;
    assert_eq!(answer["code"], "jwt_invalid");
    assert!(
        answer["msg"].as_str().unwrap().contains("valid for 3600 s; this hub takes at most 600 s"),
        "{answer}"
    );
}
