use std::thread::scope;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

/// Causes of errors.
const NO_SENSE: &str = "it makes no sense here";
const NOT_SUPPORTED: &str = "not supported here";

/// Runs a trial in a thread of its own, so that it affects no other thread.
fn apart<T: Send>(trial: impl FnOnce(Thread) -> T + Send) -> T {
    scope(|scope| scope.spawn(|| trial(Thread::current())).join()).unwrap()
}

/// Runs a trial in a thread of its own that has only the rights of an ordinary user.
fn without_rights<T: Send>(trial: impl FnOnce(Thread) -> T + Send) -> T {
    apart(|thread| {
        let mut none = capabilities(None).unwrap();
        none.effective = CapabilitySet::empty();
        set_capabilities(None, none).unwrap();
        trial(thread)
    })
}

fn limit(resource: Resource) -> u64 {
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

#[test]
fn lowering_a_thread_is_allowed_and_read_back() {
    let before = attributes(Thread::current()).unwrap();
    without_rights(|thread| {
        let worse = (before.nice + 3).min(19);
        assert_eq!(set_nice(thread, worse).unwrap(), worse);
        assert_eq!((nice(thread).unwrap(), attributes(thread).unwrap().nice), (worse, worse));
        assert_eq!(set_nice(thread, 100).unwrap(), 19);
        assert_eq!(set_policy(thread, Policy::Batch).unwrap(), Policy::Batch);
        assert_eq!(attributes(thread).unwrap().nice, 19, "a policy keeps the nice value");
        assert_eq!(set_policy(thread, Policy::Idle).unwrap(), Policy::Idle);
    });
    assert_eq!(attributes(Thread::current()).unwrap(), before, "no other thread is affected");
}

#[test]
fn a_policy_keeps_whether_children_inherit_it() {
    apart(|thread| {
        let flag = libc::SCHED_FLAG_RESET_ON_FORK as u64;
        let flags = || RawAttributes::of(thread).unwrap().flags & flag;
        for kept in [0, flag] {
            RawAttributes { flags: kept, ..RawAttributes::of(thread).unwrap() }.apply_to(thread).unwrap();
            set_policy(thread, Policy::Batch).unwrap();
            assert_eq!(flags(), kept);
        }
    });
}

#[test]
fn one_thread_is_scheduled_by_another() {
    let (told, is_told) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    scope(|scope| {
        scope.spawn(move || {
            told.send(Thread::current()).unwrap();
            may_go.recv().unwrap_err();
        });
        let other = is_told.recv().unwrap();
        assert_eq!(Thread::from_number(other.number()), Some(other));
        let worse = (nice(Thread::current()).unwrap() + 2).min(19);
        assert_eq!(set_nice(other, worse).unwrap(), worse);
        assert_eq!(set_policy(other, Policy::Batch).unwrap(), Policy::Batch);
        assert_eq!(attributes(other).unwrap().policy, Policy::Batch);
        drop(go);
    });
    assert_eq!(Thread::from_number(0), None);
    assert_eq!(Thread::from_number(u32::MAX), None);
}

#[test]
fn a_refused_nice_value_names_the_missing_right() {
    let better = |thread| {
        let wanted = nice(thread).unwrap() - 1;
        (wanted, set_nice(thread, wanted))
    };
    let (wanted, answer) = without_rights(better);
    let (limit_for_it, is) = ((20 - wanted) as u64, limit(Resource::Nice));
    if is >= limit_for_it {
        assert_eq!(answer.unwrap(), wanted);
    } else {
        let requirement = format!("CAP_SYS_NICE, or RLIMIT_NICE of {limit_for_it} (it is {is})");
        assert_eq!(answer.unwrap_err().to_string(), format!("not permitted; it takes {requirement}"));
    }
}

#[test]
fn a_refused_real_time_policy_names_the_missing_right() {
    for policy in [Policy::Fifo(2), Policy::RoundRobin(2)] {
        let answer = without_rights(|thread| set_policy(thread, policy));
        let is = limit(Resource::Rtprio);
        match answer {
            Ok(granted) => assert!(granted == policy && is >= 2),
            // A filter or a control group may forbid it even if the limit allows it.
            Err(why) => {
                let missing = format!("not permitted; it takes CAP_SYS_NICE, or RLIMIT_RTPRIO of 2 (it is {is})");
                assert!(why.to_string() == missing || is >= 2, "{why}");
            }
        }
    }
}

#[test]
fn an_invalid_priority_is_refused() {
    for policy in [Policy::Fifo(0), Policy::Fifo(100), Policy::Foreign(99)] {
        let why = apart(|thread| set_policy(thread, policy)).unwrap_err();
        assert_eq!(why.cause, NO_SENSE, "{policy}");
    }
}

#[test]
fn a_timeslice_is_clamped_and_leaves_the_rest_unchanged() {
    without_rights(|thread| {
        let before = attributes(thread).unwrap();
        let ms = Duration::from_millis;
        for (wanted, granted) in [(ms(3), ms(3)), (ms(4000), ms(100)), (Duration::from_nanos(1), ms(1) / 10)] {
            match set_slice(thread, wanted) {
                Ok(Some(got)) => assert_eq!(got, granted),
                Ok(None) => return,
                Err(why) => return assert_eq!(why.cause, NOT_SUPPORTED),
            }
            let now = attributes(thread).unwrap();
            assert_eq!(now, Attributes { slice: Some(granted), ..before });
        }
        set_policy(thread, Policy::Batch).unwrap();
        assert_eq!(attributes(thread).unwrap().slice, Some(ms(1) / 10), "a policy keeps the timeslice");
        set_policy(thread, Policy::Idle).unwrap();
        assert_eq!(set_slice(thread, ms(3)).unwrap_err().cause, NO_SENSE, "the policy has no timeslices");
    });
}

#[test]
fn a_clamp_is_effective_or_unsupported() {
    without_rights(|thread| {
        let before = attributes(thread).unwrap();
        let wanted = Clamp { min: 0, max: 512 };
        match set_clamp(thread, wanted) {
            Ok(granted) => {
                assert_eq!(granted, wanted);
                assert_eq!(attributes(thread).unwrap(), Attributes { clamp: Some(wanted), ..before });
            }
            Err(why) => {
                assert_eq!(why.cause, NOT_SUPPORTED);
                assert!(why.requirement.unwrap().contains("CONFIG_UCLAMP_TASK"));
                assert_eq!(attributes(thread).unwrap(), before);
            }
        }
        for clamp in [Clamp { min: 2, max: 1 }, Clamp { min: 0, max: 1025 }] {
            assert_eq!(set_clamp(thread, clamp).unwrap_err().cause, NO_SENSE, "{clamp}");
        }
    });
}

#[test]
fn io_priorities_are_read_back_and_the_highest_need_a_right() {
    without_rights(|thread| {
        for wanted in [IoPriority::BestEffort(0), IoPriority::BestEffort(7), IoPriority::Idle] {
            match set_io_priority(thread, wanted) {
                Ok(granted) => assert_eq!(granted, wanted),
                Err(why) => return assert_eq!(why.cause, NOT_SUPPORTED, "{wanted}"),
            }
        }
        let why = set_io_priority(thread, IoPriority::RealTime(0)).unwrap_err();
        assert_eq!(why.to_string(), "not permitted; it takes CAP_SYS_NICE or CAP_SYS_ADMIN");
        assert_eq!(io_priority(thread).unwrap(), IoPriority::Idle);
    });
}

#[test]
fn an_affinity_is_limited_to_existing_cpus() {
    without_rights(|thread| {
        let before = affinity(thread).unwrap();
        // From above: the process may have fewer CPUs than the machine.
        let missing = (0..1024).rev().find(|cpu| !before.contains(cpu)).unwrap();
        assert_eq!(set_affinity(thread, &[before[0], missing, 5000]).unwrap(), [before[0]]);
        assert_eq!(crate::cpus::current(), before[0]);
        for cpus in [&[][..], &[missing], &[1024, u32::MAX]] {
            assert_eq!(set_affinity(thread, cpus).unwrap_err().cause, NO_SENSE, "{cpus:?}");
        }
        assert_eq!(affinity(thread).unwrap(), [before[0]]);
        assert_eq!(set_affinity(thread, &before).unwrap(), before);
    });
}

#[test]
fn a_missing_thread_is_an_error() {
    // Numbers end at 4,194,304 on 64-bit kernels.
    let absent = Thread::from_number(0x7fff_fff0).unwrap();
    assert!(nice(absent).is_err() && attributes(absent).is_err() && affinity(absent).is_err());
    assert_eq!(set_nice(absent, 19).unwrap_err().requirement, None);
    assert_eq!(set_policy(absent, Policy::Batch).unwrap_err().requirement, None);
    assert!(set_slice(absent, Duration::from_millis(3)).is_err());
    assert!(set_io_priority(absent, IoPriority::Idle).is_err());
    assert!(set_affinity(absent, &[0]).is_err());
}

#[test]
fn the_run_delay_only_grows() {
    let own = Thread::current();
    if let Some(before) = run_delay(own) {
        yield_now();
        assert!(run_delay(own).unwrap() >= before);
    }
    assert_eq!(run_delay(Thread::from_number(0x7fff_fff0).unwrap()), None);
}

#[test]
fn io_priorities_are_encoded_as_in_the_kernel() {
    for priority in [IoPriority::Unset, IoPriority::RealTime(3), IoPriority::BestEffort(7), IoPriority::Idle] {
        assert_eq!(IoPriority::from_raw(priority.to_raw().into()), priority);
    }
    assert_eq!(IoPriority::BestEffort(4).to_raw(), 0x4004);
}
