//! Tasks that the bus cannot do without, and what happens when one panics.
//!
//! A panic is a defect, and a bus that goes on without its saver or its cleaner looks healthy while it loses what it is for. So a task that panics
//! is counted, named in [`Health`], and begun again after a pause that grows with every panic; while it pauses, the bus is not
//! ready. The committer is not begun again: nobody knows what its commit has done. The bus has failed then, see [`Bus::failed`](crate::Bus).

use crate::Millis;
use crate::engine::Engine;
use crate::store::Health;
use futures_util::FutureExt;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The pause after the first panic of a task; the next ones are twice as long each.
const FIRST_PAUSE: Millis = 1_000;
const MAX_PAUSE: Millis = 60_000;

/// What became of the tasks of a bus.
#[derive(Default)]
pub(crate) struct Supervisor {
    tasks: Mutex<BTreeMap<&'static str, Panics>>,
    /// The bus cannot go on.
    failed: CancellationToken,
}

#[derive(Default)]
struct Panics {
    count: u32,
    last: String,
    is_down: bool,
}

impl Supervisor {
    /// A task has panicked; how long it pauses.
    fn panicked(&self, task: &'static str, panic: &(dyn Any + Send)) -> Millis {
        let mut tasks = self.tasks.lock();
        let panics = tasks.entry(task).or_default();
        panics.count += 1;
        panics.last = text_of(panic);
        panics.is_down = true;
        tracing::error!(task, panic = panics.last, count = panics.count, "a task panicked");
        (FIRST_PAUSE << (panics.count - 1).min(16)).min(MAX_PAUSE)
    }

    /// It is begun again.
    fn begun(&self, task: &'static str) {
        if let Some(panics) = self.tasks.lock().get_mut(task) {
            panics.is_down = false;
        }
    }

    /// A task has ended in a panic, and the bus with it.
    pub fn fail(&self, task: &'static str, panic: &(dyn Any + Send)) {
        self.panicked(task, panic);
        self.failed.cancel();
    }

    /// Comes when the bus cannot go on.
    pub async fn failed(&self) {
        self.failed.cancelled().await;
    }

    /// Adds what happened to the tasks to how the store is doing.
    pub fn add_to(&self, health: &mut Health) {
        for (task, panics) in &*self.tasks.lock() {
            let what = format!("the {task} panicked (count {}, last: {})", panics.count, panics.last);
            if panics.is_down {
                health.unavailable.get_or_insert_with(|| what.clone());
            }
            health.warnings.push(what);
        }
    }
}

/// Runs a task until the bus stops, and begins it again whenever it panics.
pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
    engine: &Arc<Engine>,
    task: &'static str,
    act: impl Fn(Arc<Engine>) -> F + Send + 'static,
) {
    run_until(engine, engine.stopping.clone(), task, act);
}

/// The same, until `end` is cancelled.
pub(crate) fn run_until<F: Future<Output = ()> + Send + 'static>(
    engine: &Arc<Engine>,
    end: CancellationToken,
    task: &'static str,
    act: impl Fn(Arc<Engine>) -> F + Send + 'static,
) {
    let this = engine.clone();
    let supervised = async move {
        while let Err(panic) = AssertUnwindSafe(act(this.clone())).catch_unwind().await {
            this.metrics.task_panicked(task);
            let pause = this.supervisor.panicked(task, &*panic);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            this.supervisor.begun(task);
        }
    };
    engine.spawn(async move {
        tokio::select! {
            biased;
            () = end.cancelled() => {}
            () = supervised => {}
        }
    });
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
