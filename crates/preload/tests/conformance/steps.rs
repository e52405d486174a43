//! The steps of the preloaded library: the instructions at which it matters which thread is first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Instructions that have an operand in memory, but do not access it.
const WITHOUT_ACCESS: [&str; 4] = ["lea", "nop", "cs nop", "data16"];

/// The addresses in a library.
pub(crate) struct Steps {
    /// Where threads can sleep.
    pub(crate) all: BTreeSet<u64>,
    /// The functions that the library exports, which are steps too.
    pub(crate) functions: BTreeMap<String, u64>,
}

/// Finds the steps of a library. `None` without the tools, which compilers need too.
pub(crate) fn of(library: &Path) -> Option<Steps> {
    let print = |variable: &str, tool: &str, options: &[&str]| {
        let mut command = testing::command(testing::tool(variable, tool)?);
        Some(testing::run(command.args(options).arg(library)).expect_success().stdout)
    };
    let exported = print("NM", "nm", &["--dynamic", "--defined-only"])?;
    let code = print("OBJDUMP", "objdump", &["--disassemble", "--section=.text", "--no-show-raw-insn"])?;
    let functions: BTreeMap<String, u64> = exported.lines().filter_map(function).collect();
    let all = code.lines().filter_map(step).chain(functions.values().copied()).collect();
    Some(Steps { all, functions })
}

/// A line of `nm`, if it describes a function.
fn function(line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    (words.next()? == "T").then(|| Some((words.next()?.to_owned(), address)))?
}

/// A line of `objdump`, if it is an instruction that accesses memory, except the stack, or calls
/// another library.
fn step(line: &str) -> Option<u64> {
    let (address, instruction) = line.split_once(":\t")?;
    let has_access = instruction.contains("(%") && !instruction.contains("(%rsp") || instruction.contains("*%");
    let is_step = has_access && !WITHOUT_ACCESS.iter().any(|other| instruction.starts_with(other));
    is_step.then(|| u64::from_str_radix(address.trim(), 16).ok())?
}

#[test]
fn instructions_that_access_shared_memory_or_call_other_libraries_are_steps() {
    let steps = [
        "   3f0a1:\tlock cmpxchg %ecx,(%rdx)",
        "   3f0a1:\tmov    0x8(%rdi),%eax",
        "   3f0a1:\tcall   *0x12345(%rip)        # 51f58 <_GLOBAL_OFFSET_TABLE_+0x1a8>",
        "   3f0a1:\tjmp    *%rax",
    ];
    assert!(steps.iter().all(|line| step(line) == Some(0x3f0a1)));
    let others = [
        "   3f0a1:\tmov    0x8(%rsp),%eax",
        "   3f0a1:\tlea    0x8(%rdi),%rax",
        "   3f0a1:\tnopw   0x0(%rax,%rax,1)",
        "   3f0a1:\tcall   3f0b0 <pthread_cond_wait>",
        "000000000003f0a0 <pthread_cond_wait>:",
    ];
    assert!(others.iter().all(|line| step(line).is_none()));
}
