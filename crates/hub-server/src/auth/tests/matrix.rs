//! Every algorithm with every kind of key, and every lie about which it was.

use super::endpoint::Endpoint;
use super::keys::{Pair, RSA, forged, name, unsigned};
use super::lab::{NOW, SECRET, claims, code, joined, own};
use crate::auth::Secret;
use crate::auth::keys::KeySet;
use hub_proto::Code::{JwtInvalid, TokenExpired};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

const EVERY: [Algorithm; 12] = [
    Algorithm::HS256,
    Algorithm::HS384,
    Algorithm::HS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::EdDSA,
];

#[tokio::test]
async fn a_key_holds_for_its_own_algorithm_and_no_other() {
    let (ec, ed) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::EdDSA));
    let issuer = Endpoint::with(
        &[("rsa", &*RSA), ("ec", &ec), ("ed", &ed)].map(|(kid, pair)| pair.jwk(json!({ "kid": kid }))),
    )
    .await;
    let (hub, _) = issuer.hub(|config| config.secret = Some(Secret::new(SECRET)));
    for (kid, pair) in [("rsa", &*RSA), ("ec", &ec), ("ed", &ed)] {
        for alg in EVERY {
            for kid in [Some(kid), None] {
                let what = format!("{:?} key, alg {alg:?}, kid {kid:?}", pair.alg);
                let expected = (alg != pair.alg).then_some(JwtInvalid);
                let header = json!({ "alg": name(alg), "kid": kid });
                // The header says one thing and the signature is the key's own.
                let told = forged(&header, &claims(json!({})), &pair.private, pair.alg);
                assert_eq!(code(hub.identify(Some(&told)).await), expected, "{what}");
                // The signature is really one of that algorithm, where the key can make it.
                let can = alg.family() == pair.alg.family() && alg != Algorithm::ES384;
                if can && alg != pair.alg {
                    let made = forged(&header, &claims(json!({})), &pair.private, alg);
                    assert_eq!(code(hub.identify(Some(&made)).await), Some(JwtInvalid), "made with {what}");
                }
            }
        }
        // What everybody can see of the key, used as a secret.
        for form in &pair.forms {
            for alg in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                for kid in [Some(kid), None] {
                    let header = json!({ "alg": name(alg), "kid": kid });
                    let confused = forged(&header, &claims(json!({})), &EncodingKey::from_secret(form), alg);
                    assert_eq!(
                        code(hub.identify(Some(&confused)).await),
                        Some(JwtInvalid),
                        "{:?} as {alg:?}",
                        pair.alg
                    );
                }
            }
        }
    }
    assert_eq!(code(hub.identify(Some(&own(json!({})))).await), None);
}

