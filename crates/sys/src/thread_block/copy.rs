//! Blocks without a donor: copies of blocks that donors left.
//!
//! # The content
//! Two donors that ran no code of the program are compared. Each word of their blocks must have a
//! [source](Source): it is common to all threads, or an address in the block at the same offset, or
//! the start or length of its memory. Exceptions are the thread ID, the links of a list, and the
//! address of the *table* of thread-local variables (dtv). The C library makes the table of a new
//! thread by `_dl_allocate_tls`, which also initializes the static variables of all libraries. That
//! function makes the table of a copy as well. So no layout is built in, but that of the table and
//! the place of its address. What a thread inherits, a copy has from the creator of the donors.
//!
//! # The list
//! When a library is loaded, the C library initializes its static thread-local variables in all
//! threads on its lists. It inserts a thread that was given its memory at the head of a list, and a
//! donor stays forever. So once a second donor is there, the C library never changes its forward
//! link, which leads to the first donor. Copies are inserted there, without a lock, and stay as
//! well. A copy's own forward link is set before other threads find the copy. Backward links are
//! used only to remove a thread. A copy is removed only in the child of a fork that its code has
//! called, and then the others are dropped, so all that matters is that its links lead to nodes. A
//! child [forgets](is_told_of_forks) the model, and makes its own donors.
//!
//! A copy is in the list before its table is made. A library that is being loaded meanwhile either
//! is known to `_dl_allocate_tls`, or is initialized after it and finds the copy, since the C
//! library (since version 2.35) holds one lock in `_dl_allocate_tls` and while it loads a library.
//!
//! # Doubts
//! A trial copy is compared with the donors before it is inserted. There are no copies if a word of
//! it differs, if a word of the donors has no source, or if a function is missing. Copies were seen
//! with versions 2.36, 2.41 and 2.43 of the C library on x86-64, and with 2.36 on aarch64 (qemu).

mod block;

use std::ffi::CStr;
use std::mem::{forget, transmute};
use std::ops::Range;
use std::ptr::{NonNull, copy_nonoverlapping, from_mut, from_ref, null_mut, with_exposed_provenance};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use self::block::{Block, Source, TABLE, WORD, are_explained};
use super::donor::{Donation, donate, nothing};
use super::{Layout, ThreadBlock, ThreadBlockError, call_within, next_number, word};
use crate::reservation::{Reservation, page_size};

/// The address of the [`Model`], or one of the following.
static STATE: AtomicUsize = AtomicUsize::new(UNKNOWN);
/// There is none yet.
const UNKNOWN: usize = 0;
/// A thread is making it.
const IN_WORK: usize = 1;
/// There are no copies.
const REFUSED: usize = 2;

/// How many donors are made until two are neighbours in the list and lead to a model.
const ATTEMPTS: usize = 8;

/// The model of all copies.
#[derive(Clone)]
pub(super) struct Model {
    /// The later donor. Copies are inserted behind it.
    left: Block,
    /// The offset of the links in the list: the forward link, and then the backward link.
    links: usize,
    /// The offset of the thread ID.
    number: usize,
    /// The offset of the *head*: what a block has besides thread-local variables.
    start: usize,
    /// The words of the head, zero if they are not common,
    head: Vec<usize>,
    /// and their offsets and sources if they are neither zero nor common.
    own: Vec<(usize, Source)>,
    /// The offsets of the thread-local variables of all libraries.
    variables: Range<usize>,
    /// The offsets of those that the start of a thread changes, with their sources.
    changed: Vec<(usize, Source)>,
    /// The distance from the thread pointer to the end of the memory.
    above: usize,
    /// The distance from `stack_top` to the end of the memory.
    size: usize,
    functions: Functions,
}

/// The model, if there are copies.
pub(super) fn model(layout: &Layout) -> Option<&'static Model> {
    match STATE.load(Acquire) {
        UNKNOWN => learn(layout, None),
        IN_WORK | REFUSED => None,
        // SAFETY: models are never freed.
        address => Some(unsafe { &*with_exposed_provenance::<Model>(address) }),
    }
}

