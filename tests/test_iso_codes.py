"""The lists of ISO codes, compared with two packages that carry them (they come with the linter)."""

from __future__ import annotations

import iso639
from iso3166 import countries_by_alpha2

from tppkit._iso_codes import COUNTRIES, LANGUAGES


def test_countries_are_those_of_iso_3166_and_kosovo():
    assert set(countries_by_alpha2) | {"XK"} == COUNTRIES


def test_languages_are_those_of_iso_639_1():
    assert {language.part1 for language in iso639.ALL_LANGUAGES if language.part1} == LANGUAGES
