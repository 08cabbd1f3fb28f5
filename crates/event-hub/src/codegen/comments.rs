//! Descriptions of schemas as comments. A description is somebody else's text: whatever is in it stays a comment.

/// Lines of a description at most, and characters of a line.
const LINES: usize = 40;
const LINE_CHARS: usize = 400;

/// The lines of a description, without anything that ends a line or reorders text.
pub fn lines(description: &str) -> Vec<String> {
    let is_break = |character: char| {
        matches!(character, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let lines = description.trim().split(is_break).take(LINES).map(|line| {
        let line: String =
            line.trim_end().chars().filter(|character| !is_hidden(*character)).take(LINE_CHARS).collect();
        line.trim_end().to_owned()
    });
    let mut lines: Vec<String> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Control characters, and those that change the direction of text: compilers refuse them in comments.
fn is_hidden(character: char) -> bool {
    (character.is_control() && character != '\t')
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A comment of TypeScript, indented.
pub fn typescript(description: &str, indent: &str) -> String {
    // `*/` would end it, and `@ts-…` on its last line would speak to the compiler.
    let lines: Vec<String> =
        lines(description).iter().map(|line| line.replace("*/", "*\\/").replace("@ts-", "@ ts-")).collect();
    match &lines[..] {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => {
            let lines: String =
                lines.iter().map(|line| format!("{indent} * {line}\n").replace(" * \n", " *\n")).collect();
            format!("{indent}/**\n{lines}{indent} */\n")
        }
    }
}

/// A comment of Rust, indented.
pub fn rust(description: &str, indent: &str) -> String {
    // A line in backticks or indented by four would be taken for code by `cargo test`.
    let lines = lines(description)
        .into_iter()
        .map(|line| line.trim_start().replace("```", "'''").replace("~~~", "'''"));
    lines.map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n").collect()
}
