//! `event-hub policy check FILE …`: which rule decides, and why the others before it do not.

use crate::text::finish;
use anyhow::{Context, Result, bail};
use hub_proto::{Derived, GroupName, Pattern};
use hub_server::acl::sib::{self, Sib};
use hub_server::acl::{Action, Effect, Policy, Rule, Target, Verdict};
use std::borrow::Cow;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Look at rules of who may do what
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Check(CheckArgs),
}

/// Say which rule of a file decides about an action, and why those before it do not
///
/// FILE is a .sib file; or, if its name ends with .json, what a token has: {"rules":[…]}, {"scopes":[…]}, or claims with
/// `policy`, `scopes` or `scope`. Rules are asked in their order, the first that matches decides; none means denied.
///
/// Exit code: 0 if it is allowed, 1 if it is denied, 2 if the file or the question cannot be understood.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The file with the rules
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// What somebody wants to do
    #[arg(long, value_name = "ACTION")]
    action: Wanted,

    /// The topic it is about; for subscribe and admin also a pattern, which is asked about as a whole
    #[arg(long, value_name = "TOPIC", value_parser = topic)]
    topic: Pattern,

    /// The group that is subscribed with; without it, a read without a group
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<GroupName>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Wanted {
    Publish,
    Subscribe,
    Admin,
}

/// The code of an error is for programs; a person reads what is wrong.
fn topic(text: &str) -> std::result::Result<Pattern, Cow<'static, str>> {
    Pattern::parse(text).map_err(|error| error.msg)
}

fn group(text: &str) -> std::result::Result<GroupName, Cow<'static, str>> {
    GroupName::parse(text).map_err(|error| error.msg)
}

/// Rules, and what to call the place of each.
struct Rules {
    policy: Policy,
    places: Vec<String>,
}

/// Runs the command.
pub fn run(command: &Command) -> Result<ExitCode> {
    let Command::Check(args) = command;
    let action = match args.action {
        Wanted::Publish => Action::Publish,
        Wanted::Subscribe => Action::Subscribe,
        Wanted::Admin => Action::Admin,
    };
    let topic = &args.topic;
    if action == Action::Publish && !topic.is_literal() {
        bail!("--topic {topic} is a pattern; an event is published to one topic, so name that");
    }
    if action != Action::Subscribe && args.group.is_some() {
        bail!("--group goes with --action subscribe; rules know no groups of other actions");
    }
    let rules = read(&args.file)?;
    if action == Action::Publish && Derived::sources(topic.as_str()).next().is_some() {
        return finish(
            &format!("denied: publish {topic}, whatever the rules: only the hub writes derived topics\n"),
            1,
        );
    }
    let group = args.group.as_ref().map(GroupName::as_str);
    let (mut text, mut allowed) = Question { action, topic, group }.explain(&rules);
    for source in topic.sources() {
        let needs = match action {
            Action::Subscribe => "reading it needs the right to read that, too",
            Action::Publish | Action::Admin => "a rule that denies it there denies it here",
        };
        let _ = writeln!(text, "{topic} is derived from {source}: {needs}");
        let question = Question { action, topic: &source, group };
        text.push_str(&question.explain(&rules).0);
        allowed &= rules.policy.permits_source(action, question.target(), group);
    }
    finish(&text, u8::from(!allowed))
}

fn read(path: &Path) -> Result<Rules> {
    let place = path.display();
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("{place} cannot be read"))?;
    // One byte more than allowed is enough to refuse it.
    let mut file = file.take(sib::MAX_BYTES as u64 + 1);
    file.read_to_end(&mut bytes).with_context(|| format!("{place} cannot be read"))?;
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        return from_json(&bytes, path);
    }
    let sib = Sib::from_bytes(&bytes).map_err(|error| anyhow::anyhow!("{place}:{error}"))?;
    let places = sib.places.iter().map(|place| format!("line {}", place.line)).collect();
    Ok(Rules { policy: sib.policy, places })
}