/// Makes the model, unless another thread does. `last` is a donor that the calling thread has just
/// made, if there is one, and that ran no code of the program.
pub(super) fn learn(layout: &Layout, last: Option<Donation>) -> Option<&'static Model> {
    STATE.compare_exchange(UNKNOWN, IN_WORK, Acquire, Relaxed).ok()?;
    let model = find(layout, last);
    let state = match &model {
        Ok(Some(model)) => from_ref::<Model>(model).expose_provenance(),
        Ok(None) => REFUSED,
        // There may be memory and threads later.
        Err(_) => UNKNOWN,
    };
    STATE.store(state, Release);
    model.ok().flatten()
}

/// Makes donors until two of them lead to a model. `None` if none do.
fn find(layout: &Layout, last: Option<Donation>) -> Result<Option<&'static Model>, ThreadBlockError> {
    let Some(functions) = Functions::new().filter(|_| is_told_of_forks()) else { return Ok(None) };
    let mut last = last.map_or_else(|| pristine(layout, None), Ok)?;
    for _ in 0..ATTEMPTS {
        let before = changes_of_libraries();
        let next = pristine(layout, Some(&last.memory))?;
        if let Some(model) = Model::new([&last, &next], functions)?
            && changes_of_libraries() == before
        {
            return Ok(Some(Box::leak(Box::new(model))));
        }
        last = next;
    }
    Ok(None)
}

/// Whether the model is forgotten in the child of a fork, in which the C library has dropped all
/// threads but one from its lists.
fn is_told_of_forks() -> bool {
    extern "C" fn forget_model() {
        STATE.store(UNKNOWN, Release);
    }
    static TOLD: AtomicBool = AtomicBool::new(false);
    // SAFETY: the function only stores a word.
    if !TOLD.load(Relaxed) && unsafe { libc::pthread_atfork(None, None, Some(forget_model)) } == 0 {
        TOLD.store(true, Relaxed);
    }
    TOLD.load(Relaxed)
}

/// Functions that the two parts of the C library, and sanitizers, share.
#[derive(Clone, Copy)]
struct Functions {
    make_table: MakeTable,
    get_size: GetSize,
}

/// `_dl_allocate_tls` makes the table of the block with this thread pointer, and initializes its
/// thread-local variables. It returns null if there is no memory for the table.
type MakeTable = unsafe extern "C" fn(*mut libc::c_void) -> *mut libc::c_void;

/// `_dl_get_tls_static_info` stores the size and the alignment of the static variables of all
/// libraries, with room for later ones. On x86-64 the size includes what lies above.
type GetSize = unsafe extern "C" fn(*mut usize, *mut usize);

impl Functions {
    /// `None` if a program is linked statically.
    #[cfg(target_env = "gnu")]
    fn new() -> Option<Functions> {
        // SAFETY: the names are C strings.
        let find = |name: &CStr| unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), c"GLIBC_PRIVATE".as_ptr()) };
        let make_table = NonNull::new(find(c"_dl_allocate_tls"))?;
        let get_size = NonNull::new(find(c"_dl_get_tls_static_info"))?;
        // SAFETY: by their version they are functions of the C library, and have these types.
        unsafe {
            let make_table = transmute::<NonNull<libc::c_void>, MakeTable>(make_table);
            Some(Functions { make_table, get_size: transmute::<NonNull<libc::c_void>, GetSize>(get_size) })
        }
    }

    /// No other C library has copies.
    #[cfg(not(target_env = "gnu"))]
    fn new() -> Option<Functions> {
        None
    }

    fn size(&self) -> usize {
        let (mut size, mut alignment) = (0, 0);
        // SAFETY: there is room for both.
        unsafe { (self.get_size)(&raw mut size, &raw mut alignment) };
        size
    }
}

