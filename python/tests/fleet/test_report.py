"""What a report finds in generated fleets: the planted faults, and nothing else."""

from __future__ import annotations

import json

import pytest
from conftest import made, report

from fonio.fleet import document, page, text
from fonio.fleet.generator import FAULTS
from fonio.fleet.questions import describe

#: For each planted fault: the attribute, a measure, and bounds of the planted ratio.
EXPECTED = {
    "firmware": ("disk firmware EM32 2.1", "write time", 1.6),
    "unit": ("system 24.3", "bytes written by metrics.service", 8.0),
    "batch": ("disks SDC64 made in 07/2024", "write time", 2.5),
}


def test_the_planted_faults_are_found_with_their_size_and_no_other(faulty):
    found = report(faulty)
    assert set(EXPECTED) == set(FAULTS)
    for name, measure, planted in EXPECTED.values():
        rows = [culprit for culprit in found.culprits if describe(culprit) == name and culprit.measure == measure]
        assert rows, f"{name}: {measure} is missing in {[text.sentence(culprit) for culprit in found.culprits]}"
        # A MiB is added to the bytes of units, and months of manufacture are drawn: the planted ratio is not met
        # exactly.
        assert rows[0].comparison.least < planted * 1.02 and planted * 0.98 < rows[0].comparison.most, text.sentence(
            rows[0]
        )
    assert {describe(culprit) for culprit in found.culprits} <= {name for name, _, _ in EXPECTED.values()}
    update = next(culprit for culprit in found.culprits if culprit.measure == EXPECTED["unit"][1])
    # The system 24.3 came from day 63 to day 73 after 2025-01-01.
    assert update.from_levels == ["24.2"] and update.devices_now > 50
    assert "2025-02-26" <= str(update.since_range[0]) <= str(update.since) <= str(update.since_range[1]) <= "2025-03-22"
    assert any(unknown.level == "6.12.8" and "cannot be told apart" in unknown.why for unknown in found.unknown)
    assert found.outliers and {outlier.why for outlier in found.outliers} == {"it has disks SDC64 made in 07/2024"}
    assert found.problems == []


def test_a_fleet_without_faults_is_silent(tmp_path):
    found = report(made(tmp_path, devices=1200, days=70, seed=5, faults=()))
    assert (found.culprits, found.better, found.outliers) == ([], [], [])
    assert found.comparisons > 100
    assert text.verdict(found).startswith("Nothing to blame")


@pytest.mark.long
def test_fleets_without_faults_are_silent_in_nineteen_of_twenty_seeds(tmp_path):
    loud = []
    for seed in range(200, 220):
        found = report(made(tmp_path / str(seed), devices=1500, days=126, seed=seed, faults=()))
        if found.culprits or found.better or found.outliers:
            loud.append((seed, [text.sentence(culprit) for culprit in found.culprits], found.outliers))
    assert len(loud) <= 1, loud


def test_a_firmware_is_not_blamed_for_the_model_on_which_alone_it_is(tmp_path):
    found = report(made(tmp_path, devices=800, days=35, seed=8, faults=()))
    # gateway-b is slow and has the kernel 6.12.8, which no other model has.
    assert not any("6.12.8" in culprit.levels for culprit in found.culprits)
    assert any("6.12.8" in unknown.level for unknown in found.unknown)


def test_the_wear_has_dates(faulty):
    wear = report(faulty).wear
    assert wear is not None and wear.disks > 500
    assert wear.earliest is not None and wear.latest is not None and wear.earliest <= wear.latest
    assert sum(wear.by_model.values()) == 100


def test_all_outputs_have_the_same_answers_and_escape_texts(faulty):
    found = report(faulty)
    found.place = "<script>\x1b[31m"
    told = json.loads(document.to_json(found))
    assert told["schema"] == "fonio.fleet-report/1" and len(told["culprits"]) == len(found.culprits)
    html = page.page(found)
    assert "<script>" not in html and "&lt;script&gt;\\x1b[31m" in html
    lines = "\n".join(text.lines(found))
    for culprit in found.culprits:
        assert text.sentence(culprit) in lines and culprit.measure in html


def test_days_can_be_chosen(faulty):
    import datetime

    found = report(faulty, since=datetime.date(2025, 1, 8), until=datetime.date(2025, 2, 11))
    assert (str(found.first_day), str(found.last_day)) == ("2025-01-08", "2025-02-11")
