//! Opening a page in the browser of the person who runs the program.

use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What opens a page in the browser that the user has chosen.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
/// A file that leads to a link; the doctor knows the name, too.
const FILE: &str = "open-dashboard.html";

/// Opens what the program of the system takes: an address, or a file. Fails if that program is not there, or says that it failed.
pub fn open(what: &str) -> Result<()> {
    let mut command = Command::new(OPENER);
    command.arg(what).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It may become the browser: a Ctrl-C that ends the hub must not end that.
    command.process_group(0);
    let status = command.status().with_context(|| format!("{OPENER} cannot be started"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{OPENER} failed ({status})"),
    }
}

/// Writes a file that leads to a link with a token, for this user only. The arguments of a process can be read by every user of the
/// machine, so a link with a token is none.
pub fn file_leading_to(link: &str, directory: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(directory.join(FILE))?;
    let write = || -> io::Result<()> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(page(link).as_bytes())
    };
    write().with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}

/// Addresses of the hub and its tokens have no character that means anything in HTML.
fn page(link: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0; url={link}\">\n<title>event-hub</title>\n\
         <p><a href=\"{link}\">Open the dashboard</a></p>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_its_owners_and_replaces_what_was_there() {
        let place = tempfile::tempdir().expect("a directory");
        let (secret, path) = (place.path().join("secret"), place.path().join(FILE));
        std::fs::write(&secret, "kept").expect("write");
        std::os::unix::fs::symlink(&secret, &path).expect("symlink");
        let link = "http://127.0.0.1:8082/#token=abc";
        assert_eq!(file_leading_to(link, place.path()).expect("it is written"), path);
        let about = std::fs::symlink_metadata(&path).expect("it is there");
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o600);
        assert_eq!(std::fs::read_to_string(&secret).expect("it is there"), "kept");
        assert!(std::fs::read_to_string(&path).expect("it is there").contains(&format!("url={link}\"")));
        assert!(file_leading_to(link, &place.path().join("nowhere")).is_err());
    }
}