/// How often a library was loaded or unloaded.
fn changes_of_libraries() -> [u64; 2] {
    /// # Safety
    /// `dl_iterate_phdr` calls it with two numbers.
    unsafe extern "C" fn look(
        library: *mut libc::dl_phdr_info,
        _: libc::size_t,
        changes: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the arguments are valid.
        unsafe { changes.cast::<[u64; 2]>().write([(*library).dlpi_adds, (*library).dlpi_subs]) };
        1
    }
    let mut changes = [0; 2];
    // SAFETY: the function writes two numbers.
    unsafe { libc::dl_iterate_phdr(Some(look), from_mut(&mut changes).cast()) };
    changes
}

/// A donor that runs no code of the program. Its memory is longer than that of the one before, and
/// ends at an odd page if that one's ends at an even page: if variables are aligned to more than a
/// page, the distances from their thread pointers to the ends differ.
fn pristine(layout: &Layout, before: Option<&Range<usize>>) -> Result<Donation, ThreadBlockError> {
    let is_odd = |end: usize| !(end / page_size()).is_multiple_of(2);
    let length = before.map_or(layout.needed, |before| before.len().max(layout.needed) + page_size());
    let memory = reserve(length + page_size())?;
    let is_odd_or_even = before.is_some_and(|before| is_odd(before.end) == is_odd(memory.end.addr()));
    let end = memory.end.wrapping_sub(if is_odd_or_even { page_size() } else { 0 });
    // SAFETY: no other code knows of the memory, which is never freed.
    unsafe { donate(end.wrapping_sub(length)..end, nothing, null_mut(), Some(layout.identity)) }
}

/// Memory that is never freed.
fn reserve(length: usize) -> Result<Range<*mut u8>, ThreadBlockError> {
    let memory = Reservation::new(length).map_err(ThreadBlockError::out_of_memory)?;
    let start = memory.base().as_ptr();
    let range = start..start.wrapping_add(memory.length());
    forget(memory);
    Ok(range)
}

impl Model {
    /// The model of two donors, of which the second was made directly after the first, by the same
    /// thread. They ran no code of the program. `None` if there is a doubt.
    fn new(donors: [&Donation; 2], functions: Functions) -> Result<Option<Model>, ThreadBlockError> {
        let trial = reserve(donors[0].memory.len())?;
        let trial = trial.start.expose_provenance()..trial.end.addr();
        Ok(Model::of(donors, functions).and_then(|model| model.try_out(donors.map(block_of), trial)))
    }

    /// The model as far as the donors' heads show it.
    fn of(donors: [&Donation; 2], functions: Functions) -> Option<Model> {
        let blocks = donors.map(block_of);
        let [one, other] = &blocks;
        let same = |of: fn(&Donation) -> usize| Some(of(donors[0])).filter(|&value| value == of(donors[1]));
        let above = same(|donor| donor.memory.end - donor.block.thread_pointer)?;
        let size = same(|donor| donor.memory.end - donor.block.stack_top)?;
        let start = same(|donor| donor.handle.wrapping_sub(donor.block.thread_pointer))?;
        let number = same(|donor| donor.identity.number)?;
        // On x86-64 the head begins at the thread pointer, and variables lie below. On aarch64 it
        // ends with two words at the thread pointer, and variables lie above.
        let is_below = cfg!(target_arch = "x86_64");
        let (end, variables) = if is_below {
            (above, functions.size().checked_sub(above)?.next_multiple_of(WORD).wrapping_neg()..0)
        } else {
            (2 * WORD, 2 * WORD..above)
        };
        let lowest = start.cast_signed().min(variables.start.cast_signed());
        let is_inside = lowest.unsigned_abs() <= size.checked_sub(above)?;
        if !is_inside || (start == 0) != is_below || [above, number].iter().any(|at| !at.is_multiple_of(4)) {
            return None;
        }
        let length = end.wrapping_sub(start);
        // SAFETY: the heads lie in the blocks, above `stack_top`. The blocks are not in use.
        let mut words = unsafe { [one.words(start..end), other.words(start..end)] };

        let node = |block: &Block, index| block.word(start.wrapping_add(index * WORD)).addr();
        let is_link = |index: &usize| {
            words[1][*index] == node(one, *index) && words[0].get(index + 1) == Some(&node(other, *index))
        };
        let mut links = (0..length / WORD).filter(is_link);
        let (Some(link), None) = (links.next(), links.next()) else { return None };
        let links = start.wrapping_add(link * WORD);
        for words in &mut words {
            for offset in [links, links.wrapping_add(WORD), TABLE] {
                *words.get_mut(offset.wrapping_sub(start) / WORD)? = 0;
            }
            let at = number.wrapping_sub(start);
            *words.get_mut(at / WORD)? &= if at.is_multiple_of(WORD) { !0xffff_ffff } else { 0xffff_ffff };
        }
        let sources = Source::of_all(words, [one, other])?;
        let common = |source: &Source| if let Source::Common(value) = source { *value } else { 0 };
        let head = sources.iter().map(common).collect();
        let offsets = (0..).map(|index| start.wrapping_add(index * WORD));
        let own = offsets.zip(sources).filter(|(_, source)| !matches!(source, Source::Common(_))).collect();
        let left = other.clone();
        let changed = Vec::new();
        Some(Model { left, links, number, start, head, own, variables, changed, above, size, functions })
    }

