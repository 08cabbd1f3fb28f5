//! What `serve` says once the hub is ready.

use crate::secret::developer_token;
use crate::serving::Running;
use crate::{browser, text};
use anyhow::Result;
use hub_store_mongo::Address;
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Where the hub can be reached, and with what.
pub struct Ready {
    ws: String,
    http: String,
    store: Store,
    data: PathBuf,
    /// Made with the development secret.
    token: Option<String>,
}

/// Where the events are.
struct Store {
    label: &'static str,
    place: String,
    /// For programs: the name of a field, and its value.
    field: (&'static str, Value),
}

impl Ready {
    pub fn of(running: &Running) -> Result<Self> {
        let secure = if running.tls.is_some() { "s" } else { "" };
        let gateway = reachable(running.gateway.local_addr()?);
        let ops = reachable(running.ops.local_addr()?);
        let auth = &running.config.auth;
        let made = running.made.as_ref();
        let data = running.config.data.clone();
        let store = match running.config.mongo.as_ref().map(|mongo| &mongo.address) {
            Some(address @ Address { hosts, database }) => Store {
                label: "MongoDB",
                place: address.to_string(),
                field: ("mongo", json!({ "hosts": hosts, "database": database })),
            },
            None => {
                let place = data.display().to_string();
                Store { label: "data", field: ("data", json!(place)), place }
            }
        };
        tracing::info!(%gateway, %ops, tls = running.tls.is_some(), store = store.place, "listening");
        Ok(Self {
            ws: format!("ws{secure}://{gateway}/"),
            http: format!("http{secure}://{ops}/"),
            store,
            data,
            token: made.map(|made| developer_token(made, &auth.audience, auth.issuer.as_deref())),
        })
    }

    /// Says it on standard output.
    pub fn print(&self, as_json: bool) -> Result<()> {
        let said = match as_json {
            true => format!("{}\n", self.json()),
            false => self.lines(std::io::stdout().is_terminal()),
        };
        match text::print(&said) {
            // Nobody reads it, but the hub runs all the same.
            Err(error) if text::is_closed_pipe(&error) => Ok(()),
            said => Ok(said?),
        }
    }

    fn json(&self) -> Value {
        let Self { ws, http, store: Store { field: (name, place), .. }, token, .. } = self;
        let mut ready = json!({ "ready": true, "ws": ws, "http": http });
        ready[*name] = place.clone();
        if let Some(token) = token {
            ready["token"] = json!(token);
        }
        ready
    }

    fn lines(&self, is_terminal: bool) -> String {
        let Self { ws, http, store: Store { label, place, .. }, token, data } = self;
        // What is no terminal may keep the output, and would keep the token.
        let shown = token.as_ref().filter(|_| is_terminal);
        let dashboard = self.dashboard(shown);
        let mut lines = format!(
            "event-hub is ready\n\n  WebSocket  {ws}\n  HTTP       {http}\n  {label:<9}  {place}\n  dashboard  {dashboard}\n"
        );
        if let Some(token) = shown {
            lines += &format!(
                "\n  A token for development, which may do everything and is valid for 30 days:\n\n{token}\n\n  \
                 `event-hub token` makes narrower ones; set JWT_SECRET or JWT_JWKS_URL for real ones.\n"
            );
        } else if token.is_some() {
            lines += &format!(
                "\n  For a token that may do everything: event-hub token --data {} --scope 'publish:**' \
                 --scope 'subscribe:**' --scope 'admin:**'\n",
                data.display()
            );
        }
        lines
    }

    /// The address of the dashboard. A browser sends no fragment to anybody, and the page takes it out of the address at once.
    fn dashboard(&self, token: Option<&String>) -> String {
        match token {
            Some(token) => format!("{}#token={token}", self.http),
            None => self.http.clone(),
        }
    }

    /// Opens the dashboard in the browser. A failure is a message: the hub runs all the same.
    pub fn open_browser(self) {
        // The program that opens pages may take its time.
        let open = move || {
            let opened = match &self.token {
                Some(_) => browser::file_leading_to(&self.dashboard(self.token.as_ref()), &self.data)
                    .and_then(|path| browser::open(&path.to_string_lossy())),
                None => browser::open(&self.http),
            };
            if let Err(error) = opened {
                note!("the browser was not opened: {error:#}; the dashboard is at {}", self.http);
            }
        };
        let _ = std::thread::Builder::new().name("open-browser".into()).spawn(open);
    }
}

/// An address that can be connected to from here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
