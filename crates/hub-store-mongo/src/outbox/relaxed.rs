//! What people have in their documents, as JSON: relaxed Extended JSON, but with plain numbers, dates as ISO strings and
//! ObjectIds as hex.

use crate::document::payload::write_json_or;
use hub_proto::json;
use mongodb::bson::{Bson, RawBsonRef};

/// The JSON of a value.
pub fn json_of(value: RawBsonRef<'_>) -> Result<Vec<u8>, String> {
    let mut json = Vec::new();
    write_json_or(&mut json, value, &foreign)?;
    Ok(json)
}

fn foreign(out: &mut Vec<u8>, value: RawBsonRef<'_>) -> Result<(), String> {
    match value {
        RawBsonRef::DateTime(at) => {
            let text = at.try_to_rfc3339_string();
            json::write_str(out, &text.map_err(|_| format!("{at:?}, which is no date that can be written"))?);
        }
        RawBsonRef::ObjectId(id) => json::write_str(out, &id.to_hex()),
        RawBsonRef::Decimal128(number) => {
            let text = number.to_string();
            // NaN and the infinities are no numbers to JSON.
            match serde_json::from_str::<serde_json::Number>(&text) {
                Ok(_) => out.extend_from_slice(text.as_bytes()),
                Err(_) => extended(out, value)?,
            }
        }
        other => extended(out, other)?,
    }
    Ok(())
}

fn extended(out: &mut Vec<u8>, value: RawBsonRef<'_>) -> Result<(), String> {
    let value = Bson::try_from(value).map_err(|error| error.to_string())?;
    serde_json::to_writer(out, &value.into_relaxed_extjson()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use mongodb::bson::oid::ObjectId;
    use mongodb::bson::{Binary, DateTime, Decimal128, RawDocumentBuf, Regex, doc, spec::BinarySubtype};

    fn json(value: impl Into<Bson>) -> String {
        let document = RawDocumentBuf::try_from(&doc! { "v": value.into() }).unwrap();
        String::from_utf8(json_of(document.get("v").unwrap().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_plain_dates_are_iso_and_object_ids_hex() {
        let at = DateTime::from_millis(1_700_000_000_123);
        let id = ObjectId::parse_str("65a0c0ffee00112233445566").unwrap();
        let decimal: Decimal128 = "12345678901234567890.5".parse().unwrap();
        let value = doc! { "at": at, "id": id, "n": [1, 2_i64, 0.5, decimal], "in": { "at": at } };
        assert_eq!(
            json(value),
            r#"{"at":"2023-11-14T22:13:20.123Z","id":"65a0c0ffee00112233445566","n":[1,2,0.5,12345678901234567890.5],"in":{"at":"2023-11-14T22:13:20.123Z"}}"#
        );
    }

    #[test]
    fn what_json_does_not_have_is_extended_json() {
        assert_eq!(json(f64::NAN), r#"{"$numberDouble":"NaN"}"#);
        assert_eq!(json("NaN".parse::<Decimal128>().unwrap()), r#"{"$numberDecimal":"NaN"}"#);
        let binary = Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] };
        assert_eq!(json(binary), r#"{"$binary":{"base64":"AQID","subType":"00"}}"#);
        let regex = Regex { pattern: "^a".try_into().unwrap(), options: "i".try_into().unwrap() };
        assert_eq!(json(regex), r#"{"$regularExpression":{"options":"i","pattern":"^a"}}"#);
    }
}
