//! Packages of Debian, unpacked and not installed.
//!
//! A package comes from where this machine gets its own Debian packages, so a mirror that is set up here is used, and of the
//! release that is named, which need not be the machine's. Its hash is pinned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use aws_lc_rs::digest;

use crate::download;

/// One package.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// The release of Debian that has it.
    pub release: &'static str,
    /// Its name and version, as apt-get takes them.
    pub name: &'static str,
    /// SHA-256 of its archive.
    pub sha256: &'static str,
    /// Why it is needed, and what to do where it cannot be gotten.
    pub hint: &'static str,
}

/// OpenSSL 1.1, for systems that have left it behind.
const LIBSSL: Package = Package {
    release: "bullseye",
    name: "libssl1.1=1.1.1w-0+deb11u1",
    sha256: "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7",
    hint: "MongoDB's package needs OpenSSL 1.1, which this system lacks and which is taken from Debian 11 with apt-get and \
           dpkg-deb; or install MongoDB itself and put mongod and mongos on PATH",
};
const LIBRARIES: [&str; 2] = ["libssl.so.1.1", "libcrypto.so.1.1"];

/// Puts the libraries of OpenSSL 1.1 into the directory `lib`, which it makes. `work` is for what is needed on the way.
pub fn libssl(work: &Path, lib: &Path) -> Result<()> {
    let unpacked = LIBSSL.unpack(work)?;
    fs::create_dir(lib)?;
    for name in LIBRARIES {
        fs::copy(unpacked.join("usr/lib/x86_64-linux-gnu").join(name), lib.join(name))
            .with_context(|| format!("{name} is not where Debian puts it"))?;
    }
    Ok(())
}

/// Unpacks the newest versions of `packages` below `root`, with everything that they need and this machine has not installed. They come from the
/// machine's own package sources, and only if apt finds them signed. `work` is a directory of the caller's for what is needed on the way.
pub fn unpack_with_needs(packages: &[&str], work: &Path, root: &Path, hint: &str) -> Result<()> {
    let apt = work.join("apt");
    let get = |words: &[&str]| {
        let mut command = apt_get(&apt, &[("Dir::State::lists", "lists"), ("Dir::Cache", "cache")]);
        // Said although it is the default: a machine may have set them otherwise.
        command
            .args(["-oAPT::Get::AllowUnauthenticated=false", "-oAcquire::AllowInsecureRepositories=false"]);
        // Nothing of the system is changed, so its lock is not needed, which is root's.
        download::run(command.arg("-oDebug::NoLocking=1").args(words), hint)
    };
    for dir in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(dir))?;
    }
    get(&["update"])?;
    let download = ["install", "--download-only", "--no-install-recommends", "--yes"];
    get(&[&download, packages].concat())?;
    for entry in fs::read_dir(apt.join("cache/archives"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            download::run(Command::new("dpkg-deb").arg("-x").arg(&path).arg(root), hint)?;
        }
    }
    Ok(())
}

/// `apt-get` with directories of its own below `apt`.
fn apt_get(apt: &Path, dirs: &[(&str, &str)]) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-qq");
    for (option, dir) in dirs {
        command.arg(format!("-o{option}={}", apt.join(dir).display()));
    }
    // Its own sandbox user cannot read a directory of ours.
    command.arg("-oAPT::Sandbox::User=root").current_dir(apt);
    command
}

