//! Whether a new version of a schema accepts everything that the old one accepted.
//!
//! The answer is a proof: rule by rule, what the new version asks for has to follow from what the old one asked for. What cannot be
//! proved is refused, so a version is never taken for compatible that is not; some that are compatible are refused as well, and can
//! be forced.
//!
//! A claim says that every value which matches all schemas of a list (what is *known*) matches another one (the *goal*). The claim
//! about a value may rest on claims about the members and items of that value. Those are smaller, so a claim that comes up again on
//! the way down may be assumed: that is what makes recursive schemas comparable.

mod alternatives;
mod arrays;
mod empty;
mod facts;
mod objects;
mod same;
mod scalars;

use crate::bounds::COMPARISONS;
use crate::node::{Kinds, NodeId};
use crate::schema::Schema;
use facts::Facts;
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use std::fmt;

/// A proof takes more stack than a thread of a runtime has: its depth is bounded by this many claims, one within the other.
const DEPTH: usize = 128;
const STACK_BYTES: usize = 32 << 20;

/// Why a new version may not accept everything that the old one accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incompatible {
    path: String,
    rule: String,
}

impl Incompatible {
    /// The place in the new schema, as a JSON pointer.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What the place asks for that the old version did not.
    pub fn rule(&self) -> &str {
        &self.rule
    }
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.rule)
    }
}

/// Refuses a new version that is not proved to accept everything that the old one accepted.
///
/// ```
/// use hub_schema::{Schema, check_compatible};
/// let old = Schema::compile(br#"{"properties": {"state": {"enum": ["up", "down"]}}}"#)?;
/// let wider = Schema::compile(br#"{"properties": {"state": {"enum": ["up", "down", "gone"]}}}"#)?;
/// assert!(check_compatible(&old, &wider).is_ok());
/// let refused = check_compatible(&wider, &old).expect_err("it accepts less");
/// assert_eq!(refused.to_string(), r#"/properties/state/enum: removed from enum: "gone""#);
/// # Ok::<(), hub_proto::Error>(())
/// ```
///
/// # Errors
/// The first rule that is not proved to follow.
pub fn check_compatible(old: &Schema, new: &Schema) -> Result<(), Incompatible> {
    let prove = || {
        let known = Known::of(vec![At { schema: old, is_old: true, id: old.root() }]);
        let goal = At { schema: new, is_old: false, id: new.root() };
        Proof::default().within(&known, goal)
    };
    let proved = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, prove);
        thread.ok().and_then(|thread| thread.join().ok())
    });
    match proved {
        Some(Ok(())) => Ok(()),
        Some(Err(refusal)) => Err(refusal.into()),
        None => Err(Refusal::new("", "the versions could not be compared".to_owned()).into()),
    }
}

/// A schema of one of the versions.
#[derive(Clone, Copy)]
struct At<'s> {
    schema: &'s Schema,
    is_old: bool,
    id: NodeId,
}

impl<'s> At<'s> {
    fn node(self) -> &'s crate::node::Node {
        self.schema.node(self.id)
    }

    /// Another schema of the same version.
    fn to(self, id: NodeId) -> Self {
        Self { id, ..self }
    }

    fn key(self) -> (bool, NodeId) {
        (self.is_old, self.id)
    }
}

/// What is known of a value: it matches all of these.
#[derive(Clone)]
struct Known<'s> {
    nodes: Vec<At<'s>>,
    kinds: Kinds,
    /// Alternatives of which one is among the nodes.
    chosen: Vec<(bool, NodeId, facts::Choice)>,
}

impl<'s> Known<'s> {
    fn of(mut nodes: Vec<At<'s>>) -> Self {
        nodes.sort_unstable_by_key(|at| at.key());
        nodes.dedup_by_key(|at| at.key());
        Self { nodes, kinds: Kinds::ALL, chosen: Vec::new() }
    }

    fn with(&self, more: impl IntoIterator<Item = At<'s>>) -> Self {
        let mut nodes = self.nodes.clone();
        nodes.extend(more);
        Self { nodes, ..self.clone() }
    }
}

/// Why a claim is not proved.
#[derive(Clone)]
struct Refusal {
    path: String,
    rule: String,
    /// Nothing else is to be tried.
    is_final: bool,
}

impl Refusal {
    fn new(path: &str, rule: String) -> Self {
        Self { path: path.to_owned(), rule, is_final: false }
    }
}

impl From<Refusal> for Incompatible {
    fn from(refusal: Refusal) -> Self {
        let Refusal { mut path, rule, .. } = refusal;
        if path.is_empty() {
            path.push('/');
        }
        let cut = |text: String, most: usize| match text.len() <= most {
            true => text,
            false => format!("{}…", &text[..text.floor_char_boundary(most)]),
        };
        Self { path: cut(path, 200), rule: cut(rule, 300) }
    }
}

