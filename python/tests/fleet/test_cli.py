"""The command line of the package."""

from __future__ import annotations

import json

from conftest import device_file

from fonio.fleet import cli


def test_commands_and_their_exit_codes(tmp_path, capsys):
    place = str(tmp_path / "fleet")
    assert cli.main(["generate", place, "--devices", "40", "--days", "9", "--no-faults"]) == 0
    assert cli.main(["generate", place]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert cli.main(["report", place, "--check"]) == 0
    assert capsys.readouterr().out.startswith("Nothing to blame")
    assert cli.main(["report", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["devices"] == 40
    assert cli.main(["report", place, "--html", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert cli.main(["report", place, "--html", str(tmp_path / "none" / "page.html")]) == 2
    assert cli.main(["report", str(tmp_path / "none")]) == 2
    assert "check the path" in capsys.readouterr().err


def test_files_of_devices_go_from_a_folder_to_another(tmp_path, capsys):
    for device in ("a", "b"):
        device_file(tmp_path / "gateway", device, "2025-01-05")
    (tmp_path / "fleet").mkdir()
    words = ["send", str(tmp_path / "gateway"), str(tmp_path / "fleet")]
    assert cli.main(words) == 0 and "Sent 2 files" in capsys.readouterr().out
    assert cli.main(words) == 0 and "Sent 0 files" in capsys.readouterr().out
    assert cli.main(["pack", str(tmp_path / "fleet")]) == 0 and "Packed 2 files" in capsys.readouterr().out
    assert cli.main(["send", str(tmp_path / "fleet" / "days"), str(tmp_path / "x")]) == 2


def test_texts_cannot_control_a_terminal(tmp_path, capsys):
    device_file(tmp_path, "a", "2025-01-05", model="\x1b[31mred")
    device_file(tmp_path, "b", "2025-01-05", schema=9)
    (tmp_path / "arrived" / "2025-01-05" / "\x1b[31m.jsonl").write_text("x")
    assert cli.main(["report", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "\\x1b[31m" in shown
