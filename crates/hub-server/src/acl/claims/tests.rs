//! What tokens carry, and what is refused.
#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

fn read(claims: &Value) -> Result<Policy> {
    Policy::from_claims(claims.as_object().unwrap())
}

#[track_caller]
fn gives(claims: &Value, expected: &[&str]) {
    let policy = read(claims).unwrap_or_else(|error| panic!("{error}: {claims}"));
    let rules: Vec<String> = policy.rules().iter().map(ToString::to_string).collect();
    assert_eq!(rules, expected, "{claims}");
}

#[track_caller]
fn refused(claims: &Value, expected: &str) {
    let error = read(claims).expect_err(&claims.to_string());
    assert_eq!(error.code, Code::JwtInvalid);
    assert!(error.msg.contains(expected), "{expected:?} is not in {:?}", error.msg);
}

#[test]
fn scopes_become_rules_in_their_order() {
    gives(
        &json!({"scopes": ["publish:heartbeat.*", "subscribe:process.**", "admin:**", "*:a", "publish", "*"]}),
        &[
            r#"(allow publish "heartbeat.*")"#,
            r#"(allow subscribe "process.**")"#,
            r#"(allow admin "**")"#,
            r#"(allow * "a")"#,
            r#"(allow publish "**")"#,
            r#"(allow * "**")"#,
        ],
    );
    let scope = json!({"scope": "  subscribe:a\tadmin:b ", "scopes": ["publish:c"]});
    gives(&scope, &[r#"(allow publish "c")"#, r#"(allow subscribe "a")"#, r#"(allow admin "b")"#]);
}

#[test]
fn a_token_without_rules_may_do_nothing() {
    for claims in [
        json!({}),
        json!({"sub": "a"}),
        json!({"scopes": []}),
        json!({"scope": ""}),
        json!({"policy": {"rules": []}}),
        json!({"policy": null, "scopes": null, "scope": null}),
    ] {
        gives(&claims, &[]);
    }
}

#[test]
fn scopes_of_other_systems_are_passed_over() {
    gives(
        &json!({"scope": "openid profile read:users Publish:a PUBLISH publishes:a :a https://x/y publish:a"}),
        &[r#"(allow publish "a")"#],
    );
}

#[test]
fn a_scope_of_the_hub_whose_pattern_is_none_is_refused() {
    refused(&json!({"scope": "publish:"}), r#"scope "publish:" has an empty pattern; write "publish""#);
    refused(&json!({"scopes": ["subscribe:a", "subscribe:a..b"]}), r#"the token's scopes: pattern "a..b""#);
    refused(&json!({"scopes": ["publish:a:b"]}), "a:b");
    refused(&json!({"scopes": ["publish:a b"]}), "a b");
    refused(&json!({"scopes": [format!("publish:{}", "a".repeat(401))]}), "401 bytes");
    refused(&json!({"scopes": "publish:a"}), "the token's scopes: they are not a list of strings");
    refused(&json!({"scopes": [1]}), "not a list of strings");
    refused(&json!({"scope": ["publish:a"]}), "the token's scope: it is not a string");
}

#[test]
fn a_policy_counts_before_scopes() {
    gives(
        &json!({"policy": {"rules": [
            {"effect": "deny", "action": "subscribe", "topics": ["a", "b.*"], "groups": ["ops", "*"]},
            {"effect": "allow", "action": "*", "topics": ["**"], "groups": null},
            {"effect": "allow", "action": ["admin", "publish", "publish"], "topics": []},
        ]}, "scopes": ["admin:**"], "scope": 7}),
        &[
            r#"(deny subscribe "a" "b.*" :groups ["ops" "*"])"#,
            r#"(allow * "**")"#,
            "(allow [publish admin])",
        ],
    );
}

#[test]
fn a_rule_that_is_misspelt_is_refused_with_its_place() {
    let good = json!({"effect": "allow", "action": "subscribe", "topics": ["a"]});
    for (field, value, expected) in [
        ("effect", json!("permit"), "rule 2: unknown variant `permit`"),
        ("effect", json!("Deny"), "unknown variant `Deny`"),
        ("action", json!("read"), r#"rule 2: action "read" is none of publish, subscribe, admin, *"#),
        ("action", json!(["publish", "read"]), r#"action "read""#),
        ("action", json!([]), "no action is named"),
        ("action", json!(1), "action: a string or a list of strings"),
        ("topics", json!(["a", "b..c"]), r#"rule 2: pattern "b..c""#),
        ("topics", json!([""]), "segment \"\""),
        ("topics", json!("a"), "invalid type"),
        ("groups", json!([]), "groups is empty"),
        ("groups", json!("ops"), "invalid type"),
        ("groups", json!(["ops-*"]), "\"*\" alone stands for any group"),
        ("groups", json!(["ops team"]), "group name \"ops team\""),
        // Misspelt, it would give the rule to every reader.
        ("group", json!(["ops"]), "rule 2: unknown field `group`"),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        refused(&json!({"policy": {"rules": [good, bad]}}), expected);
    }
    let groups = json!({"effect": "deny", "action": "publish", "topics": ["a"], "groups": ["ops"]});
    refused(&json!({"policy": {"rules": [groups]}}), "rule 1: groups go with subscribe only");
    for field in ["effect", "action", "topics"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(field);
        refused(&json!({"policy": {"rules": [bad]}}), &format!("missing field `{field}`"));
    }
    refused(&json!({"policy": {"rule": []}}), "the token's policy: unknown field `rule`");
    refused(&json!({"policy": []}), "the token's policy: ");
    refused(&json!({"policy": "all"}), "the token's policy: ");
    refused(&json!({"policy": {"rules": ["all"]}}), "rule 1: ");
}

#[test]
fn a_token_carries_so_much_and_no_more() {
    let rule = |topics: usize, groups: usize| {
        let mut rule = json!({"effect": "allow", "action": "subscribe", "topics": vec!["a"; topics]});
        if groups > 0 {
            rule["groups"] = json!(vec!["g"; groups]);
        }
        rule
    };
    let rules = |rules: Vec<Value>| json!({"policy": {"rules": rules}});
    assert_eq!(read(&rules(vec![rule(1, 1); 1000])).unwrap().rules().len(), 1000);
    refused(&rules(vec![rule(0, 0); 1001]), "1001 rules or more; a policy may have at most 1000");
    refused(&rules(vec![rule(500, 0), rule(501, 0)]), "1001 patterns or more");
    refused(&rules(vec![rule(1, 500), rule(1, 501)]), "1001 groups or more");
    assert_eq!(read(&json!({"scopes": vec!["publish:a"; 1000]})).unwrap().rules().len(), 1000);
    // Those of others count: somebody has to look at them.
    refused(&json!({"scopes": vec!["openid"; 1001]}), "1001 scopes or more");
    refused(&json!({"scope": "a ".repeat(1001)}), "1001 scopes or more");
}

#[test]
fn an_error_does_not_repeat_a_long_value() {
    let long = "x".repeat(100_000);
    let rule = json!({"effect": "allow", "action": "publish", "topics": ["a"]});
    for (field, value) in [
        ("effect", json!(long)),
        ("action", json!(long)),
        ("topics", json!(long)),
        ("topics", json!([long])),
        ("groups", json!([long])),
        (long.as_str(), json!(1)),
    ] {
        let mut bad = rule.clone();
        bad[field] = value;
        let error = read(&json!({"policy": {"rules": [bad]}})).unwrap_err();
        assert!(error.msg.len() < 300, "{}", error.msg);
    }
}
