//! `event-hub token` and `event-hub completions`.

use crate::hub::{Place, run_with};
use serde_json::{Value, json};

const SECRET: [(&str, &str); 1] = [("JWT_SECRET", "0123456789abcdef0123456789abcdef")];

/// The claims of a token that was printed.
fn claims(out: &str) -> Value {
    assert_eq!(out.lines().count(), 1, "only the token is printed: {out}");
    let claims = out.trim().split('.').nth(1).unwrap();
    let letter = |c: u8| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".iter().position(|l| *l == c)
    };
    let bits: Vec<u8> = claims
        .bytes()
        .flat_map(|c| {
            let value = letter(c).unwrap() as u8;
            (0..6).rev().map(move |bit| value >> bit & 1)
        })
        .collect();
    let bytes: Vec<u8> =
        bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_token_says_what_it_was_asked_to() {
    let ran = run_with(&["token"], &SECRET);
    ran.ends_with(0);
    let made = claims(&ran.out);
    assert_eq!(made["scopes"], json!(["publish:heartbeat.received", "subscribe:process.state"]));
    assert_eq!(made["exp"].as_u64().unwrap() - made["iat"].as_u64().unwrap(), 24 * 60 * 60);
    let args = ["token", "--sub", "ada", "--scope", "publish:a.*", "--scope", "admin:**", "--ttl", "90s"];
    let ran = run_with(&args, &[SECRET[0], ("JWT_AUD", "hub"), ("JWT_ISS", "me")]);
    let made = claims(&ran.out);
    assert_eq!(made["exp"].as_u64().unwrap() - made["iat"].as_u64().unwrap(), 90);
    assert_eq!((&made["sub"], &made["iss"], &made["aud"]), (&json!("ada"), &json!("me"), &json!(["hub"])));
    assert_eq!(made["scopes"], json!(["publish:a.*", "admin:**"]));
    assert!(claims(&run_with(&["token", "--ttl", "never"], &SECRET).out).get("exp").is_none());
}

#[test]
fn rules_come_from_a_file_or_the_command_line() {
    let place = Place::new();
    let sib =
        place.write("p.sib", "(deny subscribe \"secret.**\")\n(allow subscribe \"**\" :groups [\"ops\"])\n");
    let made = claims(&run_with(&["token", "--policy", &sib], &SECRET).out);
    let expected = json!({"rules": [
        {"effect": "deny", "action": ["subscribe"], "topics": ["secret.**"]},
        {"effect": "allow", "action": ["subscribe"], "topics": ["**"], "groups": ["ops"]},
    ]});
    assert_eq!(made["policy"], expected);
    assert!(made.get("scopes").is_none());
    let inline = r#"{"rules":[{"effect":"allow","action":"publish","topics":["a"]}]}"#;
    let made = claims(&run_with(&["token", "--policy", inline], &SECRET).out);
    assert_eq!(made["policy"]["rules"][0]["action"], "publish");
    let ran = run_with(&["token", "--policy", r#"{"rules":[{"effect":"maybe"}]}"#], &SECRET);
    ran.ends_with(2);
    assert!(ran.err.contains("--policy"), "{}", ran.err);
}

#[test]
fn what_would_make_a_useless_token_is_refused() {
    for (args, expected) in [
        (&["--scope", "pubish:a"][..], "a scope is publish, subscribe, admin or *"),
        (&["--scope", "publish:a..b"], "publish:a..b"),
        (&["--ttl", "24"], "90s, 24h or 30d"),
        (&["--secret-file", "no-such-file"], "no-such-file cannot be read"),
    ] {
        let ran = run_with(&[&["token"], args].concat(), &SECRET);
        ran.ends_with(2);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
        assert_eq!(ran.out, "");
    }
    let place = Place::new();
    let ran = run_with(&["token", "--data", &place.text("data")], &[]);
    ran.ends_with(2);
    assert!(
        ran.err.contains("has no development secret") && ran.err.contains("--secret-file"),
        "{}",
        ran.err
    );
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        run_with(&["completions", shell], &[]).ends_with(0).says("event-hub").says("subscribe");
    }
    let ran = run_with(&["completions", "ksh"], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains("bash"), "{}", ran.err);
}
