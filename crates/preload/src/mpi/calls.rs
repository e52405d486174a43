//! The replacement of each call.

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use counters::{Reason, WaitKind};

use super::{
    FOREIGN_RANKS, IGNORED_STATUS, Job, NULL_COMMUNICATOR, NULL_DATATYPE, NULL_REQUEST, PROC_NULL, PROGRAMS_REQUESTS,
    Request, Word, complete, is_complete, job_with_collectives, job_with_requests,
};
use crate::real_symbols::real_symbols;
use crate::settings::Settings;

/// Whether the program may do anything but end on an error.
static HANDLES_ERRORS: AtomicBool = AtomicBool::new(false);

/// Exports functions by both of their names. The second one executes the body, and calls the real
/// function if the body returns `None`.
macro_rules! hooks {
    ($(fn $name:ident, $profiled:ident($($argument:ident),*) $body:block)*) => {
        real_symbols! {
            $(
                fn $name($($argument: Word),*) -> c_int;
                fn $profiled($($argument: Word),*) -> c_int;
            )*
        }

        $(
            /// # Safety
            /// As for the function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)] // The names of the standard.
            unsafe extern "C-unwind" fn $name($($argument: Word),*) -> c_int {
                if real::at::$name.address() == real::at::$profiled.address() {
                    // SAFETY: the caller's own call.
                    unsafe { $profiled($($argument),*) }
                } else {
                    // A tool in between calls the other name.
                    // SAFETY: the caller's own call.
                    unsafe { real::$name($($argument),*) }
                }
            }

            /// # Safety
            /// As for the function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)] // The names of the standard.
            unsafe extern "C-unwind" fn $profiled($($argument: Word),*) -> c_int {
                /// # Safety
                /// As for the function that it is part of.
                #[allow(unused_unsafe, unused_variables)] // Some bodies need neither.
                unsafe fn instead($($argument: Word),*) -> Option<c_int> {
                    // SAFETY: all functions called here get the arguments of the caller.
                    unsafe { $body }
                }
                // SAFETY: as above.
                match unsafe { instead($($argument),*) } {
                    Some(result) => result,
                    // SAFETY: the caller's own call.
                    None => unsafe { real::$profiled($($argument),*) },
                }
            }
        )*
    };
}

/// Nonblocking calls.
mod begin {
    use super::{Word, c_int, real_symbols};

    real_symbols! {
        fn PMPI_Irecv(buffer: Word, count: Word, datatype: Word, source: Word, tag: Word, communicator: Word, request: Word) -> c_int;
        fn PMPI_Isend(buffer: Word, count: Word, datatype: Word, target: Word, tag: Word, communicator: Word, request: Word) -> c_int;
        fn PMPI_Iprobe(source: Word, tag: Word, communicator: Word, flag: Word, status: Word) -> c_int;
        fn PMPI_Improbe(source: Word, tag: Word, communicator: Word, flag: Word, message: Word, status: Word) -> c_int;
        fn PMPI_Cancel(request: Word) -> c_int;
    }
}
use begin::real as begins;

/// The requests of the caller; `None` if there are none.
///
/// # Safety
/// At `requests` there are `count` requests, which do not change for `'a`, unless it is zero.
unsafe fn requests<'a>(count: Word, requests: Word) -> Option<&'a [Request]> {
    let count = usize::try_from(count as c_int).ok().filter(|&count| count > 0 && requests != 0)?;
    // SAFETY: the caller promises that there are this many, and that they do not change during the
    // call.
    Some(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(requests), count) })
}

/// Waits until one of the requests is complete, if there are any.
///
/// # Safety
/// As for [`requests`], during the call. The requests are those of the message library.
unsafe fn wait_for_any(count: Word, list: Word) {
    let Some((job, settings)) = job_with_requests() else { return };
    // SAFETY: the caller's requests.
    let Some(list) = (unsafe { requests(count, list) }) else { return };
    let is_any = || list.iter().any(|&request| request != NULL_REQUEST);
    if is_any() {
        // SAFETY: as above.
        job.wait(settings, || list.iter().any(|&request| request != NULL_REQUEST && unsafe { is_complete(request) }));
    }
}

/// The job, if it makes no difference to the program which communicator reports an error.
fn job_without_handlers() -> Option<(&'static Job, &'static Settings)> {
    let (job, settings) = Job::get()?;
    if HANDLES_ERRORS.load(Relaxed) {
        settings.pass_through(WaitKind::Mpi, Reason::Program);
        return None;
    }
    Some((job, settings))
}

/// Waits until `probe` finds a message, and returns its result. It is passed the address for the
/// answer.
fn wait_for_message((job, settings): (&Job, &Settings), mut probe: impl FnMut(Word) -> c_int) -> c_int {
    let (mut flag, mut result): (c_int, c_int) = (0, 0);
    job.wait(settings, || {
        result = probe((&raw mut flag).addr());
        result != 0 || flag != 0
    });
    result
}

