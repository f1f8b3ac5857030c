"""Authorities and certificates for one test, as files."""

import os
from pathlib import Path

import trustme


class Authority:
    """A certificate authority of a test's own, and what it signs, in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.file = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def sign(self, *names: str, as_file: str = "server") -> tuple[str, str]:
        """A certificate for `names` and its key, as files; written so that each changes at once."""
        signed = self._ca.issue_cert(*names)
        cert, key = self._folder / f"{as_file}.crt", self._folder / f"{as_file}.key"
        whole = b"".join(blob.bytes() for blob in signed.cert_chain_pems)
        for file, content in ((cert, whole), (key, signed.private_key_pem.bytes())):
            new = file.with_suffix(file.suffix + ".new")
            new.write_bytes(content)
            os.replace(new, file)
        return str(cert), str(key)
