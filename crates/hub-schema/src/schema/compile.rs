//! From the text of a schema to its nodes. What cannot be checked within bounds is refused here.

use super::references::{Target, join, resolve, target};
use super::rules;
use crate::bounds::{APPLIED_IN_PLACE, PATTERNS, SUBSCHEMAS};
use crate::node::{Condition, Node, NodeId};
use crate::pattern::{Pattern, TableBudget};
use crate::value::Value;
use hub_proto::shown;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// What is wrong, with the place.
pub(super) type Compiled<T> = Result<T, String>;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords that change what others mean in a way that is not supported, with what to write instead.
const REFUSED: [(&str, &str); 7] = [
    ("$dynamicRef", "write $ref"),
    ("$dynamicAnchor", "write $anchor and $ref"),
    ("$recursiveRef", "write $ref"),
    ("$recursiveAnchor", "write $ref"),
    ("$vocabulary", "leave it out: it is for meta-schemas"),
    ("dependencies", "write dependentRequired or dependentSchemas, as it is called since 2019-09"),
    ("additionalItems", "write items beside prefixItems, as it is called since 2020-12"),
];

/// Compiles a schema and all schemas in it.
pub(super) fn compile(root: &Value<'_>) -> Compiled<(Vec<Node>, NodeId)> {
    let id = match root.get("$id") {
        None => None,
        Some(Value::String(id)) => Some(id.as_ref()),
        Some(_) => return Err("/$id: it must be a string".into()),
    };
    let mut compiler = Compiler {
        root,
        id,
        nodes: Vec::new(),
        by_place: BTreeMap::new(),
        anchors: BTreeMap::new(),
        pending: VecDeque::new(),
        references: Vec::new(),
        patterns: 0,
        tables: TableBudget::default(),
    };
    let first = compiler.at(String::new(), root)?;
    compiler.finish()?;
    let nodes = compiler.nodes;
    check_in_place(&nodes)?;
    Ok((nodes, first))
}

pub(super) struct Compiler<'v, 'a> {
    root: &'v Value<'a>,
    id: Option<&'v str>,
    nodes: Vec<Node>,
    by_place: BTreeMap<String, NodeId>,
    anchors: BTreeMap<String, NodeId>,
    /// Schemas that are known and not read yet.
    pending: VecDeque<(NodeId, &'v Value<'a>)>,
    /// Which schema names which place.
    references: Vec<(NodeId, &'v str)>,
    patterns: usize,
    tables: TableBudget,
}

impl<'v, 'a> Compiler<'v, 'a> {
    /// The schema at a place.
    fn at(&mut self, place: String, value: &'v Value<'a>) -> Compiled<NodeId> {
        if let Some(id) = self.by_place.get(&place) {
            return Ok(*id);
        }
        if !matches!(value, Value::Bool(_) | Value::Object(_)) {
            return Err(format!(
                "{}: it is {}; a schema is an object, true or false",
                shown_place(&place),
                value.kind()
            ));
        }
        if self.nodes.len() == SUBSCHEMAS {
            return Err(format!("it is made of more than {SUBSCHEMAS} schemas, which is the limit"));
        }
        let id = self.nodes.len();
        self.nodes.push(Node::new(&place));
        self.by_place.insert(place, id);
        self.pending.push_back((id, value));
        Ok(id)
    }

    /// A schema within the one at `node`.
    pub fn child(&mut self, node: &Node, steps: &[&str], value: &'v Value<'a>) -> Compiled<NodeId> {
        let place = steps.iter().fold(node.at.to_string(), |place, step| join(&place, step));
        self.at(place, value)
    }

    /// A list of schemas, not empty.
    pub fn children(&mut self, node: &Node, keyword: &str, value: &'v Value<'a>) -> Compiled<Vec<NodeId>> {
        match value {
            Value::Array(items) if !items.is_empty() => items
                .iter()
                .enumerate()
                .map(|(at, item)| self.child(node, &[keyword, &at.to_string()], item))
                .collect(),
            _ => Err(wrong(node, keyword, "it must be an array of at least one schema")),
        }
    }

    /// An object of schemas.
    pub fn named(
        &mut self,
        node: &Node,
        keyword: &str,
        value: &'v Value<'a>,
    ) -> Compiled<Vec<(&'v Cow<'a, str>, NodeId)>> {
        let Value::Object(members) = value else {
            return Err(wrong(node, keyword, "it must be an object of schemas"));
        };
        members.iter().map(|(name, value)| Ok((name, self.child(node, &[keyword, name], value)?))).collect()
    }

    pub fn pattern(&mut self, node: &Node, keyword: &str, text: &str) -> Compiled<Pattern> {
        self.patterns += 1;
        if self.patterns > PATTERNS {
            return Err(format!("it has more than {PATTERNS} regular expressions, which is the limit"));
        }
        Pattern::new(text, &mut self.tables)
            .map_err(|why| wrong(node, keyword, &format!("{}: {why}", shown(text))))
    }

