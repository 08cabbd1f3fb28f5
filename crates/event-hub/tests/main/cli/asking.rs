//! What a person at a terminal sees: questions, colours, tables that fit.

use super::Cli;

fn topics(cli: &Cli) -> usize {
    cli.get("topics")["topics"].as_array().unwrap().len()
}

#[test]
fn a_person_is_asked_before_something_is_deleted() {
    let cli = Cli::new();
    cli.publish("t", 1..=3);
    cli.group("t", "g", 2);
    for (args, question) in [
        (&["topics", "rm", "t"][..], "Delete topic t with all its events and groups? [y/N] "),
        (&["groups", "rm", "t", "g"], "Delete group g of topic t, with what it has settled? [y/N] "),
        (&["revoke", "--sub", "eve"], "Revoke all tokens of \"eve\" issued until now, for ever? [y/N] "),
    ] {
        for answer in ["n\n", "\n", "no\n"] {
            let mut terminal = cli.pty(args, &[]);
            terminal.shows(question);
            terminal.press(answer);
            terminal.shows("not ");
            assert_eq!(terminal.ended().0, 1, "{args:?}");
        }
    }
    assert_eq!(topics(&cli), 1);
    let mut terminal = cli.pty(&["groups", "seek", "t", "g", "--to", "earliest"], &[]);
    terminal.shows("? [y/N] ");
    terminal.press("y\n");
    terminal.shows("placed group g of t after seq 0");
    assert_eq!(terminal.ended().0, 0);
    assert_eq!(cli.get("groups")["groups"][0]["floor"], 0);
    let mut terminal = cli.pty(&["topics", "rm", "t"], &[]);
    terminal.shows("[y/N] ");
    terminal.press("y\n");
    terminal.shows("t deleted: 1 topic, 1 group, 3 events");
    assert_eq!(terminal.ended().0, 0);
    assert_eq!(topics(&cli), 0);
    cli.stop();
}

#[test]
fn tables_fit_the_terminal_and_are_coloured_unless_somebody_objects() {
    let cli = Cli::new();
    let long = format!("orders.{}", "x".repeat(120));
    cli.publish(&long, 1..=3);
    cli.group(&long, "g", 1);
    let mut terminal = cli.pty(&["groups", "ls"], &[]);
    let (code, text) = terminal.ended();
    assert_eq!(code, 0);
    assert!(text.contains("\x1b[1mTOPIC\x1b[0m") && text.contains("\x1b[31mno_members\x1b[0m"), "{text:?}");
    for environment in [("NO_COLOR", "1"), ("NO_COLOR", "")] {
        let (_, text) = cli.pty(&["groups", "ls"], &[environment]).ended();
        assert_eq!(text.contains('\x1b'), environment.1.is_empty(), "{text:?}");
        let widest = text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        if !environment.1.is_empty() {
            assert!(widest <= 100 && text.contains("orders.xxx") && text.contains('…'), "{widest}: {text}");
            assert!(text.contains("no_members"), "{text}");
        }
    }
    // Nothing is cut in a pipe.
    cli.run(&["groups", "ls"]).ends_with(0).says(&long);
    cli.stop();
}
