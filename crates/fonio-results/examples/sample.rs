//! Prints a document that the service accepts.

fn main() {
    println!(
        "{}",
        serde_json::to_string(&fonio_storebench_document::sample::document()).expect("a document is JSON")
    );
}
