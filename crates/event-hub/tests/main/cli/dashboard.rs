//! The link to the dashboard that `event-hub serve` prints and opens.

use super::pty::Pty;
use crate::hub::{Place, Running};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than anything takes on a busy machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: (&str, &str) = ("JWT_SECRET", "0123456789abcdef0123456789abcdef");

fn serve(place: &Place) -> Vec<String> {
    let args = ["serve", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    args.map(str::to_owned).into()
}

/// The status and the body of an answer.
fn get(url: &str, token: Option<&str>) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let request = reqwest::Client::new().get(url);
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    })
}

/// Follows a link as a browser and the page do: the address without the fragment, and the token of the fragment.
fn follow(link: &str) {
    let (address, token) = link.split_once("#token=").unwrap_or_else(|| panic!("no token in {link}"));
    let (status, page) = get(address, None);
    assert!(status == 200 && page.contains("/app.js"), "{status} {page}");
    let (status, who) = get(&format!("{address}whoami"), Some(token));
    let who: Value = serde_json::from_str(&who).unwrap();
    assert_eq!((status, &who["sub"], &who["admin"]), (200, &"developer".into(), &true.into()));
}

/// What stands behind `dashboard` on a terminal.
fn link_on_terminal(terminal: &mut Pty) -> String {
    terminal.shows("dashboard  ");
    terminal.shows("\r\n").trim_end().to_owned()
}

#[test]
fn on_a_terminal_serve_prints_a_link_with_its_token_that_opens_the_dashboard() {
    let place = Place::new();
    let args = serve(&place);
    let mut terminal = Pty::start(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    follow(&link_on_terminal(&mut terminal));
    terminal.signal("TERM");
    assert_eq!(terminal.ended().0, 0);
}

#[test]
fn the_link_has_no_token_if_the_hub_does_not_make_tokens() {
    let place = Place::new();
    let args = serve(&place);
    let mut terminal = Pty::start(&args.iter().map(String::as_str).collect::<Vec<_>>(), &[SECRET]);
    let link = link_on_terminal(&mut terminal);
    assert!(link.starts_with("http://127.0.0.1:") && link.ends_with('/'), "{link}");
    assert_eq!(get(&link, None).0, 200);
    terminal.signal("TERM");
    assert_eq!(terminal.ended().0, 0);
}

/// A directory with a program that opens pages: it notes what it was given, and fails if it shall.
fn opener(place: &Place, code: i32) -> PathBuf {
    let path = place.path("bin");
    std::fs::create_dir(&path).unwrap();
    for name in ["xdg-open", "open"] {
        let script = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" > \"$OPENED\"\nexit {code}\n");
        std::fs::write(path.join(name), script).unwrap();
        std::fs::set_permissions(path.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    path
}

/// Starts a hub that opens the dashboard with the programs of a directory.
fn serve_and_open(place: &Place, programs: &Path, environment: &[(&str, &str)]) -> Running {
    let mut args = serve(place);
    args.extend(["--open".to_owned(), "--json".to_owned()]);
    let opened = place.text("opened");
    let mut all = vec![("PATH", programs.to_str().unwrap()), ("OPENED", &*opened)];
    all.extend(environment);
    Running::start(&args.iter().map(String::as_str).collect::<Vec<_>>(), &all)
}

/// What was given to the program that opens pages.
fn opened(place: &Place) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match std::fs::read_to_string(place.path("opened")) {
            Ok(text) if text.ends_with('\n') => return text.trim_end().to_owned(),
            _ => assert!(Instant::now() < deadline, "nothing was opened"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn open_hands_the_token_to_the_browser_in_a_file_of_the_user() {
    let place = Place::new();
    let programs = opener(&place, 0);
    let mut hub = serve_and_open(&place, &programs, &[]);
    hub.line();
    let path = PathBuf::from(opened(&place));
    assert_eq!(path, place.path("data").join("open-dashboard.html"), "no token is an argument of a process");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let page = std::fs::read_to_string(&path).unwrap();
    let (_, link) = page.split_once("url=").unwrap();
    follow(link.split_once('"').unwrap().0);
    hub.signal("TERM");
    assert_eq!(hub.ended(), 0);
    assert!(!hub.last_log().contains("browser"), "{}", hub.log());
    let data = place.text("data");
    crate::hub::run_with(&["doctor", &data], &[]).ends_with(0).says("healthy");
}

#[test]
fn open_hands_over_the_address_if_there_is_no_token() {
    let place = Place::new();
    let programs = opener(&place, 0);
    let mut hub = serve_and_open(&place, &programs, &[SECRET]);
    let ready: Value = serde_json::from_str(&hub.line()).unwrap();
    assert_eq!(opened(&place), ready["http"]);
    assert!(!place.path("data").join("open-dashboard.html").exists());
    hub.signal("TERM");
    assert_eq!(hub.ended(), 0);
}

#[test]
fn a_browser_that_does_not_open_is_a_message_and_the_hub_runs() {
    let place = Place::new();
    let failing = opener(&place, 3);
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for (programs, why) in [(failing, "failed (exit status: 3)"), (empty, "cannot be started")] {
        let mut hub = serve_and_open(&place, &programs, &[]);
        let ready: Value = serde_json::from_str(&hub.line()).unwrap();
        hub.logs("the browser was not opened");
        assert!(hub.log().contains(why), "{}", hub.log());
        assert!(hub.log().contains(&format!("the dashboard is at {}", ready["http"].as_str().unwrap())));
        assert!(!hub.log().contains("#token"), "{}", hub.log());
        assert_eq!(get(ready["http"].as_str().unwrap(), None).0, 200);
        hub.signal("TERM");
        assert_eq!(hub.ended(), 0);
    }
}
