//! Databases that are given up while calls are under way.

use hub_core::outbox::OutboxStore;
use hub_core::store::EventStore;
use hub_store_mongo::outbox::{MongoOutbox, OutboxOptions};
use hub_store_mongo::{MongoStore, Options};
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

const ROUNDS: usize = 10;
/// Tasks that ask all the time.
const TASKS: usize = 16;

/// Asks again and again until it is refused; tells of every answer.
async fn ask(
    (outbox, store): (Arc<MongoOutbox>, MongoStore),
    answered: mpsc::UnboundedSender<()>,
) -> Result<(), hub_core::store::StoreError> {
    loop {
        outbox.counts().await?;
        store.load().await?;
        let _ = answered.send(());
    }
}

/// The driver panics on its own threads, and nobody but a hook hears of that.
#[test]
fn a_database_that_is_given_up_while_calls_are_under_way_leaves_no_panic() {
    let panics = Arc::new(Mutex::new(Vec::new()));
    let (heard, usual) = (panics.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        heard.lock().unwrap().push(panic.to_string());
        usual(panic);
    }));
    let bed = Runtime::new().unwrap();
    let database = bed.block_on(hub_testbed::database()).unwrap();
    for _ in 0..ROUNDS {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let outbox = MongoOutbox::connect(OutboxOptions::new(database.uri())).await.unwrap();
            let asked = (Arc::new(outbox), MongoStore::connect(Options::new(database.uri())).await.unwrap());
            let (answered, mut answers) = mpsc::unbounded_channel();
            let tasks: Vec<_> =
                (0..TASKS).map(|_| tokio::spawn(ask(asked.clone(), answered.clone()))).collect();
            let news = tokio::spawn({
                let outbox = asked.0.clone();
                async move { while outbox.news().await.is_ok() {} }
            });
            for _ in 0..2 * TASKS {
                answers.recv().await.unwrap();
            }
            asked.0.close().await;
            asked.1.close().await.unwrap();
            for task in tasks {
                task.await.unwrap().unwrap_err();
            }
            news.await.unwrap();
        });
        drop(runtime);
    }
    assert_eq!(*panics.lock().unwrap(), Vec::<String>::new());
}