impl Package {
    /// Gets the package and unpacks it; answers the directory that stands for the root of the file system. `work` is an empty
    /// directory of the caller's.
    pub fn unpack(&self, work: &Path) -> Result<PathBuf> {
        let apt = work.join("apt");
        for dir in ["sources", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(dir))?;
        }
        fs::write(apt.join("sources/one.sources"), self.source(&self.machine_sources()?)?)?;
        let get = |words: &[&str]| {
            let dirs = [
                ("Dir::Etc::sourceparts", "sources"),
                ("Dir::State::lists", "lists"),
                ("Dir::Cache", "cache"),
            ];
            let mut command = apt_get(&apt, &dirs);
            download::run(command.arg("-oDir::Etc::sourcelist=/dev/null").args(words), self.hint)
        };
        get(&["update"])?;
        get(&["download", self.name])?;
        let package = download::only_file_with(&apt, "deb")?;
        download::check(&package, &digest::SHA256, self.sha256).context(self.hint)?;
        let unpacked = apt.join("unpacked");
        download::run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked), self.hint)?;
        Ok(unpacked)
    }

    /// The texts of this machine's lists of package sources.
    fn machine_sources(&self) -> Result<Vec<String>> {
        let mut texts = Vec::new();
        for path in ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"] {
            texts.extend(fs::read_to_string(path).ok());
        }
        if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
            let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            texts.extend(paths.iter().filter_map(|path| fs::read_to_string(path).ok()));
        }
        if texts.is_empty() {
            bail!("this machine has no package sources in /etc/apt; {}", self.hint);
        }
        Ok(texts)
    }

    /// The first source of Debian itself among `texts`, for the package's release instead of the machine's own.
    fn source(&self, texts: &[String]) -> Result<String> {
        let stanzas = texts.iter().flat_map(|text| text.split("\n\n"));
        let lines = texts.iter().flat_map(|text| text.lines());
        let found = stanzas.filter_map(from_stanza).next().or_else(|| lines.filter_map(from_line).next());
        let (uri, key) = found.with_context(|| {
            format!("this machine's package sources name no Debian archive; {}", self.hint)
        })?;
        let key = key.map(|path| format!("Signed-By: {path}\n")).unwrap_or_default();
        Ok(format!("Types: deb\nURIs: {uri}\nSuites: {}\nComponents: main\n{key}", self.release))
    }
}

/// From the format of `.sources` files: `Name: value` lines, a paragraph per source. The address, and the key that it is
/// signed by.
fn from_stanza(stanza: &str) -> Option<(&str, Option<&str>)> {
    let value = |name: &str| {
        stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let uri = value("URIs")?.split_whitespace().find(|uri| is_debian(uri))?;
    Some((uri, value("Signed-By").filter(|path| path.starts_with('/'))))
}

/// From the format of `.list` files: `deb [options] uri suite component…`.
fn from_line(line: &str) -> Option<(&str, Option<&str>)> {
    let mut rest = line.trim().strip_prefix("deb ")?.trim_start();
    let mut key = None;
    if let Some(bracketed) = rest.strip_prefix('[') {
        let (options, after) = bracketed.split_once(']')?;
        key = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        rest = after;
    }
    let uri = rest.split_whitespace().next().filter(|uri| is_debian(uri))?;
    Some((uri, key))
}

/// Debian's archive is in a directory `debian` on every mirror.
fn is_debian(uri: &str) -> bool {
    uri.trim_end_matches('/').ends_with("/debian")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const WANTED: &str = "Types: deb\nURIs: http://mirror.test/debian\nSuites: bullseye\nComponents: main\n\
                          Signed-By: /keys/debian.gpg\n";

    #[test]
    fn the_machines_mirror_is_asked_for_the_old_release() {
        let text = "Types: deb\nURIs: http://mirror.test/debian-security\nSuites: bookworm-security\n\n\
                    # a comment\nTypes: deb\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n\
                    Components: main\nSigned-By: /keys/debian.gpg\n";
        assert_eq!(LIBSSL.source(&[text.to_owned()]).unwrap(), WANTED);
        let text = "# deb http://no.test/debian x main\n\
                    deb [arch=amd64 signed-by=/keys/debian.gpg] http://mirror.test/debian bookworm main\n";
        assert_eq!(LIBSSL.source(&[text.to_owned()]).unwrap(), WANTED);
    }

    #[test]
    fn sources_of_other_systems_are_refused_with_what_to_do() {
        let text = "deb http://mirror.test/ubuntu noble main\n".to_owned();
        let error = LIBSSL.source(&[text]).unwrap_err().to_string();
        assert!(error.contains("put mongod and mongos on PATH"), "{error}");
    }
}