type Proved = Result<(), Refusal>;
type Claim = (Vec<(bool, NodeId)>, u8, (bool, NodeId));

/// A proof under way.
#[derive(Default)]
struct Proof {
    comparisons: usize,
    depth: usize,
    /// Claims about a part of the value that are being proved or are proved, and the order in which they came.
    assumed: HashSet<Claim, RandomState>,
    order: Vec<Claim>,
}

impl Proof {
    /// Proves a claim about a part of the value.
    fn within(&mut self, known: &Known<'_>, goal: At<'_>) -> Proved {
        let claim: Claim = (known.nodes.iter().map(|at| at.key()).collect(), known.kinds.0, goal.key());
        if !self.assumed.insert(claim.clone()) {
            return Ok(());
        }
        self.order.push(claim);
        self.attempt(self.order.len() - 1, |proof| proof.follows(known, goal))
    }

    /// Makes an attempt. If it fails, nothing that was proved on the way counts: it may rest on what failed.
    fn attempt(&mut self, since: usize, prove: impl FnOnce(&mut Self) -> Proved) -> Proved {
        let proved = prove(self);
        if proved.is_err() {
            for claim in self.order.drain(since..) {
                self.assumed.remove(&claim);
            }
        }
        proved
    }

    /// Whether a claim about the same value is proved.
    fn proves(&mut self, known: &Known<'_>, goal: At<'_>) -> Result<bool, Refusal> {
        match self.attempt(self.order.len(), |proof| proof.follows(known, goal)) {
            Ok(()) => Ok(true),
            Err(refusal) if refusal.is_final => Err(refusal),
            Err(_) => Ok(false),
        }
    }

    /// The same for a part of the value.
    fn proves_within(&mut self, known: &Known<'_>, goal: At<'_>) -> Result<bool, Refusal> {
        match self.within(known, goal) {
            Ok(()) => Ok(true),
            Err(refusal) if refusal.is_final => Err(refusal),
            Err(_) => Ok(false),
        }
    }

    fn spend(&mut self, comparisons: usize, at: At<'_>) -> Proved {
        self.comparisons += comparisons;
        if self.comparisons > COMPARISONS || self.depth > DEPTH {
            let rule = "the versions are too complex to be compared".to_owned();
            return Err(Refusal { is_final: true, ..Refusal::new(&at.node().at, rule) });
        }
        Ok(())
    }

    /// Proves a claim about the value itself.
    fn follows(&mut self, known: &Known<'_>, goal: At<'_>) -> Proved {
        self.spend(1 + known.nodes.len(), goal)?;
        self.depth += 1;
        let proved = self.follows_by_any_way(known, goal);
        self.depth -= 1;
        proved
    }

    fn follows_by_any_way(&mut self, known: &Known<'_>, goal: At<'_>) -> Proved {
        let facts = Facts::of(known);
        if self.is_empty(known, 0)? {
            return Ok(());
        }
        for fact in &facts.nodes {
            if self.is_same(*fact, goal)? {
                return Ok(());
            }
        }
        if let Some(values) = facts.finite() {
            return self.all_accepted(known, &values, goal);
        }
        let refusal = match self.attempt(self.order.len(), |proof| proof.rules_follow(known, &facts, goal)) {
            Err(refusal) if !refusal.is_final => refusal,
            done => return done,
        };
        // Perhaps it can be seen case by case.
        match self.follows_by_cases(known, &facts, goal)? {
            true => Ok(()),
            false => Err(refusal),
        }
    }

    /// Proves that a goal is met, keyword by keyword.
    fn rules_follow(&mut self, known: &Known<'_>, facts: &Facts<'_>, goal: At<'_>) -> Proved {
        let node = goal.node();
        if node.never {
            return Err(Refusal::new(&node.at, "nothing is accepted here any more".to_owned()));
        }
        if !node.kinds.has(facts.kinds) {
            let lost = Kinds(facts.kinds.0 & !node.kinds.0);
            return Err(refused(goal, "type", format!("narrowed type: {} was accepted", lost.names())));
        }
        if node.values.is_some() {
            return Err(refused(goal, "enum", "the values were not limited to a list".to_owned()));
        }
        self.numbers_follow(facts, goal)?;
        self.strings_follow(facts, goal)?;
        self.arrays_follow(facts, goal)?;
        self.objects_follow(known, facts, goal)?;
        if let Some(reference) = node.reference {
            self.follows(known, goal.to(reference))?;
        }
        for part in &node.all_of {
            self.follows(known, goal.to(*part))?;
        }
        self.alternatives_follow(known, facts, goal)
    }
}

/// A keyword of the goal that does not follow.
fn refused(goal: At<'_>, keyword: &str, rule: String) -> Refusal {
    Refusal::new(&format!("{}/{keyword}", goal.node().at), rule)
}

#[cfg(test)]
mod tests;
