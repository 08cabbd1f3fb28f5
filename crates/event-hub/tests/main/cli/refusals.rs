//! What goes wrong is told with what to do, and has its exit code.

use super::Cli;
use super::stub::Stub;
use crate::hub::run_with;

/// One of every command that asks over HTTP.
const COMMANDS: [&[&str]; 16] = [
    &["topics", "ls"],
    &["topics", "show", "t"],
    &["topics", "rm", "t", "--yes"],
    &["topics", "lint"],
    &["groups", "ls"],
    &["groups", "show", "t", "g"],
    &["groups", "rm", "t", "g", "--yes"],
    &["replay", "t"],
    &["export", "t"],
    &["dlq", "ls"],
    &["dlq", "ls", "t"],
    &["dlq", "replay", "t", "--yes"],
    &["dlq", "rm", "t", "--all", "--yes"],
    &["event", "show", "0190a1b2-0000-7000-8000-000000000001", "--topic", "t"],
    &["event", "show", "0190a1b2-0000-7000-8000-000000000001"],
    &["revoke", "--sub", "eve", "--yes"],
];

#[test]
fn a_hub_that_is_not_there_is_told_of_by_every_command() {
    for args in COMMANDS {
        let ran = run_with(&[args, &["--ops-url", "http://127.0.0.1:1/", "--token", "x"]].concat(), &[]);
        ran.ends_with(1);
        assert!(ran.err.contains("no hub answers at http://127.0.0.1:1/"), "{args:?}: {}", ran.err);
        assert!(
            ran.err.contains("event-hub serve") && ran.err.contains("--ops-url"),
            "{args:?}: {}",
            ran.err
        );
        assert_eq!(ran.out, "", "{args:?}");
    }
    let ran = run_with(&["import", "t", "/dev/null", "--url", "ws://127.0.0.1:1/", "--token", "x"], &[]);
    ran.ends_with(1);
    assert!(ran.err.contains("no hub at ws://127.0.0.1:1/"), "{}", ran.err);
}

#[test]
fn a_token_that_is_none_is_told_of_by_every_command() {
    let cli = Cli::new();
    for args in COMMANDS {
        let ran = run_with(&[args, &["--ops-url", cli.hub.http(), "--token", "nonsense"]].concat(), &[]);
        // Those that the hub has not got yet are refused as that.
        ran.ends_with(1);
        let is_told = ran.err.contains("jwt_invalid") && ran.err.contains("EVENT_HUB_TOKEN");
        assert!(is_told || ran.err.contains("it is of another version"), "{args:?}: {}", ran.err);
        assert!(!ran.err.contains("nonsense"), "{args:?}: {}", ran.err);
    }
    cli.stop();
}

#[test]
fn a_right_that_is_missing_is_named() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    let token = cli.token(&["publish:other"]);
    for (args, right) in [
        (&["topics", "rm", "t", "--yes"][..], "admin:t"),
        (&["groups", "ls", "t"], "subscribe:t"),
        (&["groups", "rm", "t", "g", "--yes"], "admin:t"),
        (&["export", "t"], "subscribe:t"),
        (&["revoke", "--jti", "x", "--yes"], "admin:**"),
    ] {
        let ran = run_with(&[args, &["--ops-url", cli.hub.http(), "--token", &token]].concat(), &[]);
        ran.ends_with(1);
        assert!(
            ran.err.contains("forbidden: ") && ran.err.contains(&format!("the scope {right}")),
            "{args:?}: {}",
            ran.err
        );
    }
    cli.stop();
}

#[test]
fn what_is_not_there_is_told_of() {
    let cli = Cli::new();
    for args in
        [&["export", "nothing"][..], &["groups", "ls", "nothing"], &["topics", "rm", "nothing", "--yes"]]
    {
        let ran = cli.run(args);
        ran.ends_with(1);
        assert!(
            ran.err.contains("topic nothing does not exist; `event-hub topics ls`"),
            "{args:?}: {}",
            ran.err
        );
    }
    // Nothing is left behind by an export that never began.
    let file = cli.place.text("file");
    cli.run(&["export", "nothing", "-o", &file]).ends_with(1);
    assert!(!cli.place.path("file").exists());
    cli.stop();
}

