//! `event-hub token`: a token of the hub's own secret.

use crate::config::{build::read_secret, units};
use crate::secret;
use crate::text::finish;
use anyhow::{Context, Result, anyhow, bail};
use hub_core::{Clock, IdGenerator, SystemClock};
use hub_server::acl::sib::Sib;
use hub_server::acl::{Effect, Policy, Rule};
use hub_server::auth::Secret;
use hub_server::auth::mint::{Claims, mint};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What a token may do if nobody says.
const SCOPES: [&str; 2] = ["publish:heartbeat.received", "subscribe:process.state"];

/// Make a token, signed with the hub's secret (HS256)
///
/// The secret is that of --secret-file, else JWT_SECRET, else the development secret of the data directory, which
/// `event-hub serve` makes at its first start. Only the token is printed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whom the token speaks for
    #[arg(long, value_name = "SUBJECT", default_value = "developer")]
    sub: String,

    /// What it may do, such as publish:heartbeat.*; several times for more [default: publish:heartbeat.received
    /// subscribe:process.state]
    #[arg(long = "scope", value_name = "SCOPE", value_parser = scope)]
    scopes: Vec<String>,

    /// The same as rules: a .sib file, a .json file, or JSON such as {"rules":[…]}
    #[arg(long, value_name = "RULES", conflicts_with = "scopes")]
    policy: Option<String>,

    /// How long it holds, such as 90s, 24h or 30d; `never` for a token without end, which a hub refuses by default
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = ttl)]
    ttl: Ttl,

    /// For which hub (`aud`); several times for more
    #[arg(long, value_name = "AUDIENCE", env = "JWT_AUD", value_delimiter = ',')]
    aud: Vec<String>,

    /// By whom (`iss`)
    #[arg(long, value_name = "ISSUER", env = "JWT_ISS")]
    iss: Option<String>,

    /// A file that holds the secret
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// The data directory
    #[arg(long, value_name = "DIR", env = "EVENT_HUB_DATA", default_value = "./event-hub-data")]
    data: PathBuf,
}

/// How long a token holds; `None`: for ever.
#[derive(Clone, Copy, Debug)]
struct Ttl(Option<Duration>);

fn ttl(text: &str) -> Result<Ttl, String> {
    if text == "never" {
        return Ok(Ttl(None));
    }
    let millis = units::parse_time(text).filter(|millis| *millis >= 1000);
    let millis = millis.ok_or("a time such as 90s, 24h or 30d, at least 1s; or never")?;
    Ok(Ttl(Some(Duration::from_millis(millis))))
}

/// A misspelt scope would make a token that may do nothing.
fn scope(text: &str) -> Result<String, String> {
    let word = text.split(':').next().unwrap_or_default();
    if !["publish", "subscribe", "admin", "*"].contains(&word) {
        return Err(
            "a scope is publish, subscribe, admin or *, a colon and a pattern: publish:heartbeat.*".into()
        );
    }
    Policy::from_scopes(&[text]).map_err(|error| error.msg)?;
    Ok(text.to_owned())
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let policy = args.policy.as_deref().map(policy).transpose()?;
    let scopes = match (&policy, &args.scopes[..]) {
        (Some(_), _) => Vec::new(),
        (None, []) => SCOPES.map(str::to_owned).to_vec(),
        (None, scopes) => scopes.to_vec(),
    };
    let claims = Claims {
        sub: Some(args.sub.clone()),
        scopes,
        policy,
        aud: args.aud.clone(),
        iss: args.iss.clone(),
        ttl: args.ttl.0,
        jti: Some(new_jti()),
    };
    let secret = secret_of(args.secret_file.as_deref(), &args.data)?;
    finish(&format!("{}\n", mint(&secret, &claims)), 0)
}

/// An id of its own, by which the token can be revoked.
pub fn new_jti() -> String {
    IdGenerator::new().next(SystemClock::new().wall()).to_string()
}

fn secret_of(file: Option<&Path>, data: &Path) -> Result<Secret> {
    if let Some(file) = file {
        return read_secret(file).map_err(|what| anyhow!("--secret-file: {what}"));
    }
    if let Some(text) = std::env::var_os("JWT_SECRET") {
        return match text.to_str() {
            Some(text) if !text.trim().is_empty() => Ok(Secret::new(text)),
            _ => bail!("JWT_SECRET is empty or not UTF-8 text; unset it, or use the secret of the hub"),
        };
    }
    secret::load(data)?.ok_or_else(|| {
        anyhow!(
            "there is no secret: {} has no development secret, which `event-hub serve` makes at its first start; name \
             its directory with --data, or use --secret-file or JWT_SECRET",
            data.display()
        )
    })
}

/// Rules as a token has them.
fn policy(text: &str) -> Result<Value> {
    let value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).context("--policy is not JSON")?
    } else {
        let bytes = std::fs::read(text).with_context(|| format!("--policy: {text} cannot be read"))?;
        if text.ends_with(".json") {
            serde_json::from_slice(&bytes).with_context(|| format!("--policy: {text} is not JSON"))?
        } else {
            let sib = Sib::from_bytes(&bytes).map_err(|error| anyhow!("--policy: {text}:{error}"))?;
            json!({ "rules": sib.policy.rules().iter().map(written).collect::<Vec<_>>() })
        }
    };
    let claims = serde_json::Map::from_iter([("policy".to_owned(), value)]);
    // The hub reads it the same way, so what it would refuse is refused here.
    Policy::from_claims(&claims).map_err(|error| anyhow!("--policy: {}", error.msg))?;
    Ok(claims.into_iter().next().map_or(Value::Null, |(_, value)| value))
}

fn written(rule: &Rule) -> Value {
    let effect = match rule.effect {
        Effect::Allow => "allow",
        Effect::Deny => "deny",
    };
    let actions: Vec<_> = rule.actions.iter().map(|action| action.as_str()).collect();
    let topics: Vec<_> = rule.topics.iter().map(|pattern| pattern.as_str()).collect();
    let mut value = json!({ "effect": effect, "action": actions, "topics": topics });
    if let (Some(groups), Some(object)) = (&rule.groups, value.as_object_mut()) {
        object.insert("groups".into(), json!(groups));
    }
    value
}
