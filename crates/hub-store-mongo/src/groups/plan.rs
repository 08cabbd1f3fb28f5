//! From records to one change per document.

use super::document::{Address, group_fields, subscription_fields};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hub_core::store::{Progress, Record};
use mongodb::bson::Document;

/// What is to become of one document. The records behind it share an answer.
#[derive(Debug)]
pub struct Wanted {
    pub address: Address,
    /// The epoch of the records.
    pub epoch: u64,
    /// Which records they are.
    pub records: Vec<usize>,
    pub change: Change,
    /// An insert of it was sent before, and what became of that is not known.
    pub tried: bool,
}

/// See [`Wanted`].
#[derive(Debug)]
pub enum Change {
    /// It is brought forward, and made if `fields` are given.
    Update {
        /// All fields but the state; `None` leaves them as they are.
        fields: Option<Document>,
        /// Steps of the state. One that came before the fields counts only for a document that is there.
        steps: Vec<Step>,
    },
    /// It goes, and is made anew.
    Replace {
        /// All fields but the state.
        fields: Document,
        /// Steps of the new state.
        steps: Vec<Step>,
    },
    /// It goes.
    Delete,
}

/// A step of a group's state.
#[derive(Debug)]
pub struct Step {
    pub progress: Progress,
    /// Whether the batch had made the group by then.
    pub made: bool,
}

enum Kind {
    Fields(Document),
    Step(Progress),
    Gone,
}

/// Groups records by document. Several waves are needed only if one document is written under several epochs.
pub fn waves(records: Vec<Record>, epochs: &[u64]) -> Vec<Vec<Wanted>> {
    let mut done = Vec::new();
    let mut wave: Vec<Wanted> = Vec::new();
    let mut places: HashMap<Address, usize, RandomState> = HashMap::default();
    for (index, record) in records.into_iter().enumerate() {
        let epoch = epochs.get(index).copied().unwrap_or(0);
        let (address, kind) = read(record);
        if let Some(&at) = places.get(&address) {
            if wave[at].epoch == epoch {
                wave[at].records.push(index);
                wave[at].change.add(kind);
                continue;
            }
            done.push(std::mem::take(&mut wave));
            places.clear();
        }
        let mut change = Change::Update { fields: None, steps: Vec::new() };
        change.add(kind);
        places.insert(address.clone(), wave.len());
        wave.push(Wanted { address, epoch, records: vec![index], change, tried: false });
    }
    done.push(wave);
    done
}

fn read(record: Record) -> (Address, Kind) {
    match record {
        Record::Group(record) => {
            let fields = group_fields(&record);
            (Address::Group(record.topic, record.name), Kind::Fields(fields))
        }
        Record::Progress(topic, group, progress) => (Address::Group(topic, group), Kind::Step(progress)),
        Record::GroupGone(topic, group) => (Address::Group(topic, group), Kind::Gone),
        Record::Subscription(record) => {
            let fields = subscription_fields(&record);
            (Address::Subscription(record.label, record.group), Kind::Fields(fields))
        }
        Record::SubscriptionGone(label, group) => (Address::Subscription(label, group), Kind::Gone),
    }
}

impl Change {
    fn add(&mut self, kind: Kind) {
        match (self, kind) {
            (Self::Update { fields, .. }, Kind::Fields(new)) => *fields = Some(new),
            (Self::Replace { fields, .. }, Kind::Fields(new)) => *fields = new,
            (change @ Self::Delete, Kind::Fields(fields)) => {
                *change = Self::Replace { fields, steps: Vec::new() };
            }
            (Self::Update { fields, steps }, Kind::Step(progress)) => {
                steps.push(Step { progress, made: fields.is_some() });
            }
            (Self::Replace { steps, .. }, Kind::Step(progress)) => steps.push(Step { progress, made: true }),
            // Progress of a group that is not there.
            (Self::Delete, Kind::Step(_)) => {}
            (change, Kind::Gone) => *change = Self::Delete,
        }
    }
}
