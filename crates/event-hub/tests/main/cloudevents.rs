//! CloudEvents as a program in Python sends and reads them, with the package of the CloudEvents project.

use crate::hub::{Hub, Place};
use std::process::{Command, Stdio};

#[test]
fn cloudevents_of_python_come_back_as_they_were_sent() {
    let Some(python) = hub_testbed::drivers::python_cloudevents().unwrap() else { return };
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let program = place.write("main.py", include_str!("python/cloudevents_roundtrip.py"));
    let ran =
        Command::new(python).args([&program, hub.http(), hub.token()]).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.trim() == "ok", "{out}{err}");
    hub.stop();
}
