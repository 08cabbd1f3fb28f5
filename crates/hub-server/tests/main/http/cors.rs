//! Pages of other origins.

use super::world::{STATIC, World};
use hub_server::Settings;
use reqwest::Response;
use reqwest::header::HeaderMap;

const PAGE: &str = "https://app.example";

async fn world(origins: &[&str]) -> World {
    let cors_origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
    let world = World::with(Settings { cors_origins, ..Settings::default() }).await;
    world.fill("t", 1).await;
    world.bus().publish("t", serde_json::json!(1)).key("k").await.unwrap();
    world
}

async fn ask(world: &World, method: &str, path: &str, token: &str, origin: &str) -> Response {
    let request = world.request(method, path, token).header("origin", origin);
    let asked = ("access-control-request-method", "GET");
    let request = if method == "OPTIONS" { request.header(asked.0, asked.1) } else { request };
    request.send().await.unwrap()
}

fn cors(headers: &HeaderMap) -> Vec<&str> {
    let names = headers.keys().map(|name| name.as_str());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

fn varies_by_origin(headers: &HeaderMap) -> bool {
    headers.get_all("vary").iter().any(|value| value.to_str().unwrap().contains("origin"))
}

#[tokio::test]
async fn by_default_no_page_of_another_origin_reads_anything() {
    let world = world(&[]).await;
    for (method, path) in
        [("GET", "/topics"), ("OPTIONS", "/topics"), ("GET", "/events?topic=t"), ("GET", "/x")]
    {
        let answer = ask(&world, method, path, STATIC, PAGE).await;
        assert_eq!(cors(answer.headers()), Vec::<&str>::new(), "{method} {path}");
        assert!(!varies_by_origin(answer.headers()));
    }
    assert_eq!(ask(&world, "OPTIONS", "/topics", "", PAGE).await.status(), 405);
}

#[tokio::test]
async fn pages_of_listed_origins_read_answers_and_refusals_and_others_do_not() {
    let world = world(&[PAGE, "http://localhost:3000"]).await;
    for (path, token) in [
        ("/topics", STATIC),
        ("/topics", ""),
        ("/nothing", STATIC),
        ("/events?topic=t", STATIC),
        ("/export?topic=t", STATIC),
        ("/latest-by-key?topic=t&key=k", STATIC),
        ("/healthz", ""),
    ] {
        for origin in [PAGE, "http://localhost:3000"] {
            let answer = ask(&world, "GET", path, token, origin).await;
            assert_eq!(answer.headers()["access-control-allow-origin"], origin, "{path}");
            assert_eq!(answer.headers()["access-control-expose-headers"], "retry-after, etag");
            assert!(!answer.headers().contains_key("access-control-allow-credentials"));
            assert!(varies_by_origin(answer.headers()), "{path}");
        }
        for origin in
            ["https://evil.example", "null", "https://app.example.evil.example", "http://app.example"]
        {
            let answer = ask(&world, "GET", path, token, origin).await;
            assert_eq!(cors(answer.headers()), Vec::<&str>::new(), "{path} {origin}");
            assert!(varies_by_origin(answer.headers()), "{path}");
        }
        let answer = world.request("GET", path, token).send().await.unwrap();
        assert!(cors(answer.headers()).is_empty() && varies_by_origin(answer.headers()), "{path}");
    }
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_token() {
    let world = world(&[PAGE]).await;
    for path in ["/topics", "/publish/t", "/events?topic=t", "/ticket", "/nothing"] {
        let answer = ask(&world, "OPTIONS", path, "", PAGE).await;
        assert_eq!(answer.status(), 204, "{path}");
        let headers = answer.headers();
        assert_eq!(headers["access-control-allow-origin"], PAGE);
        let allowed = headers["access-control-allow-headers"].to_str().unwrap();
        for name in ["authorization", "content-type", "last-event-id", "if-none-match"] {
            assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}");
        }
        let methods = headers["access-control-allow-methods"].to_str().unwrap();
        assert!(
            ["GET", "POST", "DELETE"]
                .iter()
                .all(|method| methods.split(", ").any(|allowed| allowed == *method))
        );
        assert!(varies_by_origin(headers) && headers["cache-control"] == "no-store");
    }
    let other = ask(&world, "OPTIONS", "/topics", "", "https://evil.example").await;
    assert_eq!((other.status().as_u16(), cors(other.headers()).len()), (405, 0));
    // A question that is no preflight.
    let request = world.request("OPTIONS", "/topics", "").header("origin", PAGE);
    assert_eq!(request.send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn the_list_follows_the_settings() {
    let world = world(&[]).await;
    let open = Settings { cors_origins: vec![PAGE.to_owned()], ..Settings::default() };
    world.hub.apply(open);
    assert_eq!(
        ask(&world, "GET", "/topics", STATIC, PAGE).await.headers()["access-control-allow-origin"],
        PAGE
    );
    world.hub.apply(Settings::default());
    assert!(cors(ask(&world, "GET", "/topics", STATIC, PAGE).await.headers()).is_empty());
}
