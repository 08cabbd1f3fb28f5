//! The environment and the flags: over the file, in this order.

use super::Found;
use super::mistakes::{Mistakes, Origin};
use super::settings::SETTINGS;
use super::value::shown_text;
use hub_server::auth::Secret;
use std::convert::Infallible;
use std::path::PathBuf;

/// Flags of `event-hub serve` that are settings, and where the file is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// The configuration file (TOML); `event-hub config default` prints one
    #[arg(long, value_name = "FILE", env = "EVENT_HUB_CONFIG")]
    pub config: Option<PathBuf>,

    /// The address to listen on [default: 127.0.0.1] [env: BIND]
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<String>,

    /// The WebSocket port; 0 picks a free one [default: 8090] [env: WS_PORT]
    #[arg(long, value_name = "PORT")]
    pub ws_port: Option<String>,

    /// The HTTP port; 0 picks a free one [default: 8082] [env: OPS_PORT]
    #[arg(long, value_name = "PORT")]
    pub ops_port: Option<String>,

    /// The data directory [default: ./event-hub-data] [env: EVENT_HUB_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,

    /// The MongoDB that has the events, instead of the data directory; with a password, better in the environment: others
    /// can see flags [env: MONGO_URL]
    #[arg(long, value_name = "URL", value_parser = hidden)]
    pub mongo_url: Option<Secret>,

    /// Where other hubs on the same MongoDB reach this one [default: ws://BIND:WS_PORT/] [env: ADVERTISE]
    #[arg(long, value_name = "URL")]
    pub advertise: Option<String>,
}

impl Flags {
    fn get(&self, flag: &str) -> Option<&str> {
        match flag {
            "--bind" => self.bind.as_deref(),
            "--ws-port" => self.ws_port.as_deref(),
            "--ops-port" => self.ops_port.as_deref(),
            "--data" => self.data.as_deref(),
            "--mongo-url" => self.mongo_url.as_ref().map(Secret::expose),
            "--advertise" => self.advertise.as_deref(),
            _ => None,
        }
    }
}

/// A flag that is not shown when the flags are.
pub fn hidden(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

/// Variables of the environment, as they come in.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<std::ffi::OsString>;

/// Takes what the environment and the flags say over what was found.
pub fn read(environment: Environment<'_>, flags: &Flags, found: &mut Found, mistakes: &mut Mistakes) {
    for setting in SETTINGS {
        let from_env = setting.env.and_then(|name| Some((Origin::Env(name), environment(name)?)));
        let from_flag = setting.flag.and_then(|name| Some((Origin::Flag(name), flags.get(name)?.into())));
        for (origin, text) in from_env.into_iter().chain(from_flag) {
            let text: std::ffi::OsString = text;
            let read = text.to_str().and_then(|text| setting.kind.read_text(text));
            let Some(value) = read else {
                let got = text.to_str().map_or("no UTF-8 text".into(), |text| shown_text(setting.kind, text));
                let (name, allowed) = (setting.name, setting.kind.allowed());
                mistakes.add(Some(origin), format!("{name} is {got}; it must be {allowed}"));
                continue;
            };
            found.set(setting, value, origin);
        }
    }
}
