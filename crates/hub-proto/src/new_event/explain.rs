//! What is wrong with a publish that has the wrong shape: by the name of the field, which serde does not give.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::shown;
use crate::{Error, EventId};

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The field that does not fit, if one is to blame. Only asked after reading has failed.
pub(super) fn explain(json: &[u8]) -> Option<Error> {
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(json) else {
        let is_json = serde_json::from_slice::<&RawValue>(json).is_ok();
        return is_json.then(|| Error::bad_request("publish: it must be an object {topic, payload, opts?}"));
    };
    for name in ["topic", "payload"] {
        if !fields.contains_key(name) {
            return Some(Error::bad_request(format!("publish: {name} is missing")));
        }
    }
    let opts = fields.get("opts").copied();
    wrong::<String>(&fields, "topic", "a string")
        .or_else(|| wrong::<Option<Fields<'_>>>(&fields, "opts", "an object"))
        .or_else(|| options(&serde_json::from_str::<Option<Fields<'_>>>(opts?.get()).ok()??))
}

fn options(opts: &Fields<'_>) -> Option<Error> {
    wrong::<Option<EventId>>(opts, "id", "a UUID")
        .or_else(|| wrong::<Option<u64>>(opts, "ts", "milliseconds since 1970, a whole number"))
        .or_else(|| wrong::<Option<String>>(opts, "key", "a string"))
        .or_else(|| wrong::<Option<String>>(opts, "sid", "a string"))
        .or_else(|| wrong::<Option<Vec<String>>>(opts, "tags", "an array of strings"))
        .or_else(|| wrong::<Option<Vec<EventId>>>(opts, "caused_by", "an array of UUIDs"))
        .or_else(|| wrong::<Option<Fields<'_>>>(opts, "headers", "an object of strings"))
        .or_else(|| {
            let headers: Fields<'_> = serde_json::from_str(opts.get("headers")?.get()).ok()?;
            headers
                .keys()
                .find_map(|name| wrong::<Option<String>>(&headers, name, "a string, as header values are"))
        })
}

fn wrong<'a, T: Deserialize<'a>>(fields: &Fields<'a>, name: &str, expected: &str) -> Option<Error> {
    let value = fields.get(name)?.get();
    let fits = serde_json::from_str::<T>(value).is_ok();
    (!fits).then(|| {
        Error::bad_request(format!("publish: {} is {}; it must be {expected}", shown(name), shown(value)))
    })
}
