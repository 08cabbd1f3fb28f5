// Made by `event-hub codegen rust` from the schemas of a hub. Do not edit: run it again.

#![allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]

/// Payloads of `Match`.
pub mod r#match {
    /// The topic.
    pub const TOPIC: &str = "Match";

    pub type Payload = serde_json::Value;
}

/// Payloads of `both.of`.
pub mod both_of {
    /// The topic.
    pub const TOPIC: &str = "both.of";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
        pub a: Option<String>,
        #[serde(rename = "b")]
        pub b: i64,
    }
}

/// Payloads of `hostile.text`.
pub mod hostile_text {
    /// The topic.
    pub const TOPIC: &str = "hostile.text";

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
    pub enum PayloadNewLine {
        #[serde(rename = "*/")]
        Any,
        #[serde(rename = "\"\\")]
        T,
        #[serde(rename = "\u{2028}")]
        T2,
        #[serde(rename = "`${x}`")]
        X,
    }

    /// */ export const broken = 1; /*
    /// @ts-expect-error
    /// ''' compile me '''
    /// */ */
    /// @ts-ignore
    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        /// */}
        #[serde(rename = "a\"]: any; b: [\"", default, skip_serializing_if = "Option::is_none")]
        pub a_any_b: Option<String>,
        /// */ //
        #[serde(rename = "new\u{a}line\\\"\u{2028}", default, skip_serializing_if = "Option::is_none")]
        pub new_line: Option<PayloadNewLine>,
    }
}

/// Payloads of `match`.
pub mod match2 {
    /// The topic.
    pub const TOPIC: &str = "match";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "1st", default, skip_serializing_if = "Option::is_none")]
        pub n1st: Option<String>,
        #[serde(rename = "Self", default, skip_serializing_if = "Option::is_none")]
        pub self_: Option<String>,
        #[serde(rename = "a-b", default, skip_serializing_if = "Option::is_none")]
        pub a_b: Option<String>,
        #[serde(rename = "aB", default, skip_serializing_if = "Option::is_none")]
        pub a_b2: Option<String>,
        #[serde(rename = "a_b", default, skip_serializing_if = "Option::is_none")]
        pub a_b3: Option<String>,
        #[serde(rename = "crate", default, skip_serializing_if = "Option::is_none")]
        pub crate_: Option<String>,
        #[serde(rename = "fn", default, skip_serializing_if = "Option::is_none")]
        pub r#fn: Option<String>,
        #[serde(rename = "\u{fc}", default, skip_serializing_if = "Option::is_none")]
        pub n: Option<String>,
    }
}

/// Payloads of `metrics.*`.
pub mod metrics_any {
    /// The pattern of topics.
    pub const PATTERN: &str = "metrics.*";

    pub type Payload = f64;
}

/// Payloads of `metrics.web.requests`.
pub mod metrics_web_requests {
    /// The topic.
    pub const TOPIC: &str = "metrics.web.requests";

    pub type Payload = i64;
}

/// Payloads of `never`.
pub mod never {
    /// The topic.
    pub const TOPIC: &str = "never";

    pub type Payload = serde_json::Value;
}

/// Payloads of `numbers`.
pub mod numbers {
    /// The topic.
    pub const TOPIC: &str = "numbers";

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
    pub enum PayloadWord {
        #[serde(rename = "x")]
        X,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(untagged)]
    pub enum Payload {
        Word(PayloadWord),
        Variant2(serde_json::Value),
        Variant5(bool),
        Variant6(()),
    }
}

