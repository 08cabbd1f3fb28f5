//! `event-hub serve`: its start, its signals, its end.

use crate::hub::{Hub, Place, Running, run_with};
use reqwest::Method;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_first_start_makes_a_secret_and_a_token_and_the_second_keeps_them() {
    let place = Place::new();
    let data = place.path("data");
    let hub = Hub::start(&data, &[], &[]);
    let about = std::fs::metadata(data.join("dev-secret")).unwrap();
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let first = hub.token().to_owned();
    let (status, body) = hub.ask(Method::POST, "publish/orders", Some(&first), "{\"n\":1}");
    assert_eq!(status, 200, "{body}");
    let log = hub.stop();
    assert!(!log.contains(&first), "a token is in the log:\n{log}");
    let secret = std::fs::read_to_string(data.join("dev-secret")).unwrap();

    let hub = Hub::start(&data, &[], &[]);
    assert_eq!(std::fs::read_to_string(data.join("dev-secret")).unwrap(), secret);
    let (status, body) = hub.ask(Method::GET, "export?topic=orders&ndjson=1", Some(&first), "");
    assert_eq!(status, 200, "the token of the first start still holds: {body}");
    assert!(body.contains("\"n\":1"), "{body}");
    assert_eq!(hub.ask(Method::GET, "topics", None, "").0, 401);
    hub.stop();
    run_with(&["doctor", data.to_str().unwrap()], &[]).ends_with(0).says("healthy");
}

#[test]
fn the_data_directory_is_its_owners_and_a_secret_that_others_can_read_is_told() {
    let place = Place::new();
    let data = place.path("new/data");
    let secret = place.write("secret", &"x".repeat(40));
    let file = place.write("hub.toml", &format!("[auth]\nsecret_file = \"{secret}\"\n"));
    let start = |mode| {
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(mode)).unwrap();
        Hub::start(&data, &["--config", &file], &[]).stop()
    };
    let log = start(0o644);
    assert!(log.contains("secret (auth.secret_file) can be read by others (mode 0644): `chmod 600"), "{log}");
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    assert!(!start(0o600).contains("chmod"));
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o755, "it was there");
}

