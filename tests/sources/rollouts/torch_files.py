"""Files as torch.save lays them out, written without torch."""

from __future__ import annotations

import io
import pickle
import zipfile


def torch_zip(value: object, *, protocol: int = 2) -> bytes:
    return torch_zip_of(pickle.dumps(value, protocol))


def torch_zip_of(data: bytes, name: str = "archive/data.pkl") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(name, data)
        archive.writestr("archive/version", "3\n")
    return made.getvalue()
