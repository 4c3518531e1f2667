"""Pictures need an extra, and say so before any long work."""

import sys

import pytest

from rankcast.model.errors import RankcastError
from rankcast.plotting import check_plot


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RankcastError, match=r"matplotlib is not installed.*: pip install 'rankcast\[plot\]'"):
        check_plot(tmp_path / "costs.png")


def test_a_name_that_is_no_picture_is_refused(tmp_path):
    with pytest.raises(RankcastError, match=r"is not a picture; expected a name with .png, .svg, .pdf"):
        check_plot(tmp_path / "costs.txt")
    with pytest.raises(RankcastError, match="there is no folder"):
        check_plot(tmp_path / "nowhere" / "costs.png")
