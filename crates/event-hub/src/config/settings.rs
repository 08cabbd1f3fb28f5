//! Every setting there is. The file, the environment, the flags, the docs and `config default` all go by these tables.

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// The same, never shown.
    Secret,
    /// A file or directory; in the file relative to the file's own place.
    Path,
    /// A number of this machine.
    Address,
    /// Where MongoDB is, credentials included: never shown.
    MongoUrl,
    /// The name of a collection.
    Collection,
    /// Where a gateway is.
    HubUrl,
    /// Where an HTTP server is.
    HttpUrl,
    /// A port; 0 picks a free one.
    Port,
    /// `true` or `false`.
    Switch,
    /// A whole number in a range.
    Count(u64, u64),
    /// Events per second, or `"none"`.
    Rate,
    /// Milliseconds in a range, written like `30s`.
    Time(u64, u64),
    /// Seconds in a range, as a number.
    Seconds(u64, u64),
    /// Bytes in a range, written like `4MiB`.
    Size(u64, u64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list of texts; in the environment with commas between.
    Texts,
    /// A list of addresses and networks.
    Networks,
    /// `"same-host"`, `"any"`, or a list of origins.
    Origins,
    /// A list of origins.
    OriginList,
    /// A list of `{ pattern, rate }`.
    Rates,
    /// Topics: a name, or a pattern with `*` and `**`.
    Pattern,
    /// `"off"`, `"stderr"`, `"stdout"`, or a file.
    AuditLog,
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `section.name` in the file.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// What it is if nobody sets it, in words, for the docs and their test.
    #[cfg_attr(not(test), allow(dead_code))]
    pub default: &'static str,
    /// Its variable in the environment.
    pub env: Option<&'static str>,
    /// Its flag of `event-hub serve`.
    pub flag: Option<&'static str>,
    /// Whether SIGHUP changes it.
    pub live: bool,
    /// What it is for; unused outside the docs and their test.
    #[cfg_attr(not(test), allow(dead_code))]
    pub about: &'static str,
}

