//! The examples of docs/policies.md.

use super::*;
use crate::acl::Policy;

const PAGE: &str = include_str!("../../../../../../docs/policies.md");

/// Code blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let (mut inside, mut wanted) = (false, false);
    for line in PAGE.lines() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside;
            wanted = inside && info.split(' ').next() == Some(language);
            if wanted {
                blocks.push(String::new());
            }
        } else if wanted {
            blocks.last_mut().unwrap().extend([line, "\n"]);
        }
    }
    blocks
}

#[test]
fn every_file_of_the_page_is_read() {
    let files = blocks("lisp");
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let sib = read(&file);
        assert!(!sib.policy.rules().is_empty() || !sib.topics.is_empty(), "it says nothing: {file}");
    }
}

#[test]
fn every_token_of_the_page_is_read() {
    let tokens = blocks("json");
    assert!(!tokens.is_empty());
    for token in tokens {
        let claims: serde_json::Value = serde_json::from_str(&token).unwrap();
        assert!(!Policy::from_claims(claims.as_object().unwrap()).unwrap().rules().is_empty(), "{token}");
    }
}
