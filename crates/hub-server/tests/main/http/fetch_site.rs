//! Writes that a browser says come from another site.

use super::matrix::{self, ROWS};
use super::world::{Got, STATIC, World, read};
use hub_server::Settings;
use serde_json::json;

/// The page of the dashboard itself, and what browsers say of all others.
const OWN: &str = "same-origin";
const FOREIGN: [&str; 5] = ["cross-site", "same-site", "none", "SAME-ORIGIN", "something-new"];

async fn ask(world: &World, method: &str, path: &str, body: &str, site: &str) -> Got {
    let request = world.request(method, path, STATIC).header("sec-fetch-site", site);
    read(request.body(body.to_owned()).send().await.unwrap()).await
}

#[track_caller]
fn is_refused(got: &Got, what: &str) {
    assert_eq!(got.refusal(), (403, "forbidden"), "{what}");
    let error = got.json["error"].as_str().unwrap();
    assert!(error.contains("Sec-Fetch-Site") && error.contains("server.cors_origins"), "{what}: {error}");
}

#[tokio::test]
async fn every_write_of_the_api_is_refused_to_pages_of_other_sites() {
    let world = World::new().await;
    let document = world.get("/openapi.json").await.ok();
    let mut writes = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|method| *method != "get") {
            writes += 1;
            let (path, method) =
                (path.replace("{topic}", "t").replace(['{', '}'], ""), method.to_uppercase());
            for site in FOREIGN {
                is_refused(&ask(&world, &method, &path, "1", site).await, &format!("{method} {path} {site}"));
            }
        }
    }
    assert!(writes >= 14, "{writes}");
    assert!(!world.bus().has_topic("t"), "nothing was published");
    // A method that no path takes is no way around, nor is a path that is not there.
    is_refused(&ask(&world, "PATCH", "/topics", "1", "cross-site").await, "PATCH");
    is_refused(&ask(&world, "POST", "/nowhere", "1", "cross-site").await, "/nowhere");
}

#[tokio::test]
async fn every_write_is_allowed_to_the_page_of_the_hub_itself_and_to_programs() {
    for (method, path, body, _, status) in ROWS.iter().filter(|row| row.0 != "GET") {
        let world = matrix::world().await;
        assert_eq!(ask(&world, method, path, body, OWN).await.status, *status, "{method} {path}");
        let world = matrix::world().await;
        assert_eq!(world.ask(method, path, STATIC, body).await.status, *status, "{method} {path}");
    }
}

#[tokio::test]
async fn pages_of_listed_origins_may_write() {
    let cors_origins = vec!["https://app.example".to_owned()];
    let world = World::with(Settings { cors_origins, ..Settings::default() }).await;
    for (origin, site, status) in [
        ("https://app.example", "cross-site", 200),
        ("https://app.example", "same-site", 200),
        ("https://evil.example", "cross-site", 403),
        ("null", "cross-site", 403),
    ] {
        let request = world
            .request("POST", "/publish/t", STATIC)
            .header("origin", origin)
            .header("sec-fetch-site", site);
        let answer = request.body("1").send().await.unwrap();
        assert_eq!(answer.status(), status, "{origin} {site}");
        let is_shown = answer.headers().contains_key("access-control-allow-origin");
        assert_eq!(is_shown, status == 200, "{origin}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_may_ask_for_what_changes_nothing() {
    let world = World::new().await;
    world.fill("t", 1).await;
    for site in FOREIGN {
        for path in ["/topics", "/export?topic=t", "/healthz", "/"] {
            let request = world.request("GET", path, STATIC).header("sec-fetch-site", site);
            assert_eq!(request.send().await.unwrap().status(), 200, "{path} {site}");
        }
    }
}

#[tokio::test]
async fn a_header_that_is_there_twice_has_to_be_right_twice() {
    let world = World::new().await;
    let twice = |second: &'static str| {
        let request = world.request("POST", "/publish/t", STATIC).body("1");
        request.header("sec-fetch-site", OWN).header("sec-fetch-site", second)
    };
    is_refused(&read(twice("cross-site").send().await.unwrap()).await, "twice");
    assert_eq!(twice(OWN).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn the_refusal_is_in_the_audit_log() {
    let world = World::new().await;
    ask(&world, "DELETE", "/topics?topic=t", "", "cross-site").await;
    let lines = world.get("/audit").await.ok()["entries"].take();
    let expected = json!({
        "n": 1, "event": "refused", "outcome": "refused", "via": "http", "op": "DELETE /topics", "action": "connect",
        "code": "forbidden",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&lines[0][name], value, "{name} of {lines}");
    }
    assert_eq!(lines.as_array().unwrap().len(), 1);
}
