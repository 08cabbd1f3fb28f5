//! The model as lines of text.

use super::model::{Group, Mode, Model, Pane, Topic};
use crate::commands::groups::duration;
use crate::listing::per_second;
use crate::position::now;
use crate::table::{Cell, Column, Table};
use crate::term::{Paint, Style, columns, cut, safe};
use crate::text::{bytes, count, plural};

const HELP: [&str; 14] = [
    "",
    "  q, Ctrl-C      end",
    "  Tab            switch between topics and groups",
    "  s              sort the list by the next column",
    "  r              reverse the order",
    "  / TEXT Enter   show only names with this text; Esc shows all again",
    "  Space          pause: the hub is not asked while it lasts",
    "  Up, Down       scroll by a line; PageUp, PageDown by ten; Home, End to the ends",
    "  Ctrl-Z         back to the shell; `fg` comes back",
    "  ?              this page; any key leaves it",
    "",
    "  Rates are of the last second, published for topics and delivered for groups. A group that is red or yellow",
    "  has events and delivers none: `event-hub groups show TOPIC GROUP` says what its reason means.",
    "",
];
const KEYS: &str = " q quit  Tab list  s sort  r reverse  / filter  Space pause  ? help";

/// What the terminal shows: at most `height` lines of at most `width` columns.
pub fn frame(model: &mut Model, width: usize, height: usize, paint: Paint) -> Vec<String> {
    let mut lines = vec![title(model, width, paint), totals(model, width), trouble(model, width, paint)];
    if model.mode == Mode::Helping {
        lines.extend(HELP.iter().map(|line| cut(line, width)));
    } else {
        // The footer takes one; each list has a title and a line with the names of its columns.
        let room = height.saturating_sub(lines.len() + 1);
        let (topics, groups) = (model.topics().len(), model.groups().len());
        let (upper, lower) = split(room, topics + 3, groups + 2);
        lines.extend(topic_list(model, width, upper, paint));
        lines.extend(group_list(model, width, lower, paint));
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), String::new());
    if height > 0 {
        lines.push(footer(model, width, paint));
    }
    lines
}

/// Rows of the upper and the lower list, which want so many: each has at least half if it wants it.
fn split(room: usize, upper: usize, lower: usize) -> (usize, usize) {
    let half = room / 2;
    let upper_rows = if lower < room - half { upper.min(room - lower) } else { upper.min(half) };
    (upper_rows, (room - upper_rows).min(lower.max(1)))
}

/// A line with one text at its beginning and one at its end.
fn bar(left: &str, right: &str, width: usize) -> String {
    let left = cut(left, width);
    let right = cut(right, width.saturating_sub(columns(&left) + 1));
    let blanks = width.saturating_sub(columns(&left) + columns(&right));
    format!("{left}{}{right}", " ".repeat(blanks))
}

fn title(model: &Model, width: usize, paint: Paint) -> String {
    let state = match (model.is_paused(), model.health["draining"] == true, model.health["ready"] == true) {
        (true, ..) => "paused",
        (_, true, _) => "stopping",
        (_, _, true) => "ready",
        _ => "not ready",
    };
    let left = format!(" event-hub top  {}", safe(&model.address));
    paint.apply(Style::Reverse, &bar(&left, &format!("{state} "), width))
}

fn totals(model: &Model, width: usize) -> String {
    let (topics, groups) = (model.all_topics(), model.all_groups());
    let stuck = groups.iter().filter(|group| group.is_stuck()).count();
    let rate_in: f64 = topics.iter().filter_map(|topic| topic.rate).sum();
    let rate_out: f64 = groups.iter().filter_map(|group| group.rate).sum();
    let lag: u64 = groups.iter().map(|group| group.lag).sum();
    let size: u64 = topics.iter().map(|topic| topic.bytes).sum();
    let more = if model.is_cut { " (and more, not shown)" } else { "" };
    let text = format!(
        " {}  {}, {stuck} stuck{more}  in {}/s  out {}/s  lag {}  {}",
        plural(topics.len() as u64, "topic"),
        plural(groups.len() as u64, "group"),
        per_second(rate_in),
        per_second(rate_out),
        count(lag),
        bytes(size),
    );
    cut(&text, width)
}

