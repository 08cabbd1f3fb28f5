//! From forms to rules and topics.

use super::super::claims::{all_actions, check_group, check_rule, check_size, cut, scope_rule};
use super::super::{Action, Effect, MAX_PATTERNS, Policy, Rule};
use super::reader::{Form, Kind};
use super::{MAX_NAMES, Place, Sib, SibError, topic};
use hub_core::TopicSettings;
use hub_proto::Pattern;
use std::collections::HashMap;
use std::rc::Rc;

/// What a form stands for. Names share it, so a name costs nothing however often it is written alone.
#[derive(Clone)]
enum Value {
    Rules(Rc<[Placed]>),
    Strings(Rc<[Spelled]>),
}

#[derive(Clone)]
struct Placed {
    rule: Rule,
    place: Place,
}

#[derive(Clone)]
struct Spelled {
    text: Rc<str>,
    place: Place,
}

struct Named {
    value: Value,
    place: Place,
    used: bool,
}

/// What has been understood so far.
#[derive(Default)]
struct File {
    names: HashMap<String, Named>,
    rules: Vec<Placed>,
    topics: Vec<(Pattern, TopicSettings, Place)>,
}

const TOP: &str = "(allow …), (deny …), (scopes->policy …), (define-topic …), (def …) or a name";
const RESERVED: [&str; 11] = [
    "allow",
    "deny",
    "def",
    "scopes->policy",
    "define-topic",
    "publish",
    "subscribe",
    "admin",
    "*",
    "true",
    "false",
];

/// Understands the forms of a file, from top to bottom.
pub(super) fn understand(forms: &[Form]) -> Result<Sib, SibError> {
    let mut file = File::default();
    for form in forms {
        file.top(form)?;
    }
    // Of several the first is told, so that an error does not depend on chance.
    let idle = file.names.iter().filter(|(_, named)| !named.used && matches!(named.value, Value::Rules(_)));
    if let Some((name, named)) = idle.min_by_key(|(_, named)| named.place) {
        let name = cut(name, 48);
        return Err(named.place.error(format!(
            "the rules of {name} are used nowhere, and def only names them; write {name} on a line of its own to add them"
        )));
    }
    let (rules, places) = file.rules.into_iter().map(|placed| (placed.rule, placed.place)).unzip();
    let topics = file.topics.into_iter().map(|(pattern, settings, _)| (pattern, settings)).collect();
    Ok(Sib { policy: Policy::new(rules), places, topics })
}

impl File {
    /// A form at the top of the file.
    fn top(&mut self, form: &Form) -> Result<(), SibError> {
        match &form.kind {
            Kind::List(inside) if head(inside) == Some("def") => return self.define(form, &inside[1..]),
            Kind::List(inside) if head(inside) == Some("define-topic") => {
                return self.define_topic(form, &inside[1..]).map(drop);
            }
            Kind::List(inside) if matches!(head(inside), Some("allow" | "deny" | "scopes->policy")) => {}
            Kind::Vector(_) | Kind::Symbol(_) => {}
            _ => return Err(form.expected(TOP)),
        }
        match self.value(form)? {
            Value::Rules(rules) => append_rules(&mut self.rules, &rules, form),
            Value::Strings(_) => {
                Err(form.error(format!("{TOP} is expected, not strings ({})", form.shown())))
            }
        }
    }

    /// `(def NAME FORM)`
    fn define(&mut self, form: &Form, inside: &[Form]) -> Result<(), SibError> {
        let [Form { kind: Kind::Symbol(name), place }, value] = inside else {
            return Err(form.error("(def NAME FORM) is expected: one name and one form"));
        };
        let shown = cut(name, 48);
        if RESERVED.contains(&name.as_str()) {
            return Err(place.error(format!("{shown} has a meaning already; take another name")));
        }
        if let Some(Named { place: Place { line, column }, .. }) = self.names.get(name) {
            return Err(place.error(format!("{shown} is defined already, on line {line}, column {column}")));
        }
        if self.names.len() == MAX_NAMES {
            return Err(place.error(format!("a file may define at most {MAX_NAMES} names")));
        }
        let value = self.value(value)?;
        self.names.insert(name.clone(), Named { value, place: *place, used: false });
        Ok(())
    }