    /// Makes a trial copy on this memory, which is zero, unused and never freed. Completes the
    /// model by what the copy lacks. `None` if there is a doubt.
    fn try_out(mut self, donors: [Block; 2], memory: Range<usize>) -> Option<Model> {
        let trial = self.block(memory);
        let donors = donors.each_ref();
        // SAFETY: the memory is as promised. The donors are not in use, and all have tables.
        unsafe {
            self.write_head(&trial);
            if !self.write_variables(&trial) {
                return None;
            }
            let table = trial.table();
            if !are_explained(&table, &Source::of_all(donors.map(|donor| donor.table()), donors)?, &trial) {
                return None;
            }
            let all = self.variables.clone();
            let sources = Source::of_all(donors.map(|donor| donor.words(all.clone())), donors)?;
            let initial = trial.words(all.clone());
            let offsets = (0..).map(|index| all.start.wrapping_add(index * WORD));
            let is_changed = |(initial, (_, source)): &(usize, (usize, Source))| source.value(&trial) != *initial;
            let changed = initial.into_iter().zip(offsets.zip(sources.iter().copied())).filter(is_changed);
            self.changed = changed.map(|(_, change)| change).collect();
            self.variables.start = self.lowest(&trial, &table);

            // As if it was made from the complete model. It is inserted if it is right.
            self.write_head(&trial);
            if !self.write_variables(&trial) || !are_explained(&trial.words(all), &sources, &trial) {
                return None;
            }
            self.insert(&trial);
            let link = |block: &Block| block.word(self.links).read_volatile();
            let node = |block: &Block| block.word(self.links).addr();
            let is_linked = link(&self.left) == node(&trial) && link(&trial) == node(donors[0]);
            is_linked.then_some(self)
        }
    }

    /// The offset of the lowest variable. Below is room for libraries that are loaded later.
    fn lowest(&self, trial: &Block, table: &[usize]) -> usize {
        let all = self.variables.start.cast_signed()..self.variables.end.cast_signed();
        let of_table = table.iter().map(|&address| address.wrapping_sub(trial.thread_pointer));
        let offsets = of_table.chain(self.changed.iter().map(|(offset, _)| *offset)).map(usize::cast_signed);
        offsets.filter(|offset| all.contains(offset)).min().unwrap_or(all.start).cast_unsigned() / WORD * WORD
    }

    /// The block at the end of this memory.
    fn block(&self, memory: Range<usize>) -> Block {
        Block { thread_pointer: memory.end - self.above, memory }
    }

