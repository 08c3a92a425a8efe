//! Tests whose cases are the lines of a file.

use expect_test::ExpectFile;

/// Compares the output for each line with the next line, which begins with `-> `. Empty lines and lines that
/// start with `//` are skipped. `UPDATE_EXPECT=1` writes the file anew.
pub(crate) fn check_lines(file: &ExpectFile, output: impl Fn(&str) -> String) {
    let mut text = String::new();
    for line in file.data().lines().filter(|line| !line.starts_with("-> ")) {
        text += line;
        text += "\n";
        if !line.is_empty() && !line.starts_with("//") {
            text += &format!("-> {}\n", output(line));
        }
    }
    file.assert_eq(&text);
}
