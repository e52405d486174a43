use std::thread::scope;

use proptest::prelude::*;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

/// Runs `trial` on a thread without capabilities.
fn without_rights<T: Send>(trial: impl FnOnce() -> T + Send) -> T {
    let trial = || {
        let mut none = capabilities(None).unwrap();
        none.effective = CapabilitySet::empty();
        set_capabilities(None, none).unwrap();
        trial()
    };
    scope(|scope| scope.spawn(trial).join()).unwrap()
}

fn read(text: &str) -> Result<Scheduling, String> {
    text.parse().map_err(|why: SchedulingParseError| why.to_string())
}

fn apply(text: &str) -> Vec<EffectiveAttribute> {
    read(text).unwrap().apply_to_this_thread()
}

#[test]
fn requests_have_one_printed_form_for_all_spellings() {
    for (text, printed) in [
        ("", ""),
        ("nice=-5", "nice=-5"),
        ("yield nice=19", "nice=19 yield"),
        ("policy=fifo", "policy=fifo/1"),
        ("policy=rr/99", "policy=rr/99"),
        ("slice=3000us", "slice=3ms"),
        ("ioprio=best-effort", "ioprio=best-effort/4"),
        ("ioprio=idle", "ioprio=idle"),
        ("affinity=3,0-1,2", "affinity=0-3"),
        ("affinity=7+1+0+5", "affinity=0-1+5+7"),
        ("clamp=0-1024", "clamp=0-1024"),
        ("nice=1 nice=2", "nice=2"),
    ] {
        assert_eq!(read(text).map(|read| read.to_string()), Ok(printed.to_owned()), "{text}");
        assert_eq!(read(printed), read(text), "{text}");
    }
}

