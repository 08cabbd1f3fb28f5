//! What an operator may set, and what is said if not.

use crate::auth::{AuthConfig, Secret};

#[test]
fn a_setting_that_cannot_be_is_refused_by_its_name() {
    type Set = fn(&mut AuthConfig);
    let table: &[(Set, &str)] = &[
        (|config| config.secret = None, "JWT_JWKS_URL, JWT_SECRET or WS_TOKEN"),
        (|config| config.secret = Some(Secret::new("")), "JWT_SECRET"),
        (|config| config.static_token = Some(Secret::new("")), "WS_TOKEN"),
        (|config| config.static_token = Some(Secret::new("x".repeat(16_385))), "WS_TOKEN"),
        (|config| config.audience = AuthConfig::audiences("a,,b"), "JWT_AUD"),
        (|config| config.audience = AuthConfig::audiences(""), "JWT_AUD"),
        (|config| config.issuer = Some(String::new()), "JWT_ISS"),
        (|config| config.leeway_secs = 301, "JWT_CLOCK_TOLERANCE_SEC is 301; 0 to 300"),
        (|config| config.jwks_url = Some("issuer.example/keys".into()), "JWT_JWKS_URL"),
        (|config| config.jwks_url = Some("file:///etc/keys".into()), "JWT_JWKS_URL"),
        (|config| config.jwks_url = Some("https://".into()), "JWT_JWKS_URL"),
    ];
    for (at, (set, expected)) in table.iter().enumerate() {
        let mut config = AuthConfig { secret: Some(Secret::new("secret")), ..AuthConfig::default() };
        assert_eq!(config.check(), Ok(()));
        set(&mut config);
        let error = config.check().unwrap_err();
        assert!(error.msg.contains(expected), "{at}: {error}");
    }
}

#[test]
fn what_is_weak_is_said() {
    let said = |secret: &str, url: Option<&str>| {
        let secret = Some(Secret::new(secret));
        AuthConfig { secret, jwks_url: url.map(Into::into), ..AuthConfig::default() }.warnings().len()
    };
    let good = "x".repeat(32);
    assert_eq!(said(&good, None), 0);
    assert_eq!(said(&good[1..], None), 1);
    for (url, expected) in [
        ("https://issuer.example/keys", 0),
        ("http://127.0.0.1:1/keys", 0),
        ("http://[::1]:1/keys", 0),
        ("http://localhost/keys", 0),
        ("http://issuer.example/keys", 1),
        ("http://127.0.0.1.example/keys", 1),
        ("http://localhost.example/keys", 1),
    ] {
        assert_eq!(said(&good, Some(url)), expected, "{url}");
    }
}

#[test]
fn a_static_token_is_long_and_of_this_machine() {
    let said = |bytes: usize, exposed| {
        let static_token = Some(Secret::new("x".repeat(bytes)));
        AuthConfig { static_token, exposed, ..AuthConfig::default() }.warnings().len()
    };
    assert_eq!([said(32, false), said(31, false), said(32, true), said(31, true)], [0, 1, 1, 2]);
}

#[test]
fn several_audiences_stand_in_one_text() {
    assert_eq!(AuthConfig::audiences("hub"), ["hub"]);
    assert_eq!(AuthConfig::audiences(" hub , bus"), ["hub", "bus"]);
}

#[test]
fn real_auth_is_a_key_set_or_a_secret_of_the_operator() {
    let secret = AuthConfig { secret: Some(Secret::new("secret")), ..AuthConfig::default() };
    let made = AuthConfig { secret_is_made: true, ..secret.clone() };
    let dev = AuthConfig { static_token: Some(Secret::new("token")), ..AuthConfig::default() };
    let keys = AuthConfig { jwks_url: Some("https://issuer.example".into()), ..made.clone() };
    assert_eq!([secret, made, dev, keys].map(|config| config.is_real()), [true, false, false, true]);
}

#[test]
fn secrets_do_not_show() {
    let secret = || Some(Secret::new("do not show"));
    let config = AuthConfig { secret: secret(), static_token: secret(), ..AuthConfig::default() };
    assert!(!format!("{config:?}").contains("do not show"));
}
