"""What the documentation points to exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def functions_of(path):
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_every_test_that_a_page_names_exists():
    named = [
        (page.name, file, test)
        for page in PAGES
        for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    ]
    assert len(named) > 50
    for page, file, test in named:
        path = ROOT / file if "/" in file else ROOT / "tests" / "unit" / file
        assert path.is_file(), f"{page}: {file}"
        assert test in functions_of(path), f"{page}: {file}::{test}"


def test_every_relative_link_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http:", "https:")):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
