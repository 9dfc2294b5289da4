"""Some hundred services by URL, through apprise: chats, mail, pagers, webhooks."""

from __future__ import annotations

import inspect
import ipaddress
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vario.errors import ConfigError
from vario.surfaces.alerts.channels.base import ChannelError, Here, id_of
from vario.surfaces.alerts.channels.bounded import Bounded
from vario.surfaces.alerts.channels.unheard import unheard
from vario.surfaces.alerts.message import Alert

if TYPE_CHECKING:
    import apprise

SEND_SECONDS = 30.0
"""A message with its picture takes seconds; apprise gives up a silent connection after four by itself."""
STATUS = re.compile(r"error=(\d{3})\b")
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
TYPES = {"critical": "FAILURE", "warning": "WARNING", "info": "INFO"}
GOOD_NEWS = ("resolved", "resumed")
PICTURE_NAME = "vario.png"


class AppriseChannel:
    """One service, by its apprise URL.

    Raises:
        ConfigError: apprise is not installed, or knows no such URL.
    """

    here: Here = "anywhere"
    pictures = True

    def __init__(self, url: str, seconds: float = SEND_SECONDS) -> None:
        apprise = _loaded()
        # without a time limit of its own apprise calls the service in our thread, which may be left behind;
        # a thread of its pool would keep the process from ending
        limits = {"service_timeout": 0} if "service_timeout" in _parameters(apprise.AppriseAsset) else {}
        with _calm():
            self._services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="vario", app_desc="vario", **limits))
            known = self._services.add(url)
        if not known or len(self._services) != 1:
            raise ConfigError(
                f"[alerts] to: apprise cannot use the address {_scheme(url)}…; "
                "a plain webhook is json://HOST/PATH or jsons://HOST/PATH, others are listed at appriseit.com"
            )
        self.name = _safe_name(url, self._services[0])
        self.id = id_of(self.name, url)
        self._bounded = Bounded(seconds)

    @property
    def hanging(self) -> int:
        """Messages that were given up and still hang."""
        return self._bounded.hanging

    def send(self, alert: Alert) -> None:
        """Deliver it.

        Raises:
            ChannelError: it was not delivered.
        """
        try:
            self._bounded.call(alert.key, lambda: self._send(alert))
        except ChannelError:
            raise
        except Exception as error:  # a service's own fault; its text may hold the address
            raise ChannelError(f"failed ({type(error).__name__})") from None

    def _send(self, alert: Alert) -> None:
        with unheard() as heard:
            import apprise
            from apprise.attachment.memory import AttachMemory

            pictured = alert.picture is not None and self.pictures
            attach = (
                apprise.AppriseAttachment(AttachMemory(content=alert.picture, name=PICTURE_NAME, mimetype="image/png"))
                if pictured
                else None
            )
            delivered = self._services.notify(
                body=alert.body or alert.title,
                title=alert.title,
                notify_type=getattr(
                    apprise.NotifyType, "SUCCESS" if alert.kind in GOOD_NEWS else TYPES[alert.severity]
                ),
                body_format=apprise.NotifyFormat.TEXT,
                attach=attach,
            )
        if not delivered:
            raise ChannelError(self._reason(heard, pictured=pictured))

    def _reason(self, heard: list[str], *, pictured: bool) -> str:
        """Why, out of what apprise logged: no more of it than is known to be safe."""
        status = next((found[1] for text in heard if (found := STATUS.search(text))), None)
        if status is not None and status.startswith("4") and pictured:
            self.pictures = False
            return f"answered {status} to a message with a picture; pictures are left out from now on"
        if status is not None:
            return f"answered {status}"
        if any("onnection" in text for text in heard):
            return "could not be reached, or did not answer"
        return "did not take the message"


@contextmanager
def _calm() -> Iterator[None]:
    """What apprise's hundred plug-ins warn of while they load is no news to whoever trains."""
    with unheard(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _loaded() -> ModuleType:
    """The package.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        with _calm():  # apart from its use: loggers that it makes are unheard from the next time on
            import apprise
    except ImportError as error:
        raise ConfigError('[alerts] to: an address needs apprise: pip install "vario[alerts]"') from error
    made: ModuleType = apprise
    return made


def _parameters(function: object) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters) if callable(function) else ()


def _scheme(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    return f"{scheme}{separator}" if separator and scheme.replace("+", "").isalnum() else ""


def _safe_name(url: str, service: apprise.NotifyBase) -> str:
    """Scheme and host, where the service has a host in its URL; elsewhere what stands in its place is often a token."""
    scheme = _scheme(url) or "apprise://"
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        host = ""
    has_host = scheme in ("http://", "https://") or any("{host}" in t for t in service.templates)
    return f"{scheme}{host if has_host and _is_host(host) else '…'}"


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost" or HOST.fullmatch(text) is not None
    return True
