//! Tests the pages in a browser, in wide and narrow windows and in light and dark colours. Also tests their
//! accessibility tree, which screen readers use.

#![allow(clippy::unwrap_used)] // A test may fail.

use crate::chromium;
use crate::support;

use chromium::Chromium;
use fonio_core::DeviceKind;
use fonio_results::database::Location;
use fonio_results::serve::Times;
use fonio_storebench_document::document::Document;
use fonio_storebench_document::sample;
use fonio_testing::skip_without;
use support::{Running, settings};

fn submit(service: &Running, document: &Document) -> String {
    let answer = service.submit(&serde_json::to_vec(document).unwrap());
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["id"].as_str().unwrap().to_owned()
}

#[test]
fn pages_fit_and_are_accessible() {
    skip_without!(Chromium);
    let folder = tempfile::tempdir().unwrap();
    let service = Running::start(&settings(Location::Folder(folder.path().to_owned())), Times::default());
    let mut ids = Vec::new();
    for at in 0..60 {
        let mut document = sample::scaled(0.5 + f64::from(at) * 0.03);
        // These names are unusually long.
        document.device.kind = DeviceKind::Nvme;
        document.device.firmware = None;
        document.device.model = Some(format!("Samsung SSD 980 PRO with Heatsink {}TB", 1 + at % 3));
        ids.push(submit(&service, &document));
    }
    let mut hidden = sample::document();
    hidden.machine.virtual_machine = Some(true);
    let hidden = submit(&service, &hidden);
    let list = service.get("/devices").text();
    let device = list.split("href=\"/devices/").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let pages = [
        ("/".to_owned(), 0),
        ("/ranking".to_owned(), 1),
        ("/ranking?by=device&figure=cpu.iowait".to_owned(), 1),
        ("/distributions".to_owned(), 2),
        ("/devices".to_owned(), 0),
        (format!("/devices/{device}"), 0),
        (format!("/results/{}", ids[7]), 1),
        (format!("/results/{hidden}"), 0),
        (format!("/compare?a={}&b={}", ids[0], ids[59]), 0),
        ("/nowhere".to_owned(), 0),
    ];
    let mut browser = Chromium::start();
    for (path, charts) in &pages {
        for (width, scheme) in [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")] {
            browser.show(&format!("http://{}{path}", service.address), width, scheme);
            let seen = browser.evaluate("document.documentElement.scrollWidth").as_u64();
            assert!(
                seen.is_some_and(|seen| seen <= u64::from(width)),
                "{path} is {seen:?} pixels wide, but the window is only {width}"
            );
            let back = browser.evaluate("getComputedStyle(document.body).backgroundColor");
            let expected = if scheme == "dark" { "rgb(15, 19, 24)" } else { "rgb(255, 255, 255)" };
            assert_eq!(back, expected, "{path} {scheme}");
        }
        check_names(&mut browser, path, *charts);
    }
}

/// Checks that a page has landmarks and a single main heading, and that elements without text have names.
fn check_names(browser: &mut Chromium, path: &str, charts: usize) {
    let things = browser.accessible();
    let count = |role: &str| things.iter().filter(|(other, _)| other == role).count();
    for role in ["banner", "navigation", "main", "contentinfo"] {
        assert!(count(role) >= 1, "{path} has no {role}: {things:?}");
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('h1').length"), 1, "{path}");
    let levels = browser.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => h.tagName).join(' ')");
    let levels = levels.as_str().unwrap();
    assert!(levels.starts_with("H1") && !levels.contains("H1 H3"), "{path}: {levels}");
    let pictures: Vec<&str> = things
        .iter()
        .filter(|(role, _)| role == "image" || role == "img")
        .map(|(_, name)| name.as_str())
        .collect();
    assert_eq!(pictures.len(), charts, "{path}: {pictures:?}");
    for (role, name) in &things {
        let needs_name = ["image", "img", "link", "button", "combobox", "textbox", "region", "heading"]
            .contains(&role.as_str());
        assert!(!needs_name || !name.trim().is_empty(), "{path}: a {role} has no name");
    }
    assert_eq!(browser.evaluate("document.scripts.length"), 0, "{path}");
}
