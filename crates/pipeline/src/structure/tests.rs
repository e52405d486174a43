use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn read(text: &str) -> Structure {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn refusal(text: &str) -> String {
    text.parse::<Structure>().unwrap_err().to_string()
}

#[test]
fn every_example_parses_and_prints_unchanged() {
    for key in KEYS {
        assert_eq!(read(key.example).to_string(), key.example);
        assert_eq!(key.example.split('=').next(), Some(key.name));
    }
    let line = "buffers=16 block=64KiB workers=2 threads=each thread=read*2,write*2 thread=mux fork=compress*4 \
                fork=hash*2:unordered fuse=a+b split=d priority=dynamic-up nice=read:-5 policy=write:batch slice=work:3ms \
                ioprio=read:best-effort/2 affinity=work:0-1 clamp=work:0-512 yield=work waiting=load-aware:3 double=io";
    assert_eq!(read(line).to_string(), line);
    assert_eq!(read(""), Structure::default());
    assert!(read(" \n").is_empty() && !read(line).is_empty());
}

#[test]
fn each_structure_has_one_printed_form() {
    for (written, printed) in [
        ("block=4096 buffers=3", "buffers=3 block=4KiB"),
        ("block=1536KiB", "block=1536KiB"),
        ("block=1024KiB", "block=1MiB"),
        ("block=1000", "block=1000"),
        ("fork=a*2:ordered", "fork=a*2"),
        ("thread=a*1,b", "thread=a,b"),
        ("waiting=5cs", "waiting=5:cs"),
    ] {
        assert_eq!(read(written).to_string(), printed);
    }
}

#[test]
fn errors_say_what_is_allowed() {
    for (text, said) in [
        ("bufers=3", "unknown key `bufers` (did you mean `buffers`?); the keys are buffers, block,"),
        ("buffers", "`buffers` is not of the form key=value, as `buffers=16` is"),
        ("fork=", "`fork=` is not of the form key=value, as `fork=hash*2:unordered` is"),
        ("buffers=0", "`buffers=0`: `0` is not a number from 1 to 65536"),
        ("buffers=+5", "`buffers=+5`: `+5` is not a number from 1 to 65536"),
        ("workers=99999999999999999999", "is not a number from 1 to 1024"),
        ("block=64Kib", "`block=64Kib`: `64Kib` is not a size; write a number of bytes, KiB or MiB, as in 64KiB"),
        ("block=KiB", "`KiB` is not a size"),
        ("block=99999999999999999KiB", "is not a size"),
        ("block=2048MiB", "it must be from 1 byte to 1024MiB"),
        (
            "threads=eech",
            "`threads=eech`: `eech` is not a way to have threads (did you mean `each`?); it can be each, blocking",
        ),
        ("thread=a*x", "`thread=a*x`: `x` is not a number"),
        ("thread=a,,b", "`` is not the name of a stage"),
        ("fork=compress", "the number of copies is missing: write it as `fork=compress*4`"),
        ("fork=compress*2:sorted", "`sorted` is neither `ordered` nor `unordered`"),
        ("fuse=a", "stage `a` is fused with no other"),
        ("split=a,b", "`a,b` is not the name of a stage"),
        ("nice=read", "the stage or the value is missing: write it as `nice=read:-5`"),
        ("priority=fastest", "`fastest` is not a priority rule; it can be default, nice-down-io, "),
        ("priority=dynamic-upp", "did you mean `dynamic-up`?"),
        ("double=oi", "`oi` is not a kind of stage (did you mean `io`?); it can be io, compute, communicate"),
        ("policy=write:bacth", "`policy=write:bacth`: did you mean `batch`? It can be other, batch"),
        ("nice=read:99", "`nice=read:99`: a nice value is a whole number from -20"),
        ("waiting=fast", "`fast` is not a waiting rule; `rowlock policies` lists them"),
        ("buffers=1 buffers=2", "`buffers` appears twice"),
        ("thread=a,b thread=b", "stage `b` is put on a thread twice"),
        ("fuse=a+b fuse=b+c", "stage `b` is fused twice"),
        ("fork=a*2 fork=a*3", "stage `a` is forked twice"),
        ("split=a split=a", "stage `a` is split off twice"),
        ("nice=a:1 nice=a:2", "stage `a` is given `nice` twice"),
        ("fuse=a+b split=b", "stage `b` is both split from and joined to the stage before it"),
        ("thread=a,b split=b", "stage `b` is both split from and joined to"),
        ("fuse=a+b thread=b", "stage `b` is both fused with the stage before it and put on a thread"),
    ] {
        assert!(refusal(text).contains(said), "{text}: {}", refusal(text));
    }
}

#[test]
fn unknown_stages_are_reported_with_the_most_similar_name() {
    let structure = read("fork=compres*2 split=write");
    let why = structure.check_stages(&["read", "compress", "write"]).unwrap_err().to_string();
    assert_eq!(why, "there is no stage `compres` (did you mean `compress`?); the stages are read, compress, write");
    assert_eq!(structure.check_stages(&["compres", "write"]), Ok(()));
    // A junction that is in two pipelines.
    let why = structure.check_stages(&["read", "join", "join", "write"]).unwrap_err().to_string();
    assert_eq!(why, "there is no stage `compres`; the stages are read, join, write");
}

#[test]
fn a_structure_laid_over_another_overrides_it() {
    for (over, base, both) in [
        ("buffers=4", "buffers=8 workers=2", "buffers=4 workers=2"),
        ("fork=a*2", "fork=a*4 fork=b*3", "fork=b*3 fork=a*2"),
        ("nice=a:1", "nice=a:2 policy=a:batch nice=b:2", "policy=a:batch nice=b:2 nice=a:1"),
        ("split=b", "fuse=a+b+c", "fuse=b+c split=b"),
        ("split=c", "fuse=a+b+c", "fuse=a+b split=c"),
        ("split=b", "thread=a*2,b,c", "thread=a*2 thread=b,c split=b"),
        ("fuse=a+b", "split=b split=c", "fuse=a+b split=c"),
        ("thread=b", "fuse=a+b", "thread=b"),
        ("thread=a,b", "thread=b,c", "thread=c thread=a,b"),
        ("fuse=b+c", "thread=a,b fuse=c+d", "thread=a fuse=b+c"),
        ("double=io", "waiting=adaptive", "waiting=adaptive double=io"),
    ] {
        assert_eq!(read(over).laid_over(&read(base)).to_string(), both, "{over} over {base}");
    }
}

#[test]
fn names_with_special_characters_are_rejected() {
    for name in ["", "two words", "a=b", "a*2", "a,b", "a+b", "a:b", "a\u{7}"] {
        assert!(!is_name(name), "{name}");
    }
    assert!(is_name("größe/2-x.y_#"));
}

/// Any consistent structure of a few stages.
fn structures() -> impl Strategy<Value = Structure> {
    let stage = || select(vec!["read", "a", "größe", "b-2", "write"]).prop_map(str::to_owned);
    let turn = (stage(), 1..4_usize).prop_map(|(stage, repeat)| StageTurn { stage, repeat });
    let fork =
        (stage(), 1..5_usize, any::<bool>()).prop_map(|(stage, copies, ordered)| Fork { stage, copies, ordered });
    let requested: Vec<&'static StructureKey> =
        KEYS.iter().filter(|key| key.is_scheduling_attribute && key.name != "yield").collect();
    let attribute = (select(requested), stage()).prop_map(|(key, stage)| {
        let value = key.example.split_once(':').map_or("", |(_, value)| value).to_owned();
        RequestedAttribute { key: key.name, stage, value }
    });
    let yield_each_round = stage().prop_map(|stage| RequestedAttribute { key: "yield", stage, value: String::new() });
    let numbers = (of(1..100_usize), of(1..=1_usize << 30), of(1..9_usize));
    let groups = (vec(vec(turn, 1..3), 0..3), vec(fork, 0..3), vec(vec(stage(), 2..4), 0..2), vec(stage(), 0..2));
    let rules = (
        of(select(vec![Threads::Each, Threads::Blocking])),
        of(select(priority::PriorityRule::ALL.to_vec())),
        of(select(vec!["adaptive", "cs", "0.54 cs", "load-aware 2.5", "5.32 us"])),
        of(select(StageKind::ALL.to_vec())),
    );
    let all = (numbers, groups, vec(prop_oneof![attribute, yield_each_round], 0..4), rules);
    let made = all.prop_map(|((buffers, block, workers), (thread, fork, fuse, split), requested, rules)| {
        let (threads, priority, waiting, double) = rules;
        let waiting = waiting.map(|text| text.parse().unwrap());
        Structure { buffers, block, workers, threads, thread, fork, fuse, split, priority, requested, waiting, double }
    });
    made.prop_filter("consistent", |structure| structure.check().is_ok())
}

proptest! {
    #[test]
    fn the_printed_form_parses_to_the_same_structure(structure in structures()) {
        prop_assert_eq!(structure.to_string().parse(), Ok(structure));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z=*:,+0-9 ü-]{0,40}") {
        if let Ok(structure) = text.parse::<Structure>() {
            prop_assert_eq!(structure.to_string().parse(), Ok(structure));
        }
    }

    #[test]
    fn an_empty_structure_changes_nothing_and_laying_over_is_idempotent(structure in structures()) {
        let nothing = Structure::default();
        prop_assert_eq!(&nothing.laid_over(&structure), &structure);
        prop_assert_eq!(&structure.laid_over(&nothing), &structure);
        prop_assert_eq!(&structure.laid_over(&structure), &structure);
    }

    #[test]
    fn consistent_structures_combine_to_a_consistent_one(over in structures(), base in structures()) {
        let both = over.laid_over(&base);
        prop_assert_eq!(both.check(), Ok(()));
        // The upper one overrides the other.
        prop_assert_eq!(over.laid_over(&both), both);
    }
}
