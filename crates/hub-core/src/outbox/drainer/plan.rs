//! Choosing and claiming rows, in a number of calls that does not grow with them.

use crate::Millis;
use crate::outbox::row::{Place, Ready, Row, RowId};
use crate::outbox::shares::slot_of;
use crate::outbox::store::{Claim, Holding, OutboxStore};
use crate::store::StoreResult;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pages of rows that are looked at for one claim: others' rows are among them.
const PAGES: usize = 8;

/// What a claim is to be.
pub(super) struct Ask {
    pub claim: Claim,
    /// Rows that are wanted; and as many as are looked at for them, which may be fewer because rows are large.
    pub batch: usize,
    pub full: usize,
    pub lease: Millis,
    /// Bytes of rows that are wanted, at most.
    pub most_bytes: usize,
    /// When it was begun, on the steady clock.
    pub asked: Millis,
    /// Whether parked rows hold others up.
    pub parked: bool,
    /// Whose slots these are.
    pub slots: Vec<bool>,
    /// How far fresh rows have been looked at; from the beginning if this is empty.
    pub seen: Option<Place>,
    /// Where to begin instead if there are rows: the beginning is slow to look at, and was looked at a moment ago.
    pub floor: Option<Place>,
}

/// What came of it.
pub(super) struct Plan {
    pub claim: Claim,
    pub asked: Millis,
    /// Rows that were asked for.
    pub wanted: usize,
    /// Those of a key in their order.
    pub rows: Vec<Row>,
    /// Rows that were claimed, and an earlier one of their key was not: they go back.
    pub overtaking: Vec<Row>,
    /// There may be more.
    pub more: bool,
    /// How far fresh rows have been looked at.
    pub seen: Option<Place>,
    /// Where the next claim can begin, after one from the beginning.
    pub floor: Floor,
}

/// What a claim tells of the beginning of fresh rows.
pub(super) enum Floor {
    /// It did not look there, and has come to this place.
    At(Option<Place>),
    /// It did, which took long: rows that are no longer there are in the way. It has come to this place.
    Slow(Option<Place>),
    /// It did.
    Quick,
}

pub(super) async fn claim(store: &dyn OutboxStore, ask: Ask) -> StoreResult<Plan> {
    let Found { mut rows, from_start, mut more, mut seen, reached, mut floor, .. } =
        find_from_floor(store, &ask).await?;
    let Ask { claim, batch, lease, most_bytes, asked, parked, seen: seen_before, .. } = ask;
    add_earlier(store, &mut rows, batch, from_start).await?;
    let held = held_up(store, &claim.worker, &rows, parked).await?;
    if !held.is_empty() {
        store.put_behind(&held).await?;
        let held: HashSet<&RowId, RandomState> = held.iter().collect();
        rows.retain(|row| !held.contains(&row.place.id));
    }
    // In the order in which they go out: those that are too many bytes are the last ones of their keys.
    let rows = in_order(rows);
    let ids: Vec<RowId> = rows.iter().map(|row| row.place.id.clone()).collect();
    let claimed = match ids.is_empty() {
        true => Vec::new(),
        false => store.claim(&claim, &ids, lease, most_bytes).await?,
    };
    if claimed.is_empty() && held.is_empty() {
        // What cannot be claimed is not to be found again and again.
        seen = reached;
    } else if claimed.len() < ids.len() {
        // What was too many bytes is where it was.
        (seen, more) = (seen_before, true);
        if let Floor::At(place) | Floor::Slow(place) = &mut floor {
            *place = None;
        }
    }
    let (overtaking, claimed) = split_overtaking(&rows, claimed);
    Ok(Plan { claim, asked, wanted: ids.len(), rows: in_order(claimed), overtaking, more, seen, floor })
}

/// Something that has a place among those of its key.
trait Placed {
    fn key(&self) -> Option<&Arc<str>>;
    fn place(&self) -> &Place;
}