#[test]
fn a_hub_of_another_version_and_another_server_are_told_of() {
    let old = Stub::json(&[]);
    let ran = run_with(&["dlq", "ls", "t", "--ops-url", &old.url, "--token", "x"], &[]);
    ran.ends_with(1);
    assert!(ran.err.contains("has no /dlq: it is of another version"), "{}", ran.err);
    let page = Stub::json(&[("GET ", 502, "<html>bad gateway</html>")]);
    let ran = run_with(&["topics", "ls", "--ops-url", &page.url, "--token", "x"], &[]);
    ran.ends_with(1);
    assert!(ran.err.contains("answered 502, and not as a hub does"), "{}", ran.err);
}

#[test]
fn a_mistake_of_the_command_line_ends_with_2() {
    let cli = Cli::new();
    let file = cli.place.write("notes", "important");
    for (args, expected) in [
        (&["groups", "seek", "t", "g"][..], "--to"),
        (&["revoke", "--yes"], "--sub"),
        (&["event", "show", "nonsense", "--topic", "t"], "nonsense"),
        (&["event", "show"], "<ID>"),
        (&["replay", "t", "--from", "latest"], "subscribe"),
        (&["export", "t", "--from-ts", "yesterday"], "milliseconds"),
        (&["export", "t", "--from-ts", "5", "--to-ts", "5"], "not before"),
        (&["export", "t", "-o", &file], "is not an export"),
        (&["import", "t", "no-such-file"], "cannot be read"),
        (&["import", "a..b"], "a..b"),
        (&["dlq", "rm", "t"], "--all"),
        (&["dlq", "replay", "t", "--edit", "x", "--id", "a", "--id", "b"], "exactly one"),
        (&["dlq", "ls", "--group", "g"], "name it"),
        (&["top"], "needs a terminal"),
        (&["topics", "ls", "--ops-url", "ftp://x/"], "http://"),
    ] {
        let args =
            if args.contains(&"--ops-url") { [args, &["--token", "x"]].concat() } else { cli.args(args) };
        let ran = run_with(&args, &[]);
        ran.ends_with(2);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "important");
    cli.stop();
}

#[test]
fn an_answer_that_is_no_hubs_is_no_success() {
    let page = Stub::start(|_, socket| super::stub::respond(socket, 200, "<html>It works!</html>"));
    for args in COMMANDS {
        let ran = run_with(&[args, &["--ops-url", &page.url, "--token", "x"]].concat(), &[]);
        ran.ends_with(1);
        assert_eq!(ran.out, "", "{args:?}");
        assert!(ran.err.contains("hub") && !ran.err.contains("panicked"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn credentials_in_an_address_are_refused_and_shown_nowhere() {
    for url in ["http://ada:hunter2@127.0.0.1:1/", "http://hunter2@127.0.0.1:1/"] {
        let ran = run_with(&["topics", "ls", "--ops-url", url, "--token", "x"], &[]);
        ran.ends_with(2);
        assert!(ran.err.contains("EVENT_HUB_TOKEN") && !ran.err.contains("hunter2"), "{}", ran.err);
    }
}

#[test]
fn no_color_is_heeded_by_the_log_on_a_terminal() {
    for (environment, is_plain) in [(&[("NO_COLOR", "1")][..], true), (&[], false)] {
        let place = crate::hub::Place::new();
        let data = place.text("data");
        let args = ["serve", "--ws-port", "0", "--ops-port", "0", "--data", &data];
        let mut terminal = super::pty::Pty::start(&args, environment);
        // The first line of the log.
        let said = terminal.shows("INFO");
        assert_eq!(!said.contains('\x1b'), is_plain, "{said:?}");
        terminal.press("\x03");
        assert_eq!(terminal.ended().0, 0);
    }
}
