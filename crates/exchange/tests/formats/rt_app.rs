//! Tests of files for rt-app: conversion, rejection and round trips.

use exchange::json::{self, Document, Member, Node, Value};
use exchange::{Format, ImportError, rt_app};
use proptest::prelude::*;
use scenario::{Distribution, JobKind, Scenario, Span};

const MIXED: &str = include_str!("../fixtures/mixed.json");

fn read(text: &str) -> Scenario {
    rt_app::read("file.json", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}")).scenario
}

/// Line, column and message of each problem.
fn refused(text: &str) -> Vec<(usize, usize, String)> {
    match rt_app::read("file.json", text.as_bytes()).unwrap_err() {
        ImportError::Refused(all) => {
            all.iter().map(|one| (all.position(one).0, all.position(one).1, one.message.clone())).collect()
        }
        other => panic!("{other}"),
    }
}

fn task(members: &str) -> String {
    format!("{{ \"tasks\" : {{ \"a\" : {{\n{members}\n}} }} }}")
}

fn kind(members: &str) -> JobKind {
    read(&task(members)).arms.remove(0).setting.jobs.remove(0).kind
}

#[test]
fn every_kind_of_task_becomes_a_kind_of_job() {
    let imported = rt_app::read("mixed.json", MIXED.as_bytes()).unwrap();
    assert_eq!(
        imported.toml,
        r#"title = "A crew at a barrier, a bank with a lock, walkers that pause, and a crowd"

[machine]
like = "host"

[[job]]
name = "crew"
kind = "barrier"
threads = 4
compute = "50 us"
rounds = 2000
waiting = "always-block"

[[job]]
name = "bank"
kind = "lock"
threads = 3
compute = "20 us"
critical = "2 us"
rounds = 1000
waiting = "always-block"

[[job]]
name = "walker"
kind = "pipeline"
copies = 2
buffers = 1
rounds = 100
stages = [
    { name = "read", kind = "communicate", compute = "20 us", device = "1 ms" },
    { name = "run", kind = "communicate", compute = "500 us", device = "40 us" },
]
thread = [["read", "run"]]

[[job]]
name = "crowd"
kind = "cpu"
threads = 5

[[job]]
name = "solo"
kind = "cpu"
threads = 1
work = "20 ms"
"#
    );
    assert_eq!(
        imported.notes,
        [
            "`resources` is ignored: rt-app creates them where they are used",
            "`calibration` is ignored: it controls how rt-app measures and logs",
            "`gnuplot` is ignored: it controls how rt-app measures and logs",
            "task `crowd` runs forever in rt-app; its job ends when the others end",
        ]
    );
}

#[test]
fn a_scenario_survives_export_and_import() {
    let scenario = read(MIXED);
    let (text, _) = rt_app::write(&scenario).unwrap();
    assert_eq!(read(&text), scenario);
}

