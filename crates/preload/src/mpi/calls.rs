//! The replacement of each call.

use std::ffi::c_int;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use counters::{Reason, WaitKind};

use super::{
    FOREIGN_RANKS, IGNORED_STATUS, Job, NULL_COMMUNICATOR, NULL_DATATYPE, NULL_REQUEST, PROC_NULL, PROGRAMS_REQUESTS,
    Request, Word, complete, is_complete, job_with_collectives, job_with_requests,
};
use crate::real_symbols::{RealSymbol, real_symbols};
use crate::settings::Settings;

/// Whether the program does anything else than to end on an error.
static HANDLES_ERRORS: AtomicBool = AtomicBool::new(false);

/// Exports functions by both of their names. The body is executed under the second; if it returns
/// `None`, the real function is called.
macro_rules! hooks {
    ($(fn $name:ident, $profiled:ident($($argument:ident),*) $body:block)*) => {
        real_symbols! {
            $(
                fn $name($($argument: Word),*) -> c_int;
                fn $profiled($($argument: Word),*) -> c_int;
            )*
        }

        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)] // The names of the standard.
            unsafe extern "C-unwind" fn $name($($argument: Word),*) -> c_int {
                static NAMES: [RealSymbol; 2] = [
                    RealSymbol::new(crate::real_symbols::name(concat!(stringify!($name), "\0"))),
                    RealSymbol::new(crate::real_symbols::name(concat!(stringify!($profiled), "\0"))),
                ];
                if NAMES[0].address() == NAMES[1].address() {
                    // SAFETY: the caller's own call.
                    unsafe { $profiled($($argument),*) }
                } else {
                    // There is a tool in between, which calls the other name.
                    // SAFETY: the caller's own call.
                    unsafe { real::$name($($argument),*) }
                }
            }

            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)] // The names of the standard.
            unsafe extern "C-unwind" fn $profiled($($argument: Word),*) -> c_int {
                #[allow(unused_unsafe, unused_variables)] // Some have no arguments.
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
        fn PMPI_Issend(buffer: Word, count: Word, datatype: Word, target: Word, tag: Word, communicator: Word, request: Word) -> c_int;
        fn PMPI_Irsend(buffer: Word, count: Word, datatype: Word, target: Word, tag: Word, communicator: Word, request: Word) -> c_int;
        fn PMPI_Iprobe(source: Word, tag: Word, communicator: Word, flag: Word, status: Word) -> c_int;
        fn PMPI_Improbe(source: Word, tag: Word, communicator: Word, flag: Word, message: Word, status: Word) -> c_int;
        fn PMPI_Cancel(request: Word) -> c_int;
    }
}
use begin::real as begins;

/// The requests of the caller; `None` if there are none.
unsafe fn requests<'a>(count: Word, requests: Word) -> Option<&'a [Request]> {
    let count = usize::try_from(count as c_int).ok().filter(|&count| count > 0 && requests != 0)?;
    // SAFETY: the caller promises that there are this many, and that they do not change during the
    // call.
    Some(unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(requests), count) })
}

/// Waits until one of the requests is complete, if there are any.
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
        settings.statistics.pass_through(WaitKind::Mpi, Reason::Program, 1);
        return None;
    }
    Some((job, settings))
}

