//! `event-hub revoke`: takes tokens back.

use crate::client::block_on;
use crate::confirm::confirm;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget};
use crate::text::finish;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Take tokens back, of a subject or one by its id
///
/// Sockets that came with them end within a second, on every hub of the store. It cannot be undone: give the subject new tokens
/// instead. Needs a token with the admin right on all topics.
///
/// Exit code: 0, 1 if nothing was revoked, 2 if the command line is wrong or there is no terminal to ask on.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["sub", "jti"]))]
pub struct Args {
    /// All tokens of this subject that were issued until now
    #[arg(long, value_name = "SUBJECT")]
    sub: Option<String>,

    /// The token with this id
    #[arg(long, value_name = "ID")]
    jti: Option<String>,

    /// Do not ask first
    #[arg(long, short)]
    yes: bool,

    /// Print the hub's answer as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: HttpTarget,
}

pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(revoke(args))
}

async fn revoke(args: &Args) -> Result<ExitCode> {
    let hub = HttpHub::new(&args.target)?.needing("admin:**");
    let sub = args.sub.as_ref().map(|sub| format!("all tokens of {sub:?} issued until now"));
    let jti = args.jti.as_ref().map(|jti| format!("the token with the id {jti:?}"));
    let what = sub.into_iter().chain(jti).collect::<Vec<_>>().join(" and ");
    if !confirm(&format!("Revoke {what}, for ever?"), args.yes)? {
        note!("not revoked");
        return Ok(ExitCode::from(FAILED));
    }
    let mut body = json!({});
    for (name, value) in [("sub", &args.sub), ("jti", &args.jti)] {
        if let Some(value) = value {
            body[name] = Value::from(value.as_str());
        }
    }
    let answer = hub.post("/revoke", &body).await?;
    match args.json {
        true => finish(&format!("{answer}\n"), 0),
        false => finish(&format!("revoked: {what}\n"), 0),
    }
}
