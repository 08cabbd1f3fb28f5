//! Where a `$ref` leads: to a place in the same document, and nowhere else.

use crate::value::Value;

/// Adds a step to a JSON pointer.
pub(super) fn join(pointer: &str, step: &str) -> String {
    format!("{pointer}/{}", step.replace('~', "~0").replace('/', "~1"))
}

/// What stands at a JSON pointer.
pub(super) fn resolve<'v, 'a>(root: &'v Value<'a>, pointer: &str) -> Option<&'v Value<'a>> {
    pointer.split('/').skip(1).try_fold(root, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            value => value.get(&step),
        }
    })
}

/// What a reference names.
pub(super) enum Target {
    /// A JSON pointer into the document.
    Pointer(String),
    Anchor(String),
}

/// Reads a reference. `id` is the `$id` of the document.
pub(super) fn target(reference: &str, id: Option<&str>) -> Result<Target, String> {
    let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let own = id.map(|id| id.trim_end_matches('#'));
    if !document.is_empty() && own != Some(document) {
        return Err(format!(
            "$ref {} leads out of the document; put what it names into $defs and write #/$defs/…",
            hub_proto::shown(reference)
        ));
    }
    let fragment = percent_decoded(fragment)
        .ok_or_else(|| format!("$ref {} has a broken percent sign in it", hub_proto::shown(reference)))?;
    Ok(match fragment.is_empty() || fragment.starts_with('/') {
        true => Target::Pointer(fragment),
        false => Target::Anchor(fragment),
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}