impl Placed for Ready {
    fn key(&self) -> Option<&Arc<str>> {
        self.key.as_ref()
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

impl Placed for Row {
    fn key(&self) -> Option<&Arc<str>> {
        self.key.as_ref()
    }

    fn place(&self) -> &Place {
        &self.place
    }
}

/// Takes those out of which an earlier one of the same key was asked for and not given: somebody else has it in hand.
fn split_overtaking(asked: &[Ready], claimed: Vec<Row>) -> (Vec<Row>, Vec<Row>) {
    if asked.len() == claimed.len() {
        return (Vec::new(), claimed);
    }
    let given: HashSet<&RowId, RandomState> = claimed.iter().map(|row| &row.place.id).collect();
    let mut missing: HashMap<Arc<str>, Place, RandomState> = HashMap::default();
    for row in asked.iter().filter(|row| !given.contains(&row.place.id)) {
        let Some(key) = &row.key else { continue };
        let first = missing.entry(key.clone()).or_insert_with(|| row.place.clone());
        if row.place < *first {
            *first = row.place.clone();
        }
    }
    drop(given);
    claimed.into_iter().partition(|row| {
        let missing = row.key.as_ref().and_then(|key| missing.get(key));
        missing.is_some_and(|missing| *missing < row.place)
    })
}

/// Rows of our slots that are due or fresh.
struct Found {
    rows: Vec<Ready>,
    /// They are all fresh, and everything fresh before the last one was looked at.
    from_start: bool,
    more: bool,
    seen: Option<Place>,
    /// The last fresh row that was looked at.
    reached: Option<Place>,
    /// Likewise, also if there are no more behind it.
    last: Option<Place>,
    floor: Floor,
}

/// Looks from the floor on. If nothing is there, nothing is lost by looking from the beginning.
async fn find_from_floor(store: &dyn OutboxStore, ask: &Ask) -> StoreResult<Found> {
    if ask.seen.is_none() && ask.floor.is_some() {
        let found = find(store, ask, ask.floor.as_ref()).await?;
        if !found.rows.is_empty() {
            // The next one begins here or at the beginning.
            let floor = Floor::At(found.last.clone());
            return Ok(Found { seen: None, floor, ..found });
        }
    }
    find(store, ask, ask.seen.as_ref()).await
}

/// Whether the first fresh rows came so late that others must have been in the way, compared with a call that reads almost
/// nothing.
fn is_slow(fresh: Duration, due: Duration, rows: usize) -> bool {
    let usual =
        Duration::from_millis(3) + Duration::from_micros(10) * u32::try_from(rows).unwrap_or(u32::MAX);
    fresh > 4 * due + usual
}

async fn find(store: &dyn OutboxStore, ask: &Ask, seen: Option<&Place>) -> StoreResult<Found> {
    let Ask { batch, full, slots, .. } = ask;
    let ours =
        |row: &Ready| slots.get(slot_of(row.key.as_deref(), row.place.id.as_str())).is_some_and(|ours| *ours);
    let share = slots.iter().filter(|ours| **ours).count();
    if share == 0 {
        let (rows, floor) = (Vec::new(), Floor::Quick);
        return Ok(Found {
            rows,
            from_start: true,
            more: false,
            seen: None,
            reached: None,
            last: None,
            floor,
        });
    }
    // Of which a part is ours.
    let page = (full * slots.len() / share).min(full * PAGES);
    let asked = Instant::now();
    let mut due = store.due(page).await?;
    let took_due = asked.elapsed();
    let more_due = due.len() == page;
    if more_due && !due.iter().any(ours) {
        // Those of others are in the way.
        due = store.due(page * PAGES).await?;
    }
    let from_start = seen.is_none() && due.is_empty();
    let mut rows: Vec<_> = due.into_iter().filter(ours).collect();
    if batch < full {
        rows.truncate(*batch);
    }
    let (floor, seen, reached) = (Floor::Quick, seen.cloned(), seen.cloned());
    let mut found = Found { rows, from_start, more: true, seen: seen.clone(), reached, last: None, floor };
    let mut is_slow_start = false;
    for turn in 0..PAGES {
        if found.rows.len() >= *batch {
            break;
        }
        // Between two pages rows may have come whose place is on the one before.
        found.from_start &= turn == 0;
        let asked = Instant::now();
        let fresh = store.fresh(found.reached.as_ref(), page).await?;
        is_slow_start |= found.reached.is_none() && is_slow(asked.elapsed(), took_due, page);
        found.last = fresh.last().map(|row| row.place.clone()).or(found.last);
        let room = *batch - found.rows.len();
        let last = fresh.iter().filter(|row| ours(row)).nth(room).filter(|_| batch < full);
        if let Some(last) = last.map(|row| row.place.clone()) {
            // The others wait for another time.
            found.rows.extend(fresh.into_iter().take_while(|row| row.place != last).filter(ours));
            found.reached = found.rows.last().map(|row| row.place.clone());
            found.last.clone_from(&found.reached);
            break;
        }
        // Those after the end are at the beginning, the next time.
        found.reached = fresh.last().map(|row| row.place.clone()).filter(|_| fresh.len() == page);
        found.rows.extend(fresh.into_iter().filter(ours));
        if found.reached.is_none() {
            (found.more, found.seen) = (more_due, None);
            break;
        }
    }
    if is_slow_start {
        found.floor = Floor::Slow(found.last.clone());
    }
    // From the beginning again, where rows that commit late are; unless others' rows were in the way there.
    let is_in_the_way = seen.is_some() || found.rows.len() < *batch;
    found.seen = found.reached.clone().filter(|_| is_in_the_way);
    Ok(found)
}

/// A batch is found by time, from somewhere on. Rows of the same keys may come before what was found of those.
async fn add_earlier(
    store: &dyn OutboxStore,
    found: &mut Vec<Ready>,
    batch: usize,
    from_start: bool,
) -> StoreResult<()> {
    let mut last: HashMap<Arc<str>, Place, RandomState> = HashMap::default();
    for row in found.iter().filter(|row| !from_start || row.place.ord.is_some()) {
        let Some(key) = &row.key else { continue };
        let last = last.entry(key.clone()).or_insert_with(|| row.place.clone());
        if *last < row.place {
            *last = row.place.clone();
        }
    }
    if last.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = last.into_iter().collect();
    let earlier = store.fresh_before(&keys, batch).await?;
    // Of a key that has more than were asked for the last ones wait for another time.
    let mut known: HashMap<&str, (usize, &Place), RandomState> = HashMap::default();
    for row in &earlier {
        let Some(key) = row.key.as_deref() else { continue };
        let (count, last) = known.entry(key).or_insert((0, &row.place));
        (*count, *last) = (*count + 1, &row.place);
    }
    found.retain(|row| {
        let known = row.key.as_deref().and_then(|key| known.get(key));
        known.is_none_or(|(count, last)| *count < batch || row.place <= **last)
    });
    drop(known);
    let mut there: HashSet<RowId, RandomState> = found.iter().map(|row| row.place.id.clone()).collect();
    found.extend(earlier.into_iter().filter(|row| there.insert(row.place.id.clone())));
    Ok(())
}

/// Those that have to wait for an earlier row of their key.
async fn held_up(
    store: &dyn OutboxStore,
    worker: &str,
    found: &[Ready],
    parked: bool,
) -> StoreResult<Vec<RowId>> {
    let keys: HashSet<&Arc<str>, RandomState> = found.iter().filter_map(|row| row.key.as_ref()).collect();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<_> = keys.into_iter().cloned().collect();
    let holding = store.holding(&keys, Holding { worker, parked, behind: true }).await?;
    let there: HashSet<&RowId, RandomState> = found.iter().map(|row| &row.place.id).collect();
    let mut first: HashMap<&str, &Place, RandomState> = HashMap::default();
    for row in holding.iter().filter(|row| !there.contains(&row.place.id)) {
        let Some(key) = row.key.as_deref() else { continue };
        let first = first.entry(key).or_insert(&row.place);
        *first = (*first).min(&row.place);
    }
    let is_held = |row: &&Ready| {
        let holder = row.key.as_deref().and_then(|key| first.get(key));
        holder.is_some_and(|holder| **holder < row.place)
    };
    Ok(found.iter().filter(is_held).map(|row| row.place.id.clone()).collect())
}

/// Rows as they were written, but those of each key in the key's order, at the places that rows of the key have.
fn in_order<T: Placed>(mut rows: Vec<T>) -> Vec<T> {
    rows.sort_by(|a, b| a.place().in_time().cmp(&b.place().in_time()));
    let mut by_key: HashMap<Arc<str>, Vec<usize>, RandomState> = HashMap::default();
    for (at, row) in rows.iter().enumerate() {
        if let Some(key) = row.key() {
            by_key.entry(key.clone()).or_default().push(at);
        }
    }
    // Without numbers time is their order.
    by_key.retain(|_, places| places.len() > 1 && places.iter().any(|&at| rows[at].place().ord.is_some()));
    let mut rows: Vec<Option<T>> = rows.into_iter().map(Some).collect();
    for places in by_key.into_values() {
        let mut of_key: Vec<T> = places.iter().filter_map(|&at| rows[at].take()).collect();
        of_key.sort_by(|a, b| a.place().cmp(b.place()));
        for (at, row) in places.into_iter().zip(of_key) {
            rows[at] = Some(row);
        }
    }
    rows.into_iter().flatten().collect()
}
