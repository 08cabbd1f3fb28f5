//! Deleting what a topic has.

use super::super::Lab;
use super::tools::{Port, T0, keyed, known, plain, seqs, topic};
use crate::store::Deleted;
use hub_proto::Key;

async fn delete(port: &Port, upto: u64) -> Deleted {
    port.0.delete(&topic("t"), upto, T0).await.unwrap()
}

pub(in super::super) async fn no_read_has_what_was_deleted(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), plain(2), keyed(3, "b")]).await;
    assert_eq!(delete(&port, 3).await.removed, 3);
    assert!(port.seqs().await.is_empty());
    assert_eq!(port.0.newest(&topic("t"), &[Key::from("a")]).await.unwrap(), [None]);
    let page = port.0.newest_page(&topic("t"), None, super::tools::ALL).await.unwrap();
    assert!(page.is_empty(), "{page:?}");
    let bounds = port.0.bounds(&topic("t")).await.unwrap();
    assert_eq!((bounds.first, bounds.last, bounds.events, bounds.bytes), (4, 3, 0, 0));
    assert_eq!(port.0.seq_before(&topic("t"), T0).await.unwrap(), 3);
}

pub(in super::super) async fn what_came_after_it_stays(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), plain(2)]).await;
    port.append(T0 + 1, vec![keyed(3, "b")]).await;
    delete(&port, 2).await;
    assert_eq!(port.seqs().await, [3]);
    assert_eq!(seqs(&port.append(T0 + 2, vec![keyed(4, "a")]).await), [4]);
    assert_eq!(port.seqs().await, [3, 4]);
    let bounds = port.0.bounds(&topic("t")).await.unwrap();
    assert_eq!((bounds.first, bounds.last, bounds.events), (3, 4, 2));
    assert_eq!(delete(&port, 2).await.removed, 0, "again changes nothing more");
    assert_eq!(port.0.bounds(&topic("t")).await.unwrap(), bounds);
    let page = port.0.newest_page(&topic("t"), None, super::tools::ALL).await.unwrap();
    assert_eq!(page.iter().map(|event| event.seq()).collect::<Vec<_>>(), [4, 3]);
}

pub(in super::super) async fn it_stays_deleted_when_the_store_is_opened_again(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![keyed(1, "a"), plain(2)]).await;
    delete(&port, 2).await;
    port.append(T0, vec![plain(3)]).await;
    drop(port);
    let port = lab.port().await;
    // A hub loads what is stored before it reads.
    let image = port.0.load().await.unwrap();
    let (_, bounds) = image.topics.iter().find(|(name, _)| *name == topic("t")).unwrap();
    assert_eq!((bounds.first, bounds.last, bounds.events), (3, 3, 1));
    assert_eq!(port.seqs().await, [3]);
    assert_eq!(port.0.newest(&topic("t"), &[Key::from("a")]).await.unwrap(), [None]);
}

pub(in super::super) async fn its_ids_are_remembered(lab: Lab) {
    let port = lab.port().await;
    port.append(T0, vec![plain(1), plain(2)]).await;
    delete(&port, 2).await;
    let answers = port.commit(T0 + 1, vec![plain(1), plain(2), plain(3)]).await;
    assert_eq!(answers[..2].iter().map(known).collect::<Vec<_>>(), [(1, true), (2, true)]);
    assert_eq!(port.seqs().await, [3]);
    assert_eq!(port.0.bounds(&topic("t")).await.unwrap().events, 1);
}
