use hub_testbed::Proxy;
use hub_testbed::postgres::{database, query};

#[tokio::test]
async fn a_database_is_out_of_reach_while_the_way_is_cut() {
    let database = database().await.unwrap();
    let proxy = Proxy::start(database.server()).await.unwrap();
    let url = database.url_by(proxy.address());
    let name = [[Some(database.name().to_owned())]];
    assert_eq!(query(&url, "SELECT current_database()").await.unwrap(), name);
    proxy.cut().await.unwrap();
    assert!(query(&url, "SELECT 1").await.is_err());
    proxy.heal().await.unwrap();
    assert_eq!(query(&url, "SELECT current_database()").await.unwrap(), name);
}
