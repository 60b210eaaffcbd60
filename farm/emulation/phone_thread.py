"""Runs emulated phones in a thread with an event loop, for programs without one; a thread serves any number of them."""

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from farm.emulation.faults import Fault
from farm.emulation.phone import Phone, PhoneSettings

Result = TypeVar("Result")


class EventLoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="emulated phones", daemon=True)
        self._thread.start()

    def run_coroutine(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Runs a coroutine in the loop to its end; returns its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, function: Callable[[], Result]) -> Result:
        """Calls a function in the loop's thread; returns its result."""

        async def called() -> Result:
            return function()

        return self.run_coroutine(called())

    def close(self) -> None:
        """Stops the loop and ends the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class EmulatedPhone:
    """A phone that runs for the `with` block; its files are deleted afterwards.

    Args:
        port: the port on 127.0.0.1; 0 for any that is free.
        thread: the thread that serves the phone; a new one by default.
    """

    def __init__(
        self, settings: PhoneSettings | None = None, port: int = 0, thread: EventLoopThread | None = None
    ) -> None:
        self._settings, self._port = settings or PhoneSettings(), port
        self._given_thread = thread

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="farm-phone-"))
        try:
            self._phone = Phone(self._settings, self._folder, self._port)
            self._thread = self._given_thread or EventLoopThread()
            self._thread.run_coroutine(self._phone.start())
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._thread.run_coroutine(self._phone.close())
        finally:
            if self._thread is not self._given_thread:
                self._thread.close()
            shutil.rmtree(self._folder)

    @property
    def port(self) -> int:
        """The port for `adb connect`."""
        return self._phone.port

    @property
    def serial(self) -> str:
        """The phone's `ro.serialno`."""
        return self._phone.serial

    @property
    def soc(self) -> str:
        """The phone's SoC key."""
        return self._settings.soc

    @property
    def model(self) -> str:
        """The phone's model name."""
        return self._phone.model

    @property
    def root(self) -> Path:
        """The folder that its commands see as `/`."""
        return self._phone.root

    def inject(self, fault: Fault | str) -> None:
        """Adds a fault, given as such or as its specification; requests that already run are not affected."""
        parsed = Fault.parse(fault) if isinstance(fault, str) else fault
        self._thread.call(lambda: self._phone.inject(parsed))

    def clear_faults(self) -> None:
        """Ends all faults but those that cannot be undone: broken links, altered or refused files, what was removed."""
        self._thread.call(self._phone.clear_faults)

    def recorded_calls(self, program: str) -> list[str]:
        """The arguments of each call of a program that only records its calls: settaskprofile, svc or input."""
        file = self._phone.state_folder / "records" / program
        return file.read_text().splitlines() if file.is_file() else []