#[test]
fn invalid_requests_name_what_is_allowed() {
    for (text, part) in [
        ("nise=1", "`nise` cannot be requested (did you mean `nice`?); the keys are nice, "),
        ("nice=20", "`nice=20`: a nice value is a whole number from -20"),
        ("nice", "`nice=`: a nice value"),
        ("policy=bach", "did you mean `batch`? It can be other, batch, idle, fifo/1 or rr/1"),
        ("policy=fifo/0", "priorities go from 1"),
        ("policy=fifo/x", "priorities go from 1"),
        ("policy=batch/1", "there are no priorities under batch"),
        ("slice=3", "missing unit"),
        ("slice=0ms", "longer than zero"),
        ("ioprio=best-efort/1", "did you mean `best-effort`?"),
        ("ioprio=best-effort/8", "levels go from 0"),
        ("ioprio=idle/1", "there are no levels of idle"),
        ("affinity=", "CPUs are written like 0-1+3"),
        ("affinity=1-0", "CPUs are written like 0-1+3"),
        ("affinity=0-4000000000", "below 1024"),
        ("affinity=+1", "CPUs are written like 0-1+3"),
        ("clamp=512", "two bounds"),
        ("clamp=512-0", "two bounds"),
        ("clamp=0-1025", "two bounds"),
        ("yield=no", "it takes no value"),
    ] {
        let why = read(text).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn an_invalid_request_changes_nothing() {
    let mut scheduling = read("nice=3 policy=batch").unwrap();
    scheduling.set("policy", "fifoo").unwrap_err();
    assert_eq!(scheduling.to_string(), "nice=3 policy=batch");
}

fn any_scheduling() -> impl Strategy<Value = Scheduling> {
    let policy = prop_oneof![
        Just(Policy::Other),
        Just(Policy::Batch),
        Just(Policy::Idle),
        Policy::PRIORITIES.prop_map(Policy::Fifo),
        Policy::PRIORITIES.prop_map(Policy::RoundRobin),
    ];
    let ioprio = prop_oneof![
        Just(IoPriority::Unset),
        Just(IoPriority::Idle),
        IoPriority::LEVELS.prop_map(IoPriority::RealTime),
        IoPriority::LEVELS.prop_map(IoPriority::BestEffort),
    ];
    let clamp = (0..=1024_u32, 0..=1024_u32).prop_map(|(a, b)| Clamp { min: a.min(b), max: a.max(b) });
    let cpus = prop::collection::vec(0..1024_u32, 1..9).prop_map(read::ascending);
    let slice = (1..u64::MAX).prop_map(Span::from_nanos);
    let first = (prop::option::of(-20..=19), prop::option::of(policy), prop::option::of(slice));
    let rest = (prop::option::of(ioprio), prop::option::of(cpus), prop::option::of(clamp), any::<bool>());
    (first, rest).prop_map(|((nice, policy, slice), rest)| {
        let (ioprio, affinity, clamp, yield_each_round) = rest;
        Scheduling { nice, policy, slice, ioprio, affinity, clamp, yield_each_round }
    })
}

proptest! {
    #[test]
    fn the_printed_form_parses_to_the_same_requests(scheduling in any_scheduling()) {
        prop_assert_eq!(read(&scheduling.to_string()), Ok(scheduling.clone()));
        let mut again = Scheduling::default();
        scheduling.requested().iter().try_for_each(|(key, value)| again.set(key, value)).unwrap();
        prop_assert_eq!(again, scheduling);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z=/0-9+, -]{0,40}") {
        let _ = read(&text);
    }

    #[test]
    fn every_request_has_a_result_and_none_panics(scheduling in any_scheduling()) {
        // Without capabilities, so that no thread of the test runs with real-time priority.
        let effective = without_rights(|| scheduling.apply_to_this_thread());
        prop_assert_eq!(effective.len(), scheduling.requested().len());
        for (key, _) in scheduling.requested() {
            prop_assert!(effective.iter().any(|attribute| attribute.requested.starts_with(key)), "{}", key);
        }
    }
}

#[test]
fn requests_without_a_required_permission_are_granted() {
    let effective = without_rights(|| {
        let now = sys::scheduling::nice(Thread::current()).unwrap();
        let cpus = sys::scheduling::affinity(Thread::current()).unwrap();
        apply(&format!("nice={} policy=batch affinity={} yield", (now + 1).min(19), cpus[0]))
    });
    assert!(effective.iter().all(|attribute| attribute.outcome == SchedulingOutcome::Granted), "{effective:?}");
    assert_eq!(effective.len(), 4);
}

#[test]
fn a_request_granted_otherwise_names_the_effective_value() {
    without_rights(|| {
        let cpus = sys::scheduling::affinity(Thread::current()).unwrap();
        // From the highest number down: the process may have fewer CPUs than the machine.
        let (there, missing) = (cpus[0], (0..1024).rev().find(|cpu| !cpus.contains(cpu)).unwrap());
        let effective = apply(&format!("affinity={there}+{missing}"));
        assert_eq!(effective[0].outcome, SchedulingOutcome::GrantedOtherwise(there.to_string()));
        let effective = apply("policy=idle nice=19");
        assert_eq!(effective[1].to_string(), "nice=19: granted, but it is 19, which has no effect under idle");
    });
}

#[test]
fn a_refusal_names_the_missing_permission() {
    let lacks = |resource, least: u64| getrlimit(resource).current.is_some_and(|is| is < least);
    let (nice, effective) = without_rights(|| {
        let nice = sys::scheduling::nice(Thread::current()).unwrap();
        (nice, apply(&format!("nice={} policy=fifo/1", (nice - 1).max(-20))))
    });
    let refused = |attribute: &EffectiveAttribute, needed: &str| {
        let SchedulingOutcome::Refused { why, needs } = &attribute.outcome else { panic!("{attribute}") };
        assert_eq!(why, "not permitted");
        assert!(needs.contains(needed), "{needs}");
    };
    if lacks(Resource::Rtprio, 1) {
        refused(&effective[0], "CAP_SYS_NICE, or RLIMIT_RTPRIO of 1");
    }
    if lacks(Resource::Nice, (20 - (nice - 1)) as u64) && nice > -20 {
        refused(&effective[1], "CAP_SYS_NICE, or RLIMIT_NICE of");
    }
}

#[test]
fn a_change_of_priority_is_five_steps_from_the_base() {
    without_rights(|| {
        let thread = Thread::current();
        let base = sys::scheduling::nice(thread).unwrap();
        let attribute = Scheduling::adjust_nice(thread, base, StagePriority::Lowered);
        let lowered = (base + NICE_STEP).min(19);
        assert_eq!(attribute.to_string(), format!("nice={lowered} (lowered): granted"));
        assert_eq!(sys::scheduling::nice(thread).unwrap(), lowered);
        let mut kept = Vec::new();
        for _ in 0..3 {
            add_if_new(&mut kept, Scheduling::adjust_nice(thread, base, StagePriority::Raised));
        }
        assert_eq!(kept.len(), 1, "repeated refusals are kept once");
        assert_eq!(kept[0].requested, format!("nice={} (raised)", (base - NICE_STEP).max(-20)));
        if getrlimit(Resource::Nice).current == Some(0) {
            assert!(kept[0].is_refused());
            assert_eq!(sys::scheduling::nice(thread).unwrap(), lowered);
        }
    });
}

#[test]
fn a_nice_value_stays_in_its_range() {
    without_rights(|| {
        let attribute = Scheduling::adjust_nice(Thread::current(), 19, StagePriority::Lowered);
        assert_eq!(attribute.to_string(), "nice=19 (lowered): granted");
    });
}

#[test]
fn results_survive_serialization() {
    let refused = SchedulingOutcome::Refused { why: "not permitted".to_owned(), needs: "CAP_SYS_NICE".to_owned() };
    for outcome in [SchedulingOutcome::Granted, SchedulingOutcome::GrantedOtherwise("100ms".to_owned()), refused] {
        let attribute = EffectiveAttribute { requested: "slice=4s".to_owned(), outcome };
        let text = serde_json::to_string(&attribute).unwrap();
        assert_eq!(serde_json::from_str::<EffectiveAttribute>(&text).unwrap(), attribute, "{text}");
    }
}
