"""Server settings, checked before anything listens."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import ConfigError
from regard.serve.limits import Pace

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Settings:
    """Where the server listens, who has access, and what it serves."""

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()  # additional names for `Host`
    runs: Path = Path("runs")
    comparisons: Path = Path("comparisons")
    folder: Path | None = None  # transformers models that clients may open
    page: Path | None = None  # the folder of the studio's page, mounted at /
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < SHORTEST_TOKEN or not self.token.isascii()):
            raise ConfigError(
                f"serve: `--token` has {len(self.token)} characters; expected {SHORTEST_TOKEN} or more, all "
                "ASCII. `openssl rand -hex 16` makes one."
            )
        if self.token is None and not is_loopback(self.host):
            raise ConfigError(
                f"serve: `--host` has {self.host!r}, which others can reach; expected a token with it: "
                "`--token` or REGARD_TOKEN."
            )

    @property
    def allowed(self) -> frozenset[str]:
        """Allowed names in `Host`, in lower case, without a port."""
        every = (*LOOPBACK, *self.hosts) if is_any(self.host) else (*LOOPBACK, self.host, *self.hosts)
        return frozenset(name.lower().strip("[]") for name in every)


def is_loopback(host: str) -> bool:
    """Whether a host is reachable only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_any(host: str) -> bool:
    """Whether a host means all addresses of the machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return False
