//! MongoDB instead of the data directory, and how the hubs on it know and reach each other.

use super::build::{both, secret};
use super::mistakes::Mistakes;
use super::{Config, Found, units};
use crate::outbox::Place;
use hub_client::{Certificate, Target};
use hub_server::auth::{ClusterKey, Secret};
use hub_server::net::TlsFiles;
use hub_store_mongo::{Address, MAX_PAYLOAD, Names, Options};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where the events are, and the hub's place among those that share them.
pub struct Mongo {
    /// With credentials.
    url: Secret,
    /// Without them.
    pub address: Address,
    /// What collections are called.
    collections: Collections,
    /// Where other hubs reach this one, if somebody has set it.
    advertise: Option<String>,
    /// What hubs know each other by, if it is not made of the secret of tokens.
    secret: Option<Secret>,
    /// Certificates that are trusted at other hubs' addresses.
    roots: Option<PathBuf>,
    /// The files of the certificate that other hubs are shown, and of its key.
    certificate: Option<(PathBuf, PathBuf)>,
}

/// The names of the collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collections {
    /// Events.
    pub events: String,
    /// Groups and who serves them.
    pub groups: String,
    /// What was cleaned away of each topic.
    pub topics: String,
    /// Rows of services that are still to be published.
    pub outbox: String,
    /// Ids whose events were cleaned away.
    pub dedupe: String,
    /// Heartbeats.
    pub hubs: String,
}

impl Default for Collections {
    fn default() -> Self {
        let [events, groups, topics, outbox, dedupe, hubs] =
            ["events", "groups", "topics", "outbox", "dedupe", "hubs"].map(str::to_owned);
        Self { events, groups, topics, outbox, dedupe, hubs }
    }
}

/// What was set, and what does not go together with it; `None` if the events are not in MongoDB.
pub fn read(found: &Found, config: &Config, mistakes: &mut Mistakes) -> Option<Mongo> {
    let collections = collections(found, mistakes);
    let own = secret(found, "cluster.secret", "cluster.secret_file", mistakes);
    let roots = roots(found, mistakes);
    let certificate = certificate(found, mistakes);
    let url = secret(found, "mongo.url", "mongo.url_file", mistakes)?;
    let names = collections.clone();
    let address = match options(&url, names).address() {
        Ok(address) => address,
        Err(error) => {
            let name = if found.values.contains_key("mongo.url") { "mongo.url" } else { "mongo.url_file" };
            mistakes.add(found.origin(name), format!("{name}: {error}"));
            return None;
        }
    };
    let advertise: Option<String> = found.get("cluster.advertise");
    if config.bind.is_unspecified() && advertise.is_none() {
        let bind = config.bind;
        mistakes.add(
            found.origin("server.bind"),
            format!(
                "server.bind is {bind}, which is no address that other hubs on the same MongoDB could reach this one \
                 at; set cluster.advertise (ADVERTISE, --advertise) to one, such as ws://10.0.0.5:{}/",
                config.ws_port
            ),
        );
    }
    if own.is_none() && config.auth.is_real() && config.auth.secret.is_none() {
        mistakes.add(
            found.origin("auth.jwks_url"),
            "cluster.secret (CLUSTER_SECRET) is not set, and there is no auth.secret to make it of: hubs on the same \
             MongoDB know each other by it; set it to the same 32 random bytes or more for all of them",
        );
    }
    let payload = config.bus.max_payload;
    if payload > MAX_PAYLOAD {
        let text = format!(
            "limits.max_payload is {}; on MongoDB it is {} at most, because a document there has 16MiB",
            units::size(payload as u64),
            units::size(MAX_PAYLOAD as u64)
        );
        mistakes.add(found.origin("limits.max_payload"), text);
    }
    Some(Mongo { url, address, collections, advertise, secret: own, roots, certificate })
}

impl Mongo {
    /// Where other hubs reach the gateway that listens at `bound`.
    pub fn reached_at(&self, bound: SocketAddr, tls: bool) -> String {
        let scheme = if tls { "wss" } else { "ws" };
        self.advertise.clone().unwrap_or_else(|| format!("{scheme}://{bound}/"))
    }

    /// For the store.
    pub fn options(&self) -> Options {
        options(&self.url, self.collections.clone())
    }

