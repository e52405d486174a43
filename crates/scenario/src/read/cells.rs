//! Checks that a job can run on the cells of a machine.

use policy::layout::{Mesh, Request};
use policy::slices::SliceError;

use super::table::Table;
use super::value;
use crate::keys::{job, machine};
use crate::model::JobKind;

/// The kinds of jobs whose threads share no memory. Those of a `barrier` meet by the hardware
/// barrier.
const KINDS: [&str; 4] = ["message", "barrier", "cpu", "command"];

/// Checks a job of this kind on a machine with these cells.
pub(super) fn check(table: &Table<'_, '_>, kind: &JobKind, cells: Option<Mesh>) {
    let report = |key, message, help| table.report.reject::<()>(table.place(key), message, help);
    let rectangle = match kind {
        JobKind::Message(message) => match message.request {
            Request::Rectangle(shape) => Some(shape),
            Request::At(cells) => Some(cells.shape),
            Request::Ranks(_) => None,
        },
        _ => None,
    };
    let Some(mesh) = cells else {
        if let Some(shape) = rectangle {
            let help = format!("{} in `[machine]`, or `ranks = {}`", value::example(&machine::CELLS), shape.cells());
            report(&job::MESH, format!("{} is to have {shape} cells, and the machine has none", table.what), help);
        }
        return;
    };
    if !KINDS.contains(&kind.name()) {
        let message = format!("the threads of a `{}` job share memory, and cells share none", kind.name());
        let kinds = KINDS.map(|kind| format!("`{kind}`"));
        let help = format!("the kinds on a machine with cells are {}", value::listed(&kinds, "and"));
        report(&job::KIND, message, help);
    }
    if table.get(&job::CPUS).is_some() {
        let message = format!("{} has `cpus`, and the machine has cells", table.what);
        report(&job::CPUS, message, "leave `cpus` out: the layout chooses the cells of a job".to_owned());
    }
    if let Some(request) = rectangle.filter(|&shape| !mesh.can_hold(shape)) {
        let too_large = SliceError::TooLarge { request, mesh: mesh.shape() };
        let help = format!("write a smaller `mesh`, or `ranks = {}`: ranks may share cells", request.cells());
        report(&job::MESH, too_large.to_string(), help);
    }
}
