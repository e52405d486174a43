use super::*;

/// A stack of the configured size.
fn usual(stacks: &Stacks) -> Stack {
    stacks.take_bare(None).unwrap()
}

#[test]
fn the_stack_that_was_released_last_is_used_first() {
    let stacks = Stacks::new(64 << 10);
    let [one, other] = [usual(&stacks), usual(&stacks)];
    assert_eq!((one.size(), one.top().addr() % 16), (64 << 10, 0));
    stacks.give(one);
    stacks.give(other);
    assert_eq!(usual(&stacks).top(), other.top());
    assert_eq!(usual(&stacks).top(), one.top());
}

#[test]
fn a_stack_has_the_requested_size_in_steps_and_is_reused_only_for_that_size() {
    let stacks = Stacks::new(1);
    assert_eq!(usual(&stacks).size(), STEP * page_size());
    let large = stacks.take_bare(Some(1_000_000)).unwrap();
    assert!((1_000_000..1_100_000).contains(&large.size()));
    stacks.give(large);
    assert_ne!(usual(&stacks).top(), large.top());
    assert_eq!(stacks.take_bare(Some(large.size())).unwrap().top(), large.top());
    let error = stacks.take_bare(Some(MOST + 1)).unwrap_err();
    assert!(error.to_string().contains("largest"), "{error}");
}

#[test]
fn a_stack_can_be_used_down_to_its_guard_and_tells_how_deep_it_was_used() {
    let stacks = Stacks::new(64 << 10);
    let stack = usual(&stacks);
    let low = stack.top().wrapping_sub(stack.size());
    assert_eq!(stacks.high_water(&stack), 0);
    // SAFETY: within the stack, which is otherwise unused.
    unsafe { stack.top().sub(1).write(1) };
    assert_eq!(stacks.high_water(&stack), page_size());
    // SAFETY: as above.
    unsafe { low.write(1) };
    assert_eq!(stacks.high_water(&stack), stack.size());
    assert!(
        !stack.is_in_guard(low.addr())
            && stack.is_in_guard(low.addr() - 1)
            && stack.is_in_guard(low.addr() - page_size())
    );
    assert!(!stack.is_in_guard(low.addr() - page_size() - 1));
}

#[test]
fn a_hundred_thousand_stacks_have_guards() {
    let stacks = Stacks::new(64 << 10);
    let all: Vec<Stack> = (0..100_000).map_while(|_| stacks.take_bare(None).ok()).collect();
    // Without guard marks the map count is used up earlier, which is another test's subject.
    assert!(all.len() == 100_000 || stacks.guard.get() == Guard::Protection, "{}", all.len());
    let mut tops: Vec<usize> = all.iter().map(|stack| stack.top().addr()).collect();
    tops.sort_unstable();
    assert!(tops.windows(2).all(|pair| pair[1] - pair[0] >= (64 << 10) + page_size()));
}

#[test]
fn if_guards_take_mappings_an_error_says_when_there_are_no_more() {
    // Other tests need mappings, too.
    testing::isolated(|| {
        let stacks = Stacks::guarded_by(16 << 10, Guard::Protection);
        let most: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
        if most > 1 << 17 {
            eprintln!("left out: there may be {most} mappings");
            return;
        }
        let error = (0..most).find_map(|_| stacks.take_bare(None).err()).unwrap();
        assert!(matches!(error, StackError::Guards), "{error}");
        assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    });
}

#[test]
fn memory_of_many_free_stacks_is_returned_and_some_stay_warm() {
    let stacks = Stacks::new(16 << 10);
    let all: Vec<Stack> = (0..5_000).map(|_| usual(&stacks)).collect();
    for stack in &all {
        // SAFETY: within the stack, which is otherwise unused.
        unsafe { stack.top().sub(1).write(1) };
    }
    all.iter().for_each(|stack| stacks.give(*stack));
    let (warm, cold) = stacks.classes.borrow().bare[0].free();
    assert!(warm <= 1_024 && warm + cold == 5_000, "{warm} {cold}");
    let in_memory = all.iter().filter(|stack| stacks.high_water(stack) > 0).count();
    assert_eq!(in_memory, warm);
    // They can be used again, and have their guards.
    let again: Vec<Stack> = (0..5_000).map(|_| usual(&stacks)).collect();
    assert_eq!(stacks.classes.borrow().bare[0].free(), (0, 0));
    for stack in &again {
        // SAFETY: as above.
        unsafe { stack.top().sub(1).write(1) };
    }
}

#[test]
fn the_last_stack_exists_once_and_can_be_returned() {
    let stacks = Stacks::new(64 << 10);
    if let Err(why) = stacks.take_with_block(None) {
        return eprintln!("not tested: {why}");
    }
    let last = stacks.take_last().unwrap();
    assert!(stacks.take_last().is_none());
    assert_ne!(stacks.take_with_block(None).unwrap().top(), last.top());
    stacks.give(last);
    assert_ne!(stacks.take_with_block(None).unwrap().top(), last.top());
    assert_eq!(stacks.take_last().unwrap().top(), last.top());
}
