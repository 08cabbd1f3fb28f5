//! Several hubs over one store, and users on each of them.

#[path = "cluster/admin.rs"]
mod admin;
#[path = "cluster/edges.rs"]
mod edges;
#[path = "cluster/ends.rs"]
mod ends;
#[path = "cluster/keeping.rs"]
mod keeping;
#[path = "cluster/leaving.rs"]
mod leaving;
#[path = "cluster/link.rs"]
mod link;
#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/moving.rs"]
mod moving;
#[path = "cluster/mtls.rs"]
mod mtls;
#[path = "cluster/nodes.rs"]
pub mod nodes;
#[path = "cluster/peers.rs"]
mod peers;
#[path = "cluster/resuming.rs"]
mod resuming;
#[path = "cluster/schemas.rs"]
mod schemas;
#[path = "cluster/wire.rs"]
mod wire;