/// Waits until there is a message to receive. Returns an error if none can be received.
unsafe fn wait_for_message(
    job: &Job,
    settings: &Settings,
    source: Word,
    tag: Word,
    communicator: Word,
) -> Option<c_int> {
    let (mut flag, mut result): (c_int, c_int) = (0, 0);
    job.wait(settings, || {
        // SAFETY: the caller's arguments, and room for the answer.
        result = unsafe { begins::PMPI_Iprobe(source, tag, communicator, (&raw mut flag).addr(), IGNORED_STATUS) };
        result != 0 || flag != 0
    });
    (result != 0).then_some(result)
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
            return wait_for_message(job, settings, source, tag, communicator);
        }
        Some(complete(job, settings, status, |request| {
            begins::PMPI_Irecv(buffer, count, datatype, source, tag, communicator, request)
        }))
    }

    fn MPI_Send, PMPI_Send(buffer, count, datatype, target, tag, communicator) {
        let (job, settings) = job_without_handlers()?;
        Some(complete(job, settings, IGNORED_STATUS, |request| {
            begins::PMPI_Isend(buffer, count, datatype, target, tag, communicator, request)
        }))
    }

    fn MPI_Ssend, PMPI_Ssend(buffer, count, datatype, target, tag, communicator) {
        let (job, settings) = job_without_handlers()?;
        Some(complete(job, settings, IGNORED_STATUS, |request| {
            begins::PMPI_Issend(buffer, count, datatype, target, tag, communicator, request)
        }))
    }

    fn MPI_Rsend, PMPI_Rsend(buffer, count, datatype, target, tag, communicator) {
        let (job, settings) = job_without_handlers()?;
        Some(complete(job, settings, IGNORED_STATUS, |request| {
            begins::PMPI_Irsend(buffer, count, datatype, target, tag, communicator, request)
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
        let (job, settings) = Job::get()?;
        let (mut flag, mut result): (c_int, c_int) = (0, 0);
        job.wait(settings, || {
            result = begins::PMPI_Iprobe(source, tag, communicator, (&raw mut flag).addr(), status);
            result != 0 || flag != 0
        });
        Some(result)
    }

    fn MPI_Mprobe, PMPI_Mprobe(source, tag, communicator, message, status) {
        let (job, settings) = Job::get()?;
        let (mut flag, mut result): (c_int, c_int) = (0, 0);
        job.wait(settings, || {
            result = begins::PMPI_Improbe(source, tag, communicator, (&raw mut flag).addr(), message, status);
            result != 0 || flag != 0
        });
        Some(result)
    }

    fn MPI_Grequest_start, PMPI_Grequest_start(query, free, cancel, state, request) {
        PROGRAMS_REQUESTS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_set_errhandler, PMPI_Comm_set_errhandler(communicator, handler) {
        HANDLES_ERRORS.store(true, Relaxed);
        None
    }

    fn MPI_Errhandler_set, PMPI_Errhandler_set(communicator, handler) {
        HANDLES_ERRORS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_spawn, PMPI_Comm_spawn(command, arguments, most, info, root, communicator, others, errors) {
        FOREIGN_RANKS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple(
        count, commands, arguments, most, info, root, communicator, others, errors
    ) {
        FOREIGN_RANKS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_accept, PMPI_Comm_accept(port, info, root, communicator, others) {
        FOREIGN_RANKS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_connect, PMPI_Comm_connect(port, info, root, communicator, others) {
        FOREIGN_RANKS.store(true, Relaxed);
        None
    }

    fn MPI_Comm_join, PMPI_Comm_join(socket, others) {
        FOREIGN_RANKS.store(true, Relaxed);
        None
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

/// Collective calls that only transfer data, whose last argument is a communicator.
mod carried {
    use super::*;

    macro_rules! carried {
        ($(fn $name:ident, $profiled:ident, $begun:ident($($argument:ident),*);)*) => {
            mod begin {
                use super::{Word, c_int, real_symbols};

                real_symbols! {
                    $(fn $begun($($argument: Word,)* communicator: Word, request: Word) -> c_int;)*
                }
            }

            hooks! {
                $(
                    fn $name, $profiled($($argument,)* communicator) {
                        let (job, settings) = job_with_collectives(communicator)?;
                        Some(complete(job, settings, IGNORED_STATUS, |request| {
                            begin::real::$begun($($argument,)* communicator, request)
                        }))
                    }
                )*
            }
        };
    }

    carried! {
        fn MPI_Barrier, PMPI_Barrier, PMPI_Ibarrier();
        fn MPI_Bcast, PMPI_Bcast, PMPI_Ibcast(a, b, c, d);
        fn MPI_Gather, PMPI_Gather, PMPI_Igather(a, b, c, d, e, f, g);
        fn MPI_Gatherv, PMPI_Gatherv, PMPI_Igatherv(a, b, c, d, e, f, g, h);
        fn MPI_Scatter, PMPI_Scatter, PMPI_Iscatter(a, b, c, d, e, f, g);
        fn MPI_Scatterv, PMPI_Scatterv, PMPI_Iscatterv(a, b, c, d, e, f, g, h);
        fn MPI_Allgather, PMPI_Allgather, PMPI_Iallgather(a, b, c, d, e, f);
        fn MPI_Allgatherv, PMPI_Allgatherv, PMPI_Iallgatherv(a, b, c, d, e, f, g);
        fn MPI_Alltoall, PMPI_Alltoall, PMPI_Ialltoall(a, b, c, d, e, f);
        fn MPI_Alltoallv, PMPI_Alltoallv, PMPI_Ialltoallv(a, b, c, d, e, f, g, h);
        fn MPI_Alltoallw, PMPI_Alltoallw, PMPI_Ialltoallw(a, b, c, d, e, f, g, h);
    }
}

/// Collective calls that compute, which are passed through.
mod computed {
    use super::*;

    macro_rules! computed {
        ($(fn $name:ident, $profiled:ident($($argument:ident),*);)*) => {
            hooks! {
                $(
                    fn $name, $profiled($($argument),*) {
                        let (_, settings) = Job::get()?;
                        settings.statistics.pass_through(WaitKind::Mpi, Reason::Order, 1);
                        None
                    }
                )*
            }
        };
    }

    computed! {
        fn MPI_Reduce, PMPI_Reduce(a, b, c, d, e, f, g);
        fn MPI_Allreduce, PMPI_Allreduce(a, b, c, d, e, f);
        fn MPI_Reduce_scatter, PMPI_Reduce_scatter(a, b, c, d, e, f);
        fn MPI_Reduce_scatter_block, PMPI_Reduce_scatter_block(a, b, c, d, e, f);
        fn MPI_Scan, PMPI_Scan(a, b, c, d, e, f);
        fn MPI_Exscan, PMPI_Exscan(a, b, c, d, e, f);
    }
}
