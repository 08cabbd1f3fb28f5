//! What the program does not do, and says why.

use crate::world::{World, run};

#[test]
fn a_directory_in_use_is_not_examined_and_its_process_is_named() {
    let world = World::full();
    let store = world.open();
    for flags in [&[][..], &["--json"], &["--drop-damaged"]] {
        let ran = world.doctor(flags);
        ran.ends_with(2);
        let expected = format!("a hub is using {} (process {})", world.text(), std::process::id());
        assert!(ran.err.contains(&expected), "{}", ran.err);
        assert_eq!(ran.out, "");
    }
    store.close();
    world.doctor(&[]).ends_with(0);
}

#[test]
fn what_is_no_data_directory_is_told_apart() {
    let world = World::new();
    let missing = world.file("nowhere");
    world.write("file", "hello");
    for (path, expected) in [
        (missing.to_str().unwrap(), "does not exist"),
        (world.file("file").to_str().unwrap(), "is not a directory; the data directory of a hub is expected"),
        (world.text(), "is not an event-hub data directory: it has no file `format`, no manifest"),
    ] {
        for command in [&["doctor", path][..], &["store", "stat", path], &["doctor", path, "--drop-damaged"]]
        {
            let ran = run(command);
            ran.ends_with(2);
            assert!(ran.err.contains(path) && ran.err.contains(expected), "{command:?}: {}", ran.err);
        }
    }
    assert!(!missing.exists(), "looking makes no directory");
    assert!(!world.file("lock").exists(), "nor a file");
}

#[test]
fn a_later_format_is_left_alone() {
    let world = World::full();
    let text = String::from_utf8(world.bytes("format")).unwrap();
    world.write("format", text.replace("format 1", "format 2"));
    let before = world.files();
    for command in [&["doctor", world.text()][..], &["store", "stat", world.text()]] {
        let ran = run(command);
        ran.ends_with(2);
        assert!(ran.err.contains("has format 2, this program knows format 1"), "{}", ran.err);
    }
    assert_eq!(world.files(), before);
    let ran = world.doctor(&["--restore-format", "--drop-damaged"]);
    ran.ends_with(2);
    assert_eq!(world.bytes("format"), text.replace("format 1", "format 2").as_bytes());
}

#[test]
fn a_wrong_command_line_is_explained() {
    for (args, expected) in [
        (&["doctor"][..], "DIR"),
        (&["doctor", ".", "--rebuild-everything"], "--rebuild-everything"),
        (&["docter", "."], "doctor"),
        (&["store"], "stat"),
        (&[], "doctor"),
    ] {
        let ran = run(args);
        ran.ends_with(2);
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
}

#[test]
fn the_help_names_commands_flags_and_exit_codes() {
    let ran = run(&["--help"]);
    ran.ends_with(0).says("doctor").says("Examine a data directory").says("store");
    let ran = run(&["doctor", "--help"]);
    ran.ends_with(0)
        .says("0 if all is well, 1 if something was found, 2 if the directory could not be examined");
    for flag in ["--json", "--rebuild-sidecars", "--rebuild-manifest", "--restore-format", "--drop-damaged"] {
        ran.says(flag);
    }
    run(&["--version"]).ends_with(0).says("event-hub");
}
