//! `event-hub config`, and what `serve` makes of a bad one.

use crate::hub::{Place, run_with};

#[test]
fn the_default_file_is_accepted_by_check() {
    let place = Place::new();
    let printed = run_with(&["config", "default"], &[]);
    printed.ends_with(0).says("pattern = \"heartbeat.received\"");
    let file = place.write("hub.toml", &printed.out);
    let ran = run_with(&["config", "check", &file], &[]);
    ran.ends_with(0)
        .says("hub.toml: ok")
        .says("127.0.0.1, WebSocket on 8090, HTTP on 8082")
        .says("4 patterns");
    let ran =
        run_with(&["config", "check"], &[("JWT_SECRET", "correct horse"), ("WS_TOKEN", "battery staple")]);
    ran.ends_with(0).says("a secret, a static token");
    let ran = run_with(&["config", "check"], &[("MONGO_URL", "mongodb://hub:hunter2@db1,db2/shop")]);
    ran.ends_with(0).says("MongoDB at db1:27017,db2:27017, database shop");
    assert!(!ran.out.contains("hunter2"), "{}", ran.out);
    assert!(!ran.out.contains("horse") && !ran.out.contains("staple"), "{}", ran.out);
}

#[test]
fn every_mistake_is_listed_and_the_exit_code_says_so() {
    let place = Place::new();
    let file = place.write("hub.toml", "[server]\nws_prot = 1\n\n[limits]\nsubscriptions = 0\n");
    let ran = run_with(&["config", "check", &file], &[("OPS_PORT", "many")]);
    ran.ends_with(1)
        .says("hub.toml:2: ws_prot is no setting of server; there are bind, ws_port")
        .says("hub.toml:5: limits.subscriptions is 0; it must be a whole number from 1 to 100000")
        .says("environment OPS_PORT: server.ops_port is \"many\"")
        .says("3 mistakes found");
    run_with(&["config", "check", &place.text("nowhere.toml")], &[]).ends_with(1).says("cannot be read");
    run_with(&["config", "chekc"], &[]).ends_with(2);
}

#[test]
fn certificates_are_read_and_the_right_setting_is_named() {
    let place = Place::new();
    let cert = place.write("cert.pem", "no certificate");
    let file =
        place.write("hub.toml", &format!("[server]\ntls_cert = \"{cert}\"\ntls_key = \"nowhere.pem\"\n"));
    run_with(&["config", "check", &file], &[])
        .ends_with(1)
        .says("hub.toml:2: server.tls_cert: no certificate in");
}

#[test]
fn auth_is_checked_without_a_key_set_too() {
    let token = "x".repeat(17 << 10);
    run_with(&["config", "check"], &[("WS_TOKEN", &token)])
        .ends_with(1)
        .says("environment WS_TOKEN: auth.static_token (WS_TOKEN) is longer than the 16384 bytes");
}

#[test]
fn serve_refuses_a_bad_setting_with_all_of_them() {
    let place = Place::new();
    let data = place.text("data");
    let file = place.write("hub.toml", "[server]\nws_prot = 1\n");
    let ran = run_with(&["serve", "--config", &file, "--data", &data, "--bind", "nowhere"], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains("hub.toml:2: ws_prot is no setting of server"), "{}", ran.err);
    assert!(ran.err.contains("--bind: server.bind is \"nowhere\""), "{}", ran.err);
    for (url, expected) in [
        (
            "http://user:hunter2@db/",
            "environment MONGO_URL: mongo.url is one that begins with http://; it must be",
        ),
        (
            "mongodb://user:hunter2@db:port/",
            "environment MONGO_URL: mongo.url: the address of MongoDB cannot be used",
        ),
    ] {
        let ran = run_with(&["serve", "--data", &data], &[("MONGO_URL", url)]);
        ran.ends_with(2);
        assert!(ran.err.contains(expected) && !ran.err.contains("hunter2"), "{}", ran.err);
    }
    let ran = run_with(
        &["serve", "--data", &data, "--ws-port", "0", "--ops-port", "0"],
        &[("RUST_LOG", "loud=very")],
    );
    ran.ends_with(2);
    assert!(ran.err.contains("RUST_LOG is \"loud=very\""), "{}", ran.err);
    assert!(!place.path("data").exists(), "nothing was begun");
}

#[test]
fn beyond_loopback_without_real_auth_nothing_starts() {
    let place = Place::new();
    let data = place.text("data");
    let args = ["serve", "--bind", "0.0.0.0", "--ws-port", "0", "--ops-port", "0", "--data", &data];
    for environment in [&[][..], &[("WS_TOKEN", "t")]] {
        let ran = run_with(&args, environment);
        ran.ends_with(2);
        for expected in ["server.bind is 0.0.0.0", "JWT_JWKS_URL", "JWT_SECRET", "bind to 127.0.0.1"] {
            assert!(ran.err.contains(expected), "{expected} is not in {}", ran.err);
        }
    }
    assert!(!place.path("data").exists());
}
