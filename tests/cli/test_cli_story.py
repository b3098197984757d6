from __future__ import annotations

import pytest

from tppkit.cli.demo import _end
from tppkit.cli.story import Story, StoryOver, expect
from tppkit.errors import FormatError


def test_a_step_that_goes_well_is_told_as_ok(capsys):
    story = Story()
    with story.step("Do a thing") as told:
        told.append("It was done.")
    assert capsys.readouterr().out == " 1 ok  Do a thing\n       It was done.\n"
    assert (len(story.steps), story.surprises) == (1, 0)


def test_a_surprise_is_told_and_ends_the_story(capsys):
    story = Story()
    with pytest.raises(StoryOver), story.step("Do a thing"):
        expect(False, "it was not done")
    assert "!!  Do a thing" in (said := capsys.readouterr().out)
    assert "unexpected: it was not done" in said


def test_an_error_of_ours_is_a_surprise_too():
    story = Story()
    with pytest.raises(StoryOver), story.step("Read a thing"):
        raise FormatError("json.malformed", "this is not JSON")
    assert story.surprises == 1


def test_a_story_with_a_surprise_exits_1_and_says_so(capsys, tmp_path):
    story = Story()
    with pytest.raises(StoryOver), story.step("Do a thing"):
        expect(False, "it was not done")
    assert _end(story, tmp_path) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "demo: 1 steps, 1 NOT as expected"


def test_a_story_without_surprises_exits_0(capsys, tmp_path):
    story = Story()
    with story.step("Do a thing"):
        pass
    assert _end(story, tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "demo: 1 steps, all as expected"
