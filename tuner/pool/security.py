"""Membership of a pool: tasks are code, so every process proves that it has the pool's key.

All connections use TLS, and both ends present a certificate. By default it is the user's own: the
first process of a pool makes a key and a self-signed certificate, in one file that only the user
can read, and only a process with that file can join. A copy of the file lets another machine join.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tcopt.support.errors import BackendError, InputError, UnsupportedError
from tcopt.support.files.private_files import make_private, private_path, read_private

KEY_NAME = "pool.pem"
"""Name of the key file in `$XDG_STATE_HOME/tcopt`, by default `~/.local/state/tcopt`."""

_REQUEST = """[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = tcopt pool
[extensions]
basicConstraints = critical, CA:TRUE
"""
_DAYS = "36500"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form. If none is given, the user's key file serves as all three.

    Attributes:
        authority: certificates of the pool's authority.
        certificate: of this process, signed by the authority.
        key: private key of the certificate.
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""

    def check(self) -> None:
        """Check that either all files are given or none.

        Raises:
            InputError: some are missing.
        """
        names = (self.authority, self.certificate, self.key)
        if any(names) and not all(names):
            raise InputError(
                "TLS needs three files: the authority's certificate, a certificate, and its key",
                hint="--tls-ca, --tls-cert, --tls-key",
            )
        for name in filter(None, names):
            if not Path(name).is_file():
                raise InputError(f"there is no file '{name}'")

    def or_own(self, make: bool) -> Certificates:
        """Return these certificates, or the user's key file if none is given.

        Args:
            make: whether to make the key file if there is none, which only the scheduler's
                machine may do.
        Raises:
            InputError: certificates or key file are missing, or other users can read the key.
        """
        self.check()
        if self.authority:
            return self
        name = str(_key_file(make))
        return Certificates(name, name, name)

    def security(self, part: str) -> Any:
        """Return Dask's settings for mutual TLS with these certificates.

        Args:
            part: `client`, `worker` or `scheduler`.
        Raises:
            InputError: the files are not certificates.
        """
        own = {f"tls_{part}_cert": self.certificate, f"tls_{part}_key": self.key}
        package = dask_distributed()
        found = package.Security(tls_ca_file=self.authority, require_encryption=True, **own)
        try:
            found.get_connection_args(part)
        except OSError as error:
            raise InputError(
                f"'{self.certificate}' and '{self.key}' are not a certificate and its key: {error}",
                hint="TLS files must be in PEM form",
            ) from error
        return found


def dask_distributed() -> Any:
    """Import the package `distributed`.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise UnsupportedError(
            "a pool needs the package distributed", hint="pip install tcopt[pool]"
        ) from error
    return distributed


def check_address(address: str) -> tuple[str, str]:
    """Return the full address of a scheduler, `tls://HOST:PORT`, and its host.

    Raises:
        InputError: it is malformed.
    """
    text = address if "://" in address else f"tls://{address}"
    try:
        parts = urlsplit(text)
        scheme, place, host, port = parts.scheme, parts.netloc, parts.hostname, parts.port
    except ValueError:
        scheme, place, host, port = "", "", None, None
    if not host or port is None or scheme not in ("tcp", "tls"):
        raise InputError(
            f"'{address}' is not the address of a scheduler",
            hint="use HOST:PORT, such as tls://host:8786",
        )
    return f"tls://{place}", host


def own_address(host: str) -> str:
    """Return the address of this machine on the network that leads to a host.

    Raises:
        BackendError: no network leads there.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # Connecting a datagram socket only selects the route.
            probe.connect(place)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise BackendError(f"'{host}' cannot be reached: {error}") from error


def is_here(host: str) -> bool:
    """Return whether an address belongs to this machine."""
    try:
        place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(*place[:3]) as probe:
            probe.bind(place[4])
    except OSError:
        return False
    return True


def _key_file(make: bool) -> Path:
    path = private_path(KEY_NAME)
    if path is None:
        raise InputError(
            "a pool needs a key file, and the user has no home folder", hint="set XDG_STATE_HOME"
        )
    try:
        if read_private(path) is None:
            if not make:
                raise InputError(
                    f"there is no key of the pool, '{path}'",
                    hint="copy the file from the machine of the scheduler",
                )
            make_private(path, _make_key)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"the key of the pool, '{path}', cannot be used: {reason}",
            hint="it must be owned by the user with mode 600, which scp -p preserves",
        ) from error
    return path


def _make_key() -> bytes:
    """Make a private key and its self-signed certificate, both in PEM form."""
    program = shutil.which("openssl")
    if program is None:
        raise InputError(
            "openssl, which makes the key of a pool, is not installed",
            hint="install openssl, or give certificates: --tls-ca, --tls-cert, --tls-key",
        )
    with tempfile.TemporaryDirectory() as folder:
        request = Path(folder, "request.cnf")
        request.write_text(_REQUEST)
        command = [program, "req", "-config", str(request), "-x509", "-days", _DAYS, "-nodes"]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        command += ["-keyout", "-", "-out", "-"]
        made = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, cwd=folder
        )
    if made.returncode:
        text = made.stderr.decode(errors="replace").strip()
        raise BackendError(f"openssl cannot make a key: {text}")
    return made.stdout