hooks! {
    fn MPI_Init, PMPI_Init(argc, argv) {
        Some(Job::begin(|| real::PMPI_Init(argc, argv)))
    }

    fn MPI_Init_thread, PMPI_Init_thread(argc, argv, required, provided) {
        Some(Job::begin(|| real::PMPI_Init_thread(argc, argv, required, provided)))
    }

    fn MPI_Wait, PMPI_Wait(request, status) {
        let (job, settings) = job_with_requests()?;
        job.wait_for(settings, *requests(1, request)?.first()?);
        None
    }

    fn MPI_Waitall, PMPI_Waitall(count, list, statuses) {
        let (job, settings) = job_with_requests()?;
        let mut rest = requests(count, list)?.iter().peekable();
        job.wait(settings, || {
            while rest.next_if(|&&request| is_complete(request)).is_some() {}
            rest.peek().is_none()
        });
        None
    }

    fn MPI_Waitany, PMPI_Waitany(count, list, index, status) {
        wait_for_any(count, list);
        None
    }

    fn MPI_Waitsome, PMPI_Waitsome(count, list, outcount, indices, statuses) {
        wait_for_any(count, list);
        None
    }

    fn MPI_Recv, PMPI_Recv(buffer, count, datatype, source, tag, communicator, status) {
        let (job, settings) = Job::get().filter(|_| source as c_int != PROC_NULL)?;
        if HANDLES_ERRORS.load(Relaxed) {
            // The real call must detect errors. Those that it detects before there is a message
            // must be detected now.
            if (count as c_int) < 0 || datatype as u32 == NULL_DATATYPE {
                return None;
            }
            let probe = |flag| begins::PMPI_Iprobe(source, tag, communicator, flag, IGNORED_STATUS);
            let result = wait_for_message((job, settings), probe);
            return (result != 0).then_some(result);
        }
        Some(complete(job, settings, status, |request| {
            begins::PMPI_Irecv(buffer, count, datatype, source, tag, communicator, request)
        }))
    }

    fn MPI_Sendrecv, PMPI_Sendrecv(
        sent, sent_count, sent_type, target, sent_tag, received, received_count, received_type, source, received_tag,
        communicator, status
    ) {
        // The real call checks all arguments before it begins either half.
        let (job, settings) = job_without_handlers()?;
        if source as c_int == PROC_NULL {
            let sending = complete(job, settings, IGNORED_STATUS, |request| {
                begins::PMPI_Isend(sent, sent_count, sent_type, target, sent_tag, communicator, request)
            });
            // The status of a null process depends on the call.
            let receive = || {
                real::PMPI_Recv(received, received_count, received_type, source, received_tag, communicator, status)
            };
            return Some(if sending == 0 { receive() } else { sending });
        }
        let mut receipt = NULL_REQUEST;
        let room = (&raw mut receipt).addr();
        let result =
            begins::PMPI_Irecv(received, received_count, received_type, source, received_tag, communicator, room);
        if result != 0 {
            return Some(result);
        }
        let sending = complete(job, settings, IGNORED_STATUS, |request| {
            begins::PMPI_Isend(sent, sent_count, sent_type, target, sent_tag, communicator, request)
        });
        if sending != 0 {
            begins::PMPI_Cancel(room);
            super::real::PMPI_Wait(room, IGNORED_STATUS);
            return Some(sending);
        }
        job.wait_for(settings, receipt);
        Some(super::real::PMPI_Wait(room, status))
    }

    fn MPI_Probe, PMPI_Probe(source, tag, communicator, status) {
        Some(wait_for_message(Job::get()?, |flag| begins::PMPI_Iprobe(source, tag, communicator, flag, status)))
    }

    fn MPI_Mprobe, PMPI_Mprobe(source, tag, communicator, message, status) {
        let probe = |flag| begins::PMPI_Improbe(source, tag, communicator, flag, message, status);
        Some(wait_for_message(Job::get()?, probe))
    }

    fn MPI_Comm_get_parent, PMPI_Comm_get_parent(parent) {
        let result = real::PMPI_Comm_get_parent(parent);
        let none = result != 0 || parent == 0 || {
            let parent: *const c_int = std::ptr::with_exposed_provenance(parent);
            *parent == NULL_COMMUNICATOR
        };
        if !none {
            FOREIGN_RANKS.store(true, Relaxed);
        }
        Some(result)
    }
}

/// Calls that are performed by a nonblocking call and a wait. Their last argument is a
/// communicator. A function decides whether to do so: given the communicator, it returns the job.
mod carried {
    use super::*;

