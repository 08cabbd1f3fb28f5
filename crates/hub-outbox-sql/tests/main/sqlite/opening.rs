//! Files that are there, and files that are not.

use super::File;
use hub_core::outbox::OutboxStore;
use hub_outbox_sql::{ConnectError, Options, SqliteOutbox};

async fn told(place: &str, options: Options) -> ConnectError {
    SqliteOutbox::open(place, options).await.map(drop).unwrap_err()
}

#[tokio::test]
async fn who_has_not_made_the_table_is_told_how() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db").to_str().unwrap().to_owned();
    let missing = told(&path, Options::default()).await;
    assert!(matches!(missing, ConnectError::NoTable { .. }), "{missing}");
    assert!(missing.to_string().contains("which is not there, has no table outbox"), "{missing}");
    assert!(!std::path::Path::new(&path).exists());
    let file = File::new().await;
    let missing = told(&file.path, Options::table("others")).await;
    assert!(missing.to_string().contains("`event-hub outbox init --apply` makes it"), "{missing}");
    let mut shop = file.connect().await;
    sqlx::raw_sql("CREATE TABLE others (id INTEGER PRIMARY KEY)").execute(&mut shop).await.unwrap();
    let other = told(&file.path, Options::table("others")).await;
    assert!(matches!(other, ConnectError::OtherTable { .. }), "{other}");
    assert!(matches!(told(&file.path, Options::table("a b")).await, ConnectError::Settings(_)));
}

#[tokio::test]
async fn making_a_table_twice_or_from_its_text_changes_nothing() {
    let file = File::new().await;
    SqliteOutbox::init(&format!("sqlite://{}", file.path), &Options::default()).await.unwrap();
    let outbox = file.open().await;
    assert_eq!(outbox.name(), "sqlite:outbox");
    let mut shop = file.connect().await;
    let options = Options { table: "second".into(), name: "shop".into(), ..Options::default() };
    for _ in 0..2 {
        let ddl = SqliteOutbox::ddl(&options).unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(ddl)).execute(&mut shop).await.unwrap();
    }
    let second = SqliteOutbox::open(&file.path, options).await.unwrap();
    assert_eq!(second.name(), "shop");
    assert!(second.fresh(None, 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn something_that_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("letter.txt");
    std::fs::write(&path, "Dear database, this is no SQLite file, however long it may be. ".repeat(100))
        .unwrap();
    let refused = told(path.to_str().unwrap(), Options::default()).await;
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
}
