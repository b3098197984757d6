"""`tppkit sandbox persona`, and `--persona` of `sandbox up`."""

from __future__ import annotations

from tppkit.protocol.psd2.persona import persona_text

FAULTY = 'based_on = "document"\nname = "our-bank"\nsource = "a letter"\nprofile = "psd2"\n[rules]\npage_size = 0\n'


def test_without_a_name_it_lists_them(tppkit):
    assert tppkit("sandbox", "persona").stdout.splitlines() == ["document", "berlin-group"]
    assert tppkit("sandbox", "persona", "--json").json == {"personas": ["document", "berlin-group"]}


def test_it_prints_a_file_that_it_then_accepts(tppkit, tmp_path):
    printed = tppkit("sandbox", "persona", "berlin-group")
    assert (printed.exit_code, printed.stdout) == (0, persona_text("berlin-group"))
    (tmp_path / "bank.toml").write_text(printed.stdout)
    checked = tppkit("sandbox", "persona", "--check", tmp_path / "bank.toml")
    assert (checked.exit_code, checked.stdout) == (0, "no faults\n")


def test_check_names_every_fault_and_up_refuses_the_file(tppkit, tmp_path):
    (tmp_path / "bank.toml").write_text(FAULTY)
    checked = tppkit("sandbox", "persona", "--check", tmp_path / "bank.toml")
    assert checked.exit_code == 2
    assert [line.partition(" is ")[0] for line in checked.stdout.splitlines()] == [
        "line 4: profile",
        "line 6: rules.page_size",
    ]
    assert [
        row["line"] for row in tppkit("sandbox", "persona", "--check", tmp_path / "bank.toml", "--json").json["faults"]
    ] == [4, 6]
    refused = tppkit("sandbox", "up", "--persona", tmp_path / "bank.toml", "--dir", tmp_path / "bank")
    assert (refused.exit_code, (tmp_path / "bank").exists()) == (2, False)
    assert "line 4: profile" in refused.stderr
    assert "line 6: rules.page_size" in refused.stderr


def test_unknown_names_and_unreadable_files_are_told_apart(tppkit, tmp_path):
    assert tppkit("sandbox", "persona", "berlin").exit_code == 2
    assert tppkit("sandbox", "persona", "document", "--check", "x").exit_code == 2
    assert tppkit("sandbox", "persona", "--check", tmp_path / "none.toml").exit_code == 3
    assert tppkit("sandbox", "up", "--persona", "berlin").exit_code == 2
    assert tppkit("sandbox", "up", "--persona", tmp_path / "none.toml").exit_code == 3
