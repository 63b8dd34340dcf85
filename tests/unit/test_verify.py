"""What is compared, and what is said; training is played by a copy of what is published."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import yaml

import mujax_pipe.training.verify as module
from mujax_pipe.errors import RunError, UserError
from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.params import load_params
from mujax_pipe.training.verify import chosen, dvc_digest, verify

ROOT = Path(__file__).parents[2]
CELLS = [Cell(algo="gmz", env="blackjack", seed=seed) for seed in (0, 1)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The published texts of two cells with stand-ins for their checkpoints."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    lock = {}
    for cell in CELLS:
        here, there = CellFiles(cell, tmp_path), CellFiles(cell, ROOT)
        here.directory.mkdir(parents=True)
        for path in (*there.analysed, *there.searched):
            shutil.copy(path, here.directory / path.name)
        for checkpoint in here.checkpoints:
            checkpoint.mkdir()
            (checkpoint / "metadata.json").write_text("{}")
        outs = [
            {"path": path.relative_to(tmp_path).as_posix(), "md5": dvc_digest(path)}
            for path in (*here.trained, *here.evaluated, *here.searched)
        ]
        lock[f"train@{cell.name}"] = {"outs": outs}
    (tmp_path / "dvc.lock").write_text(yaml.safe_dump({"stages": lock}))
    monkeypatch.setattr(module.fingerprint, "check", lambda root: None)
    return tmp_path


class Trainer:
    """Trains what is published, save for an edit; remembers where."""

    def __init__(self, edit=lambda files: None):
        self.folders = []
        self._edit = edit

    def __call__(self, cell, root, folder):
        self.folders.append(folder)
        shutil.copytree(CellFiles(cell, root).directory, CellFiles(cell, folder).directory)
        self._edit(CellFiles(cell, folder))


def run(project, monkeypatch, cells=CELLS[:1], edit=lambda files: None, **options):
    lines, trainer = [], Trainer(edit)
    monkeypatch.setattr(module, "_train", trainer)
    params = load_params(ROOT / "params.yaml")
    return verify(params, cells, project, say=lines.append, **options), lines, trainer


def published_mean():
    return json.loads(CellFiles(CELLS[0], ROOT).evaluation_json.read_text())["mean"]


def worse(files, by=1.05):
    content = json.loads(files.evaluation_json.read_text())
    files.evaluation_json.write_text(json.dumps({**content, "mean": content["mean"] * by}))


def test_the_same_bytes_leave_nothing_behind(project, monkeypatch):
    same, lines, trainer = run(project, monkeypatch, CELLS)
    assert same
    # Of training, evaluation and search.
    assert sum(line.startswith("same ") for line in lines) == len(CELLS) * (4 + 4 + 2)
    assert len(trainer.folders) == 2 and not any(folder.exists() for folder in trainer.folders)


def test_a_difference_is_named_and_kept(project, monkeypatch):
    same, lines, trainer = run(project, monkeypatch, CELLS, worse)
    assert not same
    differing = [line for line in lines if line.startswith("differs")]
    assert len(differing) == 2
    mean = published_mean()
    name = "gmz/blackjack/seed-0/evaluation.json"
    assert f"{name}: mean is {1.05 * mean!r} here, {mean!r} published" in differing[0]
    assert all(folder.exists() for folder in trainer.folders)
    for folder in trainer.folders:
        shutil.rmtree(folder)


def test_dvc_lock_counts_where_the_published_file_is_not_here(project, monkeypatch):
    best = CellFiles(CELLS[0], project).best
    best.rename(project / "best")
    restore = lambda files: shutil.copytree(project / "best", files.best)
    same, lines, _ = run(project, monkeypatch, edit=restore)
    assert same and any(line.endswith("best (dvc.lock)") for line in lines)

    def change(files):
        restore(files)
        (files.best / "metadata.json").write_text("[]")

    same, lines, trainer = run(project, monkeypatch, edit=change)
    assert not same and any("`dvc pull` brings the published one" in line for line in lines)
    shutil.rmtree(trainer.folders[0])


def test_a_result_that_dvc_lock_does_not_record_is_a_difference(project, monkeypatch):
    CellFiles(CELLS[0], project).curve.write_text("step,env_steps,score\n")
    same, lines, trainer = run(project, monkeypatch)
    assert not same
    assert any("curve.csv: the published file is not what dvc.lock records" in x for x in lines)
    shutil.rmtree(trainer.folders[0])


@pytest.mark.parametrize(("by", "near"), [(1.1, True), (2.0, False)])
def test_scores_may_be_compared_instead(project, monkeypatch, by, near):
    """Allowed are a tenth of the mean and two standard errors of 20,000 hands, of about 0.01."""
    same, lines, trainer = run(
        project, monkeypatch, edit=lambda files: worse(files, by), tolerance=0.1
    )
    assert same is near
    (line,) = [line for line in lines if line.startswith(("same", "differs"))]
    mean = published_mean()
    found = f"mean return {by * mean:.6g} here, {mean:.6g} published; allowed are "
    allowed = float(line.partition(found)[2].split()[0])
    assert 0.015 < allowed - 0.1 * abs(mean) < 0.025
    assert any("compared scores only, not bytes" in line for line in lines)
    shutil.rmtree(trainer.folders[0], ignore_errors=True)


def elsewhere(files, **changed):
    train = json.loads(files.train.read_text())
    files.train.write_text(json.dumps({**train, "machine_class": "arm64 Other", **changed}))


def test_another_class_of_machine_with_the_same_bytes_is_as_published(project, monkeypatch):
    """The class says where bytes may differ; where they do not, nothing else is to be explained."""
    same, lines, trainer = run(project, monkeypatch, edit=elsewhere)
    assert same and not trainer.folders[0].exists()
    (line,) = [line for line in lines if "machine_class" in line]
    assert line.startswith("same ") and "but machine_class is 'arm64 Other' here" in line


@pytest.mark.parametrize(
    "edit", [lambda files: elsewhere(files, best_step=-1), lambda x: (elsewhere(x), worse(x))]
)
def test_another_class_of_machine_with_other_bytes_is_said(project, monkeypatch, edit):
    same, lines, trainer = run(project, monkeypatch, edit=edit)
    assert not same
    assert any("this is 'arm64 Other'; bytes may differ between classes" in line for line in lines)
    shutil.rmtree(trainer.folders[0])


def test_the_class_excuses_no_file_that_dvc_lock_does_not_record(project, monkeypatch):
    elsewhere(CellFiles(CELLS[0], project))
    same, _, trainer = run(
        project, monkeypatch, edit=lambda files: elsewhere(files, machine_class="x")
    )
    assert not same
    shutil.rmtree(trainer.folders[0])


def test_a_training_that_fails_leaves_nothing_behind(project, monkeypatch):
    seen = []

    def fail(files):
        seen.append(files.root)
        raise RunError("no")

    with pytest.raises(RunError):
        run(project, monkeypatch, edit=fail)
    assert len(seen) == 1 and not seen[0].exists()


def test_a_training_is_kept_when_comparing_it_fails(project, monkeypatch):
    def fail(*_):
        raise OSError("disk")

    monkeypatch.setattr(module, "first_difference", fail)
    with pytest.raises(OSError, match="disk"):
        run(project, monkeypatch)
    (kept,) = [p for p in Path(tempfile.gettempdir()).glob("mujax-pipe-verify-*") if p.is_dir()]
    shutil.rmtree(kept)


def test_what_cannot_be_verified_is_said_before_anything_is_trained(project, monkeypatch):
    files = CellFiles(CELLS[1], project)
    files.curve.unlink()
    with pytest.raises(UserError, match="curve.csv is missing: only a finished cell"):
        run(project, monkeypatch, CELLS)
    train = json.loads(files.train.read_text())
    files.curve.write_text("")
    files.train.write_text(json.dumps({**train, "config": {**train["config"], "discount": 0.5}}))
    with pytest.raises(UserError, match=r"discount is 0.5, but .*params.yaml asks for 0.99"):
        run(project, monkeypatch, CELLS)


def test_cells_are_chosen_by_name_or_folder(project):
    params = load_params(ROOT / "params.yaml")
    names = ["results/cells/gmz/blackjack/seed-1/", "gmz/blackjack/seed-0"]
    assert chosen(params, names, root=project) == [CELLS[1], CELLS[0]]
    assert chosen(params, [], root=project) == CELLS
    assert chosen(params, [], cheapest=True, root=project) == CELLS[:1]
    assert chosen(params, [], cheapest=True, root=ROOT)[0].env == "blackjack"
    allowed = r"names such as 'gmz/cartpole/seed-0', with gmz, smz; cartpole, .*; seeds 0, 1, 2$"
    with pytest.raises(UserError, match=f"'gmz/pong/seed-0' is not in the grid: .*{allowed}"):
        chosen(params, ["gmz/pong/seed-0"])
    with pytest.raises(UserError, match="no cell is finished"):
        chosen(params, [], root=project / "results")


def test_digests_are_dvcs_own(tmp_path):
    """Of a file as dvc.lock has them; of a folder as DVC's own code makes them."""
    from dvc_data.hashfile.hash_info import HashInfo
    from dvc_data.hashfile.tree import Tree

    lock = yaml.safe_load((ROOT / "dvc.lock").read_text())["stages"]
    for stage in lock.values():
        for out in stage["outs"]:
            path = ROOT / out["path"]
            if path.is_file():
                assert dvc_digest(path) == out["md5"]
    tree = Tree()
    for name in ("b/x", "a", "b.c", "Z"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        tree.add(tuple(name.split("/")), None, HashInfo("md5", dvc_digest(path)))
    tree.digest()
    assert dvc_digest(tmp_path) == tree.hash_info.value