#[tokio::test]
async fn mistakes_are_the_same_for_every_kind_of_key() {
    for alg in [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA] {
        let made;
        let pair = if alg == Algorithm::RS256 {
            &*RSA
        } else {
            made = Pair::new(alg);
            &made
        };
        let issuer = Endpoint::with(&[pair.jwk(json!({ "kid": "one" }))]).await;
        let (hub, _) = issuer.hub(|config| {
            config.audience = vec!["hub".into()];
            config.issuer = Some("issuer".into());
        });
        let right = |others: Value| joined(json!({ "aud": "hub", "iss": "issuer" }), others);
        let one = Some("one");
        let good = pair.token(one, right(json!({})));
        let (signed, signature) = good.rsplit_once('.').unwrap();
        let (head, _) = signed.split_once('.').unwrap();
        let other = Pair::new(if alg == Algorithm::RS256 { Algorithm::ES256 } else { alg });
        let stolen = pair.token(one, right(json!({ "sub": "eve" })));
        let (eve, _) = stolen.rsplit_once('.').unwrap();
        let none = |said: &str| unsigned(&json!({ "alg": said, "kid": "one" }), &claims(right(json!({}))));
        let sent = |jwk: &Pair| json!({ "alg": name(jwk.alg), "jwk": jwk.public });
        let table: Vec<(&str, String, _)> = vec![
            ("all is well", good.clone(), None),
            ("no kid, one key that fits", pair.token(None, right(json!({}))), None),
            ("an unknown kid", pair.token(Some("two"), right(json!({}))), Some(JwtInvalid)),
            ("an empty kid", pair.token(Some(""), right(json!({}))), Some(JwtInvalid)),
            ("signed by another", other.token(one, right(json!({}))), Some(JwtInvalid)),
            ("signed by another, without kid", other.token(None, right(json!({}))), Some(JwtInvalid)),
            (
                "brings its own key along",
                forged(&sent(&other), &claims(right(json!({}))), &other.private, other.alg),
                Some(JwtInvalid),
            ),
            ("the signature of other claims", format!("{eve}.{signature}"), Some(JwtInvalid)),
            ("no signature", format!("{signed}."), Some(JwtInvalid)),
            ("no claims", format!("{head}..{signature}"), Some(JwtInvalid)),
            ("alg none", format!("{}.", none("none")), Some(JwtInvalid)),
            ("alg None", format!("{}.{signature}", none("None")), Some(JwtInvalid)),
            (
                "alg in small letters",
                format!("{}.{signature}", none(&name(alg).to_lowercase())),
                Some(JwtInvalid),
            ),
            (
                "no alg",
                forged(&json!({ "kid": "one" }), &claims(right(json!({}))), &pair.private, alg),
                Some(JwtInvalid),
            ),
            ("no exp", pair.token(one, right(json!({ "exp": "absent" }))), Some(JwtInvalid)),
            ("expired", pair.token(one, right(json!({ "exp": NOW - 5 }))), Some(TokenExpired)),
            ("expired, within the tolerance", pair.token(one, right(json!({ "exp": NOW - 4 }))), None),
            ("expired and signed by another", other.token(one, right(json!({ "exp": 1 }))), Some(JwtInvalid)),
            ("not yet", pair.token(one, right(json!({ "nbf": NOW + 6 }))), Some(JwtInvalid)),
            ("for another", pair.token(one, right(json!({ "aud": "bus" }))), Some(JwtInvalid)),
            ("by another", pair.token(one, right(json!({ "iss": "issuers" }))), Some(JwtInvalid)),
            ("HS256 on a hub without a secret", own(right(json!({}))), Some(JwtInvalid)),
        ];
        for (what, token, expected) in table {
            assert_eq!(code(hub.identify(Some(&token)).await), expected, "{alg:?}: {what}");
        }
    }
}

