use hub_testbed::postgres::{database, query};

async fn databases(server: &str) -> Vec<String> {
    let rows = query(server, "SELECT datname FROM pg_database").await.unwrap();
    rows.into_iter().flatten().flatten().collect()
}

#[tokio::test]
async fn a_database_is_empty_and_gone_in_the_end() {
    let database = database().await.unwrap();
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(database.query(tables).await.unwrap(), [[Some("0".to_owned())]]);
    database.query("CREATE TABLE things (a int); INSERT INTO things VALUES (1), (NULL)").await.unwrap();
    let things = database.query("SELECT a FROM things ORDER BY a").await.unwrap();
    assert_eq!(things, [[Some("1".to_owned())], [None]]);

    let (server, name) = (database.server().to_owned(), database.name().to_owned());
    assert!(databases(&server).await.contains(&name));
    drop(database);
    assert!(!databases(&server).await.contains(&name));
}

#[tokio::test]
async fn a_database_that_is_in_use_is_dropped_all_the_same() {
    let database = database().await.unwrap();
    let url = database.url();
    let (server, name) = (database.server().to_owned(), database.name().to_owned());
    let waits = tokio::spawn(async move { query(&url, "SELECT pg_sleep(60)").await });
    let busy = format!("SELECT 1 FROM pg_stat_activity WHERE datname = '{name}' AND query LIKE '%sleep%'");
    while query(&server, &busy).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    drop(database);
    assert!(!databases(&server).await.contains(&name));
    let error = format!("{:#}", waits.await.unwrap().unwrap_err());
    assert!(error.contains("57P01"), "{error}");
}

#[tokio::test]
async fn two_tests_have_two_databases_on_one_server() {
    let (one, other) = (database().await.unwrap(), database().await.unwrap());
    assert_eq!(one.server(), other.server());
    assert_ne!(one.name(), other.name());
    let name = one.query("SELECT current_database()").await.unwrap();
    assert_eq!(name, [[Some(one.name().to_owned())]]);
}

#[tokio::test]
async fn what_the_server_does_not_like_is_told_with_its_code() {
    let database = database().await.unwrap();
    let error = format!("{:#}", database.query("SELECT * FROM nothing").await.unwrap_err());
    assert!(error.contains("42P01") && error.contains("nothing"), "{error}");
}
