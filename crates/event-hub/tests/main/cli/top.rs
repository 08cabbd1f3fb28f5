//! `event-hub top` on a terminal.

use super::Cli;

const LEAVES: &str = "\x1b[?1049l";

#[test]
fn it_shows_topics_and_groups_as_they_change_and_ends_on_q() {
    let cli = Cli::new();
    cli.publish("orders.new", 1..=42);
    cli.group("orders.new", "billing", 2);
    let mut top = cli.pty(&["top"], &[("NO_COLOR", "1")]);
    top.shows("\x1b[?1049h");
    assert!(!top.is_restored(), "keys are read one by one");
    top.shows("1 topic  1 group, 1 stuck");
    top.shows("orders.new");
    top.shows("no_members");
    // What is published meanwhile is seen.
    cli.publish("orders.new", 43..=1000);
    cli.publish("mail.sent", 1..=1);
    top.shows("mail.sent");
    top.shows("998");
    // A topic that was deleted goes; the screen is that of another size.
    top.resize(60, 12);
    top.shows("q quit");
    top.press("/mail");
    top.shows("filter: mail_");
    top.press("\r");
    top.shows("filter: mail (Esc shows all)");
    top.press("?");
    top.shows("switch between topics and groups");
    top.press("x");
    top.shows("TOPICS by rate");
    top.press(" ");
    top.shows("paused");
    top.press("q");
    top.shows(LEAVES);
    assert_eq!(top.ended().0, 0);
    assert!(top.is_restored());
    cli.stop();
}

#[test]
fn it_gives_the_terminal_back_however_it_is_ended() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    for end in ["\x03", "TERM", "INT", "HUP"] {
        let mut top = cli.pty(&["top"], &[]);
        top.shows("event-hub top");
        match end {
            "\x03" => top.press(end),
            signal => top.signal(signal),
        }
        top.shows(LEAVES);
        assert_eq!(top.ended().0, 0, "{end:?}");
        assert!(top.is_restored(), "{end:?}");
    }
    cli.stop();
}

#[test]
fn a_hub_that_goes_away_is_shown_and_one_that_is_not_there_ends_it() {
    let cli = Cli::new();
    cli.publish("t", 1..=1);
    let mut top = cli.pty(&["top"], &[]);
    top.shows("ready");
    cli.hub.process.signal("KILL");
    top.shows("no hub answers");
    top.press("q");
    assert_eq!(top.ended().0, 0);
    let mut top = cli.pty(&["top"], &[]);
    let (code, text) = top.ended();
    assert_eq!(code, 1);
    assert!(text.contains("no hub answers") && !text.contains("\x1b[?1049h"), "{text}");
}