    /// What a form stands for.
    fn value(&mut self, form: &Form) -> Result<Value, SibError> {
        match &form.kind {
            Kind::Text(text) => {
                Ok(Value::Strings([Spelled { text: text.as_str().into(), place: form.place }].into()))
            }
            Kind::Symbol(name) => {
                let Some(named) = self.names.get_mut(name) else {
                    let name = form.shown();
                    return Err(
                        form.error(format!("{name} is not defined; (def {name} …) has to stand above"))
                    );
                };
                named.used = true;
                Ok(named.value.clone())
            }
            Kind::Vector(inside) => self.several(inside, form),
            Kind::List(inside) => match head(inside) {
                Some("allow") => self.rule(Effect::Allow, form, &inside[1..]),
                Some("deny") => self.rule(Effect::Deny, form, &inside[1..]),
                Some("scopes->policy") => self.scopes(form, &inside[1..]),
                Some("define-topic") => self.define_topic(form, &inside[1..]).map(Value::Strings),
                _ => Err(form.expected("(allow …), (deny …), (scopes->policy …) or (define-topic …)")),
            },
            Kind::Map(_) | Kind::Keyword(_) | Kind::Number(_) => {
                Err(form.expected("a rule, a string, a vector of them or a name"))
            }
        }
    }

    /// `[…]`: rules or strings, not both. As deep as brackets nest.
    fn several(&mut self, inside: &[Form], form: &Form) -> Result<Value, SibError> {
        if let [only] = inside {
            return self.value(only);
        }
        let (mut rules, mut strings) = (Vec::new(), Vec::new());
        for item in inside {
            match self.value(item)? {
                Value::Rules(more) if strings.is_empty() => append_rules(&mut rules, &more, item)?,
                Value::Strings(more) if rules.is_empty() => append_strings(&mut strings, &more, item)?,
                _ => return Err(item.error("a vector has rules or strings, not both")),
            }
        }
        match (rules.is_empty(), strings.is_empty()) {
            (false, _) => Ok(Value::Rules(rules.into())),
            (_, false) => Ok(Value::Strings(strings.into())),
            _ => Err(form.error("this vector is empty; rules or strings are expected in it")),
        }
    }

    /// A form that has to stand for strings.
    fn strings(&mut self, form: &Form, what: &str) -> Result<Rc<[Spelled]>, SibError> {
        match &form.kind {
            Kind::Text(_) | Kind::Symbol(_) | Kind::Vector(_) | Kind::List(_) => match self.value(form)? {
                Value::Strings(strings) => Ok(strings),
                Value::Rules(_) => {
                    Err(form.error(format!("{what} is expected, not rules ({})", form.shown())))
                }
            },
            _ => Err(form.expected(what)),
        }
    }

