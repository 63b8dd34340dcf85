"""The report of the published grid, opened in a browser."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.layout import RESULTS, AnalysisFiles

ROOT = Path(__file__).parents[2]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or ""

# Opens a category of the menu and writes down what the page shows of it.
SCRIPT = """
const errors = [];
window.addEventListener('error', event => errors.push(event.message));
const wait = ms => new Promise(done => setTimeout(done, ms));
(async () => {
  await wait(1000);
  const named = [...document.querySelectorAll('body *')].filter(
    element => element.textContent.trim() === 'CATEGORY');
  named[named.length - 1].click();
  await wait(1000);
  const note = document.createElement('pre');
  note.id = 'found';
  note.textContent = JSON.stringify({errors, shown: document.body.innerText});
  document.body.appendChild(note);
})();
"""


@pytest.fixture(scope="module")
def page(new_project: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the report of the published results."""
    project = new_project()
    ignored = shutil.ignore_patterns("store")
    shutil.copytree(ROOT / RESULTS, project.root / RESULTS, ignore=ignored, dirs_exist_ok=True)
    for figure in AnalysisFiles(root=project.root).figures:
        assert figure.exists()
    project.run("snakemake", "--touch", "--forceall", "--cores", "1", "plot")
    path = tmp_path_factory.mktemp("report") / "report.html"
    project.run("snakemake", "--report", str(path), "plot")
    return path


def test_the_page_holds_every_figure_and_needs_no_network(page: Path) -> None:
    text = page.read_text()
    for figure in AnalysisFiles().figures:
        if figure.suffix == ".png":
            assert base64.b64encode((ROOT / figure).read_bytes()).decode() in text, figure
            assert (ROOT / "workflow" / "report" / f"{figure.name}.rst").exists()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']https?:", text)


@pytest.mark.skipif(not BROWSER, reason="no Chromium here: apt install chromium")
@pytest.mark.parametrize(
    ("category", "names"),
    [
        ("Figures", AnalysisFiles().figure_names),
        ("Tables", ("final_scores", "scores", "steps_to_threshold", "hyperparameters")),
    ],
)
def test_a_browser_shows_it_without_errors(
    page: Path, tmp_path: Path, category: str, names: tuple[str, ...]
) -> None:
    text = page.read_text()
    end = text.rindex("</body>")
    probe = tmp_path / "probe.html"
    script = SCRIPT.replace("CATEGORY", category)
    probe.write_text(f"{text[:end]}<script>{script}</script>{text[end:]}")
    printed = subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *("--virtual-time-budget=10000", f"--user-data-dir={tmp_path / 'profile'}"),
            f"file://{probe}",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    match = re.search(r'<pre id="found">(.*?)</pre>', printed, re.S)
    assert match is not None
    found = json.loads(html.unescape(match[1]))
    assert found["errors"] == []
    for name in names:
        assert name.replace("_", " ") in found["shown"]
