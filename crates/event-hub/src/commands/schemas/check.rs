//! `event-hub schemas check`: a look at a schema before it is stored.

use super::{no_schema, read, versions};
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::text::finish;
use anyhow::{Result, anyhow};
use hub_proto::limits::PAYLOAD_BYTES;
use hub_schema::bounds::SCHEMA_BYTES;
use hub_schema::{Schema, check_compatible};
use std::process::ExitCode;

/// Check a schema before it is stored, and payloads against it
///
/// Without --topic no hub is asked.
///
/// Exit code: 0 if everything is as it should be, 1 if the schema or a payload is refused, 2 if the command line is wrong.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file with the JSON Schema; - is standard input
    #[arg(value_name = "FILE")]
    file: String,

    /// Whether it accepts all that the schema in this file accepts
    #[arg(long, value_name = "FILE", conflicts_with = "topic")]
    old: Option<String>,

    /// Whether it accepts all that the schema accepts which the hub has for this topic or pattern
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,

    /// Whether it accepts the payload in this file; can be given several times
    #[arg(long, value_name = "FILE")]
    payload: Vec<String>,

    #[command(flatten)]
    target: HttpTarget,
}

pub async fn check(args: &Args) -> Result<ExitCode> {
    let schema = compile(&args.file)?;
    let old = match (&args.old, &args.topic) {
        (Some(old), _) => Some((old.clone(), compile(old)?)),
        (_, Some(topic)) => {
            let hub = HttpHub::new(&args.target)?;
            let found = versions(&hub, topic).await?.and_then(|(_, found)| found.versions.into_iter().next());
            let newest = found.ok_or_else(|| no_schema(topic))?;
            let name = match newest.version {
                0 => format!("the schema of {topic} in the hub's configuration"),
                version => format!("version {version} of {topic}"),
            };
            Some((
                name,
                Schema::compile(newest.schema.get().as_bytes()).map_err(|error| anyhow!("{}", error.msg))?,
            ))
        }
        (None, None) => None,
    };
    let (mut text, mut code) = (format!("{}: a schema that the hub takes\n", args.file), 0);
    if let Some((name, old)) = old {
        match check_compatible(&old, &schema) {
            Ok(()) => text += &format!("{}: accepts all that {name} accepts\n", args.file),
            Err(why) => {
                code = FAILED;
                text += &format!("{}: may refuse what {name} accepts: {why}\n", args.file);
            }
        }
    }
    for payload in &args.payload {
        match schema.check(&read(payload, PAYLOAD_BYTES)?) {
            Ok(()) => text += &format!("{payload}: matches\n"),
            Err(violation) => {
                code = FAILED;
                text += &format!("{payload}: {violation}\n");
            }
        }
    }
    finish(&text, code)
}

fn compile(file: &str) -> Result<Schema> {
    Schema::compile(&read(file, SCHEMA_BYTES)?).map_err(|error| anyhow!("{file}: {}", error.msg))
}
