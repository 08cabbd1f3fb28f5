//! What checking payloads against a JSON Schema costs a publish, and what it costs one to a topic without a schema.
//!
//! Three topics of one hub take turns: one before the hub has any schema, one beside schemas of other topics, and one whose schema
//! has 20 properties. All get the same payload.

use super::client::publish_payload;
use super::publish::{over_wire, settle, warm_up};
use super::server::{Server, TOKEN};
use crate::measure::{Samples, Scale};
use crate::report::{Figure, Limit, Report};
use crate::store::place::Place;
use anyhow::{Result, ensure};

/// Events of each run.
const EVENTS: usize = 100_000;
const IN_FLIGHT: usize = 64;
/// Properties of the schema.
const PROPERTIES: usize = 20;
/// Schemas of other topics.
const OTHERS: usize = 100;
/// What is to be left of the rate with a schema.
const LEAST: f64 = 0.75;
/// What is to be left of it beside schemas of other topics: as much, as far as that can be measured.
const LEAST_BESIDE: f64 = 0.95;

/// Measures and reports.
pub async fn run(place: &Place, scale: Scale, report: &mut Report) -> Result<()> {
    let (schema, payload) = twenty_properties();
    let events = scale.events(EVENTS);
    let [mut without, mut beside, mut checked]: [Samples; 3] = Default::default();
    for _ in 0..Scale::TURNS {
        let server = Server::start(place)?;
        warm_up(&server, scale).await?;
        settle(&server).await?;
        let rate = async |topic: &str| {
            let frame = publish_payload(topic, &payload);
            Ok::<_, anyhow::Error>(over_wire(&server, &frame, 1, IN_FLIGHT, events).await?.rate(events))
        };
        rate("orders.first").await?;
        without.push(rate("orders.plain").await?);
        put(&server, "orders.checked", &schema).await?;
        for other in 0..OTHERS {
            put(&server, &format!("other.{other}.*"), &schema).await?;
        }
        checked.push(rate("orders.checked").await?);
        beside.push(rate("orders.plain").await?);
    }
    let name = |what: &str| format!("publish, {IN_FLIGHT} in flight: {what}");
    report.figure(Figure::new(name("no schemas"), &without, "events/s"));
    report.figure(Figure::new(name(&format!("{OTHERS} schemas of other topics")), &beside, "events/s"));
    report.figure(Figure::new(name(&format!("a schema of {PROPERTIES} properties")), &checked, "events/s"));
    let figure = Figure::ratio(name("beside schemas of other topics to no schemas"), &beside, &without);
    report.figure(figure.limit(Limit::AtLeast(LEAST_BESIDE)));
    let figure = Figure::ratio(name("with a schema to no schemas"), &checked, &without);
    report.figure(figure.limit(Limit::AtLeast(LEAST)));
    Ok(())
}

/// A schema, and a payload that matches it.
fn twenty_properties() -> (String, String) {
    let kinds = [
        (r#"{"type":"string","maxLength":40}"#, r#""a text of some words""#),
        (r#"{"type":"integer","minimum":0}"#, "12345"),
        (r#"{"type":"number"}"#, "12.5"),
        (r#"{"type":"boolean"}"#, "true"),
        (r#"{"enum":["new","paid","sent"]}"#, r#""paid""#),
    ];
    let list = |write: &dyn Fn(usize) -> String| (0..PROPERTIES).map(write).collect::<Vec<_>>().join(",");
    let properties = list(&|n| format!(r#""property{n}":{}"#, kinds[n % kinds.len()].0));
    let required = list(&|n| format!(r#""property{n}""#));
    let members = list(&|n| format!(r#""property{n}":{}"#, kinds[n % kinds.len()].1));
    let schema = format!(
        r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#
    );
    (schema, format!("{{{members}}}"))
}

async fn put(server: &Server, topic: &str, schema: &str) -> Result<()> {
    let url = format!("http://{}/schemas/{topic}", server.ops());
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.put(url).bearer_auth(TOKEN).body(schema.to_owned()).send().await?;
    let status = answer.status();
    ensure!(status.is_success(), "a schema was refused with {status}: {}", answer.text().await?);
    Ok(())
}