    macro_rules! carried {
        ($(fn $name:ident, $profiled:ident, $begun:ident($($argument:ident),*) if $job:ident;)*) => {
            mod begin {
                use super::{Word, c_int, real_symbols};

                real_symbols! {
                    $(fn $begun($($argument: Word,)* communicator: Word, request: Word) -> c_int;)*
                }
            }

            hooks! {
                $(
                    fn $name, $profiled($($argument,)* communicator) {
                        let (job, settings) = $job(communicator)?;
                        Some(complete(job, settings, IGNORED_STATUS, |request| {
                            begin::real::$begun($($argument,)* communicator, request)
                        }))
                    }
                )*
            }
        };
    }

    /// As [`job_without_handlers`], for any communicator.
    fn sends(_: Word) -> Option<(&'static Job, &'static Settings)> {
        job_without_handlers()
    }

    carried! {
        fn MPI_Send, PMPI_Send, PMPI_Isend(a, b, c, d, e) if sends;
        fn MPI_Ssend, PMPI_Ssend, PMPI_Issend(a, b, c, d, e) if sends;
        fn MPI_Rsend, PMPI_Rsend, PMPI_Irsend(a, b, c, d, e) if sends;
        fn MPI_Barrier, PMPI_Barrier, PMPI_Ibarrier() if job_with_collectives;
        fn MPI_Bcast, PMPI_Bcast, PMPI_Ibcast(a, b, c, d) if job_with_collectives;
        fn MPI_Gather, PMPI_Gather, PMPI_Igather(a, b, c, d, e, f, g) if job_with_collectives;
        fn MPI_Gatherv, PMPI_Gatherv, PMPI_Igatherv(a, b, c, d, e, f, g, h) if job_with_collectives;
        fn MPI_Scatter, PMPI_Scatter, PMPI_Iscatter(a, b, c, d, e, f, g) if job_with_collectives;
        fn MPI_Scatterv, PMPI_Scatterv, PMPI_Iscatterv(a, b, c, d, e, f, g, h) if job_with_collectives;
        fn MPI_Allgather, PMPI_Allgather, PMPI_Iallgather(a, b, c, d, e, f) if job_with_collectives;
        fn MPI_Allgatherv, PMPI_Allgatherv, PMPI_Iallgatherv(a, b, c, d, e, f, g) if job_with_collectives;
        fn MPI_Alltoall, PMPI_Alltoall, PMPI_Ialltoall(a, b, c, d, e, f) if job_with_collectives;
        fn MPI_Alltoallv, PMPI_Alltoallv, PMPI_Ialltoallv(a, b, c, d, e, f, g, h) if job_with_collectives;
        fn MPI_Alltoallw, PMPI_Alltoallw, PMPI_Ialltoallw(a, b, c, d, e, f, g, h) if job_with_collectives;
    }
}

/// Calls that are passed through, and noted before.
mod noted {
    use super::*;

    macro_rules! noted {
        ($(fn $name:ident, $profiled:ident($($argument:ident),*) $note:block)*) => {
            hooks! {
                $(
                    fn $name, $profiled($($argument),*) {
                        $note;
                        None
                    }
                )*
            }
        };
    }

    /// Counts a collective call that computes.
    fn count_computation() {
        if let Some((_, settings)) = Job::get() {
            settings.pass_through(WaitKind::Mpi, Reason::Order);
        }
    }

    noted! {
        fn MPI_Grequest_start, PMPI_Grequest_start(a, b, c, d, e) { PROGRAMS_REQUESTS.store(true, Relaxed) }
        fn MPI_Comm_set_errhandler, PMPI_Comm_set_errhandler(a, b) { HANDLES_ERRORS.store(true, Relaxed) }
        fn MPI_Errhandler_set, PMPI_Errhandler_set(a, b) { HANDLES_ERRORS.store(true, Relaxed) }
        fn MPI_Comm_spawn, PMPI_Comm_spawn(a, b, c, d, e, f, g, h) { FOREIGN_RANKS.store(true, Relaxed) }
        fn MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple(a, b, c, d, e, f, g, h, i) {
            FOREIGN_RANKS.store(true, Relaxed);
        }
        fn MPI_Comm_accept, PMPI_Comm_accept(a, b, c, d, e) { FOREIGN_RANKS.store(true, Relaxed) }
        fn MPI_Comm_connect, PMPI_Comm_connect(a, b, c, d, e) { FOREIGN_RANKS.store(true, Relaxed) }
        fn MPI_Comm_join, PMPI_Comm_join(a, b) { FOREIGN_RANKS.store(true, Relaxed) }
        fn MPI_Reduce, PMPI_Reduce(a, b, c, d, e, f, g) { count_computation() }
        fn MPI_Allreduce, PMPI_Allreduce(a, b, c, d, e, f) { count_computation() }
        fn MPI_Reduce_scatter, PMPI_Reduce_scatter(a, b, c, d, e, f) { count_computation() }
        fn MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block(a, b, c, d, e, f) { count_computation() }
        fn MPI_Scan, PMPI_Scan(a, b, c, d, e, f) { count_computation() }
        fn MPI_Exscan, PMPI_Exscan(a, b, c, d, e, f) { count_computation() }
    }
}