/// What is wrong with the hub, if something is.
fn trouble(model: &Model, width: usize, paint: Paint) -> String {
    let store = &model.health["store"];
    let warnings = store["warnings"].as_array().into_iter().flatten().filter_map(|warning| warning.as_str());
    let damaged = store["damaged"].as_u64().filter(|damaged| *damaged > 0);
    let said: Vec<String> = model
        .error
        .iter()
        .map(|error| format!("{error}; asking again"))
        .chain(store["reason"].as_str().map(|reason| format!("store: {reason}")))
        .chain(warnings.map(str::to_owned))
        .chain(damaged.map(|damaged| format!("{} damaged", plural(damaged, "record"))))
        .collect();
    paint.apply(Style::Red, cut(&format!(" {}", safe(&said.join("; "))), width).trim_end())
}

fn footer(model: &Model, width: usize, paint: Paint) -> String {
    let text = match (model.mode, model.filter.is_empty()) {
        (Mode::Filtering, _) => format!(" filter: {}_", safe(&model.filter)),
        (_, false) => format!(" filter: {} (Esc shows all) {KEYS}", safe(&model.filter)),
        _ => KEYS.to_owned(),
    };
    paint.apply(Style::Reverse, &bar(&text, "", width))
}

fn list_title(model: &Model, pane: Pane, name: &str, shown: usize, total: usize) -> String {
    let mark = if model.pane == pane { '>' } else { ' ' };
    let order = if model.list(pane).is_reversed { ", reversed" } else { "" };
    let part = if shown < total {
        format!(" ({} of {})", count(shown as u64), count(total as u64))
    } else {
        String::new()
    };
    format!("{mark}{name}{part} by {}{order}", model.sort(pane))
}

fn topic_list(model: &mut Model, width: usize, rows: usize, paint: Paint) -> Vec<String> {
    let total = model.topics().len();
    let fits = rows.saturating_sub(3);
    let top = model.clamp(Pane::Topics, fits, total);
    let topics = model.topics();
    let shown: Vec<&Topic> = topics.into_iter().skip(top).take(fits).collect();
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::number("PER SECOND"),
        Column::number("EVENTS"),
        Column::number("SIZE"),
        Column::number("GROUPS"),
        Column::number("NEWEST"),
    ]);
    let now = now();
    for topic in &shown {
        let age = topic.newest.map(|newest| duration(now.saturating_sub(newest)));
        table.row(vec![
            (&topic.name).into(),
            rate_cell(topic.rate),
            count(topic.events).into(),
            bytes(topic.bytes).into(),
            count(topic.groups).into(),
            age.unwrap_or_else(|| "-".to_owned()).into(),
        ]);
    }
    let mut lines = vec![
        paint.apply(Style::Bold, &cut(&list_title(model, Pane::Topics, "TOPICS", shown.len(), total), width)),
    ];
    lines.extend(table.lines(Some(width), paint));
    lines.push(String::new());
    lines.truncate(rows);
    lines
}