    /// The collection of rows that are still to be published.
    pub fn outbox(&self) -> &str {
        &self.collections.outbox
    }

    /// Where they are.
    pub fn outbox_place(&self) -> Place {
        Place::Mongo { url: self.url.clone(), collection: self.collections.outbox.clone() }
    }

    /// What hubs show each other; `jwt` is the secret of tokens.
    pub fn key(&self, jwt: Option<&Secret>) -> Option<ClusterKey> {
        match &self.secret {
            Some(own) => Some(ClusterKey::new(own)),
            None => jwt.map(ClusterKey::derived),
        }
    }

    /// Whether hubs know each other by the secret of tokens.
    pub fn is_derived(&self) -> bool {
        self.secret.is_none()
    }

    /// Certificates, in PEM, that are trusted at other hubs' addresses: `own` is this hub's.
    pub fn roots(&self, own: Option<&PathBuf>) -> std::io::Result<Option<Vec<u8>>> {
        self.roots.as_ref().or(own).map(std::fs::read).transpose()
    }

    /// What other hubs are shown that ask for a certificate: this hub's own one if it asks for certificates itself.
    ///
    /// # Errors
    /// What is wrong with the files.
    pub fn certificate(&self, own: Option<&TlsFiles>) -> Result<Option<Certificate>, String> {
        let own = || own.filter(|own| own.clients.is_some()).map(|own| (&own.cert, &own.key));
        let files = self.certificate.as_ref().map(|(cert, key)| (cert, key)).or_else(own);
        files.map(|(cert, key)| read_certificate(cert, key)).transpose()
    }
}

fn options(url: &Secret, names: Collections) -> Options {
    let Collections { events, groups, topics, outbox: _, dedupe, hubs } = names;
    Options { names: Names { events, groups, topics, dedupe, hubs }, ..Options::new(url.expose()) }
}

fn collections(found: &Found, mistakes: &mut Mistakes) -> Collections {
    let mut names = Collections::default();
    let mut all = [
        ("mongo.events", &mut names.events),
        ("mongo.groups", &mut names.groups),
        ("mongo.topics", &mut names.topics),
        ("mongo.outbox", &mut names.outbox),
        ("mongo.dedupe", &mut names.dedupe),
        ("mongo.hubs", &mut names.hubs),
    ];
    for at in 0..all.len() {
        let (before, rest) = all.split_at_mut(at);
        let Some((setting, name)) = rest.first_mut() else { continue };
        found.take(setting, *name);
        if let Some((other, _)) = before.iter().find(|(_, other)| **other == **name) {
            let text = format!("{other} and {setting} are both {name:?}; each needs a collection of its own");
            mistakes.add(found.origin(setting).or_else(|| found.origin(other)), text);
        }
    }
    names
}

fn certificate(found: &Found, mistakes: &mut Mistakes) -> Option<(PathBuf, PathBuf)> {
    both(found, ("cluster.client_cert", "cluster.client_key"), "the certificate for other hubs", mistakes);
    let files: (PathBuf, PathBuf) = (found.get("cluster.client_cert")?, found.get("cluster.client_key")?);
    if let Err(text) = read_certificate(&files.0, &files.1) {
        mistakes.add(found.origin("cluster.client_cert"), format!("cluster.client_cert: {text}"));
    }
    Some(files)
}

fn read_certificate(cert: &Path, key: &Path) -> Result<Certificate, String> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
    };
    let places = format!("{}, {}", cert.display(), key.display());
    Certificate::from_pem(&read(cert)?, &read(key)?).map_err(|error| format!("{places}: {error}"))
}

fn roots(found: &Found, mistakes: &mut Mistakes) -> Option<PathBuf> {
    let path: PathBuf = found.get("cluster.root_cert")?;
    let shown = path.display();
    let read = std::fs::read(&path).map_err(|error| format!("{shown} cannot be read: {error}"));
    let good = read.and_then(|pem| {
        let anywhere = Target::new("wss://localhost/").and_then(|target| target.root_certificates(&pem));
        anywhere.map_err(|error| format!("{shown}: {error}"))
    });
    if let Err(text) = good {
        mistakes.add(found.origin("cluster.root_cert"), format!("cluster.root_cert: {text}"));
    }
    Some(path)
}
