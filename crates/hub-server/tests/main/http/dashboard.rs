//! The dashboard's files, as a browser gets them.

use super::world::{STATIC, World};
use flate2::read::GzDecoder;
use hub_server::Settings;
use reqwest::Response;
use std::io::Read;

const FILES: [(&str, &str, &[u8]); 4] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../../../../../web/dist/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("../../../../../web/dist/app.js")),
    ("/app.css", "text/css; charset=utf-8", include_bytes!("../../../../../web/dist/app.css")),
    ("/favicon.svg", "image/svg+xml", include_bytes!("../../../../../web/dist/favicon.svg")),
];

/// What a browser is told about every file.
const RESTRICTIONS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("x-content-type-options", "nosniff"),
];

/// Asks as a browser that has no token does.
async fn ask(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = world.request(method, path, "");
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send().await.unwrap()
}

fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    answer.headers().get(name).map(|value| value.to_str().unwrap())
}

#[track_caller]
fn is_restricted(answer: &Response) {
    for (name, value) in RESTRICTIONS {
        assert_eq!(header(answer, name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn each_file_has_its_type_and_what_the_page_may_do_and_needs_no_token() {
    for settings in [Settings { open_metrics: true, ..Settings::default() }, Settings::default()] {
        let world = World::with(settings).await;
        for (path, kind, bytes) in FILES {
            let answer = ask(&world, "GET", path, &[]).await;
            assert_eq!(
                (answer.status().as_u16(), header(&answer, "content-type")),
                (200, Some(kind)),
                "{path}"
            );
            assert_eq!(header(&answer, "cache-control"), Some("no-cache"));
            assert_eq!(header(&answer, "vary"), Some("accept-encoding"));
            assert_eq!(header(&answer, "content-encoding"), None);
            is_restricted(&answer);
            assert_eq!(answer.bytes().await.unwrap(), bytes, "{path}");
        }
    }
}

#[tokio::test]
async fn the_policy_of_the_page_is_on_its_files_alone() {
    let world = World::new().await;
    for path in ["/healthz", "/topics", "/nowhere"] {
        let answer = ask(&world, "GET", path, &[]).await;
        assert_eq!(header(&answer, "content-security-policy"), None, "{path}");
    }
}

#[tokio::test]
async fn a_browser_that_has_a_file_is_told_so() {
    let world = World::new().await;
    let mut tags = Vec::new();
    for (path, _, _) in FILES {
        let whole = ask(&world, "GET", path, &[]).await;
        let tag = header(&whole, "etag").unwrap().to_owned();
        for encoding in ["identity", "gzip"] {
            let known = [("if-none-match", &*tag), ("accept-encoding", encoding)];
            let answer = ask(&world, "GET", path, &known).await;
            assert_eq!(answer.status(), 304, "{path}");
            assert_eq!(header(&answer, "etag"), Some(&*tag));
            assert_eq!(header(&answer, "cache-control"), Some("no-cache"));
            is_restricted(&answer);
            assert_eq!(answer.bytes().await.unwrap(), "");
        }
        assert_eq!(ask(&world, "GET", path, &[("if-none-match", "W/\"old\"")]).await.status(), 200);
        tags.push(tag);
    }
    // A tag is of the content: the same on every hub, and another one for other content.
    let other = World::new().await;
    assert_eq!(header(&ask(&other, "GET", "/app.js", &[]).await, "etag"), Some(&*tags[1]));
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), FILES.len());
}

#[tokio::test]
async fn a_file_is_gzipped_for_a_browser_that_takes_it() {
    let world = World::new().await;
    let mut sent = 0;
    for (path, kind, bytes) in FILES {
        let answer = ask(&world, "GET", path, &[("accept-encoding", "gzip, deflate, br")]).await;
        assert_eq!(header(&answer, "content-encoding"), Some("gzip"), "{path}");
        assert_eq!(header(&answer, "content-type"), Some(kind));
        is_restricted(&answer);
        let gzipped = answer.bytes().await.unwrap();
        sent += gzipped.len();
        let mut text = Vec::new();
        GzDecoder::new(&gzipped[..]).read_to_end(&mut text).unwrap();
        assert_eq!(text, bytes, "{path}");
    }
    assert!(sent <= 100 << 10, "the dashboard has {sent} bytes");
}

#[tokio::test]
async fn head_answers_what_get_does_without_the_body() {
    let world = World::new().await;
    for (path, _, _) in FILES {
        for encoding in ["identity", "gzip"] {
            let accepted = [("accept-encoding", encoding)];
            let (get, head) =
                (ask(&world, "GET", path, &accepted).await, ask(&world, "HEAD", path, &accepted).await);
            assert_eq!(head.status(), 200);
            for name in ["content-type", "content-length", "content-encoding", "etag", "cache-control"] {
                assert_eq!(header(&head, name), header(&get, name), "{name} of {path}");
            }
            assert!(header(&head, "content-length").is_some_and(|length| length != "0"), "{path}");
            is_restricted(&head);
            assert_eq!(head.bytes().await.unwrap(), "");
        }
        assert_eq!(ask(&world, "POST", path, &[]).await.status(), 405);
    }
}

#[tokio::test]
async fn a_hub_on_loopback_shows_the_page_under_no_name_of_another_site() {
    let world = World::new().await;
    for (path, _, _) in FILES {
        for host in ["evil.example", "evil.example:8082", "localhost.evil.example"] {
            let answer = ask(&world, "GET", path, &[("host", host)]).await;
            assert_eq!(answer.status(), 403, "{host}{path}");
            is_restricted(&answer);
            let refusal: serde_json::Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
            assert_eq!(refusal["code"], "forbidden");
        }
        for host in ["localhost:8082", "127.0.0.1", "[::1]:8082"] {
            assert_eq!(ask(&world, "GET", path, &[("host", host)]).await.status(), 200, "{host}{path}");
        }
        // A proxy on the same machine has a name of its own.
        let proxied = [("host", "hub.example"), ("x-forwarded-for", "203.0.113.7")];
        assert_eq!(ask(&world, "GET", path, &proxied).await.status(), 200, "{path}");
    }
    let reachable = World::with(Settings::default()).await;
    assert_eq!(ask(&reachable, "GET", "/", &[("host", "hub.example")]).await.status(), 200);
}

#[tokio::test]
async fn a_token_in_the_query_is_no_token() {
    let world = World::new().await;
    // The page reads it out of the fragment, which no browser sends.
    let answer = ask(&world, "GET", &format!("/whoami?token={STATIC}"), &[]).await;
    assert_eq!(answer.status(), 401);
}