const fn set(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Setting {
    Setting { name, kind, default, env: None, flag: None, live: true, about }
}

impl Setting {
    const fn env(self, env: &'static str) -> Self {
        Self { env: Some(env), ..self }
    }

    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    /// Only a new start changes it.
    const fn fixed(self) -> Self {
        Self { live: false, ..self }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Every setting but those of `[[topics]]` and `[[outbox]]`.
pub const SETTINGS: &[Setting] = &[
    set("server.bind", Kind::Address, "127.0.0.1", "the address to listen on")
        .env("BIND")
        .flag("--bind")
        .fixed(),
    set("server.ws_port", Kind::Port, "8090", "the WebSocket port").env("WS_PORT").flag("--ws-port").fixed(),
    set("server.ops_port", Kind::Port, "8082", "the HTTP port").env("OPS_PORT").flag("--ops-port").fixed(),
    set("server.origins", Kind::Origins, "same-host", "web pages that may connect from a browser"),
    set(
        "server.cors_origins",
        Kind::OriginList,
        "none",
        "web pages of other origins that may read the answers of HTTP",
    ),
    set(
        "server.tls_cert",
        Kind::Path,
        "none",
        "certificates in PEM; with it, both ports speak TLS; can be renewed, not turned on or off, by SIGHUP",
    ),
    set(
        "server.tls",
        Kind::Word(&["on", "off"]),
        "on",
        "`off`: plain text also beyond loopback, for a proxy in front that speaks TLS",
    )
    .env("TLS")
    .fixed(),
    set("server.tls_key", Kind::Path, "none", "the private key of the certificate, in PEM"),
    set(
        "server.tls_client_ca",
        Kind::Path,
        "none: clients are asked for no certificate",
        "certificates in PEM of the authorities whose clients may show one",
    ),
    set(
        "server.tls_client_auth",
        Kind::Word(&["optional", "required"]),
        "optional",
        "`required`: a client without a certificate is refused; with a bad one it always is",
    ),
    set(
        "server.trusted_proxies",
        Kind::Networks,
        "none",
        "proxies that are believed when they name a client in `X-Forwarded-For`",
    ),
    set(
        "server.proxy_protocol",
        Kind::Switch,
        "false",
        "connections of trusted proxies begin with a PROXY protocol v2 header; others have none",
    ),
    set("store.data", Kind::Path, "./event-hub-data", "the data directory")
        .env("EVENT_HUB_DATA")
        .flag("--data")
        .fixed(),
    set("store.segment_size", Kind::Size(MIB, GIB), "128MiB", "the size of a file of the log").fixed(),
    set(
        "store.disk_reserve",
        Kind::Size(0, GIB),
        "16MiB",
        "room that is kept for the store's own records, so that a full disk can be freed",
    )
    .fixed(),
    set(
        "mongo.url",
        Kind::MongoUrl,
        "none: the data directory has the events",
        "the MongoDB that has the events, for one hub or many",
    )
    .env("MONGO_URL")
    .flag("--mongo-url")
    .fixed(),
    set("mongo.url_file", Kind::Path, "none", "a file that holds it").fixed(),
    set("mongo.events", Kind::Collection, "events", "the collection of events").fixed(),
    set("mongo.groups", Kind::Collection, "groups", "that of groups and who serves them").fixed(),
    set("mongo.topics", Kind::Collection, "topics", "that of what was cleaned away of each topic").fixed(),
    set(
        "mongo.outbox",
        Kind::Collection,
        "outbox",
        "that of rows that services have written and that are still to be published",
    )
    .fixed(),
    set("mongo.drain_outbox", Kind::Switch, "true", "publish those rows; others are drained by `[[outbox]]`")
        .fixed(),
    set("mongo.dedupe", Kind::Collection, "dedupe", "that of ids whose events were cleaned away").fixed(),
    set("mongo.hubs", Kind::Collection, "hubs", "that of the hubs' heartbeats").fixed(),
    set(
        "cluster.advertise",
        Kind::HubUrl,
        "ws://BIND:WS_PORT/, with TLS wss://",
        "where other hubs on the same MongoDB reach this one",
    )
    .env("ADVERTISE")
    .flag("--advertise")
    .fixed(),
    set(
        "cluster.secret",
        Kind::Secret,
        "made of `auth.secret`",
        "what hubs on the same MongoDB know each other by; the same for all",
    )
    .env("CLUSTER_SECRET")
    .fixed(),
    set("cluster.secret_file", Kind::Path, "none", "a file that holds it").fixed(),
    set(
        "cluster.root_cert",
        Kind::Path,
        "`server.tls_cert`",
        "certificates in PEM that are trusted at the wss:// addresses of other hubs, beside the public ones",
    )
    .fixed(),
    set(
        "cluster.client_cert",
        Kind::Path,
        "`server.tls_cert` if `server.tls_client_ca` is set",
        "the certificate in PEM that this hub shows to others that ask for one",
    ),
    set("cluster.client_key", Kind::Path, "`server.tls_key`", "the private key of that certificate, in PEM"),
    set("auth.jwks_url", Kind::Text, "none", "where the keys for RS256, ES256 and EdDSA are")
        .env("JWT_JWKS_URL"),
    set("auth.secret", Kind::Secret, "none", "the secret for HS256; better in a file of its own")
        .env("JWT_SECRET"),
    set("auth.secret_file", Kind::Path, "none", "a file that holds the secret"),
    set("auth.audience", Kind::Texts, "any", "a token has to be for one of these (`aud`)").env("JWT_AUD"),
    set("auth.issuer", Kind::Text, "any", "a token has to be by this one (`iss`)").env("JWT_ISS"),
    set("auth.leeway", Kind::Seconds(0, 300), "5", "how far clocks may differ, in seconds")
        .env("JWT_CLOCK_TOLERANCE_SEC"),
    set("auth.allow_no_exp", Kind::Switch, "false", "take tokens that never expire"),
    set(
        "auth.max_token_lifetime",
        Kind::Time(MINUTE, 10 * 365 * 24 * HOUR),
        "as long as the token says",
        "refuse tokens that are valid for longer",
    ),
    set("auth.static_token", Kind::Secret, "none", "one token that may do everything, for development")
        .env("WS_TOKEN"),
    set("auth.static_token_file", Kind::Path, "none", "a file that holds it"),
    set(
        "auth.open_groups",
        Kind::Switch,
        "false",
        "a right to subscribe is a right to join groups that other subjects made",
    ),
    set(
        "auth.certificate_binds_subject",
        Kind::Switch,
        "false",
        "a token is good only together with a client certificate of the same subject",
    ),
    set("auth.policy_file", Kind::Path, "none", "the hub's own rules (.sib), asked before those of a token"),
    set(
        "limits.connection_rate",
        Kind::Rate,
        "none; 2000 beyond loopback",
        "events per second of a connection",
    ),
    set(
        "limits.subject_rate",
        Kind::Rate,
        "none; 10000 beyond loopback",
        "events per second of a token's `sub`",
    ),
    set(
        "limits.topic_rates",
        Kind::Rates,
        "none",
        "events per second of topics; the first pattern that matches counts",
    ),
    set("limits.connections", Kind::Count(1, 1_000_000), "20000", "connections of one port"),
    set(
        "limits.connections_per_address",
        Kind::Count(1, 1_000_000),
        "20000; 1000 beyond loopback",
        "connections of one address",
    ),
    set(
        "limits.unauthenticated",
        Kind::Count(1, 1_000_000),
        "1000",
        "WebSocket connections that have not sent a good AUTH yet",
    ),
    set(
        "limits.unauthenticated_per_address",
        Kind::Count(1, 1_000_000),
        "1000; 100 beyond loopback",
        "the same, of one address",
    ),
    set(
        "limits.failed_auth_per_address",
        Kind::Count(0, 60_000),
        "0; 60 beyond loopback",
        "failed authentications of one address per minute, after 10 at once; 0: as many as it likes",
    ),
    set(
        "limits.frame_bytes",
        Kind::Size(KIB, 64 * MIB),
        "4MiB",
        "the largest frame, and the largest body of a request; before AUTH a frame has at most 32 KiB",
    ),
    set("limits.batch_events", Kind::Count(1, 1_000), "1000", "events in one PUBLISH"),
    set("limits.subscriptions", Kind::Count(1, 100_000), "1000", "subscriptions of one connection"),
    set(
        "limits.auth_timeout",
        Kind::Time(SECOND, 10 * MINUTE),
        "10s",
        "a connection has so long to say who it is",
    ),
    set(
        "limits.idle_timeout",
        Kind::Time(5 * SECOND, 24 * HOUR),
        "2m",
        "a connection that is silent for so long is closed",
    ),
    set("limits.body_timeout", Kind::Time(SECOND, HOUR), "30s", "the body of a request has so long to come"),
    set(
        "limits.expiry_grace",
        Kind::Time(0, HOUR),
        "30s",
        "so long acks are taken after a token has expired",
    ),
    set(
        "limits.reconnect_grace",
        Kind::Time(0, HOUR),
        "10s",
        "how long a consumer that lost its connection keeps its leases, at most its time to ack",
    ),
    set("limits.max_payload", Kind::Size(KIB, 15 * MIB), "1MiB", "the largest payload").fixed(),
    set("limits.max_topics", Kind::Count(1, 10_000_000), "100000", "topics in all").fixed(),
    set("limits.max_groups", Kind::Count(1, 100_000_000), "100000", "groups over all topics").fixed(),
    set(
        "limits.max_parked",
        Kind::Count(1, 10_000_000),
        "100000",
        "events of a group that wait for their time or their key",
    )
    .fixed(),
    set("limits.ack_timeout", Kind::Time(10, 12 * HOUR), "30s", "a lease, for members that name none")
        .fixed(),
    set("limits.publish_timeout", Kind::Time(100, 5 * MINUTE), "20s", "a publish is answered by then")
        .fixed(),
    set(
        "limits.group_expire_days",
        Kind::Count(0, 36_500),
        "30",
        "groups without members are deleted then; 0: never",
    )
    .fixed(),
    set("limits.dedupe_window_hours", Kind::Count(1, 8_760), "24", "ids are remembered at least so long")
        .fixed(),
    set(
        "limits.clean_interval",
        Kind::Time(SECOND, HOUR),
        "30s",
        "how often topics are cleaned and snapshots written",
    )
    .fixed(),
    set(
        "limits.clock_jump_wait",
        Kind::Time(0, 30 * 24 * HOUR),
        "1d",
        "a clock that jumps ahead removes no events for their age before this has passed, or a tenth of the jump if that is shorter",
    )
    .fixed(),
    set("limits.tail_bytes", Kind::Size(0, 64 * GIB), "32MiB", "recent events in memory, over all topics")
        .fixed(),
    set("limits.member_bytes", Kind::Size(KIB, GIB), "4MiB", "events queued for one consumer").fixed(),
    set(
        "limits.queue_bytes",
        Kind::Size(KIB, GIB),
        "64MiB",
        "events that wait for the disk; further publishers wait",
    )
    .fixed(),
    set(
        "limits.metric_labels",
        Kind::Count(1, 100_000),
        "1000",
        "topics, and groups on topics, with labels of their own in the metrics; one subject has a tenth of them",
    )
    .fixed(),
    set(
        "audit.log",
        Kind::AuditLog,
        "off; stderr beyond loopback",
        "where refusals and admin actions are logged, as JSON lines; SIGHUP opens the file again",
    )
    .fixed(),
    set(
        "audit.rate",
        Kind::Count(1, 1_000_000),
        "100",
        "lines per second of refusals, and as many of admin actions; what is over it is counted",
    ),
    set(
        "tracing.otlp_endpoint",
        Kind::HttpUrl,
        "none",
        "the OpenTelemetry collector that spans of traced events go to, by OTLP over HTTP; needs a build with the feature `otlp`",
    )
    .env("OTEL_EXPORTER_OTLP_ENDPOINT")
    .fixed(),
    set("tracing.service_name", Kind::Text, "event-hub", "what this hub is called in traces")
        .env("OTEL_SERVICE_NAME")
        .fixed(),
    set("topics_file", Kind::Path, "none", "more topics (.sib, `define-topic`), after those of `[[topics]]`"),
];

/// What `[[topics]]` takes.
pub const TOPIC: &[Setting] = &[
    set(
        "topics.pattern",
        Kind::Pattern,
        "",
        "which topics: a name or a pattern; the first that matches counts",
    ),
    set("topics.retention_days", Kind::Count(1, 36_500), "for ever", "events older than this go"),
    set(
        "topics.retention_bytes",
        Kind::Size(1, u64::MAX >> 1),
        "any size",
        "the oldest events go once the topic is larger",
    ),
    set("topics.compaction", Kind::Switch, "false", "only the newest event of each key stays"),
    set(
        "topics.tombstone_grace_hours",
        Kind::Count(0, 87_600),
        "24",
        "how long the mark of a deleted key stays",
    ),
    set(
        "topics.durability",
        Kind::Word(&["commit", "interval"]),
        "commit",
        "`commit`: on disk before the answer; `interval`: within 5 ms after it",
    ),
];

/// What `[[quota]]` takes: what one subject, or the topics of a pattern, may use.
pub const QUOTA: &[Setting] = &[
    set(
        "quota.subject",
        Kind::Text,
        "",
        "whose: a token's `sub`, or `*` for every subject, each for itself; the first that names a subject counts",
    ),
    set("quota.pattern", Kind::Pattern, "", "or of which topics together, made by any subject"),
    set("quota.topics", Kind::Count(0, 10_000_000), "no bound", "topics that it has made"),
    set(
        "quota.groups",
        Kind::Count(0, 100_000_000),
        "no bound",
        "groups that it has made; a subscription to a pattern or a list counts as one more",
    ),
    set("quota.stored_bytes", Kind::Size(1, u64::MAX >> 1), "no bound", "bytes that its topics keep"),
    set(
        "quota.connections",
        Kind::Count(1, 1_000_000),
        "no bound",
        "WebSocket connections; of subjects only",
    ),
    set(
        "quota.subscriptions",
        Kind::Count(1, 100_000_000),
        "no bound",
        "topics that its subscriptions cover, each subscription at least one; of subjects only",
    ),
    set(
        "quota.bytes_in",
        Kind::Size(1, u32::MAX as u64),
        "no bound",
        "bytes per second that it sends, or payload bytes that its topics take; beyond that `rate_limited`",
    ),
    set(
        "quota.bytes_out",
        Kind::Size(1, u32::MAX as u64),
        "no bound",
        "bytes per second that it is sent, or that its topics give; beyond that deliveries wait",
    ),
];

/// What `[[outbox]]` takes.
pub const OUTBOX: &[Setting] = &[
    set("outbox.name", Kind::Text, "", "what logs, metrics and `/outbox` call it"),
    set(
        "outbox.url",
        Kind::Secret,
        "",
        "the database: `mongodb://…`, `postgres://…`, or `sqlite:` and the path of a file",
    ),
    set("outbox.url_file", Kind::Path, "none", "a file that holds it"),
    set(
        "outbox.table",
        Kind::Text,
        "outbox",
        "the collection, or the table, which may have a schema before it",
    ),
    set("outbox.batch_size", Kind::Count(1, 10_000), "100", "rows of one claim"),
    set(
        "outbox.lease",
        Kind::Time(SECOND, HOUR),
        "30s",
        "how long a claim holds: after that others take the rows of a drainer that died",
    ),
    set(
        "outbox.worker_id",
        Kind::Text,
        "drainer",
        "what the drainer calls itself; something random is added",
    ),
    set(
        "outbox.interval",
        Kind::Time(10, HOUR),
        "250ms",
        "how often it looks for rows if the database cannot wake it",
    ),
    set("outbox.max_attempts", Kind::Count(1, 1_000), "10", "failures that park a row"),
    set("outbox.keep_sent_hours", Kind::Count(0, 87_600), "24", "how long published rows are kept"),
    set(
        "outbox.on_error",
        Kind::Word(&["hold", "skip"]),
        "hold",
        "what a parked row does to later rows of its key: `hold` them, or `skip` it",
    ),
];

/// What a `[[push]]` takes.
pub const PUSH: &[Setting] = &[
    set("push.name", Kind::Text, "", "what logs, metrics and `/push` call it"),
    set("push.topic", Kind::Pattern, "", "which events are sent: a topic's name or a pattern"),
    set("push.url", Kind::Secret, "", "where they are sent: `http://…` or `https://…`"),
    set("push.url_file", Kind::Path, "none", "a file that holds it"),
    set(
        "push.secrets",
        Kind::Texts,
        "",
        "what deliveries are signed with: `whsec_` and the base64 of 24 to 64 bytes; each gives a signature",
    ),
    set("push.secrets_file", Kind::Path, "none", "a file that holds them, one per line"),
    set("push.group", Kind::Text, "push.NAME", "the group"),
    set(
        "push.mode",
        Kind::Word(&["structured", "binary"]),
        "structured",
        "`structured`: the body is a CloudEvent; `binary`: the body is the payload, attributes are headers",
    ),
    set("push.concurrency", Kind::Count(1, 256), "16", "requests at a time"),
    set("push.rate", Kind::Rate, "none", "requests per second"),
    set(
        "push.ordering",
        Kind::Word(&["none", "key"]),
        "none",
        "`key`: events of one key one by one, in their order",
    ),
    set("push.filter_tags", Kind::Texts, "none", "only events with all of these tags"),
    set("push.filter_key", Kind::Text, "none", "only events with this key"),
    set(
        "push.max_attempts",
        Kind::Count(1, 1_000),
        "5",
        "failures after which an event becomes a dead letter",
    ),
    set("push.timeout", Kind::Time(100, 5 * MINUTE), "15s", "how long an endpoint has to answer"),
    set("push.allow_private", Kind::Switch, "false", "the endpoint may be at a private or loopback address"),
    set(
        "push.from",
        Kind::Word(&["latest", "earliest"]),
        "latest",
        "where a new group begins: with new events, or with all that are kept",
    ),
];

/// What a `[[schema]]` takes.
pub const SCHEMA: &[Setting] = &[
    set("schema.topic", Kind::Pattern, "", "whose payloads are checked: a topic's name or a pattern"),
    set("schema.file", Kind::Path, "none", "the file with the JSON Schema"),
    set("schema.schema", Kind::Text, "none", "the JSON Schema itself, as a text"),
];

/// What `limits.topic_rates` takes.
pub const RATE: &[&str] = &["pattern", "rate"];
