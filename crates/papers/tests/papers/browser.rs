//! The report's HTML page in a real browser.
//!
//! `./check --full` runs these tests. To run only them:
//! `cargo test -p rowlock-papers browser:: -- --ignored`. `ROWLOCK_CHROMIUM` names the browser if
//! it is not `chromium`.

mod chromium;
mod sample_report;

use chromium::Browser;
use serde_json::{Value, json};

/// A browser that shows the page. The page exists as long as the folder.
fn browser() -> (Browser, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let page = sample_report::page(folder.path());
    let mut browser = Browser::start();
    browser.set_display(1280, "light");
    browser.open(&page);
    (browser, folder)
}

/// The numbers in a column of the table, from top to bottom.
fn column(browser: &mut Browser, number: u32) -> Vec<f64> {
    let cells = format!("[...table.tBodies[0].rows].map((row) => Number(row.cells[{number}].dataset.sort))");
    browser.evaluate(&cells).as_array().unwrap().iter().map(|cell| cell.as_f64().unwrap()).collect()
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn the_page_opens_without_an_error_and_requests_nothing() {
    let (mut browser, _folder) = browser();
    assert_eq!(browser.events("Runtime.exceptionThrown"), Vec::<Value>::new());
    assert_eq!(browser.events("Log.entryAdded"), Vec::<Value>::new());
    let requests = browser.events("Network.requestWillBeSent");
    assert_eq!(requests.len(), 1, "only the page itself: {requests:?}");
    assert_eq!(browser.evaluate("document.scripts.length"), 1);
    // The browser reports an exception if something on the page does not exist.
    browser.evaluate("setTimeout(() => nothing(), 0)");
    while browser.events("Runtime.exceptionThrown").is_empty() {}
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn the_page_is_never_wider_than_the_screen() {
    let (mut browser, _folder) = browser();
    browser.evaluate("document.querySelectorAll('details').forEach((details) => details.open = true)");
    for width in [320, 390, 768, 1280, 1920] {
        browser.set_display(width, "light");
        // The width beside a scroll bar, if there is one.
        let room = browser.evaluate("document.documentElement.clientWidth");
        assert!((width - 20..=width).contains(&(room.as_u64().unwrap() as u32)), "{room} of {width}");
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), room, "on a screen of {width}");
    }
    // Labels in figures shrink with the figures, but stay readable.
    browser.set_display(320, "light");
    let smallest = browser.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')].map((text) => text.getBoundingClientRect().height))",
    );
    assert!(smallest.as_f64().unwrap() > 9.0, "{smallest}");
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn every_control_is_reached_by_the_tab_key() {
    let (mut browser, _folder) = browser();
    let all = "document.querySelectorAll('a[href], button, summary, [tabindex]')";
    browser.evaluate("document.querySelectorAll('details').forEach((details) => details.open = true)");
    let count = browser.evaluate(&format!("{all}.length")).as_u64().unwrap();
    assert!(count > 30, "{count}");
    browser.evaluate(
        "window.reached = new Set(); document.addEventListener('focusin', (event) => reached.add(event.target))",
    );
    for _ in 0..count + 2 {
        browser.press("Tab", 9, "");
    }
    let missed =
        browser.evaluate(&format!("[...{all}].filter((item) => !reached.has(item)).map((item) => item.outerHTML)"));
    assert_eq!(missed, json!([]));
    // The focused element has a visible outline.
    browser.press("Tab", 9, "");
    assert_eq!(browser.evaluate("getComputedStyle(document.activeElement).outlineStyle"), "solid");
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn texts_and_marks_have_enough_contrast_in_both_colour_schemes() {
    let (mut browser, _folder) = browser();
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        browser.set_display(1280, scheme);
        let found = browser.evaluate(include_str!("browser/contrast.js"));
        assert!(found["seen"].as_u64().unwrap() > 1000, "{found}");
        assert_eq!(found["bad"], json!([]), "{scheme}");
        papers.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1]);
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn a_click_or_enter_on_a_column_header_sorts_by_it_and_another_reverses_the_order() {
    let (mut browser, _folder) = browser();
    browser.evaluate("var table = document.querySelector('#figures table')");
    let completion =
        "var head = [...table.tHead.rows[0].cells].find((cell) => cell.textContent.startsWith('completion'))";
    browser.evaluate(completion);
    let number = browser.evaluate("head.cellIndex").as_u64().unwrap() as u32;
    let unsorted = column(&mut browser, number);
    let mut ascending = unsorted.clone();
    ascending.sort_by(f64::total_cmp);
    assert_ne!(unsorted, ascending);

    browser.evaluate("head.querySelector('button').click()");
    assert_eq!(column(&mut browser, number), ascending);
    assert_eq!(browser.evaluate("head.getAttribute('aria-sort')"), "ascending");
    browser.evaluate("table.closest('details')?.setAttribute('open', ''); head.querySelector('button').focus()");
    browser.press("Enter", 13, "\r");
    ascending.reverse();
    assert_eq!(column(&mut browser, number), ascending);
    assert_eq!(browser.evaluate("head.getAttribute('aria-sort')"), "descending");

    // Rows without an SSR stay last in both orders.
    browser.evaluate("head = [...table.tHead.rows[0].cells].find((cell) => cell.textContent.startsWith('SSR'))");
    for _ in 0..2 {
        browser.evaluate("head.querySelector('button').click()");
        let last = browser.evaluate("[...table.tBodies[0].rows].at(-1).cells[head.cellIndex].textContent");
        assert_eq!(last, "");
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('[aria-sort]').length"), 1);
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn the_page_is_complete_without_its_script() {
    let (mut browser, folder) = browser();
    let words = "document.querySelector('main').innerText.replace(/\\s+/g, ' ')";
    let with = browser.evaluate(words);
    browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.open(&folder.path().join("report.html"));
    assert_eq!(browser.evaluate("document.querySelectorAll('button').length"), 0);
    assert_eq!(browser.evaluate(words), with);
    // Collapsed parts expand without the script.
    browser.evaluate("document.querySelector('summary').focus()");
    browser.press("Enter", 13, "\r");
    assert_eq!(browser.evaluate("document.querySelector('details').open"), true);
}

#[test]
#[ignore = "needs Chromium; ./check --full runs it"]
fn the_page_prints_dark_on_light_and_without_navigation() {
    let (mut browser, _folder) = browser();
    browser.set_display(1280, "dark");
    let pdf = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    // "%PDF-" in base 64.
    assert!(pdf["data"].as_str().unwrap().starts_with("JVBERi"));
    let features = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print", "features": features }));
    assert_eq!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    assert_eq!(browser.evaluate("getComputedStyle(document.body).color"), "rgb(0, 0, 0)");
    assert_eq!(browser.evaluate("getComputedStyle(document.querySelector('nav')).display"), "none");
}
