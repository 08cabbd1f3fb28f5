//! The audit log of `event-hub serve`.

use crate::hub::{Hub, Place, run_with};
use reqwest::Method;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asks with a token that nobody signed.
fn intrude(hub: &Hub) {
    assert_eq!(hub.ask(Method::GET, "topics", Some("nonsense"), "").0, 401);
}

#[test]
fn the_audit_log_is_a_file_of_its_owner_that_a_restart_appends_to() {
    let place = Place::new();
    let config = place.write("hub.toml", "[audit]\nlog = \"audit.log\"\n");
    for starts in 1..=2 {
        let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
        intrude(&hub);
        assert_eq!(hub.ask(Method::POST, "revoke", Some(hub.token()), "{\"sub\":\"eve\"}").0, 200);
        let token = hub.token().to_owned();
        let log = hub.stop();
        assert!(!log.contains("auth_failed"), "{log}");
        let lines = lines(&place.path("audit.log"));
        assert_eq!(lines.len(), starts * 2, "what was queued is written before the end");
        let [.., refused, admin] = &lines[..] else { unreachable!() };
        assert_eq!((&refused["event"], &refused["op"]), (&"auth_failed".into(), &"GET /topics".into()));
        assert_eq!((&admin["event"], &admin["outcome"]), (&"admin".into(), &"allowed".into()));
        assert_eq!(admin["target"], "sub:eve");
        assert!(!format!("{lines:?}").contains(&token));
    }
    let about = std::fs::metadata(place.path("audit.log")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
}

#[test]
fn sighup_opens_the_file_again_after_a_rotation() {
    let place = Place::new();
    let config = place.write("hub.toml", "[audit]\nlog = \"audit.log\"\n");
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    intrude(&hub);
    std::fs::rename(place.path("audit.log"), place.path("audit.log.1")).unwrap();
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    intrude(&hub);
    intrude(&hub);
    hub.stop();
    let (old, new) = (lines(&place.path("audit.log.1")).len(), lines(&place.path("audit.log")).len());
    // The first line may still have been queued at the time of the signal.
    assert!(new >= 2 && old + new == 3, "{old} {new}");
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_start() {
    let place = Place::new();
    let start = |log: &str| {
        let config = place.write("hub.toml", &format!("[audit]\nlog = \"{log}\"\n"));
        let data = place.text("data");
        let ran = run_with(
            &["serve", "--ws-port", "0", "--ops-port", "0", "--data", &data, "--config", &config],
            &[],
        );
        ran.ends_with(2);
        assert!(!place.path("data").exists(), "nothing was opened before it");
        ran.err
    };
    let err = start("nowhere/audit.log");
    assert!(
        err.contains("hub.toml:2: audit.log is") && err.contains("in a directory that does not exist"),
        "{err}"
    );
    let err = start("/proc/audit.log");
    assert!(
        err.contains("audit.log is /proc/audit.log, which cannot be opened for appending")
            && err.contains("\"stderr\""),
        "{err}"
    );
}

#[test]
fn a_full_disk_stops_nobody_and_is_logged() {
    let place = Place::new();
    let config = place.write("hub.toml", "[audit]\nlog = \"/dev/full\"\n");
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    intrude(&hub);
    hub.process.logs("audit log cannot be written");
    intrude(&hub);
    assert_eq!(hub.ask(Method::POST, "publish/t", Some(hub.token()), "1").0, 200);
    let (_, metrics) = hub.ask(Method::GET, "metrics", None, "");
    assert!(metrics.contains("audit_lines_total 0\n"), "{metrics}");
    hub.stop();
}

#[test]
fn the_audit_log_can_share_standard_error_with_the_log() {
    let place = Place::new();
    let config = place.write("hub.toml", "[audit]\nlog = \"stderr\"\n");
    let hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    intrude(&hub);
    let log = hub.stop();
    let line = log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{log}"));
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["event"], "auth_failed");
}