#[test]
fn repeated_keys_are_repeated_events_in_order() {
    let JobKind::Pipeline(pipeline) = kind(r#""loop" : 3, "sleep" : 1, "run" : 2, "run" : 3, "sleep" : 4, "run" : 5"#)
    else {
        panic!("no pipeline");
    };
    let us = |n| Some(Distribution::exactly(Span::from_micros(n)));
    let times = |of: fn(scenario::pipeline::Stage) -> Option<Distribution>| -> Vec<Option<Distribution>> {
        pipeline.stages.iter().cloned().map(of).collect()
    };
    assert_eq!(times(|stage| stage.compute), [None, us(5), us(5)]);
    assert_eq!(times(|stage| stage.device), [us(1), us(4), None]);
    assert_eq!(pipeline.stages.iter().map(|stage| stage.name.as_str()).collect::<Vec<_>>(), ["sleep", "run", "run1"]);
}

#[test]
fn the_first_comment_is_the_title_if_nothing_precedes_it() {
    let titled = |text: &str| read(text).title;
    let rest = "\"tasks\" : { \"a\" : { \"loop\" : 1, /* 10 ms */ \"run\" : 10000 } } }";
    assert_eq!(titled(&format!("{{ {rest}")), "From file.json");
    assert_eq!(titled(&format!("// A walk\n{{ /* or not */ {rest}")), "A walk");
    assert_eq!(titled(&format!("{{ /*\n\t * A walk\n\t * of two lines\n\t */ {rest}")), "A walk of two lines");
}

#[test]
fn a_byte_order_mark_at_the_beginning_is_ignored() {
    let marked = format!("\u{feff}{MIXED}");
    let [plain, marked] = [MIXED, &marked].map(|text| {
        assert_eq!(Format::guess(text.as_bytes()), Some(Format::RtApp));
        rt_app::read("mixed.json", text.as_bytes()).unwrap().toml
    });
    assert_eq!(plain, marked);
    // Elsewhere it is an error.
    assert_eq!(refused("{ \u{feff} }").len(), 1);
}

#[test]
fn tasks_with_the_same_name_are_two_jobs() {
    let text = r#"{ "tasks" : { "a" : { "run" : 1, "loop" : 1 }, "a" : { "run" : 2, "loop" : 1 } } }"#;
    let names: Vec<String> = read(text).arms[0].setting.jobs.iter().map(|job| job.name.clone()).collect();
    assert_eq!(names, ["a", "a1"]);
}

#[test]
fn loops_of_phases_and_tasks_multiply() {
    let phases = r#""loop" : 2, "phases" : { "a" : { "loop" : 3, "run" : 10 }, "b" : { "run" : 5 } }"#;
    assert_eq!(kind(phases), kind(r#""loop" : 1, "run" : 70"#));
    let JobKind::Pipeline(pipeline) =
        kind(r#""loop" : 7, "phases" : { "a" : { "loop" : 2, "run" : 1, "sleep" : 2 }, "b" : { "run" : 5 } }"#)
    else {
        panic!("no pipeline");
    };
    assert_eq!((pipeline.stages.len(), pipeline.rounds), (3, 7));
}

#[test]
fn unsupported_features_are_rejected_at_their_place() {
    for (members, column, message) in [
        (
            r#""loop" : 1, "run" : 1.5"#,
            21,
            "this is a number that is not an integer, or too large, but an integer is needed",
        ),
        (r#""loop" : 1, "rum" : 1"#, 13, "there is no key `rum` here"),
        (r#""loop" : 1, "run" : -1"#, 21, "this number is not between 0 and 2147483647"),
        (
            r#""loop" : 1, "runtime" : 5"#,
            13,
            "`runtime` follows the clock, so that time without a CPU counts as work; a scenario's threads compute a fixed amount",
        ),
        (
            r#""run" : 1, "timer" : { "ref" : "t", "period" : 9 }"#,
            12,
            "a scenario has no timers: its threads pause for a fixed time, whenever the pause began",
        ),
        (r#""run" : 1, "mem" : 4096"#, 12, "a scenario's threads only compute: it has no memory and no files"),
        (r#""run" : 1, "memrun" : {}"#, 12, "a scenario's threads only compute: it has no memory and no files"),
        (r#""run" : 1, "yield" : """#, 12, "a scenario's threads yield only by a waiting rule"),
        (r#""run" : 1, "fork" : "b""#, 12, "a scenario's jobs cannot start others"),
        (
            r#""run" : 1, "sem_post" : "s""#,
            12,
            "a scenario's threads meet at a barrier or take turns at a lock; it has no condition variables and semaphores",
        ),
        (r#""run" : 1, "policy" : "SCHED_FIFO""#, 23, "a scenario's threads all use SCHED_OTHER"),
        (r#""run" : 1, "loop" : 0"#, 21, "a loop of 0 rounds does nothing"),
        (r#""run" : 1, "util_min" : 5"#, 12, "a scenario cannot express `util_min`"),
        (r#""run" : 1, "loop" : 1, "loop" : 2"#, 24, "`loop` is repeated"),
        (
            r#""loop" : 2, "run" : 1, "barrier" : "x", "run" : 1"#,
            41,
            "a scenario's threads can only repeat this: compute, then meet",
        ),
        (r#""loop" : 2, "barrier" : "x""#, 13, "there is nothing to compute before this"),
        (
            r#""loop" : 2, "run" : 1, "lock" : "x", "run" : 1, "unlock" : "y""#,
            49,
            "a scenario's threads can only repeat this: compute, lock, compute, unlock",
        ),
        (r#""run" : 1, "barrier" : "x", "loop" : -1"#, 38, "a scenario's threads cannot sleep, meet or lock forever"),
        (r#""loop" : 2, "run" : 1, "phases" : { "p" : { "run" : 1 } }"#, 13, "rt-app ignores events beside `phases`"),
        (r#""run" : 1, "cpus" : []"#, 21, "a thread needs at least one CPU"),
    ] {
        let found = refused(&task(members));
        assert_eq!(found, [(2, column, message.to_owned())], "{members}");
    }
}

#[test]
fn unsupported_global_settings_are_rejected() {
    for (global, message) in [
        (r#""duration" : 2"#, "a scenario has no `duration`: it ends when its jobs end"),
        (r#""pi_enabled" : true"#, "a scenario's locks have no priority inheritance"),
        (r#""default_policy" : "SCHED_RR""#, "a scenario's threads all use SCHED_OTHER"),
        (r#""duratoin" : -1"#, "there is no key `duratoin` here"),
    ] {
        let text =
            format!("{{ \"tasks\" : {{ \"a\" : {{ \"loop\" : 1, \"run\" : 1 }} }}, \"global\" : {{ {global} }} }}");
        assert_eq!(refused(&text).len(), 1, "{text}");
        assert_eq!(refused(&text)[0].2, message);
    }
    let endless = r#"{ "tasks" : { "a" : { "run" : 1 } } }"#;
    assert_eq!(refused(endless)[0].2, "all tasks run forever, so the scenario would never end");
    let two = r#"{ "tasks" : { "a" : { "loop" : 1, "run" : 1, "barrier" : "x" }, "b" : { "loop" : 1, "run" : 1, "barrier" : "x" } } }"#;
    assert_eq!(refused(two)[0].2, "another task uses this too, but a scenario's barriers and locks belong to one job");
    assert_eq!(refused("{ \"global\" : {} }")[0].2, "there are no `tasks`");
}

#[test]
fn scheduling_attributes_survive_import_and_export() {
    let members = r#""loop" : 5, "run" : 10, "delay" : 1500, "priority" : -7, "cpus" : [0, 2, 3], "dl-runtime" : 3000"#;
    let imported = rt_app::read("file.json", task(members).as_bytes()).unwrap();
    let written = "arrival = \"1.5 ms\"\nnice = -7\ncpus = \"0,2-3\"\nslice = \"3 ms\"\n";
    assert!(imported.toml.contains(written), "{}", imported.toml);
    let (text, _) = rt_app::write(&imported.scenario).unwrap();
    assert_eq!(read(&text), Scenario { title: "From file.json".into(), ..imported.scenario });
    let in_a_phase = r#""loop" : 1, "phases" : { "only" : { "loop" : 5, "run" : 10, "priority" : 3 } }"#;
    assert_eq!(read(&task(in_a_phase)).arms[0].setting.jobs[0].attributes.nice, 3);
    let in_two = r#""loop" : 1, "phases" : { "a" : { "run" : 10, "priority" : 3 }, "b" : { "run" : 10 } }"#;
    assert_eq!(refused(&task(in_two))[0].2, "a scenario cannot change how a thread is scheduled");
}

#[test]
fn a_rejection_shows_the_line_and_a_hint() {
    let error = rt_app::read("file.json", task("\"run\" : 1,\n\"timer\" : {}").as_bytes()).unwrap_err().to_string();
    for part in
        ["--> file.json:3:1", "\"timer\" : {}", "help: write `sleep` with the rest of the period after the `run`"]
    {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    assert_eq!(refused(&task("\"run\" : \"x\",\n\"sleep\" : -4,\n\"timer\" : {}")).len(), 3);
}

#[test]
fn invalid_json_is_an_error_with_a_place() {
    for (text, column, message) in [
        ("", 1, "the text ends where a value is expected"),
        ("{", 2, "a key is missing here"),
        ("{ \"a\" 1 }", 7, "a key is followed by `:` and a value"),
        ("{ \"a\" : 1 \"b\" : 2 }", 11, "a comma is missing here"),
        ("{ \"a\" : [1, 2", 14, "the text ends within an array"),
        ("{} {}", 4, "there is more after the end of the JSON value"),
        ("/* {}", 1, "this comment does not end"),
        ("{ \"a", 3, "this string does not end"),
        ("{ 'a' : 1 }", 3, "a key is missing here"),
        ("{ \"\\x\" : 1 }", 4, "there is no such escape"),
        ("{ \"a\" : True }", 9, "this is not a JSON value"),
        ("{ \"a\" : 1- }", 9, "this is not a number"),
    ] {
        assert_eq!(refused(text), [(1, column, message.to_owned())], "{text}");
    }
    assert_eq!(json::read("01").unwrap().root.value, Value::Whole(1));
    let nested = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(json::read(&nested(json::DEEPEST)).is_ok());
    assert!(json::read(&nested(json::DEEPEST + 1)).unwrap_err().message.contains("nested too deeply"));
    assert!(refused(&"[".repeat(100_000))[0].2.contains("nested too deeply"));
}

#[test]
fn escapes_follow_the_json_standard() {
    let Value::Text(text) = json::read(r#""\"\\\/\b\f\n\r\t\u00fc\ud83d\udea3""#).unwrap().root.value else { panic!() };
    assert_eq!(text, "\"\\/\u{8}\u{c}\n\r\tü🚣");
    for text in [r#""\ud83d""#, r#""\ud83dx""#, r#""\u12""#, r#""\u+123""#, r#""\ude00""#] {
        assert!(json::read(text).is_err(), "{text}");
    }
}

#[test]
fn features_that_rt_app_cannot_express_are_rejected_by_name() {
    let job = |rest: &str| format!("[machine]\nlike = \"host\"\n[[job]]\nname = \"j\"\n{rest}\n");
    for (text, part) in [
        (
            job("kind = \"barrier\"\nthreads = 2\ncompute = \"5 us\"\nrounds = 9\nwaiting = \"2cs+\""),
            "it waits by `2cs+`",
        ),
        (
            job("kind = \"barrier\"\nthreads = 2\ngranularity = \"fine\"\nrounds = 9\nwaiting = \"always-block\""),
            "its `granularity` is",
        ),
        (
            job(
                "kind = \"barrier\"\nthreads = 2\ncompute = { mean = \"5 us\", sd = \"1 us\" }\nrounds = 9\nwaiting = \"always-block\"",
            ),
            "its `compute` is a distribution",
        ),
        (job("kind = \"cpu\"\nwork = \"1.5 us\""), "rt-app counts whole microseconds"),
        (job("kind = \"cpu\"\nwork = \"1 us\"\ncopies = 2"), "its `copies`"),
        (job("kind = \"cpu\"\ncopies = 0\n[[job]]\nname = \"k\"\nkind = \"cpu\"\nwork = \"1 us\""), "it has no copies"),
        (job("kind = \"cpu\"\nwork = \"1 us\"\nevery = \"1 ms\""), "starts its copies one after the other"),
        (job("kind = \"command\"\nargv = [\"true\"]"), "starts no programs"),
        (
            job(
                "kind = \"pipeline\"\nbuffers = 2\nrounds = 3\nstages = [{ name = \"a\", kind = \"communicate\", device = \"1 us\" }]",
            ),
            "no queues",
        ),
        (
            job(
                "kind = \"pipeline\"\nbuffers = 1\nrounds = 3\nstages = [{ name = \"a\", kind = \"io\", device = \"1 us\" }]",
            ),
            "no device",
        ),
        (job("kind = \"cpu\"\nwork = \"1 us\"").replace("like = \"host\"", "cpus = 4"), "the machine"),
        (job("kind = \"cpu\"\nwork = \"1 us\"\n[experiment]\nsweep = { \"job.j.threads\" = [1, 2] }"), "the sweep"),
    ] {
        let scenario = scenario::read("s.toml", text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        let refusals = rt_app::write(&scenario).unwrap_err().to_string();
        assert!(refusals.contains(part), "{refusals}");
    }
}

#[test]
fn the_format_is_guessed_from_the_content() {
    assert_eq!(Format::guess(MIXED.as_bytes()), Some(Format::RtApp));
    assert_eq!(Format::guess(b" /* a */ /* b */ {"), Some(Format::RtApp));
    assert_eq!(Format::guess(b"/* {"), None);
    assert_eq!(Format::guess(b"title = \"{\""), None);
}

/// Prints a value with comments and trailing commas, which rt-app accepts.
fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Flag(flag) => out.push_str(&flag.to_string()),
        Value::Whole(number) => out.push_str(&number.to_string()),
        Value::Number(number) => out.push_str(number),
        Value::Text(text) => quote(text, out),
        Value::List(items) => {
            out.push('[');
            for item in items {
                print(&item.value, out);
                out.push_str(" , // and\n");
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for Member { key, node, .. } in members {
                quote(key, out);
                out.push_str("/* is */:\t");
                print(&node.value, out);
                out.push(',');
            }
            out.push('}');
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The same node without positions.
fn bare(node: &Node) -> Node {
    let value = match &node.value {
        Value::List(items) => Value::List(items.iter().map(bare).collect()),
        Value::Object(members) => {
            let member = |member: &Member| Member { key: member.key.clone(), place: 0..0, node: bare(&member.node) };
            Value::Object(members.iter().map(member).collect())
        }
        value => value.clone(),
    };
    Node { value, span: 0..0 }
}

fn any_node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Flag),
        any::<i64>().prop_map(Value::Whole),
        (0_u32..100, 1_u32..100).prop_map(|(a, b)| Value::Number(format!("{a}.{b}e-3"))),
        ".{0,6}".prop_map(Value::Text),
    ];
    let node = |value| Node { value, span: 0..0 };
    leaf.prop_map(node).prop_recursive(4, 32, 6, move |inner| {
        let members = prop::collection::vec(("(run|sleep|run0|)", inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::List),
            members.prop_map(|members| Value::Object(
                members.into_iter().map(|(key, node)| Member { key, place: 0..0, node }).collect()
            )),
        ]
        .prop_map(node)
    })
}

/// Events of a task that a scenario can express.
fn any_task() -> impl Strategy<Value = String> {
    let times = 1..5000_u32;
    prop_oneof![
        (times.clone(), times.clone()).prop_map(|(n, run)| format!("\"loop\" : {n}, \"run\" : {run}")),
        times.clone().prop_map(|run| format!("\"run\" : {run}")),
        (times.clone(), times.clone(), 0..9).prop_map(|(n, run, id)| format!(
            "\"instance\" : 3, \"run\" : {run}, \"barrier\" : \"b{id}\", \"loop\" : {n}"
        )),
        (times.clone(), times.clone(), times.clone(), 0..9).prop_map(|(n, a, b, id)| format!(
            "\"loop\" : {n}, \"run\" : {a}, \"lock\" : \"l{id}\", \"run\" : {b}, \"unlock\" : \"l{id}\""
        )),
        (times.clone(), prop::collection::vec((times.clone(), any::<bool>()), 1..12)).prop_map(|(n, events)| {
            let event = |(time, runs): (u32, bool)| format!(", \"{}\" : {time}", if runs { "run" } else { "sleep" });
            format!("\"loop\" : {n}, \"instance\" : 2{}", events.into_iter().map(event).collect::<String>())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn order_and_repeated_keys_survive_parsing(node in any_node()) {
        let mut text = String::new();
        print(&node.value, &mut text);
        let Document { root, .. } = json::read(&text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
        prop_assert_eq!(bare(&root), node);
    }

    #[test]
    fn spans_contain_the_text_of_their_values(node in any_node()) {
        let mut text = String::new();
        print(&node.value, &mut text);
        let root = json::read(&text).unwrap().root;
        let again = json::read(&text[root.span.clone()]).unwrap().root;
        prop_assert_eq!(bare(&again), bare(&root));
        if let Value::Object(members) = &root.value {
            for member in members {
                let key = json::read(&text[member.place.clone()]).unwrap().root.value;
                prop_assert_eq!(key, Value::Text(member.key.clone()));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = rt_app::read("file.json", &bytes);
        let _ = Format::guess(&bytes);
    }

    #[test]
    fn truncated_and_corrupted_files_do_not_panic(cut in 0..MIXED.len(), at in 0..MIXED.len(), byte in any::<u8>()) {
        let mut bytes = MIXED.as_bytes().to_vec();
        bytes[at] = byte;
        let _ = rt_app::read("file.json", &bytes);
        bytes.truncate(cut);
        let _ = rt_app::read("file.json", &bytes);
    }

    #[test]
    fn imported_tasks_survive_export_and_import(tasks in prop::collection::vec(any_task(), 1..5)) {
        let task = |(number, task): (usize, &String)| format!("\"t{number}\" : {{ {task} }}");
        let tasks: Vec<String> = tasks.iter().enumerate().map(task).collect();
        let text = format!("{{ \"tasks\" : {{ \"end\" : {{ \"loop\" : 1, \"run\" : 1 }}, {} }} }}", tasks.join(", "));
        // Two tasks may share a barrier by chance.
        if let Ok(imported) = rt_app::read("file.json", text.as_bytes()) {
            let (again, _) = rt_app::write(&imported.scenario).unwrap();
            prop_assert_eq!(read(&again), imported.scenario);
        }
    }
}
