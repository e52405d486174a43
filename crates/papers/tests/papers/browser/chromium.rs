//! A headless Chromium, told what to do over a pair of pipes.

use std::env;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::Child;

/// The browser with one page. It goes away with this, before its profile.
pub(crate) struct Browser {
    process: Child,
    number: u64,
    session: Option<String>,
    /// What it told without being asked.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts `$ROWLOCK_CHROMIUM`, or `chromium`.
    pub(crate) fn start() -> Browser {
        let chromium = env::var_os("ROWLOCK_CHROMIUM").unwrap_or_else(|| "chromium".into());
        let profile = tempfile::tempdir().unwrap();
        // It wants its pipes as descriptors 3 and 4, and a shell can give it those.
        let mut shell = testing::command("sh");
        shell
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#])
            .arg(&chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        let process = Child::start_talking(&mut shell);
        let mut browser = Browser { process, number: 0, session: None, events: Vec::new(), _profile: profile };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let session = browser.ask("Target.attachToTarget", json!({ "targetId": page["targetId"], "flatten": true }));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks for something and waits for the answer.
    pub(crate) fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let mut requests = self.process.process().stdin.as_ref().unwrap();
        requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.hear();
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn hear(&mut self) -> Value {
        serde_json::from_slice(&self.process.hear_to(0)).unwrap()
    }

    /// Opens a page and waits until it is there.
    pub(crate) fn open(&mut self, page: &Path) {
        self.events.clear();
        self.ask("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.hear();
            self.events.push(event);
        }
    }

    /// The parameters of all events of that name since the page was opened.
    pub(crate) fn told(&mut self, name: &str) -> Vec<Value> {
        // What came before an answer has been heard with it.
        self.evaluate("0");
        self.events.iter().filter(|event| event["method"] == name).map(|event| event["params"].clone()).collect()
    }

    /// The value of an expression on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut result = self.ask("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Gives the page so many pixels and a scheme of colours.
    pub(crate) fn look(&mut self, width: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, code: u32, text: &str) {
        let event =
            |kind| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.ask("Input.dispatchKeyEvent", event(if text.is_empty() { "rawKeyDown" } else { "keyDown" }));
        self.ask(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code }),
        );
    }
}
