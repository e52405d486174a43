//! Tests of the protocol.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::pmix::protocol::{line, parse};

#[test]
fn a_message_is_one_line_from_which_it_is_read_again() {
    let folder = OsString::from_vec(b"/not\nUTF-8 \xff".to_vec());
    let order = Order { name: "a\nname".to_owned(), applications: vec![0, 0, 1], folder: folder.clone() };
    let reports = [
        Report::Ready(vec![vec![("NAME".into(), folder)], Vec::new()]),
        Report::Failed("no\nlibrary".to_owned()),
        Report::Event(Event::Abort { rank: 3, code: -1, message: "it\nfailed".to_owned() }),
        Report::Event(Event::Refused { rank: 0, call: Call::Spawn }),
        Report::NoLibrary("there is none".to_owned()),
        Report::Event(Event::Missing { rank: 1, waiting: 0 }),
        Report::Event(Event::Lost { rank: 7 }),
    ];
    let lines = reports.iter().map(line).chain([line(&order)]);
    assert!(lines.into_iter().all(|line| line.iter().filter(|&&byte| byte == b'\n').count() == 1));
    assert_eq!(parse::<Order>(&line(&order)).unwrap(), order);
    assert!(reports.iter().all(|report| parse::<Report>(&line(report)).unwrap() == *report));
}

#[test]
fn what_is_no_message_is_an_error() {
    for text in ["", "\n", "{}", "{\"name\":\"a\"}", "{\"Ready\":[[1]]}", "\"Lost\"", "\u{0}"] {
        assert!(parse::<Order>(text.as_bytes()).is_err() && parse::<Report>(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn names_of_jobs_are_not_repeated() {
    let names: Vec<String> = (0..100).map(|_| name().unwrap()).collect();
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    assert!(different.len() == names.len() && names.iter().all(|name| name.len() == "rowlock-".len() + 32));
}
