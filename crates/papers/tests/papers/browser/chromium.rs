//! A headless Chromium, controlled over a pair of pipes.

use std::env;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::Child;

/// The browser with one page. When it is dropped, the process ends before its profile is deleted.
pub(crate) struct Browser {
    process: Child,
    number: u64,
    session: Option<String>,
    /// Events that it has sent.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts `$ROWLOCK_CHROMIUM`, or `chromium`.
    pub(crate) fn start() -> Browser {
        let chromium = env::var_os("ROWLOCK_CHROMIUM").unwrap_or_else(|| "chromium".into());
        let profile = tempfile::tempdir().unwrap();
        // Chromium expects its pipes as descriptors 3 and 4. A shell can set these up.
        let mut shell = testing::command("sh");
        shell
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#])
            .arg(&chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()));
        let process = Child::start_piped(&mut shell);
        let mut browser = Browser { process, number: 0, session: None, events: Vec::new(), _profile: profile };
        let page = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let session = browser.call("Target.attachToTarget", json!({ "targetId": page["targetId"], "flatten": true }));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a request and waits for the response.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut request = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        let mut requests = self.process.process().stdin.as_ref().unwrap();
        requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.receive();
            if message["id"] == self.number {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        serde_json::from_slice(&self.process.read_until(0)).unwrap()
    }

    /// Opens a page and waits until it is loaded.
    pub(crate) fn open(&mut self, page: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push(event);
        }
    }

    /// The parameters of all events of this name since the page was opened.
    pub(crate) fn events(&mut self, name: &str) -> Vec<Value> {
        // A response arrives after all earlier events.
        self.evaluate("0");
        self.events.iter().filter(|event| event["method"] == name).map(|event| event["params"].clone()).collect()
    }

    /// The value of an expression on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Sets the width of the page and its colour scheme.
    pub(crate) fn set_display(&mut self, width: u32, scheme: &str) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, key: &str, code: u32, text: &str) {
        let event =
            |kind| json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
        self.call("Input.dispatchKeyEvent", event(if text.is_empty() { "rawKeyDown" } else { "keyDown" }));
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code }),
        );
    }
}
