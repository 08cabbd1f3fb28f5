use crate::ends::{self, Kind};
use hub_testbed::postgres::{Programs, URL_VARIABLE};
use std::path::{Path, PathBuf};

const KIND: Kind = Kind { name: "postgres", variable: URL_VARIABLE, pid_file: "postmaster.pid", package };

fn package() -> Option<PathBuf> {
    Programs::get().unwrap().package().map(Path::to_owned)
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
