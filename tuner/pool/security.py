"""Who may take part in a pool: tasks are code, so beyond one machine all have certificates."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tcopt.support.errors import InputError, UnsupportedError


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form, as Dask takes them.

    Attributes:
        authority: certificates of who signs; `certificate`, `key`: this process's own.
    """

    authority: str = ""
    certificate: str = ""
    key: str = ""

    def __bool__(self) -> bool:
        return bool(self.authority or self.certificate or self.key)

    def check(self) -> None:
        """Refuse some without the others.

        Raises:
            InputError: one is missing, or there is no such file.
        """
        if self and not (self.authority and self.certificate and self.key):
            raise InputError(
                "TLS needs three files: the authority's certificate, one's own, and its key",
                hint="--tls-ca, --tls-cert, --tls-key",
            )
        for name in filter(None, (self.authority, self.certificate, self.key)):
            if not Path(name).is_file():
                raise InputError(f"there is no file '{name}'")

    def security(self, part: str) -> Any:
        """What Dask takes: both sides show certificates, nothing is sent in the clear.

        Args:
            part: `client`, `worker` or `scheduler`.
        """
        self.check()
        security = dask_distributed().Security
        if not self:
            return security()
        own = {f"tls_{part}_cert": self.certificate, f"tls_{part}_key": self.key}
        return security(tls_ca_file=self.authority, require_encryption=True, **own)


def dask_distributed() -> Any:
    """The package.

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


def check_address(address: str, certificates: Certificates) -> str:
    """The address of a scheduler, with its protocol.

    Raises:
        InputError: it is none, or it leads to another machine and there are no certificates.
    """
    certificates.check()
    text = address if "://" in address else f"tcp://{address}"
    protocol = "tls" if certificates else "tcp"
    try:
        parts = urlsplit(text)
        scheme, place, host, port = parts.scheme, parts.netloc, parts.hostname, parts.port
    except ValueError:
        scheme, place, host, port = "", "", None, None
    if not host or port is None or scheme not in ("tcp", "tls"):
        raise InputError(
            f"'{address}' is not an address of a scheduler",
            hint="it is HOST:PORT, as tls://host:8786",
        )
    if scheme == "tls" and not certificates:
        raise InputError(f"'{address}' needs certificates", hint="--tls-ca, --tls-cert, --tls-key")
    check_host(host, certificates)
    return f"{protocol}://{place}"


def check_host(host: str, certificates: Certificates) -> None:
    """Refuse to be reached from other machines without certificates.

    Raises:
        InputError: whoever reaches the host could run code there.
    """
    if not certificates and not _is_loopback(host):
        raise InputError(
            f"'{host}' is beyond this machine, and whoever reaches a pool can run code in it",
            hint="give all processes certificates: --tls-ca, --tls-cert, --tls-key",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
