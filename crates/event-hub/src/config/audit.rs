//! `[audit]`: where the audit log goes.

use super::Found;
use super::mistakes::Mistakes;
use super::value::Value;
use std::fmt;
use std::path::PathBuf;

/// What `[audit]` says.
pub struct Audit {
    /// Where lines go.
    pub log: AuditLog,
    /// Lines per second.
    pub rate: u32,
}

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditLog {
    /// Nowhere.
    Off,
    /// Standard error, between the lines of the log.
    Stderr,
    /// Standard output.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

impl fmt::Display for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Stderr => f.write_str("stderr"),
            Self::Stdout => f.write_str("stdout"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// What was found, and by default a log for a hub that others can reach.
pub(super) fn read(found: &Found, loopback: bool, mistakes: &mut Mistakes) -> Audit {
    let log = match found.values.get("audit.log") {
        Some((Value::Path(path), _)) => AuditLog::File(path.clone()),
        Some((Value::Text(word), _)) if word == "stderr" => AuditLog::Stderr,
        Some((Value::Text(word), _)) if word == "stdout" => AuditLog::Stdout,
        None if !loopback => AuditLog::Stderr,
        _ => AuditLog::Off,
    };
    // The rest is seen when it is opened; to open it here would make a file that nobody asked for.
    if let AuditLog::File(path) = &log {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let wrong = match parent {
            _ if path.is_dir() => Some("is a directory"),
            Some(parent) if !parent.is_dir() => Some("is in a directory that does not exist"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            let text = format!(
                "audit.log is {}, which {wrong}; it must be \"off\", \"stderr\", \"stdout\", or the path of a file in a \
                 directory that exists",
                path.display()
            );
            mistakes.add(found.origin("audit.log"), text);
        }
    }
    Audit { log, rate: found.get("audit.rate").unwrap_or(100) }
}