/// The soft and the hard limit on open files of a process.
fn open_files(process: &Running) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn the_limit_on_open_files_is_raised_and_one_that_stays_low_is_told() {
    let place = Place::new();
    let args = ["serve", "--json", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    for (hard, warned) in [("", false), ("ulimit -Hn 300 && ", true)] {
        let mut process = Running::start_after(&format!("ulimit -Sn 100 && {hard}true"), &args, &[]);
        assert!(process.line().contains("\"ready\":true"));
        let (soft, most) = open_files(&process);
        assert_eq!(soft, most);
        process.signal("TERM");
        assert_eq!(process.ended(), 0);
        let low = most.parse::<u64>().is_ok_and(|most| most < 4_096);
        assert_eq!(process.log().contains("the process may open 300 files"), warned);
        assert_eq!(process.log().contains("LimitNOFILE"), low);
    }
}

#[test]
fn for_people_it_prints_addresses_and_keeps_its_token_out_of_what_is_no_terminal() {
    let place = Place::new();
    let args = ["serve", "--ws-port", "0", "--ops-port", "0", "--data", &place.text("data")];
    let mut process = Running::start(&args, &[]);
    let mut said = String::new();
    while !said.contains("event-hub token") {
        said += &process.line();
    }
    assert!(said.starts_with("event-hub is ready\n"), "{said}");
    assert!(
        said.contains("WebSocket  ws://127.0.0.1:") && said.contains("HTTP       http://127.0.0.1:"),
        "{said}"
    );
    assert!(said.contains("dashboard  http://127.0.0.1:") && !said.contains('#'), "{said}");
    assert!(!said.contains("eyJ"), "whatever keeps this output would keep the token: {said}");
    // What it says instead gives one.
    let (_, command) = said.trim_end().rsplit_once("event-hub token ").unwrap();
    let words: Vec<&str> = command.split(' ').map(|word| word.trim_matches('\'')).collect();
    let ran = run_with(&[&["token"], &words[..]].concat(), &[]);
    assert!(ran.out.starts_with("eyJ"), "{} {}", ran.out, ran.err);
    process.signal("INT");
    assert_eq!(process.ended(), 0);
}

#[test]
fn a_secret_that_others_can_read_is_refused() {
    let place = Place::new();
    let data = place.path("data");
    Hub::start(&data, &[], &[]).stop();
    std::fs::set_permissions(data.join("dev-secret"), PermissionsExt::from_mode(0o644)).unwrap();
    let data = data.to_str().unwrap();
    let ran = run_with(&["serve", "--ws-port", "0", "--ops-port", "0", "--data", data], &[]);
    ran.ends_with(2);
    assert!(
        ran.err.contains("can be read by others (mode 0644)") && ran.err.contains("remove it"),
        "{}",
        ran.err
    );
}

#[test]
fn a_directory_in_use_and_a_port_in_use_are_named() {
    let place = Place::new();
    let data = place.path("data");
    let hub = Hub::start(&data, &[], &[]);
    let second =
        run_with(&["serve", "--ws-port", "0", "--ops-port", "0", "--data", data.to_str().unwrap()], &[]);
    second.ends_with(2);
    assert!(
        second.err.contains("is in use by another process") && second.err.contains("--data"),
        "{}",
        second.err
    );
    hub.stop();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (flag, other) in [("--ws-port", "--ops-port"), ("--ops-port", "--ws-port")] {
        let other_data = place.text("other");
        let ran = run_with(&["serve", flag, &port, other, "0", "--data", &other_data], &[]);
        ran.ends_with(2);
        assert!(ran.err.contains(&format!("port {port} of 127.0.0.1 is in use")), "{}", ran.err);
        assert!(ran.err.contains(&format!("choose another with {flag}")), "{}", ran.err);
    }
}

#[test]
fn a_damaged_directory_sends_to_the_doctor() {
    let place = Place::new();
    let data = place.path("data");
    Hub::start(&data, &[], &[]).stop();
    std::fs::write(data.join("format"), "nonsense").unwrap();
    let data = data.to_str().unwrap();
    let ran = run_with(&["serve", "--ws-port", "0", "--ops-port", "0", "--data", data], &[]);
    ran.ends_with(2);
    assert!(ran.err.contains(&format!("`event-hub doctor {data}`")), "{}", ran.err);
}

#[test]
fn with_a_secret_of_its_own_it_makes_none_and_prints_no_token() {
    let place = Place::new();
    let secret = "0123456789abcdef0123456789abcdef";
    let hub = Hub::start(&place.path("data"), &[], &[("JWT_SECRET", secret)]);
    assert!(hub.ready.get("token").is_none(), "{}", hub.ready);
    assert!(!place.path("data").join("dev-secret").exists());
    let token = run_with(&["token", "--scope", "publish:**"], &[("JWT_SECRET", secret)]);
    token.ends_with(0);
    assert_eq!(hub.ask(Method::POST, "publish/t", Some(token.out.trim()), "1").0, 200);
    let log = hub.stop();
    assert!(!log.contains(secret), "{log}");
}

#[test]
fn a_reload_changes_rules_and_limits_and_a_bad_one_changes_nothing() {
    let place = Place::new();
    place.write("policy.sib", "(deny publish \"closed.**\")");
    let good = "[server]\nws_port = 0\nops_port = 0\n[auth]\npolicy_file = \"policy.sib\"\n";
    let config = place.write("hub.toml", good);
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let token = hub.token().to_owned();
    let publish =
        |hub: &Hub, topic: &str| hub.ask(Method::POST, &format!("publish/{topic}"), Some(&token), "1").0;
    assert_eq!((publish(&hub, "closed.a"), publish(&hub, "open.a")), (403, 200));

    place.write("policy.sib", "(deny publish \"open.**\")");
    place.write("hub.toml", &format!("{good}[store]\nsegment_size = \"64MiB\"\n"));
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert_eq!((publish(&hub, "closed.a"), publish(&hub, "open.a")), (200, 403));
    assert!(hub.process.log().contains("store.segment_size"), "{}", hub.process.log());

    place.write("policy.sib", "(deny publish");
    hub.process.signal("HUP");
    hub.process.logs("configuration not reloaded");
    assert!(hub.process.log().contains("policy.sib:1:"), "{}", hub.process.log());
    assert_eq!((publish(&hub, "closed.a"), publish(&hub, "open.a")), (200, 403));

    place.write("policy.sib", "");
    place.write("hub.toml", &format!("{good}[limits]\nframe_bytes = \"1KiB\"\nmax_payload = \"1KiB\"\n"));
    hub.process.signal("HUP");
    hub.process.logs("limits.max_payload");
    let large = format!("\"{}\"", "x".repeat(2000));
    assert_eq!(hub.ask(Method::POST, "publish/t", Some(&token), &large).0, 413);
    hub.stop();
}

#[test]
fn a_reload_changes_the_secret() {
    let place = Place::new();
    let (old, new) = ("an old secret that is long enough", "a new secret that is long enough.");
    place.write("secret", old);
    let config = place.write("hub.toml", "[auth]\nsecret_file = \"secret\"\n");
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let token = |secret: &str| run_with(&["token", "--scope", "publish:**"], &[("JWT_SECRET", secret)]).out;
    let publish = |hub: &Hub, token: &str| hub.ask(Method::POST, "publish/t", Some(token.trim()), "1").0;
    assert_eq!((publish(&hub, &token(old)), publish(&hub, &token(new))), (200, 401));
    place.write("secret", new);
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert_eq!((publish(&hub, &token(old)), publish(&hub, &token(new))), (401, 200));
    hub.stop();
}

/// A request whose body does not come, once the hub waits for it.
fn hanging(hub: &Hub) -> TcpStream {
    let host = hub.http().trim_start_matches("http://").trim_end_matches('/');
    let mut socket = TcpStream::connect(host).unwrap();
    let token = hub.token();
    let request = format!(
        "POST /publish/t HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\ncontent-length: 10\r\n\
         expect: 100-continue\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100");
    socket
}

#[test]
fn somebody_who_hangs_does_not_keep_it_from_ending() {
    let place = Place::new();
    let hub = Hub::start(&place.path("data"), &[], &[]);
    let _hanging = hanging(&hub);
    let log = hub.stop();
    assert!(log.contains("stopping by=\"SIGTERM\"") && log.contains("stopped"), "{log}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let mut hub = Hub::start(&place.path("data"), &[], &[]);
    let _hanging = hanging(&hub);
    hub.process.signal("TERM");
    hub.process.logs("stopping by=\"SIGTERM\"");
    hub.process.signal("INT");
    assert_eq!(hub.process.ended(), 1);
    hub.process.logs("ending at once");
}

#[test]
fn a_reload_changes_the_authorities_of_clients() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    place.write("cert.pem", &cert);
    place.write("key.pem", &key);
    let client = || {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let (authority, own) = (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
        let root = params.self_signed(&authority).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, authority);
        let leaf = rcgen::CertificateParams::default().signed_by(&own, &issuer).unwrap();
        (root, own.serialize_pem() + &leaf.pem())
    };
    let asked = |port: &str, shown: Option<&str>| {
        let root = reqwest::Certificate::from_pem(cert.as_bytes()).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([root]);
        let http = match shown {
            Some(pem) => http.identity(reqwest::Identity::from_pem(pem.as_bytes()).unwrap()),
            None => http,
        };
        let (http, url) = (http.build().unwrap(), format!("https://localhost:{port}/healthz"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { http.get(url).send().await.is_ok() })
    };
    let ((one, first), (two, second)) = (client(), client());
    place.write("ca.pem", &one);
    let tls = "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\ntls_client_ca = \"ca.pem\"\n";
    let config = place.write("hub.toml", &format!("{tls}tls_client_auth = \"required\"\n"));
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    let port = hub.http().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    assert!(asked(&port, Some(&first)) && !asked(&port, Some(&second)) && !asked(&port, None));
    place.write("ca.pem", &two);
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert!(asked(&port, Some(&second)) && !asked(&port, Some(&first)) && !asked(&port, None));
    place.write("hub.toml", tls);
    hub.process.forget_log();
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert!(asked(&port, None) && !asked(&port, Some(&first)));
    hub.stop();
}

#[test]
fn with_a_certificate_both_ports_speak_tls_and_a_reload_renews_it() {
    let place = Place::new();
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        place.write("cert.pem", &made.cert.pem());
        place.write("key.pem", &made.signing_key.serialize_pem());
        made.cert.pem()
    };
    let asked = |port: &str, pem: &str| {
        let root = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([root]).build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime
            .block_on(async { client.get(format!("https://localhost:{port}/healthz")).send().await.is_ok() })
    };
    let first = renew();
    let config = place.write("hub.toml", "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n");
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    assert!(hub.ws().starts_with("wss://") && hub.http().starts_with("https://"), "{}", hub.ready);
    let port = hub.http().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    assert!(asked(&port, &first));
    let second = renew();
    assert!(!asked(&port, &second));
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    assert!(asked(&port, &second) && !asked(&port, &first));
    hub.stop();
}
