//! Saving groups and subscriptions.

use super::document::{Address, Saved, fence_of, name_id, saved};
use super::plan::{self, Change, Step, Wanted};
use super::state::{self, Buckets};
use crate::db::{Db, durable};
use crate::document::signed;
use crate::error::{Trouble, is_passing_code};
use foldhash::fast::RandomState;
use futures_util::TryStreamExt;
use hashbrown::HashMap;
use hub_core::store::{GroupState, Record, StoreError, StoreResult};
use hub_proto::GroupName;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{ErrorKind, PartialBulkWriteResult};
use mongodb::options::{DeleteOneModel, InsertOneModel, ReplaceOneModel, UpdateOneModel, WriteModel};
use mongodb::results::VerboseBulkWriteResult;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Between two tries.
const BACKOFF: Duration = Duration::from_millis(20);
/// Saves that find another revision than they are based on, in a row, before they say so.
const TRIES: usize = 10;

/// Writes records, and remembers what it wrote.
pub struct GroupWriter {
    db: Db,
    /// What is in the database, as far as this hub knows.
    known: Mutex<HashMap<Address, Saved, RandomState>>,
}

/// What was read before a write.
#[derive(Default)]
struct Loaded {
    /// The fences of names of which a document is not known.
    fences: HashMap<GroupName, u64, RandomState>,
    /// Documents that cannot be read, and are left as they are.
    damaged: HashMap<Address, StoreError, RandomState>,
}

/// A document that is about to be written.
struct Write {
    wanted: Wanted,
    model: WriteModel,
    /// What is known once it is written; `None` if it is gone then.
    then: Option<Saved>,
    inserts: bool,
}

/// What becomes of a change.
enum Verdict {
    /// This is to be written.
    Write(Box<Write>),
    /// Nothing has to be done, or may be.
    Answer(Box<Wanted>, StoreResult<()>),
}

impl GroupWriter {
    pub fn new(db: Db) -> Self {
        Self { db, known: Mutex::default() }
    }

    /// Notes what was read from the database.
    pub fn learn(&self, found: impl IntoIterator<Item = (Address, Saved)>) {
        self.known.lock().extend(found);
    }

    /// Writes records, each under its epoch; answers each.
    pub async fn write(&self, records: Vec<Record>, epochs: &[u64]) -> Vec<StoreResult<()>> {
        let mut answers: Vec<StoreResult<()>> = records.iter().map(|_| Ok(())).collect();
        if records.is_empty() {
            return answers;
        }
        let deadline = Instant::now() + self.db.commit_limit;
        for wave in plan::waves(records, epochs) {
            let mut parts = vec![wave];
            while let Some(part) = parts.pop() {
                parts.extend(self.write_wave(part, deadline, &mut answers).await);
            }
        }
        answers
    }

    /// Writes documents that differ from each other. Answers parts that have to be written one after the other: one of the documents
    /// cannot be sent, and keeps the others from being sent with it.
    async fn write_wave(
        &self,
        mut wave: Vec<Wanted>,
        deadline: Instant,
        answers: &mut [StoreResult<()>],
    ) -> Vec<Vec<Wanted>> {
        let mut answer = |wanted: &Wanted, result: &StoreResult<()>| {
            for &record in &wanted.records {
                answers[record].clone_from(result);
            }
        };
        let mut backoff = BACKOFF;
        for attempt in 1.. {
            if wave.is_empty() {
                break;
            }
            // Whether anybody was told makes no difference to trying again: a record may be written twice.
            let tried = tokio::time::timeout_at(deadline, self.attempt(&mut wave, &mut answer)).await;
            let trouble = match tried {
                Ok(Ok(())) if attempt < TRIES => continue,
                Ok(Ok(())) => Trouble::Busy("somebody else writes to the same groups all the time"),
                Ok(Err(trouble)) => trouble,
                Err(_) => Trouble::Late(self.db.commit_limit),
            };
            self.forget(&wave);
            if wave.len() > 1 && is_of_one_document(&trouble) {
                let half = wave.split_off(wave.len() / 2);
                return vec![half, wave];
            }
            if !trouble.is_passing() || Instant::now() + backoff >= deadline {
                let error = Err(trouble.into());
                wave.iter().for_each(|wanted| answer(wanted, &error));
                break;
            }
            tokio::time::sleep(backoff).await;
            backoff = (backoff * 2).min(Duration::from_millis(500));
        }
        Vec::new()
    }

