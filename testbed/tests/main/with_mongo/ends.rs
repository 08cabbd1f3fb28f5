use crate::ends::{self, Kind};
use hub_testbed::URI_VARIABLE;
use hub_testbed::programs::Programs;
use std::path::PathBuf;

const KIND: Kind = Kind { name: "mongo", variable: URI_VARIABLE, pid_file: "mongod.lock", package };

fn package() -> Option<PathBuf> {
    let home = Programs::get().unwrap().path().parent().unwrap().to_owned();
    home.file_name().unwrap().to_string_lossy().starts_with("mongodb-").then_some(home)
}

#[test]
fn a_process_that_is_killed_leaves_no_server_and_no_data() {
    ends::a_process_that_is_killed_leaves_no_server_and_no_data(KIND);
}

#[test]
fn a_command_that_ends_leaves_nothing_and_its_exit_code_is_passed_on() {
    ends::a_command_that_ends_leaves_nothing_and_its_exit_code_is_passed_on(KIND);
}

#[test]
fn a_shared_server_outlives_whoever_started_it_and_ends_after_the_last() {
    ends::a_shared_server_outlives_whoever_started_it_and_ends_after_the_last(KIND);
}