    /// `(allow ACTION PATTERN… :groups GROUPS)`
    fn rule(&mut self, effect: Effect, form: &Form, inside: &[Form]) -> Result<Value, SibError> {
        let (action, mut rest) = match inside.split_first() {
            Some((action, rest)) => (action, rest.iter()),
            None => return Err(form.error("an action is expected: publish, subscribe, admin or *")),
        };
        let actions = actions(action)?;
        let (mut patterns, mut groups) = (Vec::new(), None);
        while let Some(next) = rest.next() {
            match &next.kind {
                Kind::Keyword(name) if name == "groups" && groups.is_some() => {
                    return Err(next.error(":groups is given twice"));
                }
                Kind::Keyword(name) if name == "groups" => {
                    let what = "a group or a vector of groups";
                    let named = rest
                        .next()
                        .ok_or_else(|| next.error(format!("{what} is expected behind :groups")))?;
                    groups = Some(self.strings(named, what)?);
                }
                Kind::Keyword(_) => return Err(next.expected("a pattern or :groups")),
                _ => append_strings(
                    &mut patterns,
                    &self.strings(next, "a pattern, such as \"orders.*\",")?,
                    next,
                )?,
            }
        }
        if patterns.is_empty() {
            return Err(form.error(r#"a pattern is expected, such as "orders.*", or "**" for every topic"#));
        }
        let groups = groups.map(|groups| groups.iter().map(group).collect::<Result<_, _>>()).transpose()?;
        let topics = patterns.iter().map(pattern).collect::<Result<_, _>>()?;
        let rule = Rule { effect, actions, topics, groups };
        check_rule(&rule).map_err(|error| form.error(error.msg))?;
        check_size([&rule]).map_err(|error| form.error(error.msg))?;
        Ok(Value::Rules([Placed { rule, place: form.place }].into()))
    }

    /// `(scopes->policy ["publish:heartbeat.*"])`
    fn scopes(&mut self, form: &Form, inside: &[Form]) -> Result<Value, SibError> {
        let what = "a vector of scopes, such as [\"publish:heartbeat.*\"],";
        let [scopes] = inside else { return Err(form.error(format!("one thing, {what} is expected"))) };
        let mut rules = Vec::new();
        for Spelled { text, place } in self.strings(scopes, what)?.iter() {
            let rule = scope_rule(text).map_err(|error| place.error(error.msg))?;
            let rule = rule.ok_or_else(|| {
                let action = text.split_once(':').map_or(&**text, |(action, _)| action);
                place.error(format!(
                    "a scope's action is publish, subscribe, admin or *, not {:?}",
                    cut(action, 48)
                ))
            })?;
            rules.push(Placed { rule, place: *place });
        }
        Ok(Value::Rules(rules.into()))
    }

    /// `(define-topic PATTERN …)`; stands for its pattern.
    fn define_topic(&mut self, form: &Form, inside: &[Form]) -> Result<Rc<[Spelled]>, SibError> {
        let what = "a topic or a pattern of topics";
        let Some((name, options)) = inside.split_first() else {
            return Err(form.error(format!("{what} is expected")));
        };
        let names = self.strings(name, what)?;
        let settings = topic::settings(options)?;
        for spelled in names.iter() {
            let (pattern, place) = (pattern(spelled)?, spelled.place);
            if let Some((_, _, Place { line, column })) =
                self.topics.iter().find(|(known, ..)| *known == pattern)
            {
                let msg =
                    format!("the topic \"{pattern}\" is defined already, on line {line}, column {column}");
                return Err(place.error(msg));
            }
            if self.topics.len() == MAX_NAMES {
                return Err(form.error(format!("a file may define at most {MAX_NAMES} topics")));
            }
            self.topics.push((pattern, settings.clone(), form.place));
        }
        Ok(names)
    }
}

/// The word that a list begins with.
fn head(inside: &[Form]) -> Option<&str> {
    match &inside.first()?.kind {
        Kind::Symbol(name) => Some(name),
        _ => None,
    }
}

/// `publish`, `*`, or `[publish admin]`.
fn actions(form: &Form) -> Result<Vec<Action>, SibError> {
    let forms = match &form.kind {
        Kind::Vector(forms) => forms.as_slice(),
        _ => std::slice::from_ref(form),
    };
    let mut words = Vec::new();
    for form in forms {
        match &form.kind {
            Kind::Symbol(word) if all_actions([word.as_str()]).is_ok() => words.push(word.as_str()),
            _ => return Err(form.expected("an action (publish, subscribe, admin or *)")),
        }
    }
    all_actions(words).map_err(|error| form.error(error.msg))
}

fn pattern(spelled: &Spelled) -> Result<Pattern, SibError> {
    Pattern::parse(&spelled.text).map_err(|error| spelled.place.error(error.msg))
}

fn group(spelled: &Spelled) -> Result<String, SibError> {
    check_group(&spelled.text).map_err(|error| spelled.place.error(error.msg))?;
    Ok(spelled.text.to_string())
}

/// Bounded at every step, for names can stand for names of names.
fn append_rules(rules: &mut Vec<Placed>, more: &[Placed], form: &Form) -> Result<(), SibError> {
    let all = rules.iter().chain(more).map(|placed| &placed.rule);
    check_size(all).map_err(|error| form.error(error.msg))?;
    rules.extend_from_slice(more);
    Ok(())
}

fn append_strings(strings: &mut Vec<Spelled>, more: &[Spelled], form: &Form) -> Result<(), SibError> {
    // Whether they are patterns, groups or scopes, no policy may have more.
    let count = strings.len() + more.len();
    if count > MAX_PATTERNS {
        return Err(form.error(format!("{count} strings in one list; at most {MAX_PATTERNS} are allowed")));
    }
    strings.extend_from_slice(more);
    Ok(())
}
