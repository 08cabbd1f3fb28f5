//! Strategies the property tests share: JSON values, and the many ways to write one down.

use proptest::prelude::*;
use serde_json::Value;

/// JSON values of a few levels: small integers, texts that need escapes, repeated keys in different objects.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1200_i64..1200).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Texts with everything that is special to JSON in them.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab\"\\\\/é😀\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}\u{2028}]{0,5}",
        1 => any::<String>(),
    ]
}

/// A value as text in one of its many spellings: members in any order, any escapes, any way to write a number,
/// whitespace anywhere. The choices come from `seed`.
pub(crate) fn spell(value: &Value, seed: u64) -> String {
    let mut speller = Speller { seed, out: String::new() };
    speller.value(value);
    speller.out
}

struct Speller {
    seed: u64,
    out: String,
}

impl Speller {
    fn choose(&mut self, among: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % among
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::Number(number) => {
                self.integer(number.as_i64().expect("the strategies make no other numbers"));
            }
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.out.push_str(if at > 0 { "," } else { "" });
                    self.value(item);
                }
                self.out.push(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                self.out.push('{');
                for at in 0..members.len() {
                    let (key, value) = members.swap_remove(self.choose(members.len()));
                    self.out.push_str(if at > 0 { "," } else { "" });
                    self.space();
                    self.text(key);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                }
                self.out.push('}');
            }
            other => self.out.push_str(&other.to_string()),
        }
        self.space();
    }

    fn space(&mut self) {
        let space = ["", "", "", " ", "\n", "\t\r"][self.choose(6)];
        self.out.push_str(space);
    }

    fn integer(&mut self, n: i64) {
        let spelled = match self.choose(6) {
            0 => format!("{n}.0"),
            1 => format!("{n}e0"),
            2 if n != 0 => format!("{n}00E-2"),
            3 if n % 10 == 0 => format!("{}e+01", n / 10),
            4 => format!("{}.{}e1", n / 10, n.unsigned_abs() % 10),
            _ => n.to_string(),
        };
        // Dividing loses the sign of a number between -10 and 0.
        let lost = n < 0 && !spelled.starts_with('-');
        self.out.push_str(if lost { "-" } else { "" });
        self.out.push_str(&spelled);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            let must = u32::from(c) < 0x20 || c == '"' || c == '\\';
            match self.choose(4) {
                0 => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                1 if c == '/' => self.out.push_str("\\/"),
                _ if must => {
                    let quoted = serde_json::to_string(&c).expect("a char is JSON");
                    self.out.push_str(&quoted[1..quoted.len() - 1]);
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}
