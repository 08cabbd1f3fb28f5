//! SIGHUP: everything that can change while the hub runs, or nothing.

use crate::config::Config;
use crate::config::mongo::Mongo;
use crate::config::sources::Flags;
use anyhow::{Context, Result, anyhow};
use hub_server::Hub;
use hub_server::auth::Secret;
use hub_server::net::Tls;

/// A hub that runs, and what it goes by.
pub struct Changing {
    pub config: Config,
    pub hub: Hub,
    pub tls: Option<Tls>,
    pub made: Option<Secret>,
}

impl Changing {
    /// Reads the configuration again and goes by it; one that is not good changes nothing. It reads files, so it blocks.
    pub fn reload(&self, flags: &Flags) {
        match self.try_reload(flags) {
            Ok(()) => tracing::info!("configuration reloaded"),
            Err(error) => {
                let error = format!("{error:#}").replace('\n', ";");
                tracing::error!(error, "configuration not reloaded, everything stays as it was");
            }
        }
    }

    fn try_reload(&self, flags: &Flags) -> Result<()> {
        let environment = |name: &str| std::env::var_os(name);
        let written = Config::load(flags, &environment)?;
        let mut restart = written.needs_restart(&self.config);
        // Who can reach the hub is decided by the address that it is bound to, not by another one in the file.
        let bound = Flags { bind: Some(self.config.bind.to_string()), ..flags.clone() };
        let mut config = Config::load(&bound, &environment)?;
        if !config.auth.is_real() {
            let Some(made) = &self.made else {
                // Making a secret now would print a token where nobody looks.
                return Err(anyhow!(
                    "auth has neither jwks_url nor a secret any more; only a new start makes one"
                ));
            };
            config.auth.secret = Some(made.clone());
            config.auth.secret_is_made = true;
        }
        let derives = self.config.mongo.as_ref().is_some_and(Mongo::is_derived);
        let rekeyed = derives && config.auth.secret != self.config.auth.secret;
        let auth = self.hub.auth().prepare(config.auth).map_err(|error| anyhow!("{}", error.msg))?;
        let certificate = match (&self.tls, &config.tls) {
            (Some(tls), Some(files)) => Some((tls, tls.prepare(files)?)),
            (None, None) => None,
            _ => {
                restart.push("server.tls_cert");
                None
            }
        };
        let audit = self.hub.audit().prepare_reopen().context("audit.log cannot be opened again")?;
        let shown = match (&self.config.mongo, &config.mongo) {
            (Some(_), Some(mongo)) => {
                Some(mongo.certificate(config.tls.as_ref()).map_err(|error| anyhow!("{error}"))?)
            }
            _ => None,
        };
        // The last one that can fail. If it does, nothing has changed; after it nothing fails.
        self.hub.bus().set_topics(config.bus.topics).map_err(|error| anyhow!("{}", error.msg))?;
        self.hub.bus().set_quotas(config.bus.quotas);
        self.hub.auth().commit(auth);
        if let Some((tls, certificate)) = certificate {
            tls.commit(certificate);
        }
        if let Some(audit) = audit {
            self.hub.audit().commit_reopen(audit);
        }
        self.hub.audit().set_rate(config.audit.rate);
        if let Some(shown) = shown {
            self.hub.set_cluster_certificate(shown);
        }
        if let Some(schemas) = self.hub.schemas() {
            schemas.set_configured(config.schemas);
        }
        self.hub.push().set_configured(config.endpoints);
        self.hub.apply(config.settings);
        if rekeyed {
            tracing::warn!(
                "auth.secret changed, and hubs know each other by the one of their start: until all have started anew, \
                 some do not; set cluster.secret to keep the two apart"
            );
        }
        for name in restart {
            tracing::warn!(setting = name, "changed, but only a new start can apply it");
        }
        Ok(())
    }
}
