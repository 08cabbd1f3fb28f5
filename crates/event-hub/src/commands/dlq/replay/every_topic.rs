//! `event-hub dlq replay --all-topics`: one topic after the other. A topic that fails keeps no other one from being replayed.

use super::super::topics_with_letters;
use super::{Args, act, body, planned_count, planned_words};
use crate::confirm::confirm;
use crate::exit::FAILED;
use crate::http::{HttpHub, HttpTarget, is_refusal};
use crate::text::{finish, plural};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

/// What is to be replayed of one topic.
struct Plan {
    topic: String,
    body: Map<String, Value>,
    counted: Value,
}

pub async fn replay(args: &Args) -> Result<ExitCode> {
    let hub = needing(&args.target, "subscribe:dlq.**")?;
    let (topics, is_cut) = topics_with_letters(&hub, &args.filter).await?;
    if is_cut {
        note!("there are more dead letters than were counted; do it again afterwards");
    }
    let mut code = 0;
    let mut plans = Vec::new();
    for topic in topics {
        match plan(args, &topic).await {
            Ok(plan) => plans.push(plan),
            Err(error) if is_refusal(&error) => {
                note!("error: {topic}: {error:#}");
                code = FAILED;
            }
            Err(error) => return Err(error),
        }
    }
    if args.dry_run {
        let shown = plans.iter().map(|Plan { topic, counted, .. }| match args.json {
            true => format!("{counted}\n"),
            false => format!("{topic}: {} would be replayed\n", planned_words(counted)),
        });
        return finish(&shown.collect::<String>(), code);
    }
    plans.retain(|plan| planned_count(&plan.counted) != Some(0) || plan.counted["complete"] == false);
    if plans.is_empty() {
        note!("nothing is to be replayed");
        return Ok(ExitCode::from(code));
    }
    if !args.yes {
        for Plan { topic, counted, .. } in &plans {
            note!("{topic}: {}", planned_words(counted));
        }
        let letters: u64 = plans.iter().filter_map(|plan| planned_count(&plan.counted)).sum();
        let (letters, topics) = (plural(letters, "dead letter"), plural(plans.len() as u64, "topic"));
        if !confirm(&format!("Replay {letters} of {topics}?"), false)? {
            note!("not replayed");
            return Ok(ExitCode::from(FAILED));
        }
    }
    for (at, Plan { topic, body, .. }) in plans.iter().enumerate() {
        let hub = needing(&args.target, &format!("admin:{topic}"))?;
        match act(args, &hub, topic, body, None).await {
            Ok(ended) => {
                code = code.max(ended.code);
                if ended.is_cancelled {
                    let left = plans.len() - at - 1;
                    if left > 0 {
                        note!("{} not begun", plural(left as u64, "topic"));
                    }
                    return Ok(ExitCode::from(FAILED));
                }
            }
            Err(error) => {
                note!("error: {topic}: {error:#}");
                code = FAILED;
            }
        }
    }
    Ok(ExitCode::from(code))
}

/// Counts, and remembers where the count ended: what fails later was not agreed to.
async fn plan(args: &Args, topic: &str) -> Result<Plan> {
    let hub = needing(&args.target, &format!("admin:{topic}"))?;
    let mut body = body(args, topic);
    let mut dry = body.clone();
    dry.insert("dryRun".into(), json!(true));
    let counted = hub.post("/dlq/replay", &dry).await?;
    body.extend(counted.get("upto").map(|upto| ("upto".to_owned(), upto.clone())));
    Ok(Plan { topic: topic.to_owned(), body, counted })
}

fn needing(target: &HttpTarget, right: &str) -> Result<HttpHub> {
    Ok(HttpHub::new(target)?.needing(right))
}