    /// One round. What is left in `wave` was based on something that has changed.
    async fn attempt(
        &self,
        wave: &mut Vec<Wanted>,
        answer: &mut impl FnMut(&Wanted, &StoreResult<()>),
    ) -> Result<(), Trouble> {
        let loaded = self.load(wave).await?;
        let mut writes = Vec::new();
        // Put back at once if this is given up: a change may be tried twice, and must not be lost.
        let mut guard = PutBack { wave, taken: Vec::new() };
        for wanted in std::mem::take(guard.wave) {
            match self.judge(wanted, &loaded) {
                Verdict::Write(write) => writes.push(*write),
                Verdict::Answer(wanted, result) => answer(&wanted, &result),
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let mut models = Vec::with_capacity(writes.len());
        for Write { wanted, model, then, inserts } in writes {
            models.push(model);
            guard.taken.push((wanted, then, inserts));
        }
        let bulk =
            self.db.client.bulk_write(models).ordered(false).write_concern(durable()).verbose_results();
        let (results, refused) = accepted(self.db.call(bulk).await)?;
        let late = self.late_inserts(&guard.taken, &results).await?;
        for (index, (wanted, then, _)) in std::mem::take(&mut guard.taken).into_iter().enumerate() {
            if let Some(error) = refused.get(&index) {
                self.known.lock().remove(&wanted.address);
                answer(&wanted, &Err(error.clone()));
                continue;
            }
            if !was_written(&results, index) {
                self.known.lock().remove(&wanted.address);
                guard.wave.push(wanted);
                continue;
            }
            if late.contains(&index) {
                self.known.lock().remove(&wanted.address);
                answer(&wanted, &Err(fenced(wanted.address.group())));
                continue;
            }
            match then {
                Some(saved) => drop(self.known.lock().insert(wanted.address.clone(), saved)),
                None => drop(self.known.lock().remove(&wanted.address)),
            }
            answer(&wanted, &Ok(()));
        }
        Ok(())
    }

    /// Reads what is not known yet.
    ///
    /// In a fresh session: what is not found is taken not to be there, and then its progress counts as saved.
    async fn load(&self, wave: &[Wanted]) -> Result<Loaded, Trouble> {
        let unknown: Vec<&Wanted> = {
            let known = self.known.lock();
            wave.iter().filter(|wanted| !known.contains_key(&wanted.address)).collect()
        };
        if unknown.is_empty() {
            return Ok(Loaded::default());
        }
        let mut ids: Vec<Bson> = unknown.iter().map(|wanted| wanted.address.id().into()).collect();
        let mut names: Vec<&GroupName> = unknown.iter().map(|wanted| wanted.address.group()).collect();
        names.sort_unstable();
        names.dedup();
        ids.extend(names.iter().map(|name| Bson::from(name_id(name))));
        let mut session = self.db.fresh_session().await?;
        let find = async {
            let mut found = self.db.groups.find(doc! { "_id": { "$in": ids } }).session(&mut session).await?;
            found.stream(&mut session).try_collect::<Vec<_>>().await
        };
        let found = self.db.call(find).await?;
        let mut by_id: HashMap<String, &Document, RandomState> = HashMap::default();
        for document in &found {
            if let Ok(id) = document.get_document("_id") {
                by_id.insert(id.to_string(), document);
            }
        }
        let mut loaded = Loaded::default();
        for wanted in unknown {
            match by_id.get(&wanted.address.id().to_string()).map(|document| saved(document)) {
                Some(Ok(saved)) => drop(self.known.lock().insert(wanted.address.clone(), saved)),
                Some(Err(error)) => drop(loaded.damaged.insert(wanted.address.clone(), error)),
                None => {}
            }
        }
        let fence =
            |name: &GroupName| by_id.get(&name_id(name).to_string()).map_or(0, |found| fence_of(found));
        loaded.fences = names.into_iter().map(|name| (name.clone(), fence(name))).collect();
        Ok(loaded)
    }

    async fn find(&self, ids: Vec<Bson>) -> Result<Vec<Document>, Trouble> {
        let filter = doc! { "_id": { "$in": ids } };
        self.db.call(async { self.db.groups.find(filter).await?.try_collect().await }).await
    }

    /// What is to be done about one change, given what is known.
    fn judge(&self, wanted: Wanted, loaded: &Loaded) -> Verdict {
        if let Some(error) = loaded.damaged.get(&wanted.address) {
            return Verdict::Answer(Box::new(wanted), Err(error.clone()));
        }
        let base = self.known.lock().get(&wanted.address).cloned();
        let fence = match &base {
            Some(base) => base.fence,
            None => loaded.fences.get(wanted.address.group()).copied().unwrap_or(0),
        };
        if wanted.epoch != 0 && wanted.epoch < fence {
            let error = fenced(wanted.address.group());
            return Verdict::Answer(Box::new(wanted), Err(error));
        }
        let made = match (&wanted.change, &base) {
            (Change::Update { fields: Some(fields), steps }, None) => {
                let steps = steps.iter().filter(|step| step.made);
                Some(self.insert(&wanted, fields, steps))
            }
            (Change::Replace { fields, steps }, None) => Some(self.insert(&wanted, fields, steps.iter())),
            (Change::Update { fields: None, .. } | Change::Delete, None) => None,
            (Change::Update { fields, steps }, Some(base)) => {
                self.update(&wanted, fields.as_ref(), steps, base)
            }
            (Change::Replace { fields, steps }, Some(base)) => {
                Some(self.replace(&wanted, fields, steps, base))
            }
            (Change::Delete, Some(base)) => Some(self.delete(&wanted, base)),
        };
        match made {
            Some((model, then)) => {
                // One whose answer was lost may be there by now, and its lateness was not looked at.
                let inserts = base.is_none() || wanted.tried;
                Verdict::Write(Box::new(Write { wanted, model, then, inserts }))
            }
            None => Verdict::Answer(Box::new(wanted), Ok(())),
        }
    }

    fn insert<'a>(
        &self,
        wanted: &Wanted,
        fields: &Document,
        steps: impl Iterator<Item = &'a Step>,
    ) -> (WriteModel, Option<Saved>) {
        let then = advanced(&Saved { rev: 0, fence: wanted.epoch, ..Saved::default() }, steps);
        let mut document = doc! { "_id": wanted.address.id() };
        document.extend(whole(wanted, fields, &then));
        let namespace = self.db.groups_namespace();
        (InsertOneModel::builder().namespace(namespace).document(document).build().into(), Some(then))
    }

    fn replace(
        &self,
        wanted: &Wanted,
        fields: &Document,
        steps: &[Step],
        base: &Saved,
    ) -> (WriteModel, Option<Saved>) {
        let new = Saved { rev: base.rev, fence: base.fence.max(wanted.epoch), ..Saved::default() };
        let then = advanced(&new, steps.iter());
        let model = ReplaceOneModel::builder()
            .namespace(self.db.groups_namespace())
            .filter(filter(wanted, base))
            .replacement(whole(wanted, fields, &then))
            .build();
        (model.into(), Some(then))
    }

    /// Nothing if nothing would change.
    fn update(
        &self,
        wanted: &Wanted,
        fields: Option<&Document>,
        steps: &[Step],
        base: &Saved,
    ) -> Option<(WriteModel, Option<Saved>)> {
        let mut then = advanced(base, steps.iter());
        let (mut set, mut unset) = (Document::new(), Document::new());
        if matches!(wanted.address, Address::Group(..)) {
            (set, unset) = state::difference((&base.state, &base.buckets), (&then.state, &then.buckets));
        }
        if let Some(fields) = fields {
            set.extend(fields.clone());
            if !fields.contains_key("idle_since") {
                unset.insert("idle_since", "");
            }
        }
        if set.is_empty() && unset.is_empty() {
            return None;
        }
        set.insert("rev", signed(then.rev));
        if wanted.epoch > base.fence {
            // It may be one that a former owner made late, and would take away again.
            then.fence = wanted.epoch;
            set.insert("fence", signed(then.fence));
        }
        let mut update = doc! { "$set": set };
        if !unset.is_empty() {
            update.insert("$unset", unset);
        }
        let model = UpdateOneModel::builder()
            .namespace(self.db.groups_namespace())
            .filter(filter(wanted, base))
            .update(update)
            .build();
        Some((model.into(), Some(then)))
    }

    fn delete(&self, wanted: &Wanted, base: &Saved) -> (WriteModel, Option<Saved>) {
        let namespace = self.db.groups_namespace();
        let model = DeleteOneModel::builder().namespace(namespace).filter(filter(wanted, base)).build();
        (model.into(), None)
    }

    /// Which new documents came after a take-over of their name, and were taken away again.
    async fn late_inserts(
        &self,
        taken: &[(Wanted, Option<Saved>, bool)],
        results: &VerboseBulkWriteResult,
    ) -> Result<Vec<usize>, Trouble> {
        let is_new =
            |index: usize| taken[index].2 && taken[index].0.epoch != 0 && was_written(results, index);
        let new: Vec<usize> = (0..taken.len()).filter(|&index| is_new(index)).collect();
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let mut names: Vec<&GroupName> = new.iter().map(|&index| taken[index].0.address.group()).collect();
        names.sort_unstable();
        names.dedup();
        let found = self.find(names.iter().map(|name| Bson::from(name_id(name))).collect()).await?;
        let fences: HashMap<&str, u64, RandomState> =
            found.iter().map(|found| (found.get_str("name").unwrap_or_default(), fence_of(found))).collect();
        let mut late = Vec::new();
        for index in new {
            let wanted = &taken[index].0;
            let fence = fences.get(wanted.address.group().as_str()).copied().unwrap_or(0);
            if wanted.epoch < fence {
                // Still ours: the take-over did not see it. Else it did, and it is a part of the estate.
                let ours = doc! { "_id": wanted.address.id(), "fence": signed(wanted.epoch) };
                if self.db.call(self.db.groups.delete_one(ours)).await?.deleted_count > 0 {
                    late.push(index);
                }
            }
        }
        Ok(late)
    }

    /// What was written, or not, has to be read again.
    fn forget(&self, wave: &[Wanted]) {
        let mut known = self.known.lock();
        for wanted in wave {
            known.remove(&wanted.address);
        }
    }
}

/// Changes that are under way go back to where they came from, unless somebody takes them out.
struct PutBack<'a> {
    wave: &'a mut Vec<Wanted>,
    taken: Vec<(Wanted, Option<Saved>, bool)>,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        self.wave
            .extend(self.taken.drain(..).map(|(wanted, _, inserts)| Wanted { tried: inserts, ..wanted }));
    }
}

