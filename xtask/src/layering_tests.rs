//! The layering check against the real `deny.toml` and lock files that someone might bring about.

use super::*;

const DENY_TOML: &str = include_str!("../../deny.toml");

/// A lock file: `name` or `name version`, a `*` for third-party packages, and what it depends on.
fn lock(packages: &[(&str, &[&str])]) -> String {
    let mut text = String::from("version = 4\n");
    for (name, dependencies) in packages {
        let (name, third_party) = name.strip_suffix('*').map_or((*name, false), |name| (name, true));
        let (name, version) = name.split_once(' ').unwrap_or((name, "1.0.0"));
        let source = if third_party { "source = \"registry\"\n" } else { "" };
        text += &format!(
            "[[package]]\nname = {name:?}\nversion = {version:?}\n{source}dependencies = {dependencies:?}\n"
        );
    }
    text
}

/// What is wrong with `packages`, without the reasons.
fn wrong(packages: &[(&str, &[&str])]) -> Vec<String> {
    let found = violations(DENY_TOML, &lock(packages)).expect("both files can be read");
    found.iter().filter_map(|sentence| sentence.split_once(": ")).map(|(path, _)| path.to_owned()).collect()
}

#[test]
fn the_planned_crates_fit() {
    let fine: &[(&str, &[&str])] = &[
        ("hub-proto", &["bytes"]),
        ("hub-core", &["hub-proto", "tokio", "tokio-util"]),
        ("hub-client", &["hub-proto", "tokio"]),
        ("hub-store-embedded", &["hub-core", "hub-proto"]),
        ("hub-store-mongo", &["hub-core", "hub-proto", "tokio"]),
        ("hub-outbox-sql", &["hub-core", "hub-proto", "tokio"]),
        ("hub-server", &["hub-client", "hub-core", "hub-proto", "tokio"]),
        ("event-hub", &["hub-core", "hub-outbox-sql", "hub-server", "hub-store-embedded", "hub-store-mongo"]),
        ("hub-bench", &["hub-client", "hub-core", "hub-server", "hub-store-embedded"]),
        ("bytes*", &[]),
        ("tokio*", &["bytes"]),
        ("tokio-util*", &["bytes", "tokio"]),
    ];
    assert_eq!(wrong(fine), Vec::<String>::new());
}

#[test]
fn a_dependency_against_the_direction_is_caught() {
    assert_eq!(wrong(&[("hub-client", &["hub-core"]), ("hub-core", &[])]), ["hub-client -> hub-core"]);
    assert_eq!(wrong(&[("hub-core", &["hub-server"]), ("hub-server", &[])]), ["hub-core -> hub-server"]);
    assert_eq!(wrong(&[("hub-core", &["hub-client"]), ("hub-client", &[])]), ["hub-core -> hub-client"]);
    let by_name = wrong(&[("hub-server", &["hub-store-mongo"]), ("hub-store-mongo", &[])]);
    assert_eq!(by_name, ["hub-server -> hub-store-mongo"]);
}

#[test]
fn proto_reaches_no_runtime_even_by_a_detour() {
    assert_eq!(wrong(&[("hub-proto", &["tokio"]), ("tokio*", &[])]), ["hub-proto -> tokio"]);
    let detour = wrong(&[
        ("hub-proto", &["handy"]),
        ("handy*", &["tokio-util"]),
        ("tokio-util*", &["tokio"]),
        ("tokio*", &[]),
    ]);
    assert_eq!(detour, ["hub-proto -> handy -> tokio-util -> tokio"]);
}

#[test]
fn versions_of_one_crate_are_told_apart() {
    let packages: &[(&str, &[&str])] = &[
        ("hub-proto", &["handy 2.0.0"]),
        ("handy 1.0.0*", &["tokio-util"]),
        ("handy 2.0.0*", &[]),
        ("tokio-util*", &["tokio"]),
        ("tokio*", &[]),
    ];
    assert_eq!(wrong(packages), Vec::<String>::new());
}

#[test]
fn cycles_end() {
    let packages: &[(&str, &[&str])] =
        &[("hub-proto", &["a"]), ("a*", &["b"]), ("b*", &["a"]), ("tokio*", &[])];
    assert_eq!(wrong(packages), Vec::<String>::new());
}

#[test]
fn a_table_without_reasons_is_refused() {
    let error =
        violations("[bans]\ndeny = [{ crate = \"tokio\" }]", &lock(&[])).expect_err("there is no reason");
    assert_eq!(error.to_string(), "the ban of tokio gives no reason");
    assert!(violations("[bans]", &lock(&[])).is_err());
}