fn from_json(bytes: &[u8], path: &Path) -> Result<Rules> {
    let place = path.display();
    if bytes.len() > sib::MAX_BYTES {
        bail!("{place}: the file has more than {} bytes", sib::MAX_BYTES);
    }
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| {
        // What serde says ends with the place, which is told already.
        let told = error.to_string();
        let what = told.split(" at line ").next().unwrap_or_default();
        anyhow::anyhow!("{place}:{}:{}: {what}", error.line(), error.column())
    })?;
    let claims = value.as_object().filter(|claims| {
        ["rules", "policy", "scopes", "scope"].iter().any(|name| claims.contains_key(*name))
    });
    let Some(claims) = claims else {
        bail!(
            "{place}:1:1: an object with \"rules\", or with \"policy\", \"scopes\" or \"scope\" is expected"
        );
    };
    let policy =
        if claims.contains_key("rules") { Policy::from_rules(&value) } else { Policy::from_claims(claims) };
    let policy = policy.map_err(|error| anyhow::anyhow!("{place}: {}", error.msg))?;
    let places = (1..=policy.rules().len()).map(|at| format!("rule {at}")).collect();
    Ok(Rules { policy, places })
}

struct Question<'a> {
    action: Action,
    topic: &'a Pattern,
    group: Option<&'a str>,
}

impl Question<'_> {
    fn target(&self) -> Target<'_> {
        if self.topic.is_literal() { Target::Topic(self.topic.as_str()) } else { Target::Pattern(self.topic) }
    }

    /// A line per rule that was asked, and the answer.
    fn explain(&self, rules: &Rules) -> (String, bool) {
        let mut text = String::new();
        let decision = rules.policy.decide(self.action, self.target(), self.group);
        let asked = decision.rule.map_or(usize::MAX, |at| at + 1);
        for (rule, place) in rules.policy.rules().iter().zip(&rules.places).take(asked) {
            let why = self.why(rule);
            let _ = writeln!(text, "{place}: {} {why}", short(&rule.to_string()));
        }
        let answer = if decision.allowed { "allowed" } else { "denied" };
        let by =
            decision.rule.map_or_else(|| "no rule decides".into(), |at| format!("by {}", rules.places[at]));
        let with = match (self.action, self.group) {
            (Action::Subscribe, Some(group)) => format!(" with group {group}"),
            (Action::Subscribe, None) => " without a group".into(),
            _ => String::new(),
        };
        let _ = writeln!(text, "{answer}: {} {}{with}, {by}", self.action.as_str(), self.topic);
        if decision.rule.is_none() {
            text.push_str(
                "(where this file is the hub's own policy, the rules of the token are asked next)\n",
            );
        }
        (text, decision.allowed)
    }

    fn why(&self, rule: &Rule) -> String {
        let topic = self.topic;
        let whole = !self.topic.is_literal();
        match (rule.verdict(self.action, self.target(), self.group), rule.effect) {
            (Verdict::Decides(at), effect) => {
                let verb = match (whole, effect) {
                    (false, _) => "matches",
                    (true, Effect::Allow) => "contains",
                    (true, Effect::Deny) => "intersects",
                };
                format!("decides: {} {verb} {topic}", rule.topics[at])
            }
            (Verdict::OtherAction, _) => format!("is not about {}", self.action.as_str()),
            (Verdict::NeedsGroup, _) => "is not about reading without a group".into(),
            (Verdict::OtherGroup, _) => format!("is not about group {}", self.group.unwrap_or_default()),
            (Verdict::OtherTopics, _) if !whole => format!("does not match {topic}"),
            (Verdict::OtherTopics, Effect::Deny) => format!("does not intersect {topic}"),
            (Verdict::OtherTopics, Effect::Allow) => {
                match rule.topics.iter().find(|one| one.intersects(topic)) {
                    Some(one) => format!("does not contain {topic}: {one} is only a part of it"),
                    None => format!("does not contain {topic}"),
                }
            }
        }
    }
}

/// A rule that fits a line.
fn short(rule: &str) -> String {
    const MAX: usize = 160;
    if rule.len() <= MAX { rule.into() } else { format!("{}…)", &rule[..rule.floor_char_boundary(MAX)]) }
}
