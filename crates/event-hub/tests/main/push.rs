//! Push subscriptions of the real program: configured, reloaded, killed in the middle, and verified by others.

use crate::endpoint::Endpoint;
use crate::hub::{Hub, Place};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn config(place: &Place, endpoints: &[(&str, &Endpoint)]) -> String {
    let mut text = String::new();
    for (name, endpoint) in endpoints {
        text += &format!(
            "[[push]]\nname = \"{name}\"\ntopic = \"t\"\nurl = \"{}\"\nsecrets = [\"{SECRET}\"]\nfrom = \"earliest\"\n\
             allow_private = true\nconcurrency = 4\nmax_attempts = 1\n",
            endpoint.url()
        );
    }
    place.write("hub.toml", &text)
}

fn publish(hub: &Hub, numbers: std::ops::RangeInclusive<u64>) {
    for n in numbers {
        let (status, answer) =
            hub.ask("POST".parse().unwrap(), "publish/t", Some(hub.token()), &n.to_string());
        assert_eq!(status, 200, "{answer}");
    }
}

#[test]
fn a_hub_that_is_killed_in_mid_delivery_loses_nothing() {
    let (place, endpoint) = (Place::new(), Endpoint::new(Duration::from_millis(20)));
    let config = config(&place, &[("crm", &endpoint)]);
    let mut hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    publish(&hub, 1..=40);
    for round in 1..=3 {
        endpoint.wait_for(|numbers| numbers.len() >= 8 * round);
        hub.process.signal("KILL");
        hub.process.ended();
        hub = Hub::start(&place.path("data"), &["--config", &config], &[]);
    }
    let numbers = endpoint.wait_for(|numbers| numbers.iter().collect::<BTreeSet<_>>().len() == 40);
    // What was under way when it was killed comes again, and acks of the last 200 ms may be lost.
    assert!(numbers.len() < 40 + 3 * 20, "{numbers:?}");
    let (_, topics) = hub.ask("GET".parse().unwrap(), "topics", Some(hub.token()), "");
    assert!(!topics.contains("dlq"), "{topics}");
    hub.stop();
}

#[test]
fn endpoints_that_were_put_survive_a_restart_and_those_of_the_file_follow_it() {
    let (place, stored) = (Place::new(), Endpoint::new(Duration::ZERO));
    let (one, other) = (Endpoint::new(Duration::ZERO), Endpoint::new(Duration::ZERO));
    let path = config(&place, &[("one", &one)]);
    let mut hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    let definition = json!({"topic": "t", "url": stored.url(), "secrets": SECRET, "allowPrivate": true, "from": "earliest"});
    let (status, answer) =
        hub.ask("PUT".parse().unwrap(), "push/stored", Some(hub.token()), &definition.to_string());
    assert_eq!(status, 200, "{answer}");
    publish(&hub, 1..=1);
    let all = |count: usize| move |numbers: &[u64]| numbers.len() == count;
    one.wait_for(all(1));
    stored.wait_for(all(1));
    config(&place, &[("other", &other)]);
    hub.process.signal("HUP");
    hub.process.logs("configuration reloaded");
    other.wait_for(all(1));
    publish(&hub, 2..=2);
    other.wait_for(all(2));
    stored.wait_for(all(2));
    assert_eq!(one.numbers(), [1], "it is not in the file any more");
    let log = hub.stop();
    assert!(!log.contains(&SECRET[6..]), "{log}");
    let hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    publish(&hub, 3..=3);
    other.wait_for(all(3));
    stored.wait_for(all(3));
    assert_eq!(stored.numbers(), [1, 2, 3], "each once over a clean restart");
    hub.stop();
}

#[test]
fn deliveries_are_verified_by_standard_webhooks_for_python() {
    let Some(python) = hub_testbed::drivers::python_cloudevents().unwrap() else { return };
    let (place, endpoint) = (Place::new(), Endpoint::new(Duration::ZERO));
    let path = config(&place, &[("crm", &endpoint)]);
    let hub = Hub::start(&place.path("data"), &["--config", &path], &[]);
    publish(&hub, 17..=17);
    endpoint.wait_for(|numbers| numbers == [17]);
    let received = endpoint.received()[0].clone();
    let body = String::from_utf8(received.body).unwrap();
    let program = place.write(
        "main.py",
        "import json, sys\n\
         from cloudevents.core.bindings.http import HTTPMessage, from_structured\n\
         from cloudevents.core.formats.json import JSONFormat\n\
         from standardwebhooks import Webhook, WebhookVerificationError\n\
         secret, headers, body = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]\n\
         Webhook(secret).verify(body, headers)\n\
         event = from_structured(HTTPMessage(headers, body.encode()), JSONFormat())\n\
         assert event.get_data() == 17 and event.get_type() == 't', event\n\
         assert headers['webhook-id'] == event.get_id(), headers\n\
         try:\n    Webhook(secret).verify(body + ' ', headers)\n    sys.exit('a changed body is good')\n\
         except WebhookVerificationError:\n    print('ok')\n",
    );
    let headers = serde_json::to_string(&received.headers).unwrap();
    let ran =
        Command::new(python).args([&program, SECRET, &headers, &body]).stdin(Stdio::null()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.trim() == "ok", "{out}{err}");
    hub.stop();
}