    /// Reads what was named, and what that names, until nothing is left.
    fn finish(&mut self) -> Compiled<()> {
        loop {
            if let Some((id, value)) = self.pending.pop_front() {
                let mut node = Node::new(&self.nodes[id].at);
                self.read(id, &mut node, value)?;
                self.nodes[id] = node;
                continue;
            }
            // Every anchor outside of what only references reach is known by now.
            let Some((from, reference)) = self.references.pop() else { return Ok(()) };
            let at = wrong_place(&self.nodes[from], "$ref");
            let to = match target(reference, self.id).map_err(|why| format!("{at}: {why}"))? {
                Target::Anchor(name) => self.anchors.get(&name).copied(),
                Target::Pointer(pointer) => match resolve(self.root, &pointer) {
                    Some(value) => Some(self.at(pointer, value)?),
                    None => None,
                },
            };
            let missing = || format!("{at}: there is nothing at {} in this document", shown(reference));
            self.nodes[from].reference = Some(to.ok_or_else(missing)?);
        }
    }

    fn read(&mut self, id: NodeId, node: &mut Node, value: &'v Value<'a>) -> Compiled<()> {
        let members = match value {
            Value::Bool(is_anything) => {
                node.never = !is_anything;
                return Ok(());
            }
            Value::Object(members) => members,
            _ => return Ok(()),
        };
        let is_root = node.at.is_empty();
        for (keyword, value) in members {
            if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| refused == keyword) {
                return Err(wrong(node, keyword, &format!("this keyword is not supported; {instead}")));
            }
            match (keyword.as_ref(), value) {
                ("$schema", Value::String(draft)) if draft.trim_end_matches('#') == DRAFT => {}
                ("$schema", _) => {
                    return Err(wrong(
                        node,
                        keyword,
                        &format!("only {DRAFT} is supported; leave it out, or write that"),
                    ));
                }
                ("$id", _) if !is_root => {
                    return Err(wrong(node, keyword, "only the whole document may have an $id"));
                }
                ("$ref", Value::String(reference)) => self.references.push((id, reference)),
                ("$ref", _) => return Err(wrong(node, keyword, "it must be a string")),
                ("$anchor", Value::String(name)) => {
                    if self.anchors.insert(name.to_string(), id).is_some_and(|before| before != id) {
                        return Err(wrong(
                            node,
                            keyword,
                            &format!("the anchor {} is there twice", shown(name)),
                        ));
                    }
                }
                ("$anchor", _) => return Err(wrong(node, keyword, "it must be a string")),
                ("$defs" | "definitions", value) => drop(self.named(node, keyword, value)?),
                ("allOf", value) => node.all_of = self.children(node, keyword, value)?,
                ("anyOf", value) => node.any_of = Some(self.children(node, keyword, value)?),
                ("oneOf", value) => node.one_of = Some(self.children(node, keyword, value)?),
                ("not", value) => node.not = Some(self.child(node, &[keyword], value)?),
                ("if", test) => {
                    let test = self.child(node, &["if"], test)?;
                    let mut branch = |keyword: &str| {
                        members
                            .iter()
                            .find(|(name, _)| name == keyword)
                            .map(|(_, value)| self.child(node, &[keyword], value))
                            .transpose()
                    };
                    node.condition =
                        Some(Condition { test, then: branch("then")?, otherwise: branch("else")? });
                }
                // Without an `if` they mean nothing, but they are schemas.
                ("then" | "else", value) => drop(self.child(node, &[keyword], value)?),
                (keyword, value) => rules::read(self, node, keyword, value)?,
            }
        }
        rules::finish(node)
    }
}

/// What is wrong with a keyword.
pub(super) fn wrong(node: &Node, keyword: &str, why: &str) -> String {
    format!("{}: {why}", wrong_place(node, keyword))
}

fn wrong_place(node: &Node, keyword: &str) -> String {
    shown_place(&join(&node.at, keyword))
}

/// A place as people read it, and not too long.
pub(super) fn shown_place(place: &str) -> String {
    const MOST: usize = 200;
    match place.len() {
        0 => "/".to_owned(),
        bytes if bytes <= MOST => place.to_owned(),
        _ => format!("{}…", &place[..place.floor_char_boundary(MOST)]),
    }
}

/// Refuses schemas that are applied to one value for ever, or too often one by the other.
fn check_in_place(nodes: &[Node]) -> Compiled<()> {
    // How many are applied in place, one by the other, from each on; `None` while that is being found out.
    let mut depths: Vec<Option<usize>> = vec![None; nodes.len()];
    let mut is_open = vec![false; nodes.len()];
    for start in 0..nodes.len() {
        let mut path = vec![(start, nodes[start].in_place().collect::<Vec<_>>())];
        if depths[start].is_some() {
            continue;
        }
        is_open[start] = true;
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            match rest.pop() {
                Some(next) if is_open[next] => {
                    return Err(format!(
                        "{}: it refers to itself without looking at a member or an item in between",
                        shown_place(&nodes[next].at)
                    ));
                }
                Some(next) if depths[next].is_none() => {
                    is_open[next] = true;
                    path.push((next, nodes[next].in_place().collect()));
                }
                Some(_) => {}
                None => {
                    let deepest = nodes[node].in_place().filter_map(|next| depths[next]).max().unwrap_or(0);
                    if deepest + 1 > APPLIED_IN_PLACE {
                        return Err(format!(
                            "{}: more than {APPLIED_IN_PLACE} schemas are applied to one value, one by the other; this is the limit",
                            shown_place(&nodes[node].at)
                        ));
                    }
                    depths[node] = Some(deepest + 1);
                    is_open[node] = false;
                    path.pop();
                }
            }
        }
    }
    Ok(())
}
