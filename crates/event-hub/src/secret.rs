//! The development secret: made once, kept in the data directory, for this machine only.

use anyhow::{Context, Result, bail};
use hub_server::auth::Secret;
use hub_server::auth::mint::{Claims, mint};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Its file in the data directory; the doctor knows the name, too.
const NAME: &str = "dev-secret";
/// Its file while it is written; the doctor knows this end of a name.
const DRAFT: &str = "dev-secret.tmp";
/// It is made of so many random bytes, written as hex.
const BYTES: usize = 32;
/// How long the token that `serve` prints holds.
const TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The secret of a data directory; `None` if it has none.
pub fn load(data: &Path) -> Result<Option<Secret>> {
    let path = data.join(NAME);
    let shown = path.display();
    let nofollow = OFlags::NOFOLLOW.bits() as i32;
    let mut file = match OpenOptions::new().read(true).custom_flags(nofollow).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
    };
    let about = file.metadata().with_context(|| format!("{shown} cannot be read"))?;
    let mode = about.mode() & 0o777;
    if !about.is_file() {
        bail!("{shown} is not a plain file; move it away, and a new one is made at the next start");
    }
    if about.uid() != rustix::process::geteuid().as_raw() {
        bail!(
            "{shown} belongs to another user, who can make tokens with it; move it away, and a new one is made at \
             the next start"
        );
    }
    if mode & 0o077 != 0 {
        bail!(
            "{shown} can be read by others (mode {mode:04o}), who can make tokens with it; remove it, and a new one \
             is made at the next start, or `chmod 600` it if nobody has read it"
        );
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(4096).read_to_string(&mut text);
    read.with_context(|| format!("{shown} cannot be read"))?;
    let secret = text.trim_end();
    if secret.len() < 2 * BYTES {
        bail!("{shown} is too short to be a secret; remove it, and a new one is made at the next start");
    }
    Ok(Some(Secret::new(secret)))
}

/// The same, made now if there is none. Hubs on MongoDB may share a data directory, so one of them makes it.
pub fn load_or_make(data: &Path) -> Result<Secret> {
    if let Some(secret) = load(data)? {
        return Ok(secret);
    }
    let directory = File::open(data).with_context(|| format!("{} cannot be read", data.display()))?;
    // The directory's own lock, which nobody has for longer than this takes; the store's is on a file.
    directory.lock().with_context(|| format!("{} cannot be locked", data.display()))?;
    if let Some(secret) = load(data)? {
        return Ok(secret);
    }
    let secret = random().context("no random bytes for a development secret")?;
    let path = data.join(NAME);
    let made = || -> io::Result<()> {
        // Whole or not at all: a start that is killed here must not leave half a secret, which the next would refuse.
        let draft = data.join(DRAFT);
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(secret.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        // This replaces nothing, whatever somebody may have put there meanwhile.
        std::fs::hard_link(&draft, &path)?;
        std::fs::remove_file(&draft)?;
        directory.sync_all()
    };
    made().with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(Secret::new(secret))
}

fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A token that may do everything, for whoever runs this machine.
pub fn developer_token(secret: &Secret, audience: &[String], issuer: Option<&str>) -> String {
    let scopes = ["publish:**", "subscribe:**", "admin:**"].map(str::to_owned).to_vec();
    mint(
        secret,
        &Claims {
            sub: Some("developer".into()),
            scopes,
            policy: None,
            aud: audience.to_vec(),
            iss: issuer.map(str::to_owned),
            ttl: Some(TTL),
            jti: Some(crate::commands::token::new_jti()),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_made_once_and_only_for_its_owner() {
        let data = tempfile::tempdir().expect("a directory");
        assert!(load(data.path()).expect("none is fine").is_none());
        let made = load_or_make(data.path()).expect("it is made");
        assert_eq!(made.expose().len(), 64);
        let about = std::fs::metadata(data.path().join(NAME)).expect("it is there");
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        assert_eq!(load_or_make(data.path()).expect("it is kept"), made);
        assert_eq!(std::fs::read_dir(data.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn those_who_share_a_directory_make_one_together() {
        let data = tempfile::tempdir().expect("a directory");
        let make = || load_or_make(data.path()).expect("it is made");
        let made: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            makers.into_iter().map(|maker| maker.join().expect("no panic")).collect()
        });
        assert!(made.iter().all(|secret| *secret == made[0]));
        assert_eq!(std::fs::read_dir(data.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn half_a_secret_of_a_start_that_was_killed_is_in_nobodys_way() {
        let data = tempfile::tempdir().expect("a directory");
        std::fs::write(data.path().join(DRAFT), "half").expect("write");
        let made = load_or_make(data.path()).expect("it is made");
        assert_eq!(made.expose().len(), 64);
        assert!(!data.path().join(DRAFT).exists());
    }

    #[test]
    fn one_that_others_can_read_or_that_is_a_link_is_refused() {
        let data = tempfile::tempdir().expect("a directory");
        let path = data.path().join(NAME);
        load_or_make(data.path()).expect("it is made");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).expect("chmod");
        let error = load(data.path()).expect_err("others can read it").to_string();
        assert!(error.contains("mode 0640") && error.contains("remove it"), "{error}");
        std::fs::rename(&path, data.path().join("elsewhere")).expect("rename");
        std::os::unix::fs::symlink("elsewhere", &path).expect("symlink");
        assert!(load(data.path()).is_err());
        assert!(load_or_make(data.path()).is_err());
        std::fs::remove_file(&path).expect("remove");
        std::fs::write(&path, "").expect("write");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
        let error = load_or_make(data.path()).expect_err("it is empty").to_string();
        assert!(error.contains("too short"), "{error}");
    }
}
