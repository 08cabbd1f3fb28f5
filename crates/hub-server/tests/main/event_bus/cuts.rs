//! A connection that can be cut.

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Stands before a hub. Its connections can be cut; the next ones are let through again.
pub struct Wire {
    address: SocketAddr,
    cuts: mpsc::Sender<oneshot::Sender<()>>,
}

impl Wire {
    pub async fn to(hub: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, mut wanted) = mpsc::channel::<oneshot::Sender<()>>(1);
        tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (mut client, _) = accepted.unwrap();
                        connections.spawn(async move {
                            let mut hub = TcpStream::connect(hub).await.unwrap();
                            // It ends with an error if one side does.
                            let _ = tokio::io::copy_bidirectional(&mut client, &mut hub).await;
                        });
                    }
                    cut = wanted.recv() => {
                        let Some(cut) = cut else { return };
                        connections.shutdown().await;
                        let _ = cut.send(());
                    }
                }
            }
        });
        Self { address, cuts }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts every connection.
    pub async fn cut(&self) {
        let (done, wait) = oneshot::channel();
        self.cuts.send(done).await.unwrap();
        wait.await.unwrap();
    }
}
