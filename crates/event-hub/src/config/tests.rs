#![allow(clippy::unwrap_used)]

use super::audit::AuditLog;
use super::mistakes::Mistake;
use super::*;
use crate::config::settings::{OUTBOX, PUSH, QUOTA, SCHEMA, TOPIC};
use hub_core::outbox::{DrainerOptions, OnError};
use hub_server::auth::Secret;
use std::ffi::OsString;
use std::path::Path;
use tempfile::TempDir;

/// A file in a directory of its own.
struct Written {
    directory: TempDir,
}

impl Written {
    fn new(text: &str) -> Self {
        let written = Self { directory: tempfile::tempdir().unwrap() };
        written.put("hub.toml", text);
        written
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn flags(&self) -> Flags {
        Flags { config: Some(self.path("hub.toml")), ..Flags::default() }
    }

    fn load(&self, environment: &[(&str, &str)]) -> Result<Config, Mistakes> {
        load(&self.flags(), environment)
    }

    /// Mistakes without the directory in front.
    fn wrong(&self) -> Vec<String> {
        let mistakes = self.load(&[]).err().expect("it has to be refused");
        let place = format!("{}/", self.directory.path().display());
        mistakes.0.iter().map(|mistake| mistake.to_string().replace(&place, "")).collect()
    }
}

fn load(flags: &Flags, environment: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let get =
        |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    Config::load(flags, &get)
}

fn env_mistakes(environment: &[(&str, &str)]) -> Vec<Mistake> {
    load(&Flags::default(), environment).err().expect("it has to be refused").0
}

#[test]
fn without_anything_it_is_loopback_and_the_ports_of_the_contract() {
    let config = load(&Flags::default(), &[]).unwrap();
    assert_eq!(
        (config.bind.to_string().as_str(), config.ws_port, config.ops_port),
        ("127.0.0.1", 8090, 8082)
    );
    assert_eq!(config.data, Path::new("./event-hub-data"));
    assert!(!config.auth.is_real() && config.settings.open_metrics);
    assert_eq!(config.settings.limits.connection_rate, None);
}

#[test]
fn the_default_file_is_good_and_says_what_the_seeds_topics_keep() {
    let config = Written::new(DEFAULT).load(&[]).unwrap();
    let settings = |topic: &str| config.bus.settings(&topic.parse().unwrap());
    assert_eq!(settings("heartbeat.received").retention_days, Some(3));
    for topic in ["process.state", "kv.set", "agent.permission"] {
        assert!(settings(topic).compaction, "{topic}");
    }
    assert_eq!(settings("orders"), TopicSettings::default());
}

/// The default file with the `#` before every setting removed.
fn uncommented(text: &str) -> String {
    let is_setting = |line: &str| {
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    text.lines().map(|line| if is_setting(line) { &line[1..] } else { line }).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_setting_is_in_the_default_file_with_its_default() {
    let written = Written::new(&uncommented(DEFAULT));
    let pair = rcgen::generate_simple_self_signed(["hub.test".to_owned()]).unwrap();
    for (name, text) in [
        ("topics.sib", "(define-topic \"a\" {:retention-days 1})"),
        ("policy.sib", "(deny subscribe \"secret.**\")"),
        ("jwt-secret", "0123456789abcdef0123456789abcdef\n"),
        ("ws-token", "token"),
        ("mongo-url", "mongodb://db1,db2/shop\n"),
        ("cluster-secret", "another secret"),
        ("root.pem", &*pair.cert.pem()),
        ("cert.pem", &*pair.cert.pem()),
        ("key.pem", &*pair.signing_key.serialize_pem()),
        ("client-ca.pem", &*pair.cert.pem()),
        ("hub.pem", &*pair.cert.pem()),
        ("hub-key.pem", &*pair.signing_key.serialize_pem()),
        ("order.schema.json", "{\"type\": \"object\"}"),
    ] {
        written.put(name, text);
    }
    let all = written.load(&[]).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let elsewhere = ["auth.secret", "auth.static_token", "mongo.url", "cluster.secret"];
    for setting in SETTINGS.iter().filter(|setting| !elsewhere.contains(&setting.name)) {
        assert!(all.values.contains_key(setting.name), "{} is not in the default file", setting.name);
    }
    for setting in TOPIC {
        let name = setting.name.strip_prefix("topics.").unwrap();
        assert!(DEFAULT.contains(&format!("{name} = ")), "{} is not in the default file", setting.name);
    }
    for setting in OUTBOX.iter().filter(|setting| setting.name != "outbox.url") {
        let name = setting.name.strip_prefix("outbox.").unwrap();
        assert!(DEFAULT.contains(&format!("#   {name} = ")), "{} is not in the default file", setting.name);
    }
    for setting in PUSH.iter().filter(|setting| !["push.url_file", "push.secrets"].contains(&setting.name)) {
        let name = setting.name.strip_prefix("push.").unwrap();
        assert!(DEFAULT.contains(&format!("#   {name} = ")), "{} is not in the default file", setting.name);
    }
    for setting in SCHEMA.iter().filter(|setting| setting.name != "schema.schema") {
        let name = setting.name.strip_prefix("schema.").unwrap();
        assert!(DEFAULT.contains(&format!("#   {name} = ")), "{} is not in the default file", setting.name);
    }
    let none = load(&Flags::default(), &[]).unwrap();
    let mut limits = all.settings.limits.clone();
    limits.topic_rates.clear();
    // What is set holds for everybody; the defaults differ for those who come through a proxy.
    limits.forwarded_connection_rate = none.settings.limits.forwarded_connection_rate;
    limits.forwarded_subject_rate = none.settings.limits.forwarded_subject_rate;
    assert_eq!(format!("{limits:?}"), format!("{:?}", none.settings.limits));
    let bus = hub_core::Config { topics: Vec::new(), ..all.bus };
    assert_eq!(format!("{bus:?}"), format!("{:?}", none.bus));
    assert_eq!((all.bind, all.ws_port, all.ops_port), (none.bind, none.ws_port, none.ops_port));
    assert_eq!((all.segment_bytes, &all.settings.origins), (none.segment_bytes, &none.settings.origins));
    assert_eq!(all.auth.leeway_secs, none.auth.leeway_secs);
    assert_eq!((&all.audit.log, all.audit.rate), (&none.audit.log, none.audit.rate));
    let mongo = all.mongo.unwrap();
    assert_eq!(mongo.options().names, hub_store_mongo::Names::default());
    assert_eq!(mongo.reached_at("127.0.0.1:8090".parse().unwrap(), false), "ws://127.0.0.1:8090/");
    assert!(none.mongo.is_none());
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let written =
        Written::new("[server]\nws_port = 1\nops_port = 2\nbind = \"::1\"\n[store]\ndata = \"d\"\n");
    let config = written.load(&[]).unwrap();
    assert_eq!((config.ws_port, config.ops_port, config.bind.to_string().as_str()), (1, 2, "::1"));
    assert_eq!(config.data, written.path("d"), "paths in a file are relative to it");
    let environment = [("WS_PORT", "11"), ("OPS_PORT", "12"), ("EVENT_HUB_DATA", "e")];
    let config = written.load(&environment).unwrap();
    assert_eq!((config.ws_port, config.ops_port, config.data.as_path()), (11, 12, Path::new("e")));
    let flags = Flags { ws_port: Some("21".into()), data: Some("f".into()), ..written.flags() };
    let config = load(&flags, &environment).unwrap();
    assert_eq!((config.ws_port, config.ops_port, config.data.as_path()), (21, 12, Path::new("f")));
}

#[test]
fn all_mistakes_of_a_file_are_told_at_once_with_their_lines() {
    let written = Written::new(
        "colour = 1\n\
         [server]\n\
         ws_prot = 8090\n\
         bind = \"localhost\"\n\
         [limits]\n\
         frame_bytes = 4096\n\
         auth_timeout = \"1h\"\n\
         connection_rate = 0\n\
         subscriptions = \"10\"\n\
         [[topics]]\n\
         pattern = \"a..b\"\n\
         [[topics]]\n\
         retention_days = 0\n\
         [[topics]]\n\
         compaction = true\n\
         [auth]\n\
         allow_no_exp = \"yes\"\n\
         leeway = 301\n",
    );
    let wrong = written.wrong();
    let told = [
        "hub.toml:1: colour is not known; there are [server], [store], [mongo], [cluster], [auth], [limits], [audit], [tracing], [[topics]], [[quota]], [[outbox]], [[push]], [[schema]], topics_file",
        "hub.toml:3: ws_prot is no setting of server; there are bind, ws_port, ops_port, origins, cors_origins, tls_cert, tls, tls_key, tls_client_ca, tls_client_auth, trusted_proxies, proxy_protocol",
        "hub.toml:4: server.bind is \"localhost\"; it must be an address such as 127.0.0.1, 0.0.0.0 or ::1",
        "hub.toml:6: limits.frame_bytes is 4096; it must be a size with its unit (B, KiB, MiB, GiB) from 1KiB to 64MiB",
        "hub.toml:7: limits.auth_timeout is \"1h\"; it must be a time with its unit (ms, s, m, h, d) from 1s to 10m",
        "hub.toml:8: limits.connection_rate is 0; it must be a number of events per second, 1 or more, or \"none\"",
        "hub.toml:9: limits.subscriptions is \"10\"; it must be a whole number from 1 to 100000",
        "hub.toml:11: topics.pattern is \"a..b\"; it must be a topic's name or a pattern such as \"process.*\" or \"metrics.**\"",
        "hub.toml:13: topics.retention_days is 0; it must be a whole number from 1 to 36500",
        "hub.toml:14: a [[topics]] without `pattern`: it says which topics are meant",
        "hub.toml:17: auth.allow_no_exp is \"yes\"; it must be true or false",
        "hub.toml:18: auth.leeway is 301; it must be a number of seconds from 0 to 300",
    ];
    assert_eq!(wrong, told);
}

#[test]
fn what_is_not_toml_is_told_with_its_line() {
    let wrong = Written::new("[server]\nbind = \n").wrong();
    assert!(wrong[0].starts_with("hub.toml:2: not TOML: "), "{wrong:?}");
    assert_eq!(Written::new("server = 1\ntopics = 2\n").wrong().len(), 2);
    let missing = Flags { config: Some("no-such-file.toml".into()), ..Flags::default() };
    let mistakes = load(&missing, &[]).err().unwrap();
    assert!(mistakes.to_string().starts_with("no-such-file.toml cannot be read"), "{mistakes}");
}

#[test]
fn what_came_from_the_environment_or_a_flag_is_told_by_that_name() {
    let wrong = env_mistakes(&[("WS_PORT", "eight"), ("OPS_PORT", ""), ("JWT_CLOCK_TOLERANCE_SEC", "-1")]);
    let wrong: Vec<_> = wrong.iter().map(ToString::to_string).collect();
    assert_eq!(
        wrong,
        [
            "environment WS_PORT: server.ws_port is \"eight\"; it must be a port, 0 to 65535; 0 picks a free one",
            "environment OPS_PORT: server.ops_port is empty; it must be a port, 0 to 65535; 0 picks a free one",
            "environment JWT_CLOCK_TOLERANCE_SEC: auth.leeway is \"-1\"; it must be a number of seconds from 0 to 300",
        ]
    );
    let flags = Flags { ops_port: Some("65536".into()), ..Flags::default() };
    let mistakes = load(&flags, &[]).err().unwrap();
    assert!(mistakes.to_string().starts_with("--ops-port: server.ops_port is \"65536\""), "{mistakes}");
}

#[test]
fn no_mistake_shows_a_secret() {
    let written = Written::new("[auth]\nsecret = 12345678\nstatic_token = [\"hunter2\"]\n");
    let told = written.wrong().join("\n");
    assert!(
        told.contains("auth.secret is a value that is not shown") && told.contains("auth.static_token"),
        "{told}"
    );
    assert!(!told.contains("1234") && !told.contains("hunter2"), "{told}");
    let told =
        format!("{:?}", env_mistakes(&[("JWT_SECRET", " "), ("JWT_JWKS_URL", "ftp://user:hunter2@host/")]));
    assert!(!told.contains("hunter2") && told.contains("JWT_JWKS_URL"), "{told}");
}

/// A secret that is long enough for a hub that others can reach.
const LONG: &str = "a secret of thirty-two bytes or more";

#[test]
fn quotas_are_of_subjects_or_of_topics() {
    let written = Written::new(
        "[[quota]]\nsubject = \"ada\"\ntopics = 5\nconnections = 2\n[[quota]]\npattern = \"m.**\"\nstored_bytes = \"1GiB\"\nbytes_in = \"1MiB\"\n",
    );
    let config = written.load(&[]).unwrap();
    let of = |at: usize| &config.bus.quotas[at].of;
    assert_eq!(*of(0), hub_core::QuotaOf::Subject("ada".into()));
    assert_eq!(*of(1), hub_core::QuotaOf::Topics("m.**".parse().unwrap()));
    assert_eq!((config.bus.quotas[0].topics, config.bus.quotas[1].stored_bytes), (Some(5), Some(1 << 30)));
    assert_eq!(config.settings.limits.subject_quotas[0].connections, Some(2));
    assert_eq!((config.bus.quotas.len(), config.settings.limits.subject_quotas.len()), (2, 1));
    let topics = &config.settings.limits.topic_quotas;
    assert_eq!(
        (topics[0].pattern.as_str(), topics[0].bytes_in, topics[0].bytes_out),
        ("m.**", Some(1 << 20), None)
    );
    let exposed = written.load(&[("BIND", "0.0.0.0"), ("TLS", "off"), ("JWT_SECRET", LONG)]).unwrap();
    assert_eq!(exposed.bus.quotas[2].of, hub_core::QuotaOf::EverySubject, "behind those that are set");
    for (text, said) in [
        ("topics = 1", "without `subject` or `pattern`"),
        ("subject = \"a\"\npattern = \"b\"", "both set"),
        ("pattern = \"b\"\nconnections = 1", "are of subjects"),
        ("subject = \"a\"\ncolour = 1", "colour is no setting of quota"),
    ] {
        let wrong = Written::new(&format!("[[quota]]\n{text}\n")).wrong();
        assert!(wrong.len() == 1 && wrong[0].contains(said), "{wrong:?}");
    }
}

#[test]
fn proxies_are_trusted_only_if_they_are_listed() {
    assert_eq!(Written::new("").load(&[]).unwrap().settings.proxies, Default::default());
    let text = "[server]\ntrusted_proxies = [\"10.0.0.5\", \"2001:db8::/32\"]\nproxy_protocol = true\n";
    let proxies = Written::new(text).load(&[]).unwrap().settings.proxies;
    assert_eq!(
        (proxies.trusted.to_string().as_str(), proxies.protocol),
        ("10.0.0.5/32, 2001:db8::/32", true)
    );
    let one =
        Written::new("[server]\ntrusted_proxies = \"10.0.0.0/8\"\n").load(&[]).unwrap().settings.proxies;
    assert_eq!((one.trusted.to_string().as_str(), one.protocol), ("10.0.0.0/8", false));
    for (text, said) in [
        ("proxy_protocol = true", "server.proxy_protocol is true and server.trusted_proxies names nobody"),
        (
            "trusted_proxies = [\"proxy.example\"]",
            "server.trusted_proxies: \"proxy.example\" is neither an address",
        ),
        ("trusted_proxies = [\"10.0.0.1/8\"]", "the network is 10.0.0.0/8"),
        ("trusted_proxies = []", "it must be a list of addresses and networks"),
        ("trusted_proxies = [10]", "it must be a list of addresses and networks"),
        ("proxy_protocol = \"v2\"", "it must be true or false"),
    ] {
        let wrong = Written::new(&format!("[server]\n{text}\n")).wrong();
        assert!(
            wrong.len() == 1 && wrong[0].starts_with("hub.toml:2: ") && wrong[0].contains(said),
            "{wrong:?}"
        );
    }
}

#[test]
fn certificates_of_clients_need_tls_and_an_authority() {
    let pair = rcgen::generate_simple_self_signed(["hub.test".to_owned()]).unwrap();
    let written = |text: &str| {
        let written = Written::new(text);
        written.put("cert.pem", &pair.cert.pem());
        written.put("key.pem", &pair.signing_key.serialize_pem());
        written.put("none.pem", "");
        written
    };
    let tls = "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";
    let clients = |text: &str| written(&format!("{tls}{text}")).load(&[]).unwrap().tls.unwrap().clients;
    assert_eq!(clients(""), None);
    assert!(!clients("tls_client_ca = \"cert.pem\"\n").unwrap().required);
    assert!(clients("tls_client_ca = \"cert.pem\"\ntls_client_auth = \"required\"\n").unwrap().required);
    let bound = "tls_client_ca = \"cert.pem\"\ntls_client_auth = \"required\"\n[auth]\ncertificate_binds_subject = true\n";
    assert!(written(&format!("{tls}{bound}")).load(&[]).unwrap().auth.certificate_binds_subject);
    for (text, said) in [
        (
            "[server]\ntls_client_ca = \"cert.pem\"\n".to_owned(),
            "server.tls_client_ca is set and server.tls_cert is not",
        ),
        (
            format!("{tls}tls_client_auth = \"required\"\n"),
            "server.tls_client_auth is set and server.tls_client_ca is not",
        ),
        (format!("{tls}tls_client_auth = \"yes\"\n"), "it must be \"optional\" or \"required\""),
        (format!("{tls}tls_client_ca = \"none.pem\"\n"), "server.tls_client_ca: no certificate in"),
        (format!("{tls}tls_client_ca = \"missing.pem\"\n"), "server.tls_client_ca: cannot read"),
        (
            format!("{tls}tls_client_ca = \"cert.pem\"\n[auth]\ncertificate_binds_subject = true\n"),
            "auth.certificate_binds_subject is true and certificates are not required",
        ),
        ("[cluster]\nclient_cert = \"cert.pem\"\n".to_owned(), "cluster.client_key is not"),
        (
            "[cluster]\nclient_cert = \"cert.pem\"\nclient_key = \"none.pem\"\n".to_owned(),
            "the client certificate cannot be used: no private key",
        ),
    ] {
        let wrong = written(&text).wrong();
        assert!(wrong.len() == 1 && wrong[0].contains(said), "{said}: {wrong:?}");
    }
}

#[test]
fn hubs_show_each_other_their_own_certificate_if_they_ask_for_one() {
    let pair = rcgen::generate_simple_self_signed(["hub.test".to_owned()]).unwrap();
    let shows = |text: &str| {
        let written = Written::new(text);
        for (name, text) in [("cert.pem", pair.cert.pem()), ("key.pem", pair.signing_key.serialize_pem())] {
            written.put(name, &text);
        }
        let config = written.load(&[("MONGO_URL", "mongodb://db/")]).unwrap();
        config.mongo.unwrap().certificate(config.tls.as_ref()).unwrap().is_some()
    };
    let tls = "[server]\ntls_cert = \"cert.pem\"\ntls_key = \"key.pem\"\n";
    assert!(!shows(tls));
    assert!(shows(&format!("{tls}tls_client_ca = \"cert.pem\"\n")));
    assert!(shows("[cluster]\nclient_cert = \"cert.pem\"\nclient_key = \"key.pem\"\n"));
}

#[test]
fn beyond_loopback_it_takes_real_auth_and_brings_rates() {
    for bind in ["0.0.0.0", "::", "10.1.2.3", "::ffff:10.1.2.3"] {
        let wrong = env_mistakes(&[("BIND", bind)]);
        let text = wrong[0].to_string();
        assert!(
            text.starts_with("environment BIND: server.bind is") && text.contains("JWT_SECRET"),
            "{text}"
        );
        let text = env_mistakes(&[("BIND", bind), ("WS_TOKEN", "t")])[0].to_string();
        assert!(text.contains("static_token alone is not enough"), "{text}");
    }
    for real in [("JWT_SECRET", LONG), ("JWT_JWKS_URL", "https://issuer.example.com/jwks.json")] {
        let plain = env_mistakes(&[("BIND", "0.0.0.0"), real]);
        assert!(
            plain.len() == 1 && plain[0].to_string().contains("server.tls (TLS) to \"off\""),
            "{plain:?}"
        );
        let config = load(&Flags::default(), &[("BIND", "0.0.0.0"), ("TLS", "off"), real]).unwrap();
        assert!(!config.settings.open_metrics);
        assert_eq!(config.settings.limits.connection_rate, Some(2_000));
        assert_eq!(config.settings.limits.failed_auth_per_address, 60);
    }
    for bind in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
        assert!(load(&Flags::default(), &[("BIND", bind)]).is_ok(), "{bind}");
    }
    let written = Written::new("[limits]\nconnection_rate = \"none\"\nsubject_rate = 5\n");
    let short = [("BIND", "0.0.0.0"), ("TLS", "off"), ("JWT_SECRET", "a short one"), ("WS_TOKEN", "t")];
    let short: Vec<_> = env_mistakes(&short).iter().map(ToString::to_string).collect();
    assert!(short[0].starts_with("environment JWT_SECRET: auth.secret has 11 bytes"), "{short:?}");
    assert!(short[1].starts_with("environment WS_TOKEN: auth.static_token has 1 bytes"), "{short:?}");
    let config = written.load(&[("BIND", "0.0.0.0"), ("TLS", "off"), ("JWT_SECRET", LONG)]).unwrap();
    assert_eq!(
        (config.settings.limits.connection_rate, config.settings.limits.subject_rate),
        (None, Some(5))
    );
}

#[test]
fn the_audit_log_is_off_on_loopback_and_on_beyond_it_unless_it_is_set() {
    let exposed = [("BIND", "0.0.0.0"), ("TLS", "off"), ("JWT_SECRET", LONG)];
    assert_eq!(load(&Flags::default(), &[]).unwrap().audit.log, AuditLog::Off);
    assert_eq!(load(&Flags::default(), &exposed).unwrap().audit.log, AuditLog::Stderr);
    let set = |value: &str| Written::new(&format!("[audit]\nlog = \"{value}\"\nrate = 7\n"));
    for (value, log) in [("off", AuditLog::Off), ("stderr", AuditLog::Stderr), ("stdout", AuditLog::Stdout)] {
        let audit = set(value).load(&exposed).unwrap().audit;
        assert_eq!((audit.log, audit.rate), (log, 7));
    }
    let beside = set("audit.log");
    assert_eq!(beside.load(&[]).unwrap().audit.log, AuditLog::File(beside.path("audit.log")));
    assert!(!beside.path("audit.log").exists(), "only a start makes the file");
    let wrong = set("nowhere/audit.log").wrong();
    assert!(
        wrong[0].starts_with(
            "hub.toml:2: audit.log is nowhere/audit.log, which is in a directory that does not exist;"
        ),
        "{wrong:?}"
    );
    assert!(set(".").wrong()[0].contains("is a directory"), "{:?}", set(".").wrong());
    assert!(set("").wrong()[0].contains("it must be \"off\", \"stderr\", \"stdout\", or the path of a file"));
}

#[test]
fn mongo_url_chooses_the_store_and_its_database_needs_other_hubs_to_find_this_one() {
    let config = load(&Flags::default(), &[("MONGO_URL", "mongodb://hub:hunter2@db1,db2/shop")]).unwrap();
    let mongo = config.mongo.unwrap();
    assert_eq!(mongo.options().uri, "mongodb://hub:hunter2@db1,db2/shop");
    assert_eq!(mongo.address.to_string(), "db1:27017,db2:27017, database shop");
    assert!(mongo.is_derived());
    let bound = "[::1]:49152".parse().unwrap();
    assert_eq!(mongo.reached_at(bound, false), "ws://[::1]:49152/", "the port that was really bound");
    assert_eq!(mongo.reached_at(bound, true), "wss://[::1]:49152/");

    let written = Written::new(
        "[mongo]\nurl_file = \"url\"\nevents = \"shop.events\"\n[cluster]\nadvertise = \"wss://hub-1.example/\"\n\
         secret = \"s\"\n",
    );
    written.put("url", "mongodb://file/\n");
    let file = written.load(&[]).unwrap().mongo.unwrap();
    assert_eq!(file.options().uri, "mongodb://file/");
    assert_eq!(file.options().names.events, "shop.events");
    assert_eq!(file.reached_at(bound, false), "wss://hub-1.example/");
    assert!(!file.is_derived());
    let environment = written.load(&[("MONGO_URL", "mongodb://env/")]).unwrap().mongo.unwrap();
    assert_eq!(environment.options().uri, "mongodb://env/");
    let flags = Flags { mongo_url: Some(Secret::new("mongodb+srv://flag.example.com/")), ..written.flags() };
    let flag = load(&flags, &[("MONGO_URL", "mongodb://env/")]).unwrap().mongo.unwrap();
    assert_eq!(flag.options().uri, "mongodb+srv://flag.example.com/");
    assert!(!format!("{flags:?}").contains("flag.example"), "{flags:?}");
}

#[test]
fn an_address_of_mongodb_that_cannot_be_one_is_refused_and_not_shown() {
    for (url, said) in [
        ("http://hub:hunter2@db/", "one that begins with http://"),
        ("mongodb://", "one that begins with mongodb://"),
        ("hub:hunter2@db:27017/prom", "a value that is not shown"),
        ("mongodb://hub:hunter2@db one/", "one that begins with mongodb://"),
        ("", "empty"),
    ] {
        let wrong = env_mistakes(&[("MONGO_URL", url)])[0].to_string();
        let expected =
            format!("environment MONGO_URL: mongo.url is {said}; it must be an address such as mongodb://");
        assert!(wrong.starts_with(&expected) && !wrong.contains("hunter2"), "{url}: {wrong}");
    }
    let wrong = Written::new("[mongo]\nurl = [\"mongodb://hub:hunter2@db/\"]\n").wrong();
    assert!(wrong[0].starts_with("hub.toml:2: mongo.url is a value that is not shown;"), "{wrong:?}");
    let written = Written::new("[mongo]\nurl_file = \"url\"\n");
    written.put("url", "hunter2\n");
    let wrong = written.wrong().join("\n");
    assert!(
        wrong.starts_with("hub.toml:2: mongo.url_file: the address of MongoDB cannot be used")
            && !wrong.contains("hunter2"),
        "{wrong}"
    );
    let wrong = env_mistakes(&[("MONGO_URL", "mongodb://hub:hun/ter2@db/shop")])[0].to_string();
    assert!(
        wrong.starts_with("environment MONGO_URL: mongo.url: the address of MongoDB cannot be used")
            && !wrong.contains("ter2"),
        "{wrong}"
    );
}

#[test]
fn what_several_hubs_need_is_asked_for_when_there_is_a_mongodb_and_only_then() {
    let mongo = ("MONGO_URL", "mongodb://db/");
    let (jwks, secret) = (("JWT_JWKS_URL", "https://issuer.example.com/jwks.json"), ("JWT_SECRET", LONG));
    let plain = ("TLS", "off");
    for bind in ["0.0.0.0", "::"] {
        let wrong = env_mistakes(&[mongo, ("BIND", bind), secret, plain]);
        assert_eq!(wrong.len(), 1);
        let text = wrong[0].to_string();
        assert!(text.starts_with("environment BIND: server.bind is") && text.contains("ADVERTISE"), "{text}");
        assert!(load(&Flags::default(), &[("BIND", bind), secret, plain]).is_ok());
        let set = [mongo, ("BIND", bind), secret, plain, ("ADVERTISE", "ws://10.0.0.5:8090/")];
        assert!(load(&Flags::default(), &set).is_ok());
    }
    let wrong = env_mistakes(&[mongo, jwks])[0].to_string();
    assert!(wrong.contains("cluster.secret (CLUSTER_SECRET) is not set"), "{wrong}");
    for good in [&[mongo, jwks, secret][..], &[mongo, jwks, ("CLUSTER_SECRET", "s")], &[jwks], &[mongo]] {
        assert!(load(&Flags::default(), good).is_ok(), "{good:?}");
    }
    for bad in ["10.0.0.5:8090", "http://10.0.0.5:8090/", "ws://hub:hunter2@10.0.0.5/", "ws://h/?t=1", ""] {
        let wrong = env_mistakes(&[("ADVERTISE", bad)])[0].to_string();
        assert!(wrong.starts_with("environment ADVERTISE: cluster.advertise is "), "{wrong}");
    }
    let large = Written::new("[limits]\nmax_payload = \"9MiB\"\nframe_bytes = \"16MiB\"\n");
    assert!(large.load(&[]).is_ok());
    let wrong = large.load(&[mongo]).err().unwrap().to_string();
    assert!(wrong.contains("limits.max_payload is 9MiB; on MongoDB it is 8MiB at most"), "{wrong}");
}

/// Senders would be told to try again, for ever.
#[test]
fn a_payload_that_the_embedded_store_cannot_take_is_refused_at_the_start() {
    let frames = "frame_bytes = \"64MiB\"\n";
    let largest = Written::new(&format!("[limits]\nmax_payload = \"15MiB\"\n{frames}"));
    let payload = largest.load(&[]).unwrap_or_else(|mistakes| panic!("{mistakes}")).bus.max_payload;
    // Headers, tags and names, once more around it as a dead letter, and why it failed.
    let beside = 256 << 10;
    assert!(payload + beside <= hub_store_embedded::LARGEST_RECORD);
    let larger = Written::new(&format!("[limits]\nmax_payload = \"16MiB\"\n{frames}"));
    let wrong = larger.load(&[]).err().unwrap().to_string();
    assert!(wrong.contains("limits.max_payload") && wrong.contains("15MiB"), "{wrong}");
}

#[test]
fn collections_are_named_as_mongodb_allows_and_each_has_its_own() {
    for bad in ["", "a b", "system.views", "a$b", &"x".repeat(101)] {
        let wrong = Written::new(&format!("[mongo]\ngroups = {bad:?}\n")).wrong();
        assert!(wrong[0].starts_with("hub.toml:2: mongo.groups is "), "{bad}: {wrong:?}");
    }
    for (text, expected) in [
        ("dedupe = \"events\"", "hub.toml:2: mongo.events and mongo.dedupe are both \"events\""),
        ("events = \"outbox\"", "hub.toml:2: mongo.events and mongo.outbox are both \"outbox\""),
    ] {
        let wrong = Written::new(&format!("[mongo]\n{text}\n")).wrong();
        assert!(wrong[0].starts_with(expected), "{wrong:?}");
    }
    let written = Written::new("[cluster]\nroot_cert = \"root.pem\"\n");
    assert!(written.wrong()[0].starts_with("hub.toml:2: cluster.root_cert: root.pem cannot be read"));
    written.put("root.pem", "no certificate");
    assert!(written.wrong()[0].contains("PEM is expected"), "{:?}", written.wrong());
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (text, expected) in [
        (
            "[server]\ntls_cert = \"c\"\n",
            "hub.toml:2: server.tls_cert is set and server.tls_key is not; TLS needs both",
        ),
        (
            "[server]\nws_port = 1\nops_port = 1\n",
            "hub.toml:3: server.ws_port and server.ops_port are both 1; they must differ",
        ),
        (
            "[limits]\nmax_payload = \"8MiB\"\n",
            "hub.toml:2: limits.max_payload is 8MiB, more than the 4MiB of limits.frame_bytes that carry it; make that one larger",
        ),
        (
            "[auth]\nsecret = \"a\"\nsecret_file = \"b\"\n",
            "hub.toml:3: auth.secret and auth.secret_file are both set; leave one out",
        ),
        (
            "[[topics]]\npattern = \"a\"\n[[topics]]\npattern = \"a\"\n",
            "hub.toml:3: topics.pattern a is there twice; the first would count",
        ),
    ] {
        assert_eq!(Written::new(text).wrong(), [expected]);
    }
}

#[test]
fn files_that_are_named_are_read_and_their_mistakes_told() {
    let written =
        Written::new("topics_file = \"t.sib\"\n[auth]\npolicy_file = \"p.sib\"\nsecret_file = \"s\"\n");
    let wrong = written.wrong().join("\n");
    for expected in [
        "topics_file: t.sib cannot be read",
        "auth.policy_file: p.sib cannot be read",
        "auth.secret_file: s cannot be read",
    ] {
        assert!(wrong.contains(expected), "{expected} is not in {wrong}");
    }
    written.put("t.sib", "(define-topic \"a.*\" {:retention-days 2})");
    written.put("p.sib", "(deny subscribe \"secret.**\"");
    written.put("s", "\n");
    let wrong = written.wrong().join("\n");
    assert!(wrong.contains("auth.policy_file: p.sib:1:") && wrong.contains("s is empty"), "{wrong}");
    written.put("p.sib", "(deny subscribe \"secret.**\")");
    written.put("s", "a secret\r\n");
    let config = written.load(&[]).unwrap();
    assert_eq!(config.auth.secret.unwrap().expose(), "a secret");
    assert_eq!(config.settings.policy.rules().len(), 1);
    assert_eq!(config.bus.settings(&"a.b".parse().unwrap()).retention_days, Some(2));
    let config = written.load(&[("JWT_SECRET", "other")]).unwrap();
    assert_eq!(
        config.auth.secret.unwrap().expose(),
        "other",
        "the environment counts more than a file's file"
    );
}

#[test]
fn values_are_read_as_written() {
    let written = Written::new(
        "[server]\norigins = [\"https://a.example\", \"http://b:81\"]\n[auth]\naudience = \"hub\"\n[limits]\n\
         topic_rates = [{ pattern = \"m.**\", rate = 5 }, { pattern = \"**\", rate = 9 }]\nframe_bytes = \"8MiB\"\n\
         [[topics]]\npattern = \"r\"\ndurability = \"interval\"\ntombstone_grace_hours = 2\nretention_bytes = \"1GiB\"\n",
    );
    let config = written.load(&[]).unwrap();
    assert_eq!(config.auth.audience, ["hub"]);
    let rates: Vec<_> =
        config.settings.limits.topic_rates.iter().map(|(p, rate)| (p.to_string(), *rate)).collect();
    assert_eq!(rates, [("m.**".to_owned(), 5), ("**".to_owned(), 9)]);
    assert_eq!(config.settings.limits.frame_bytes, 8 << 20);
    let topic = config.bus.settings(&"r".parse().unwrap());
    assert_eq!(topic.durability, hub_core::TopicDurability::Interval);
    assert_eq!((topic.tombstone_grace, topic.retention_bytes), (2 * 3_600_000, Some(1 << 30)));
    assert_eq!(load(&Flags::default(), &[("JWT_AUD", "a, b")]).unwrap().auth.audience, ["a", "b"]);
    for bad in ["\"app.example\"", "[\"https://a.example/path\"]", "[]", "[\"*\"]"] {
        let text = format!("[server]\norigins = {bad}\n");
        assert!(Written::new(&text).wrong()[0].contains("server.origins"), "{bad}");
    }
    let cors = |list: &str| Written::new(&format!("[server]\ncors_origins = {list}\n"));
    let config = cors("[\"https://a.example\", \"http://b:81\"]").load(&[]).unwrap();
    assert_eq!(config.settings.cors_origins, ["https://a.example", "http://b:81"]);
    assert!(load(&Flags::default(), &[]).unwrap().settings.cors_origins.is_empty(), "off by default");
    for (bad, says) in [
        ("[\"https://a.example\", \"b.example\"]", "server.cors_origins has \"b.example\""),
        ("[\"*\"]", "server.cors_origins has \"*\""),
        ("[\"https://a.example/path\"]", "server.cors_origins has \"https://a.example/path\""),
        ("[\"null\"]", "server.cors_origins has \"null\""),
        ("[]", "server.cors_origins is"),
        ("true", "it must be a list of origins such as"),
    ] {
        let wrong = cors(bad).wrong();
        assert!(wrong[0].starts_with("hub.toml:2: ") && wrong[0].contains(says), "{bad}: {wrong:?}");
    }
}

#[test]
fn outboxes_are_read_with_their_settings_and_mistakes_are_told_without_the_address() {
    let written = Written::new(
        "[[outbox]]\nname = \"shop\"\nurl = \"mongodb://me:hunter2@db/shop\"\ntable = \"rows\"\nbatch_size = 7\n\
         lease = \"5s\"\ninterval = \"1s\"\nmax_attempts = 3\nkeep_sent_hours = 1\non_error = \"skip\"\nworker_id = \"w\"\n",
    );
    let config = written.load(&[("MONGO_URL", "mongodb://db/hub")]).unwrap();
    let [own, shop] = &config.outboxes[..] else { panic!("{}", config.outboxes.len()) };
    assert_eq!((own.name.as_str(), own.options.batch_size), ("outbox", 100));
    let expected = DrainerOptions {
        batch_size: 7,
        lease: 5_000,
        worker: "w".into(),
        interval: 1_000,
        max_attempts: 3,
        keep_sent: 3_600_000,
        on_error: OnError::Skip,
    };
    assert_eq!((shop.name.as_str(), &shop.options), ("shop", &expected));
    assert!(!format!("{:?}", shop.place).contains("hunter2"));
    let without = Written::new("[mongo]\ndrain_outbox = false\n").load(&[("MONGO_URL", "mongodb://db/hub")]);
    assert!(without.unwrap().outboxes.is_empty());
    for (text, said) in [
        ("[outbox]\nname = \"a\"\n", "write each as [[outbox]]"),
        ("[[outbox]]\nurl = \"mongodb://db/x\"\n", "without `name`"),
        ("[[outbox]]\nname = \"a\"\n", "neither url nor url_file"),
        ("[[outbox]]\nname = \"a\"\nurl = \"mysql://me:hunter2@x\"\n", "mongodb://, postgres:// or sqlite:"),
        ("[[outbox]]\nname = \"a\"\nurl = \"mongodb://x\"\non_error = \"stop\"\n", "\"hold\" or \"skip\""),
        ("[[outbox]]\nname = \"a\"\nurl = \"mongodb://x\"\nbatch = 1\n", "batch is no setting of outbox"),
        (
            "[[outbox]]\nname = \"a\"\nurl = \"mongodb://x\"\n[[outbox]]\nname = \"a\"\nurl = \"mongodb://y\"\n",
            "is there twice",
        ),
    ] {
        let mistakes = Written::new(text).load(&[]).err().unwrap().to_string();
        assert!(mistakes.contains(said) && !mistakes.contains("hunter2"), "{mistakes}");
    }
}

#[test]
fn what_only_a_new_start_changes_is_known_by_name() {
    let before = load(&Flags::default(), &[]).unwrap();
    let after = load(&Flags::default(), &[("WS_PORT", "1"), ("JWT_SECRET", "s")]).unwrap();
    assert_eq!(after.needs_restart(&before), ["server.ws_port"]);
    assert_eq!(after.needs_restart(&after), [""; 0]);
}

/// A table of the docs.
fn table(settings: &[Setting], strip: &str) -> String {
    let mut text = String::new();
    for setting in settings {
        let name = setting.name.strip_prefix(strip).unwrap();
        let also: Vec<_> = setting.env.iter().chain(&setting.flag).map(|name| format!("`{name}`")).collect();
        let (also, live) = (also.join(", "), if setting.live { "yes" } else { "" });
        let (kind, default, about) = (setting.kind.allowed(), setting.default, setting.about);
        text += &match strip {
            "topics." | "quota." | "outbox." | "push." | "schema." => {
                format!("| `{name}` | {kind} | {default} | {about} |\n")
            }
            _ => format!("| `{name}` | {kind} | {default} | {also} | {live} | {about} |\n"),
        };
    }
    text
}

#[test]
fn the_docs_have_every_setting_as_it_is() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    for section in ["server.", "store.", "mongo.", "cluster.", "auth.", "limits.", "audit.", ""] {
        let own = |setting: &&Setting| {
            setting.name.split_once('.').map_or("", |(name, _)| name) == section.trim_end_matches('.')
        };
        let settings: Vec<_> = SETTINGS.iter().filter(own).copied().collect();
        let table = table(&settings, section);
        assert!(docs.contains(&table), "docs/configuration.md has not:\n{table}");
    }
    for (settings, strip) in
        [(TOPIC, "topics."), (QUOTA, "quota."), (OUTBOX, "outbox."), (PUSH, "push."), (SCHEMA, "schema.")]
    {
        let table = table(settings, strip);
        assert!(docs.contains(&table), "docs/configuration.md has not:\n{table}");
    }
    let rows = docs.lines().filter(|line| line.starts_with("| `")).count();
    let known = SETTINGS.len() + TOPIC.len() + QUOTA.len() + OUTBOX.len() + PUSH.len() + SCHEMA.len();
    assert_eq!(rows, known, "docs/configuration.md has a setting that there is not");
}
