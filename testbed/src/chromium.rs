//! A real Chromium for the tests of the dashboard and the TypeScript SDK.
//!
//! It is the machine's own where `chromium` is on `PATH`. Otherwise Debian's package is unpacked into the cache, with the packages it needs
//! that this machine lacks, and nothing is installed. Its version is whatever Debian's security updates have made it, so no hash of it can be
//! pinned: apt checks the signatures of the package lists, and the packages against those.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::apt;
use crate::cache;
use crate::download;
use crate::program::{Program, find_on_path};

/// The environment variable with the path of the program.
pub const VARIABLE: &str = "EVENT_HUB_TEST_CHROMIUM";

/// Without a font, pages have boxes for letters.
const PACKAGES: [&str; 2] = ["chromium", "fonts-liberation"];
const HINT: &str = "Chromium is taken from Debian with apt-get and dpkg-deb; or install it and put chromium on PATH, or set \
                    EVENT_HUB_TEST_CHROMIUM to its path";
/// How directories begin in which a download is not finished.
const PART: &str = "chromium-part-";

/// Where it is: that of the environment variable, the machine's own, or the one in the cache, which is gotten by a download of 125 MB, once.
/// Processes that get it at the same time wait for the first. Blocks.
pub fn get() -> Result<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    if let Some(path) = find_on_path("chromium") {
        return Ok(path);
    }
    let home = cache::dir()?.join("chromium");
    if !home.exists() {
        let lock = cache::lock_file(&cache::dir()?.join("chromium.lock"))?;
        lock.lock().context("cannot lock the cache")?;
        // Another process may have been faster.
        if !home.exists() {
            install(&home)?;
        }
    }
    Ok(home.join("chromium"))
}

/// The version and where it is, for a person.
pub fn describe() -> Result<String> {
    let path = get()?;
    let printed = version(&path).with_context(|| {
        format!("{} does not run; if it is in the cache, remove its directory", path.display())
    })?;
    Ok(format!("{}, {}", printed.trim(), path.display()))
}

fn version(path: &Path) -> Result<String> {
    Program { path: path.to_owned(), libraries: None, user: None }.version()
}

/// Puts the packages at `home`: all of it, or nothing. Only the process that has the cache's lock may do so.
fn install(home: &Path) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "{HINT}");
    eprintln!("testbed: getting Chromium (125 MB, once) into {}", home.display());
    let parent = home.parent().context("the cache is a directory in another one")?;
    download::remove_parts(parent, PART);
    let work = tempfile::Builder::new().prefix(PART).tempdir_in(parent);
    let work = work.with_context(|| format!("cannot make a directory in {}", parent.display()))?;
    let ready = work.path().join("ready");
    let root = ready.join("root");
    fs::create_dir_all(&root)?;
    apt::unpack_with_needs(&PACKAGES, work.path(), &root, HINT)?;
    fs::write(ready.join("fonts.conf"), FONTS)?;
    fs::write(ready.join("chromium"), script(&root)?)?;
    download::make_executable(&ready.join("chromium"))?;
    version(&ready.join("chromium")).with_context(|| {
        format!("the packages were gotten but do not run here; as root, `apt-get install --no-install-recommends {}` helps", PACKAGES.join(" "))
    })?;
    fs::rename(&ready, home).with_context(|| format!("cannot move Chromium to {}", home.display()))
}

/// The fonts of the package, and the machine's own where it has any.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir prefix="relative">root/usr/share/fonts</dir>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
</fontconfig>
"#;

/// A program that runs the unpacked one with its libraries and fonts, wherever its directory is moved.
fn script(root: &Path) -> Result<String> {
    let libraries: Vec<String> = library_dirs(root)?.iter().map(|dir| format!("$home/root/{dir}")).collect();
    ensure!(!libraries.is_empty(), "no library is where Debian puts it; {HINT}");
    Ok(format!(
        "#!/bin/sh\nhome=$(dirname \"$(readlink -f \"$0\")\")\nexport LD_LIBRARY_PATH=\"{}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\n\
         export FONTCONFIG_FILE=\"$home/fonts.conf\"\nexec \"$home/root/usr/lib/chromium/chromium\" \"$@\"\n",
        libraries.join(":")
    ))
}

/// Directories with libraries, relative to `root`: `usr/lib/x86_64-linux-gnu` and such, and one level below for the private ones of a package.
fn library_dirs(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for base in ["usr/lib", "lib"] {
        for triplet in names(&root.join(base)).into_iter().filter(|name| name.ends_with("-linux-gnu")) {
            let dir = format!("{base}/{triplet}");
            let below = names(&root.join(&dir)).into_iter().map(|name| format!("{dir}/{name}"));
            let below: Vec<String> = below.filter(|dir| has_libraries(&root.join(dir))).collect();
            found.push(dir);
            found.extend(below);
        }
    }
    Ok(found)
}

fn has_libraries(dir: &Path) -> bool {
    names(dir).iter().any(|name| name.contains(".so"))
}

/// What is in a directory, in order; nothing if it is none.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn private_directories_of_libraries_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "usr/lib/x86_64-linux-gnu/pulseaudio/libpulsecommon.so",
            "usr/lib/x86_64-linux-gnu/gtk/notes",
            "usr/lib/chromium/chromium",
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = library_dirs(dir.path()).unwrap();
        assert_eq!(found, ["usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/pulseaudio"]);
        assert!(script(dir.path()).unwrap().contains("$home/root/usr/lib/x86_64-linux-gnu/pulseaudio"));
    }

    #[test]
    fn a_directory_without_libraries_makes_no_program() {
        let dir = tempfile::tempdir().unwrap();
        assert!(script(dir.path()).unwrap_err().to_string().contains("put chromium on PATH"));
    }
}