#[tokio::test]
async fn a_key_is_used_only_as_its_members_say() {
    let (ec, p384) = (Pair::new(Algorithm::ES256), Pair::new(Algorithm::ES384));
    let ed = Pair::new(Algorithm::EdDSA);
    let table: &[(&str, &Pair, Value, bool)] = &[
        ("nothing said", &RSA, json!({}), true),
        ("its alg", &RSA, json!({ "alg": "RS256" }), true),
        ("for signatures", &RSA, json!({ "use": "sig" }), true),
        ("for encryption", &RSA, json!({ "use": "enc" }), false),
        ("for something else", &RSA, json!({ "use": "else" }), false),
        ("to verify", &ec, json!({ "key_ops": ["verify"] }), true),
        ("to encrypt", &ec, json!({ "key_ops": ["encrypt"] }), false),
        ("another alg of its kind", &RSA, json!({ "alg": "RS512" }), false),
        ("an alg with other padding", &RSA, json!({ "alg": "PS256" }), false),
        ("an alg that is for encryption", &RSA, json!({ "alg": "RSA-OAEP" }), false),
        ("an alg of another kind", &ec, json!({ "alg": "RS256" }), false),
        ("an alg of secrets", &ec, json!({ "alg": "HS256" }), false),
        ("an alg nobody knows", &ed, json!({ "alg": "XY1" }), false),
        ("another curve", &p384, json!({}), false),
        ("the wrong curve", &ec, json!({ "crv": "P-384" }), false),
        ("a curve of another kind", &ed, json!({ "crv": "P-256" }), false),
        ("another kty", &ed, json!({ "kty": "EC" }), false),
        ("a short point", &ec, json!({ "x": "AAAA" }), false),
        ("a short modulus", &RSA, json!({ "n": "AQAB" }), false),
        ("a modulus of zeros", &RSA, json!({ "n": "A".repeat(342) }), false),
        ("no base64", &ed, json!({ "x": "?" }), false),
        ("a member of another type", &ed, json!({ "use": 7 }), false),
    ];
    for (what, pair, members, holds) in table {
        let said = joined(pair.jwk(members.clone()), json!({ "kid": "one" }));
        let keys = [said, ec.jwk(json!({ "kid": "good" }))];
        let set = KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        assert_eq!(set.len(), if *holds { 2 } else { 1 }, "{what}");
        let issuer = Endpoint::with(&keys).await;
        let (hub, _) = issuer.hub(|_| {});
        let answer = hub.identify(Some(&pair.token(Some("one"), json!({})))).await;
        assert_eq!(code(answer), (!holds).then_some(JwtInvalid), "{what}");
        // The rest of the set is used all the same.
        assert_eq!(code(hub.identify(Some(&ec.token(Some("good"), json!({})))).await), None, "{what}");
    }
}

#[tokio::test]
async fn keys_of_no_known_kind_do_not_stand_in_the_way() {
    let ed = Pair::new(Algorithm::EdDSA);
    let secret = super::keys::base64url(SECRET.as_bytes());
    let strange = [
        json!({ "kty": "oct", "k": secret, "kid": "oct", "alg": "HS256" }),
        json!({ "kty": "AKP", "kid": "new", "alg": "ML-DSA-44" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "AAAA" }),
        json!({ "kty": 7, "kid": 7 }),
        json!({}),
        json!([]),
        json!("key"),
        json!(null),
    ];
    let issuer = Endpoint::with(&[&strange[..], &[ed.jwk(json!({ "kid": "ed" }))]].concat()).await;
    let (hub, _) = issuer.hub(|_| {});
    assert_eq!(code(hub.identify(Some(&ed.token(Some("ed"), json!({})))).await), None);
    // A secret that stands in a public set is none.
    let header = json!({ "alg": "HS256", "kid": "oct" });
    let known =
        forged(&header, &claims(json!({})), &EncodingKey::from_secret(SECRET.as_bytes()), Algorithm::HS256);
    assert_eq!(code(hub.identify(Some(&known)).await), Some(JwtInvalid));
}

#[tokio::test]
async fn without_a_kid_every_key_that_fits_is_tried() {
    let pairs = [(); 3].map(|()| Pair::new(Algorithm::ES256));
    let other = Pair::new(Algorithm::EdDSA);
    let keys = [
        RSA.jwk(json!({ "kid": "rsa" })),
        pairs[0].jwk(json!({ "kid": "same" })),
        pairs[1].jwk(json!({ "kid": "same" })),
        pairs[2].jwk(json!({})),
    ];
    let issuer = Endpoint::with(&keys).await;
    let (hub, _) = issuer.hub(|_| {});
    for pair in &pairs {
        assert_eq!(code(hub.identify(Some(&pair.token(None, json!({})))).await), None);
    }
    assert_eq!(issuer.requests(), 1);
    for (pair, expected) in [(&pairs[0], None), (&pairs[1], None), (&pairs[2], Some(JwtInvalid))] {
        assert_eq!(code(hub.identify(Some(&pair.token(Some("same"), json!({})))).await), expected);
    }
    assert_eq!(code(hub.identify(Some(&other.token(None, json!({})))).await), Some(JwtInvalid));
}
