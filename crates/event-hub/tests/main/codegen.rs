//! `codegen`: what is generated from the schemas of a hub, and that compilers take it.

use crate::hub::{Hub, Place, run_with};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

fn schemas() -> Value {
    serde_json::from_str(include_str!("../../src/codegen/tests/schemas.json")).unwrap()
}

/// The files that the program's own tests compare with.
fn generated(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/codegen/tests").join(name);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn types_are_written_from_the_schemas_of_a_hub() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    for (target, schema) in schemas().as_object().unwrap() {
        let (status, answer) =
            hub.ask(Method::PUT, &format!("schemas/{target}"), Some(hub.token()), &schema.to_string());
        assert_eq!(status, 200, "{target}: {answer}");
    }
    let data = place.text("data");
    let run = |args: &[&str]| run_with(&[args, &["--url", hub.http(), "--data", &data]].concat(), &[]);
    assert_eq!(run(&["codegen", "typescript"]).ends_with(0).out, generated("generated.ts"));
    let out = place.text("types.rs");
    let ran = run(&["codegen", "rust", "--out", &out]);
    ran.ends_with(0).says(&format!("types.rs: {} schemas", schemas().as_object().unwrap().len()));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), generated("generated.rs"));
    run(&["codegen", "rust", "--out", &out]).ends_with(0).says("nothing changed");
    let some = run(&["codegen", "typescript", "process.**"]);
    some.ends_with(0);
    assert!(some.out.contains("ProcessWebState") && !some.out.contains("OrdersCreated"), "{}", some.out);
    run(&["codegen", "rust", "--out", &place.text("no/such/directory.rs")]).ends_with(2);
    hub.stop();
}

#[test]
fn the_compiler_of_typescript_takes_what_is_generated() {
    let Some(modules) = hub_testbed::drivers::node_typescript().unwrap() else { return };
    let place = Place::new();
    place.write("generated.ts", &generated("generated.ts"));
    place.write("usage.ts", &generated("usage.ts"));
    let options = json!({
        "noEmit": true, "strict": true, "exactOptionalPropertyTypes": true, "noUncheckedIndexedAccess": true,
        "types": [], "target": "es2022", "module": "esnext", "moduleResolution": "bundler",
    });
    let project = json!({"compilerOptions": options, "files": ["usage.ts"]});
    let project = place.write("tsconfig.json", &project.to_string());
    let mut tsc = Command::new("node");
    let output = tsc.arg(modules.join("typescript/bin/tsc")).args(["--project", &project]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
