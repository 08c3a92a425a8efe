//! Controls headless Chromium through its debugging pipe, with JSON messages that end with a zero byte.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one page.
pub struct Chromium {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    messages: u64,
    _folder: tempfile::TempDir,
}

impl Chromium {
    pub fn start() -> Chromium {
        let folder = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| folder.path().join(name));
        assert!(Command::new("mkfifo").args([&to, &from]).status().unwrap().success());
        // Without these switches, Chromium contacts Google's servers at each start.
        let switches = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
            --disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe";
        let profile = folder.path().join("profile");
        let line = format!("exec chromium {switches} --user-data-dir=\"$1\" about:blank 3<\"$2\" 4>\"$3\"");
        let child = Command::new("sh")
            .args(["-c", &line, "sh"])
            .args([&profile, &to, &from])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let mut browser = Chromium { child, to, from, session: String::new(), messages: 0, _folder: folder };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session =
            browser.ask("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        browser.ask("Page.enable", json!({}));
        browser.ask("Accessibility.enable", json!({}));
        browser
    }

    fn send(&mut self, method: &str, parameters: Value) -> u64 {
        self.messages += 1;
        let mut message = json!({ "id": self.messages, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).unwrap();
        self.messages
    }

    fn receive(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(bytes.pop(), Some(0), "Chromium has ended");
        serde_json::from_slice(&bytes).unwrap()
    }

    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.send(method, parameters);
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
        }
    }

    /// Opens an address in a window of a given width, in light or dark colours.
    pub fn show(&mut self, address: &str, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.ask("Emulation.setDeviceMetricsOverride", size);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", features);
        let sent = self.send("Page.navigate", json!({ "url": address }));
        let (mut is_answered, mut is_loaded) = (false, false);
        while !is_answered || !is_loaded {
            let message = self.receive();
            is_answered |= message["id"] == sent;
            is_loaded |= message["method"] == "Page.loadEventFired";
        }
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.ask("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }))["result"]["value"].clone()
    }

    /// Returns the page in the form that screen readers use: the role and name of each element.
    pub fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.ask("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