fn group_list(model: &mut Model, width: usize, rows: usize, paint: Paint) -> Vec<String> {
    let total = model.groups().len();
    let fits = rows.saturating_sub(2);
    let top = model.clamp(Pane::Groups, fits, total);
    let groups = model.groups();
    let shown: Vec<&Group> = groups.into_iter().skip(top).take(fits).collect();
    let mut table = Table::new(&[
        Column::text("TOPIC"),
        Column::text("GROUP"),
        Column::number("LAG"),
        Column::number("PER SECOND"),
        Column::number("IN FLIGHT"),
        Column::number("PARKED"),
        Column::number("MEMBERS"),
        Column::number("P99 MS"),
        Column::text("REASON"),
    ]);
    for group in &shown {
        let reason = group.reason.as_deref().unwrap_or("delivering");
        let style = match (group.is_stuck(), reason) {
            (true, "no_members" | "parked_full" | "store_unavailable" | "endpoint_failing") => Style::Red,
            (true, _) => Style::Yellow,
            (false, "caught_up") => Style::Dim,
            _ => Style::Plain,
        };
        table.row(vec![
            (&group.topic).into(),
            (&group.name).into(),
            Cell::new(count(group.lag)).style(if group.is_stuck() { style } else { Style::Plain }),
            rate_cell(group.rate),
            count(group.inflight).into(),
            count(group.parked).into(),
            count(group.members).into(),
            group.latency.map_or_else(|| "-".to_owned(), per_second).into(),
            Cell::new(reason).style(style),
        ]);
    }
    let mut lines = vec![
        paint.apply(Style::Bold, &cut(&list_title(model, Pane::Groups, "GROUPS", shown.len(), total), width)),
    ];
    lines.extend(table.lines(Some(width), paint));
    lines.truncate(rows);
    lines
}

fn rate_cell(rate: Option<f64>) -> Cell {
    let style = if rate.is_some_and(|rate| rate > 0.0) { Style::Green } else { Style::Dim };
    Cell::new(rate.map_or_else(|| "-".to_owned(), per_second)).style(style)
}

#[cfg(test)]
mod tests {
    use super::super::keys::Key;
    use super::super::model::tests::{look, model};
    use super::*;
    use serde_json::json;
    use std::time::Instant;

    fn shown(model: &mut Model, width: usize, height: usize) -> String {
        frame(model, width, height, Paint::OFF).join("\n")
    }

    #[test]
    fn topics_groups_and_reasons_are_shown() {
        let mut model = model();
        let text = shown(&mut model, 100, 16);
        for expected in [
            "http://127.0.0.1:8082/",
            "ready",
            "2 topics  2 groups, 1 stuck  in 100/s  out 50/s  lag 450",
            "orders         100     300  2.0 KiB",
            "orders  mail     300           0          0       0        0       -  no_members",
            "orders  billing  150          50          3       0        2       -  delivering",
            "q quit",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }

    #[test]
    fn it_fits_every_terminal() {
        let mut model = model();
        for keys in ["", "?", "q/", "abc"] {
            for key in keys.chars() {
                model.press(Key::Char(key));
            }
            for width in (0..130).step_by(3) {
                for height in 0..40 {
                    let lines = frame(&mut model, width, height, Paint::OFF);
                    assert!(lines.len() <= height, "{width} by {height}");
                    let widest = lines.iter().map(|line| columns(line)).max().unwrap_or(0);
                    assert!(widest <= width, "{width} by {height}:\n{}", lines.join("\n"));
                }
            }
        }
    }

    #[test]
    fn a_long_list_is_scrolled_to_its_end_and_no_further() {
        let mut model = model();
        let mut many = look(10, 5);
        many.topics =
            (0..50).map(|n| json!({"name": format!("t{n:02}"), "last": 1, "events": 100 - n})).collect();
        model.update((Instant::now(), Ok(many)));
        model.press(Key::Tab);
        assert!(shown(&mut model, 90, 20).contains("t00"));
        for _ in 0..100 {
            model.press(Key::Down);
        }
        let text = shown(&mut model, 90, 20);
        assert!(text.contains("t49") && !text.contains("t00"), "{text}");
        model.press(Key::Up);
        assert!(!shown(&mut model, 90, 20).contains("t49"));
    }

    #[test]
    fn trouble_is_shown() {
        let mut model = model();
        model.health =
            json!({"ready": false, "store": {"reason": "disk full", "warnings": ["low"], "damaged": 2}});
        model.error = Some("no hub answers".into());
        let text = shown(&mut model, 120, 12);
        assert!(
            text.contains("no hub answers; asking again; store: disk full; low; 2 records damaged"),
            "{text}"
        );
        assert!(text.contains("not ready"), "{text}");
    }
}