/// The document as it was read, unless a take-over has raised its fence.
fn filter(wanted: &Wanted, base: &Saved) -> Document {
    let mut filter = doc! { "_id": wanted.address.id(), "rev": signed(base.rev) };
    if wanted.epoch != 0 {
        filter.insert("fence", doc! { "$lte": signed(wanted.epoch) });
    }
    filter
}

/// What is there after some steps.
fn advanced<'a>(base: &Saved, steps: impl Iterator<Item = &'a Step>) -> Saved {
    let mut state: GroupState = base.state.clone();
    steps.for_each(|step| state.apply(&step.progress));
    let buckets = Buckets::of(&state);
    Saved { rev: base.rev + 1, fence: base.fence, state, buckets }
}

/// Everything but the `_id`.
fn whole(wanted: &Wanted, fields: &Document, saved: &Saved) -> Document {
    let mut document = fields.clone();
    document.insert("rev", signed(saved.rev));
    document.insert("fence", signed(saved.fence));
    if matches!(wanted.address, Address::Group(..)) {
        document.insert("state", state::whole(&saved.state, &saved.buckets));
    }
    document
}

/// Writes that the server refuses, now and later: too large, or against rules of the collection.
type Refused = HashMap<usize, StoreError, RandomState>;

/// The results of writes that were made. Single ones may have been refused because of what they are based on, or for good.
fn accepted(
    answer: Result<VerboseBulkWriteResult, Trouble>,
) -> Result<(VerboseBulkWriteResult, Refused), Trouble> {
    let trouble = match answer {
        Ok(results) => return Ok((results, Refused::default())),
        Err(trouble) => trouble,
    };
    if let Trouble::Driver(error) = &trouble
        && let ErrorKind::BulkWrite(failed) = error.kind.as_ref()
        && failed.write_concern_errors.is_empty()
        && std::error::Error::source(error).is_none()
        && !failed.write_errors.is_empty()
        && !failed.write_errors.values().any(|error| is_passing_code(error.code))
    {
        // With a duplicate key, a document of that name is there by now.
        let refused = failed.write_errors.iter().filter(|(_, error)| error.code != 11000);
        let refused = refused.map(|(&index, error)| {
            (index, StoreError::Unavailable(format!("{} ({})", error.message, error.code)))
        });
        let results = match &failed.partial_result {
            Some(PartialBulkWriteResult::Verbose(results)) => results.clone(),
            _ => VerboseBulkWriteResult::default(),
        };
        return Ok((results, refused.collect()));
    }
    Err(trouble)
}

/// Whether one document of several may be the reason: it does not fit what can be sent.
fn is_of_one_document(trouble: &Trouble) -> bool {
    let Trouble::Driver(error) = trouble else { return false };
    match error.kind.as_ref() {
        ErrorKind::InvalidArgument { .. } | ErrorKind::BsonSerialization(_) | ErrorKind::Bson(_) => true,
        // BSONObjectTooLarge.
        ErrorKind::Command(error) => error.code == 10334,
        _ => false,
    }
}

fn was_written(results: &VerboseBulkWriteResult, index: usize) -> bool {
    results.insert_results.contains_key(&index)
        || results.update_results.get(&index).is_some_and(|result| result.matched_count > 0)
        || results.delete_results.get(&index).is_some_and(|result| result.deleted_count > 0)
}

fn fenced(group: &GroupName) -> StoreError {
    StoreError::Fenced(group.to_string())
}
