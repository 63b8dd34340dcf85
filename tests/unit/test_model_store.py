import types

import pytest

from mujax_pipe.errors import UserError
from mujax_pipe.training import model_store
from mujax_pipe.training.model_store import local_copy


def artifact(folder):
    return types.SimpleNamespace(name="run-best:v3", download=lambda: str(folder))


@pytest.fixture
def service(monkeypatch, tmp_path):
    """A W&B that knows one model, and writes down what it is asked for."""
    asked = []

    class Api:
        def artifact(self, name, type):
            asked.append((name, type))
            if name != "me/project/run-best:v3":
                raise ValueError(f"artifact {name}\nnot found")
            return artifact(tmp_path)

    monkeypatch.setattr(model_store, "import_extra", lambda name: types.SimpleNamespace(Api=Api))
    return asked


def test_a_folder_is_taken_as_it_is(service, tmp_path):
    odd = tmp_path / "a:b"
    odd.mkdir()
    assert [local_copy(path) for path in (odd, str(odd), "nowhere")] == [
        odd,
        odd,
        model_store.Path("nowhere"),
    ]
    assert service == []


def test_an_artifact_is_downloaded_by_name_or_as_an_object(service, tmp_path):
    assert local_copy("me/project/run-best:v3") == tmp_path
    assert service == [("me/project/run-best:v3", "model")]
    assert local_copy(artifact(tmp_path)) == tmp_path
    assert len(service) == 1


def test_what_cannot_be_had_is_one_line(service):
    with pytest.raises(UserError, match=r"'me/other:v0' cannot be downloaded: artifact .* not fou"):
        local_copy("me/other:v0")
