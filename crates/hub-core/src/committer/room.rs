//! Room in the line before the store, in bytes.
//!
//! Topics that are held up (see [`lanes`](super::lanes)) have a room of their own, as large as that of the others: however much
//! waits for them, it does not use up the room of topics that are not.

use crate::topic::Topic;
use hub_proto::Draft;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// Room that events take in the line, until this is dropped.
#[derive(Default)]
pub(crate) struct Room {
    steady: Option<OwnedSemaphorePermit>,
    held_up: Option<OwnedSemaphorePermit>,
}

impl Room {
    #[cfg(test)]
    pub fn steady(permit: OwnedSemaphorePermit) -> Self {
        Self { steady: Some(permit), held_up: None }
    }

    /// How much it is.
    pub fn bytes(&self) -> usize {
        let bytes = |permit: &Option<OwnedSemaphorePermit>| {
            permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
        };
        bytes(&self.steady) + bytes(&self.held_up)
    }

    pub fn merge(&mut self, other: Self) {
        merge(&mut self.steady, other.steady);
        merge(&mut self.held_up, other.held_up);
    }

    /// Takes so much out of it, or what there is.
    pub fn split(&mut self, bytes: usize) -> Self {
        let steady = split(&mut self.steady, bytes);
        let left = bytes - steady.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        Self { steady, held_up: split(&mut self.held_up, left) }
    }

    /// The same, beginning with the room of topics that are held up.
    pub fn split_held_up(&mut self, bytes: usize) -> Self {
        let held_up = split(&mut self.held_up, bytes);
        let left = bytes - held_up.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        Self { steady: split(&mut self.steady, left), held_up }
    }
}

fn merge(all: &mut Option<OwnedSemaphorePermit>, more: Option<OwnedSemaphorePermit>) {
    match (&mut *all, more) {
        (Some(all), Some(more)) => all.merge(more),
        (None, more) => *all = more,
        (Some(_), None) => {}
    }
}

fn split(from: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    if bytes == 0 {
        return None;
    }
    match from {
        Some(permit) if permit.num_permits() > bytes => permit.split(bytes),
        _ => from.take(),
    }
}

/// Why there is no room at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Others have it: it can be waited for.
    Full,
    /// Nothing is taken any more.
    Closed,
}

/// The room of a line.
pub(crate) struct Rooms {
    steady: Arc<Semaphore>,
    held_up: Arc<Semaphore>,
    capacity: usize,
}

impl Rooms {
    pub fn new(capacity: usize) -> Self {
        let room = || Arc::new(Semaphore::new(capacity));
        Self { steady: room(), held_up: room(), capacity }
    }

    pub fn close(&self) {
        self.steady.close();
        self.held_up.close();
    }

    /// Room for an event, if there is some at once. Free room is given to those who wait first, so taking it is no jumping
    /// of the queue.
    pub fn try_take(&self, is_held_up: bool, bytes: usize) -> Result<Room, NoRoom> {
        let room = if is_held_up { &self.held_up } else { &self.steady };
        let permit =
            room.clone().try_acquire_many_owned(self.permits(bytes)).map_err(|error| match error {
                TryAcquireError::NoPermits => NoRoom::Full,
                TryAcquireError::Closed => NoRoom::Closed,
            })?;
        Ok(match is_held_up {
            true => Room { steady: None, held_up: Some(permit) },
            false => Room { steady: Some(permit), held_up: None },
        })
    }

    /// Waits for room for events; `None` once it is closed. Those who ask get it in the order in which they asked.
    pub async fn take(&self, drafts: &[(Arc<Topic>, Draft)]) -> Option<Room> {
        let (mut steady, mut held_up) = (0, 0);
        for (topic, draft) in drafts {
            *(if topic.is_held_up() { &mut held_up } else { &mut steady }) += draft.len();
        }
        let mut room = Room::default();
        // The acquisition that may take long comes first: a publisher that waits for it holds nothing else.
        if held_up > 0 {
            let permits = self.permits(held_up);
            room.held_up = Some(self.held_up.clone().acquire_many_owned(permits).await.ok()?);
        }
        if steady > 0 || held_up == 0 {
            let permits = self.permits(steady);
            room.steady = Some(self.steady.clone().acquire_many_owned(permits).await.ok()?);
        }
        Some(room)
    }

    /// Moves room to that of topics that are held up; `false`, and nothing is changed, if there is none.
    pub fn hold_up(&self, room: &mut Room) -> bool {
        let Some(steady) = &room.steady else { return true };
        let Ok(permits) = u32::try_from(steady.num_permits()) else { return false };
        let Ok(permit) = self.held_up.clone().try_acquire_many_owned(permits) else { return false };
        room.steady = None;
        merge(&mut room.held_up, Some(permit));
        true
    }

    /// More than the whole queue is admitted alone.
    fn permits(&self, bytes: usize) -> u32 {
        bytes.clamp(1, self.capacity) as u32
    }
}
