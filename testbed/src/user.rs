//! Somebody to run as: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::geteuid;

/// Users who own nothing that matters, best first. PostgreSQL wants one that the system knows by name.
const NAMES: [&str; 2] = ["nobody", "daemon"];

/// A user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

impl User {
    /// Somebody who is not root, if we are; otherwise nobody needs to be found.
    pub fn other_than_root() -> Result<Option<Self>> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let known = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let found = NAMES.iter().filter_map(|name| named(name, &known));
        // In a container some of the numbers may not exist.
        let found = found.filter(|user| user.can_enter(Path::new("/"))).map(Some).next();
        found.with_context(|| {
            format!(
                "PostgreSQL does not run as root, and root cannot become any of {NAMES:?} here: run as another user"
            )
        })
    }

    /// Whether this user may go into a directory.
    pub fn can_enter(self, dir: &Path) -> bool {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#"cd -- "$1""#, "testbed-enter"]).arg(dir).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.uid(self.uid).gid(self.gid).status().is_ok_and(|status| status.success())
    }
}

/// The user `name` in the text of `/etc/passwd`.
fn named(name: &str, known: &str) -> Option<User> {
    known.lines().find_map(|line| {
        let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        // Whatever it is called, root is what we want to get away from.
        (uid != 0).then_some(User { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name_and_is_not_root() {
        let known = "root:x:0:0:root:/root:/bin/sh\nnobody2:x:7:7::/:/bin/sh\nnobody:x:65534:65533:n:/:/bin/sh\nx:x:0:1::/:\n";
        assert_eq!(named("nobody", known), Some(User { uid: 65534, gid: 65533 }));
        assert_eq!(named("daemon", known), None);
        assert_eq!(named("x", known), None);
    }
}