    /// Makes a copy at the end of this memory, and prepares it.
    ///
    /// # Safety
    /// As for [`make`](super::make).
    pub(super) unsafe fn make(
        &self,
        memory: Range<*mut u8>,
        prepare: unsafe extern "C" fn(*mut ()),
        argument: *mut (),
    ) -> Result<ThreadBlock, ThreadBlockError> {
        let stack_top = memory.end.addr() - self.size;
        let block = self.block(memory.start.expose_provenance()..memory.end.addr());
        // SAFETY: the memory is the caller's. All of the block has been written before its use.
        unsafe {
            self.write_head(&block);
            self.insert(&block);
            if !self.write_variables(&block) {
                return Err(ThreadBlockError::Table);
            }
            prepare_within(block.thread_pointer, prepare, argument);
        }
        Ok(ThreadBlock { thread_pointer: block.thread_pointer, stack_top })
    }

    /// Writes the head of a copy, and clears its variables.
    ///
    /// # Safety
    /// No other code uses the memory.
    unsafe fn write_head(&self, block: &Block) {
        // SAFETY: by the promise of the caller; all parts lie in the memory.
        unsafe {
            copy_nonoverlapping(self.head.as_ptr(), block.word(self.start), self.head.len());
            self.own.iter().for_each(|(offset, source)| block.word(*offset).write(source.value(block)));
            word(block.thread_pointer.wrapping_add(self.number)).write(next_number());
            let length = self.variables.end.wrapping_sub(self.variables.start);
            block.word(self.variables.start).write_bytes(0, length / WORD);
        }
    }

    /// Inserts a copy behind the left donor.
    ///
    /// # Safety
    /// Its head was written, it is not in the list, and the memory stays.
    unsafe fn insert(&self, block: &Block) {
        // SAFETY: only this function writes the link of the left donor.
        let link = unsafe { AtomicUsize::from_ptr(self.left.word(self.links)) };
        let [forward, backward] = [0, WORD].map(|at| block.word(self.links.wrapping_add(at)));
        let mut next = link.load(Relaxed);
        loop {
            // SAFETY: by the promise of the caller.
            unsafe {
                forward.write(next);
                backward.write(self.left.word(self.links).expose_provenance());
            }
            match link.compare_exchange_weak(next, forward.expose_provenance(), Release, Relaxed) {
                Ok(_) => return,
                Err(other) => next = other,
            }
        }
    }

    /// Makes the table of a copy, and gives its variables their values. Returns false if there is
    /// no memory for the table.
    ///
    /// # Safety
    /// Its head was written, and it is not in use.
    unsafe fn write_variables(&self, block: &Block) -> bool {
        // SAFETY: by the promise of the caller. The table's address is written to the head.
        unsafe {
            if (self.functions.make_table)(block.word(0).cast()).is_null() {
                return false;
            }
            self.changed.iter().for_each(|(offset, source)| block.word(*offset).write(source.value(block)));
        }
        true
    }
}

/// The block of a donor.
fn block_of(donor: &Donation) -> Block {
    Block { thread_pointer: donor.block.thread_pointer, memory: donor.memory.clone() }
}

/// Calls a function with a block in use, and with all signals blocked: a handler would find the
/// block's variables.
///
/// # Safety
/// The block is complete and not in use, and `call` may be called with this argument.
unsafe fn prepare_within(thread_pointer: usize, call: unsafe extern "C" fn(*mut ()), argument: *mut ()) {
    let mut before = 0_u64;
    let change = |how: libc::c_int, mask: *const u64, before: *mut u64| {
        // SAFETY: the sets are those of the kernel. The function of the C library would leave its
        // own signals.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, mask, before, size_of::<u64>()) };
    };
    change(libc::SIG_BLOCK, &u64::MAX, &raw mut before);
    // SAFETY: by the promise of the caller.
    unsafe { call_within(thread_pointer, call, argument) };
    change(libc::SIG_SETMASK, &raw const before, null_mut());
}

#[cfg(test)]
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests;