/// Payloads of `orders.created`.
pub mod orders_created {
    /// The topic.
    pub const TOPIC: &str = "orders.created";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(untagged)]
    pub enum PayloadAmount {
        Text(String),
        Integer(i64),
        Number(f64),
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct PayloadPaymentVariant1 {
        #[serde(rename = "card")]
        pub card: String,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct PayloadPaymentVariant2 {
        #[serde(rename = "iban")]
        pub iban: String,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(untagged)]
    pub enum PayloadPayment {
        Variant1(PayloadPaymentVariant1),
        Variant2(PayloadPaymentVariant2),
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
    pub enum PayloadState {
        #[serde(rename = "new")]
        New,
        #[serde(rename = "paid")]
        Paid,
        #[serde(rename = "in transit")]
        InTransit,
        #[serde(rename = "2nd try")]
        T2ndTry,
        #[serde(rename = "")]
        T,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
    pub enum PayloadType {
        #[serde(rename = "order")]
        Order,
    }

    /// Order
    ///
    /// An order of the shop.
    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "amount", default, skip_serializing_if = "Option::is_none")]
        pub amount: Option<PayloadAmount>,
        #[serde(rename = "anything", default, skip_serializing_if = "Option::is_none")]
        pub anything: Option<serde_json::Value>,
        #[serde(rename = "count", default, skip_serializing_if = "Option::is_none")]
        pub count: Option<u64>,
        #[serde(rename = "customer")]
        pub customer: Customer,
        #[serde(rename = "delta", default, skip_serializing_if = "Option::is_none")]
        pub delta: Option<i64>,
        /// Unique.
        ///
        /// Never reused.
        #[serde(rename = "id")]
        pub id: String,
        #[serde(rename = "lines", default, skip_serializing_if = "Option::is_none")]
        pub lines: Option<Vec<LineItem>>,
        #[serde(rename = "note")]
        pub note: Option<String>,
        #[serde(rename = "pair", default, skip_serializing_if = "Option::is_none")]
        pub pair: Option<serde_json::Value>,
        #[serde(rename = "payment", default, skip_serializing_if = "Option::is_none")]
        pub payment: Option<PayloadPayment>,
        #[serde(rename = "price")]
        pub price: f64,
        #[serde(rename = "self", default, skip_serializing_if = "Option::is_none")]
        pub self_: Option<bool>,
        #[serde(rename = "state", default, skip_serializing_if = "Option::is_none")]
        pub state: Option<PayloadState>,
        #[serde(rename = "tags", default, skip_serializing_if = "Option::is_none")]
        pub tags: Option<std::collections::BTreeMap<String, String>>,
        #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
        pub r#type: Option<PayloadType>,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Customer {
        #[serde(rename = "name")]
        pub name: String,
        /// Members with other names.
        #[serde(flatten)]
        pub other: std::collections::BTreeMap<String, serde_json::Value>,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct LineItem {
        #[serde(rename = "instead", default, skip_serializing_if = "Option::is_none")]
        pub instead: Option<Box<LineItem>>,
        #[serde(rename = "parts", default, skip_serializing_if = "Option::is_none")]
        pub parts: Option<Vec<LineItem>>,
        #[serde(rename = "sku")]
        pub sku: String,
    }
}

/// Payloads of `process.**`.
pub mod process_all {
    /// The pattern of topics.
    pub const PATTERN: &str = "process.**";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "ts")]
        pub ts: i64,
    }
}

/// Payloads of `process.*.state`.
pub mod process_any_state {
    /// The pattern of topics.
    pub const PATTERN: &str = "process.*.state";

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
    pub enum PayloadState {
        #[serde(rename = "up")]
        Up,
        #[serde(rename = "down")]
        Down,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "state")]
        pub state: PayloadState,
    }
}

/// Payloads of `process.web.cpu.load`.
pub mod process_web_cpu_load {
    /// The topic.
    pub const TOPIC: &str = "process.web.cpu.load";

    pub type Payload = f64;
}

/// Payloads of `process.web.state`.
pub mod process_web_state {
    /// The topic.
    pub const TOPIC: &str = "process.web.state";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "pid")]
        pub pid: u64,
    }
}

/// Payloads of `self`.
pub mod self_ {
    /// The topic.
    pub const TOPIC: &str = "self";

    pub type Payload = String;
}

/// Payloads of `tree`.
pub mod tree {
    /// The topic.
    pub const TOPIC: &str = "tree";

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Payload {
        #[serde(rename = "children", default, skip_serializing_if = "Option::is_none")]
        pub children: Option<Vec<Root>>,
        #[serde(rename = "map", default, skip_serializing_if = "Option::is_none")]
        pub map: Option<Box<Map>>,
        #[serde(rename = "value", default, skip_serializing_if = "Option::is_none")]
        pub value: Option<Word>,
    }

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    #[serde(transparent)]
    pub struct Map(pub std::collections::BTreeMap<String, Map>);

    #[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
    pub struct Root {
        #[serde(rename = "children", default, skip_serializing_if = "Option::is_none")]
        pub children: Option<Vec<Root>>,
        #[serde(rename = "map", default, skip_serializing_if = "Option::is_none")]
        pub map: Option<Box<Map>>,
        #[serde(rename = "value", default, skip_serializing_if = "Option::is_none")]
        pub value: Option<Word>,
    }

    pub type Word = String;
}
