//! The direction of dependencies, checked without any tool.
//!
//! The table is `bans.deny` in `deny.toml`, the one that cargo-deny reads: only `wrappers` may depend on `crate`. The graph
//! is `Cargo.lock`, which cargo brings up to date before this program starts. On top of what cargo-deny checks, a member of
//! the workspace may not reach a banned crate through third-party crates either.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use toml::{Table, Value};

/// "Only `wrappers` may depend on `krate`."
#[derive(Debug)]
struct Rule {
    krate: String,
    wrappers: BTreeSet<String>,
    reason: String,
}

/// A package of `Cargo.lock`.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    /// Ours: it has no source.
    member: bool,
    /// `name`, or `name version` where the lock file holds several versions.
    dependencies: Vec<String>,
}

/// Compares the lock file with the table in `deny_toml`; every violation is one sentence.
pub fn violations(deny_toml: &str, cargo_lock: &str) -> Result<BTreeSet<String>> {
    let rules = rules(deny_toml)?;
    let packages = packages(cargo_lock)?;
    let mut found = BTreeSet::new();
    for rule in &rules {
        for package in packages.iter().filter(|package| !rule.wrappers.contains(&package.name)) {
            let Some(path) = path_to(&packages, package, &rule.krate) else { continue };
            // A detour of a third-party crate is the business of whoever takes the last step.
            if path.len() == 2 || package.member {
                found.insert(format!("{}: {}", path.join(" -> "), rule.reason));
            }
        }
    }
    Ok(found)
}

fn rules(deny_toml: &str) -> Result<Vec<Rule>> {
    let config: Table = deny_toml.parse().context("deny.toml is not TOML")?;
    let deny = config.get("bans").and_then(|bans| bans.get("deny")).and_then(Value::as_array);
    deny.context("deny.toml has no list `bans.deny`")?.iter().map(rule).collect()
}

fn rule(entry: &Value) -> Result<Rule> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let krate =
        text("crate").with_context(|| format!("an entry of `bans.deny` names no crate: {entry:?}"))?;
    let wrappers = entry.get("wrappers").and_then(Value::as_array).into_iter().flatten();
    Ok(Rule {
        krate: krate.to_owned(),
        wrappers: wrappers.filter_map(Value::as_str).map(str::to_owned).collect(),
        reason: text("reason").with_context(|| format!("the ban of {krate} gives no reason"))?.to_owned(),
    })
}

fn packages(cargo_lock: &str) -> Result<Vec<Package>> {
    let lock: Table = cargo_lock.parse().context("Cargo.lock is not TOML")?;
    let packages = lock.get("package").and_then(Value::as_array).context("Cargo.lock lists no packages")?;
    packages.iter().map(package).collect()
}

fn package(entry: &Value) -> Result<Package> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let dependencies = entry.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    Ok(Package {
        name: text("name").context("a package in Cargo.lock has no name")?.to_owned(),
        version: text("version").context("a package in Cargo.lock has no version")?.to_owned(),
        member: text("source").is_none(),
        dependencies: dependencies.filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

/// The shortest way from `from` to a crate called `target`, as names. It goes through third-party crates only: a way through
/// another member is that member's doing, and judged there.
fn path_to(packages: &[Package], from: &Package, target: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<(&str, &str), &Package> = BTreeMap::new();
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(&package) = reached.get(next) {
        next += 1;
        for dependency in package.dependencies.iter().flat_map(|wanted| find(packages, wanted)) {
            if came_from.contains_key(&dependency.key()) || dependency.key() == from.key() {
                continue;
            }
            came_from.insert(dependency.key(), package);
            if dependency.name == target {
                return Some(names(&came_from, from, dependency));
            }
            if !dependency.member {
                reached.push(dependency);
            }
        }
    }
    None
}

fn names(came_from: &BTreeMap<(&str, &str), &Package>, from: &Package, to: &Package) -> Vec<String> {
    let mut path = vec![to.name.clone()];
    let mut at = to;
    while at.key() != from.key() {
        at = came_from[&at.key()];
        path.push(at.name.clone());
    }
    path.reverse();
    path
}

/// The packages meant by an entry of a `dependencies` list.
fn find<'a>(packages: &'a [Package], wanted: &str) -> impl Iterator<Item = &'a Package> {
    let mut words = wanted.split(' ').map(str::to_owned);
    let (name, version) = (words.next(), words.next());
    packages.iter().filter(move |package| {
        name.as_ref() == Some(&package.name)
            && version.as_ref().is_none_or(|version| *version == package.version)
    })
}

impl Package {
    fn key(&self) -> (&str, &str) {
        (&self.name, &self.version)
    }
}

#[cfg(test)]
#[path = "layering_tests.rs"]
mod tests;
