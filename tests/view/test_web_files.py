"""What lies in regard/web: vendored files are those of their digests, and views become one script."""

import hashlib
import json
import re
from pathlib import Path

import pytest

import regard
from regard.web.bundle import VIEWS, bundle

WEB = Path(regard.__file__).parent / "web"


def test_vendored_files_have_their_digests_and_licences():
    vendor = WEB / "vendor"
    rows = json.loads((vendor / "vendor.json").read_text(encoding="utf-8"))
    for row in rows:
        assert hashlib.sha256((vendor / row["file"]).read_bytes()).hexdigest() == row["sha256"], row["file"]
        assert row["licence"] in ("MIT", "Apache-2.0")
        assert "icense" in (vendor / row["licence_file"]).read_text(encoding="utf-8")
        assert re.fullmatch(r"\d+\.\d+\.\d+", row["version"])
    assert {path.name for path in vendor.glob("*.js")} == {row["file"] for row in rows}


def test_vendored_modules_import_each_other_alone():
    for path in (WEB / "vendor").glob("*.js"):
        found = re.findall(r'from ?["\']([^"\']+)["\']', path.read_text(encoding="utf-8"))
        assert all((WEB / "vendor" / name).is_file() for name in found), path.name


@pytest.mark.parametrize("path", sorted(VIEWS.glob("*.js")), ids=lambda path: path.stem)
def test_a_view_can_be_made_one_script(path):
    script = bundle(path.stem)
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "</script" not in script
    assert "<!--" not in script
    assert f"views.{path.stem} = " in script
    needed = set(re.findall(r"= views\.(\w+);", script))
    made = re.findall(r"^views\.(\w+) = ", script, re.MULTILINE)
    assert needed | {path.stem} == set(made)
    assert len(made) == len(set(made))


def test_views_need_no_library():
    for path in VIEWS.glob("*.js"):
        imported = re.findall(r'^import .* from "([^"]+)";', path.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(re.fullmatch(r"\./\w+\.js", name) for name in imported), path.name
